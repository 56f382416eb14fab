/* Reads protected addresses of this machine; see machine.h. */
#include "shield/machine.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utmp.h>

#include "base/error.h"
#include "base/str.h"
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

bool wr_ssh_client_of(const char *connection, struct wr_address *client)
{
	struct wr_address_range range;
	unsigned bits;

	if (!connection ||
	    wr_address_prefix_parse(wr_str_first(wr_str(connection), strcspn(connection, " ")),
				    &range, &bits) != WR_ADDRESS_PREFIX_OK ||
	    memcmp(&range.low, &range.high, sizeof range.low) != 0)
		return false;
	*client = range.low;
	return true;
}

/* Reads the address of a session in utmp. An IPv4 address is in the first of the four words. */
static bool login_address(const struct utmp *entry, struct wr_address *address)
{
	const int32_t *words = entry->ut_addr_v6;
	uint8_t bytes[16];
	bool v4 = words[1] == 0 && words[2] == 0 && words[3] == 0;

	if (entry->ut_type != USER_PROCESS || (v4 && words[0] == 0))
		return false;
	memcpy(bytes, words, sizeof bytes);
	*address = wr_address_from(bytes, v4 ? 4 : 16);
	return true;
}

int wr_ssh_read_logins(const char *path, struct wr_protect_list *logins, struct weir_error *error)
{
	FILE *file = fopen(path, "re");
	struct wr_address address;
	struct utmp entry;
	bool ok = true;

	if (!file)
		return errno == ENOENT ? 0
				       : wr_error_errno(error, WEIR_ESYS, "cannot read %s", path);
	while (ok && fread(&entry, sizeof entry, 1, file) == 1)
		if (login_address(&entry, &address))
			ok = add_one(logins, &address);
	fclose(file);
	return ok ? 0 : wr_error(error, WEIR_EMEMORY, "out of memory");
}

static bool has_login(const struct wr_protect_list *logins, const struct wr_address *peer)
{
	for (size_t i = 0; i < logins->count; i++)
		if (memcmp(&logins->items[i].low, peer, sizeof *peer) <= 0 &&
		    memcmp(peer, &logins->items[i].high, sizeof *peer) <= 0)
			return true;
	return false;
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
			    const struct wr_protect_list *logins, struct wr_protect_list *list,
			    struct weir_error *error)
{
	FILE *file = fopen(path, "re");
	char line[512];
	struct wr_address peer;
	bool ok = true;

	if (!file) /* /proc/net/tcp6 is missing on a machine without IPv6 */
		return errno == ENOENT ? 0
				       : wr_error_errno(error, WEIR_ESYS, "cannot read %s", path);
	while (ok && fgets(line, sizeof line, file))
		if (wr_ssh_line(line, ports, &peer) && has_login(logins, &peer))
			ok = add_one(list, &peer);
	fclose(file);
	return ok ? 0 : wr_error(error, WEIR_EMEMORY, "out of memory");
}

int wr_protect_read_ssh(const struct wr_ssh_ports *ports, const struct wr_protect_list *logins,
			struct wr_protect_list *list, struct weir_error *error)
{
	int rc = read_connections("/proc/net/tcp", ports, logins, list, error);

	return rc < 0 ? rc : read_connections("/proc/net/tcp6", ports, logins, list, error);
}
