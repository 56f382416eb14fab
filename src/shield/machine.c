/* Reads protected addresses of this machine; see machine.h. */
#include "shield/machine.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/networks.h"

#define ESTABLISHED 1u /* state of a connection in /proc/net/tcp */

static bool add_one(struct wr_protect_list *list, const struct wr_address *address)
{
	return wr_protect_list_add(list, &(struct wr_address_range){*address, *address});
}

int wr_protect_read_own(struct wr_protect_list *list, struct weir_error *error)
{
	struct ifaddrs *first;
	struct wr_address address;
	bool ok = true;

	if (getifaddrs(&first) < 0)
		return wr_error_errno(error, WEIR_ESYS,
				      "cannot read the addresses of this machine");
	for (struct ifaddrs *each = first; each && ok; each = each->ifa_next)
		if (wr_networks_address(each->ifa_addr, &address))
			ok = add_one(list, &address);
	freeifaddrs(first);
	return ok ? 0 : wr_error(error, WEIR_EMEMORY, "out of memory");
}

/* ---- SSH ---- */

static bool has_port(const struct wr_ssh_ports *ports, unsigned port)
{
	for (size_t i = 0; i < ports->count; i++)
		if (ports->items[i] == port)
			return true;
	return false;
}

void wr_ssh_ports_add(struct wr_ssh_ports *ports, unsigned port)
{
	if (port && port <= UINT16_MAX && ports->count < WR_SSH_PORTS_MAX && !has_port(ports, port))
		ports->items[ports->count++] = (uint16_t)port;
}

unsigned wr_ssh_port_of(const char *connection)
{
	const char *last = connection ? strrchr(connection, ' ') : NULL;
	unsigned long port = last ? strtoul(last + 1, NULL, 10) : 0;

	return port <= UINT16_MAX ? (unsigned)port : 0;
}

/* Reads an address of /proc/net/tcp: words of 32 bits in the machine's byte order, in hexadecimal
 * digits. Returns the number of bytes, 4 or 16, or 0. */
static size_t read_words(const char *digits, uint8_t bytes[16])
{
	size_t len = strspn(digits, "0123456789ABCDEFabcdef");

	if (len != 8 && len != 32)
		return 0;
	for (size_t i = 0; i < len / 8; i++) {
		char word[9] = "";
		uint32_t value;

		memcpy(word, digits + i * 8, 8);
		value = (uint32_t)strtoul(word, NULL, 16);
		memcpy(bytes + i * 4, &value, sizeof value);
	}
	return len / 2;
}

bool wr_ssh_line(const char *line, const struct wr_ssh_ports *ports, struct wr_address *peer)
{
	char remote[33];
	unsigned local_port, remote_port, state;
	uint8_t bytes[16];
	size_t len;

	// NOLINTNEXTLINE(cert-err34-c): the fields have a fixed number of hexadecimal digits
	if (sscanf(line, " %*[0-9]: %*[0-9A-Fa-f]:%4x %32[0-9A-Fa-f]:%4x %2x", &local_port, remote,
		   &remote_port, &state) != 4 ||
	    state != ESTABLISHED || !has_port(ports, local_port))
		return false;
	len = read_words(remote, bytes);
	if (len == 0)
		return false;
	*peer = wr_address_from(bytes, len);
	return true;
}

static int read_connections(const char *path, const struct wr_ssh_ports *ports,
			    struct wr_protect_list *list, struct weir_error *error)
{
	FILE *file = fopen(path, "re");
	char line[512];
	struct wr_address peer;
	bool ok = true;

	if (!file) /* /proc/net/tcp6 is missing on a machine without IPv6 */
		return errno == ENOENT ? 0
				       : wr_error_errno(error, WEIR_ESYS, "cannot read %s", path);
	while (ok && fgets(line, sizeof line, file))
		if (wr_ssh_line(line, ports, &peer))
			ok = add_one(list, &peer);
	fclose(file);
	return ok ? 0 : wr_error(error, WEIR_EMEMORY, "out of memory");
}

int wr_protect_read_ssh(const struct wr_ssh_ports *ports, struct wr_protect_list *list,
			struct weir_error *error)
{
	int rc = read_connections("/proc/net/tcp", ports, list, error);

	return rc < 0 ? rc : read_connections("/proc/net/tcp6", ports, list, error);
}
