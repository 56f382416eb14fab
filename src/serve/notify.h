/* Sends status messages to systemd over the socket in the environment variable NOTIFY_SOCKET. */
#ifndef WR_SERVE_NOTIFY_H
#define WR_SERVE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct wr_notify {
	int fd;               /* -1: systemd did not ask for messages */
	uint64_t watchdog_ms; /* maximum time between two watchdog messages; 0: no watchdog */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. */
void wr_notify_open(struct wr_notify *notify);

/* Sends assignments such as "READY=1", separated by newlines. Errors are ignored, because the
 * service keeps running if systemd does not receive its messages. */
void wr_notify_send(const struct wr_notify *notify, const char *text);

/* Sends "RELOADING=1" with the time stamp that systemd requires. */
void wr_notify_reloading(const struct wr_notify *notify);

void wr_notify_close(struct wr_notify *notify);

#endif
