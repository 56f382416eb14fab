/* Implements the messages of notify.h to systemd. */
#include "serve/notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

static uint64_t watchdog_ms(void)
{
	uint64_t pid = number_of("WATCHDOG_PID");

	if (pid && pid != (uint64_t)getpid())
		return 0; /* WATCHDOG_PID names another process */
	return number_of("WATCHDOG_USEC") / 1000;
}

/* Connects to the socket `name`: a path, or @ and a name for an abstract socket. Returns a file
 * descriptor or a negative number. */
static int connect_to(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(name);
	int fd;

	if ((name[0] != '/' && name[0] != '@') || len >= sizeof address.sun_path)
		return -1;
	memcpy(address.sun_path, name, len);
	if (name[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void wr_notify_open(struct wr_notify *notify)
{
	const char *name = getenv("NOTIFY_SOCKET");

	notify->fd = name ? connect_to(name) : -1;
	notify->watchdog_ms = notify->fd >= 0 ? watchdog_ms() : 0;
}

void wr_notify_send(const struct wr_notify *notify, const char *text)
{
	if (notify->fd >= 0 && send(notify->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return;
}

void wr_notify_reloading(const struct wr_notify *notify)
{
	char text[96];

	snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)wr_clock_mono_ns() / 1000);
	wr_notify_send(notify, text);
}

void wr_notify_close(struct wr_notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}
