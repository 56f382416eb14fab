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

/* Appends the peers of established TCP connections to these local ports. Returns 0 or an error. */
int wr_protect_read_ssh(const struct wr_ssh_ports *ports, struct wr_protect_list *list,
			struct weir_error *error);

/* Reads a line of /proc/net/tcp or /proc/net/tcp6. Returns true and sets *peer if it is an
 * established connection to one of the ports. */
bool wr_ssh_line(const char *line, const struct wr_ssh_ports *ports, struct wr_address *peer);

#endif
