/* Telling systemd how the service is doing, over the socket that NOTIFY_SOCKET names. */
#ifndef WR_SERVE_NOTIFY_H
#define WR_SERVE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

struct wr_notify {
	int fd;               /* -1: nobody wants to know */
	uint64_t watchdog_ms; /* how often it wants a sign of life; 0: never */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. */
void wr_notify_open(struct wr_notify *notify);

/* "READY=1" and the like; lines parted by \n. */
void wr_notify_say(const struct wr_notify *notify, const char *text);

/* "RELOADING=1" with the time systemd wants beside it. */
void wr_notify_reloading(const struct wr_notify *notify);

void wr_notify_close(struct wr_notify *notify);

#endif
