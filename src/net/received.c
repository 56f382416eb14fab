/* Counts the bytes received on a TCP connection. This is a separate file because only linux/tcp.h
 * has the whole struct tcp_info, and linux/tcp.h cannot be included together with netinet/tcp.h. */
#include "net/received.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t wr_received_bytes(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_bytes_received
								       : 0;
}
