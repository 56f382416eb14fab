#ifndef WR_NET_RECEIVED_H
#define WR_NET_RECEIVED_H

#include <stdint.h>

/* Returns the number of bytes received on a TCP connection so far; 0 for other sockets. */
uint64_t wr_received_bytes(int fd);

#endif
