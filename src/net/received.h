#ifndef WR_NET_RECEIVED_H
#define WR_NET_RECEIVED_H

#include <stdint.h>

/* Bytes that a TCP connection has brought so far; 0 for sockets that do not tell. */
uint64_t wr_received_bytes(int fd);

#endif
