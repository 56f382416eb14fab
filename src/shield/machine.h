/* Protected addresses of this machine: its own, and those of open SSH connections. */
#ifndef WR_SHIELD_MACHINE_H
#define WR_SHIELD_MACHINE_H

#include <weir/error.h>

#include "base/text_list.h"
#include "shield/protect.h"

#define WR_SSH_PORTS_MAX 16

struct wr_ssh_ports {
	uint16_t items[WR_SSH_PORTS_MAX];
	size_t count;
};

/* Adds a port, unless it is 0, in the list already, or the list is full. */
void wr_ssh_ports_add(struct wr_ssh_ports *ports, unsigned port);

/* Returns the local port in the value of SSH_CONNECTION, "CLIENT PORT SERVER PORT", or 0. */
unsigned wr_ssh_port_of(const char *connection);

/* Appends the addresses of all network interfaces. Returns 0 or WEIR_ESYS. */
int wr_protect_read_own(struct wr_protect_list *list, struct weir_error *error);

/* Reads the client's address in the value of SSH_CONNECTION. Returns false if there is none. */
bool wr_ssh_client_of(const char *connection, struct wr_address *client);

/* Appends the addresses of the sessions in a file of the form of utmp. sshd writes a session with a
 * terminal to /run/utmp after the user has logged in. A missing file has no sessions. Returns 0 or
 * an error. */
int wr_ssh_read_logins(const char *path, struct wr_protect_list *logins, struct weir_error *error);

/* Appends the peers of established TCP connections to these local ports whose addresses are in the
 * joined list `logins`. Without a login, a peer of sshd is a stranger. Returns 0 or an error. */
int wr_protect_read_ssh(const struct wr_ssh_ports *ports, const struct wr_protect_list *logins,
			struct wr_protect_list *list, struct weir_error *error);

/* Reads a line of /proc/net/tcp or /proc/net/tcp6. Returns true and sets *peer if it is an
 * established connection to one of the ports. */
bool wr_ssh_line(const char *line, const struct wr_ssh_ports *ports, struct wr_address *peer);

#endif
