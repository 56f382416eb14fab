/* Calls libnftables; see nft.h.
 *
 * In nftables 1.0.6 every form of `list` reads all elements of all sets of the table, also with
 * --terse: 0.7 s for 100,000 elements. `reset` reads only the named object. So the shield reads its
 * counters with `reset` and adds the numbers up. */
#include "shield/nft.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nftables/libnftables.h>

#include "base/error.h"

#define COUNT_COMMAND "reset counter inet weir dropped"
#define OWNER_COMMAND "reset counter inet weir owner"

/* libnftables ends the process if it cannot open its socket, so the socket is tried out first. */
static int try_netlink(struct weir_error *error)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS,
				      "the kernel has no nftables: netlink socket");
	close(fd);
	return 0;
}

int wr_nft_open(struct nft_ctx **nft, struct weir_error *error)
{
	int rc = try_netlink(error);

	if (rc < 0)
		return rc;
	*nft = nft_ctx_new(NFT_CTX_DEFAULT);
	if (!*nft)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	nft_ctx_buffer_output(*nft);
	nft_ctx_buffer_error(*nft);
	return 0;
}

void wr_nft_close(struct nft_ctx *nft)
{
	if (nft)
		nft_ctx_free(nft);
}

/* Turns the first line of nftables' message into an error with a remedy. */
static int report(const char *message, struct weir_error *error)
{
	int len = (int)strcspn(message, "\n");

	if (strstr(message, "Operation not permitted"))
		return wr_error(error, WEIR_EACCESS,
				"the kernel does not permit changes of nftables here: weir shield "
				"needs CAP_NET_ADMIN in this network namespace (%.*s)",
				len, message);
	if (strstr(message, "not supported") || strstr(message, "Invalid argument"))
		return wr_error(error, WEIR_ESYS,
				"the kernel has no nf_tables, or not all of its modules: modprobe "
				"nf_tables nft_ct nft_reject_inet (%.*s)",
				len, message);
	return wr_error(error, WEIR_ESYS, "nftables: %.*s", len,
			len ? message : "failed without a message");
}

int wr_nft_run(struct nft_ctx *nft, const char *commands, struct weir_error *error)
{
	int rc = nft_run_cmd_from_buffer(nft, commands);
	const char *message = nft_ctx_get_error_buffer(nft);

	nft_ctx_get_output_buffer(nft); /* empties the buffer of the output */
	return rc == 0 ? 0 : report(message ? message : "", error);
}

/* Runs a command and returns its output, or NULL. The text is valid until the next command. */
static const char *output_of(struct nft_ctx *nft, const char *command, struct weir_error *error)
{
	int rc = nft_run_cmd_from_buffer(nft, command);
	const char *message = nft_ctx_get_error_buffer(nft);

	if (rc == 0)
		return nft_ctx_get_output_buffer(nft);
	report(message ? message : "", error);
	return NULL;
}

int wr_nft_count(struct nft_ctx *nft, uint64_t *packets, uint64_t *bytes, struct weir_error *error)
{
	const char *text = output_of(nft, COUNT_COMMAND, error);
	unsigned long long new_packets, new_bytes;

	if (!text)
		return WEIR_ESYS;
	text = strstr(text, "packets ");
	// NOLINTNEXTLINE(cert-err34-c): the kernel's numbers fit
	if (!text || sscanf(text, "packets %llu bytes %llu", &new_packets, &new_bytes) != 2)
		return wr_error(error, WEIR_ESYS, "nftables: unknown form of a counter");
	*packets += new_packets;
	*bytes += new_bytes;
	return 0;
}

long wr_nft_owner(struct nft_ctx *nft)
{
	struct weir_error error;
	const char *text = output_of(nft, OWNER_COMMAND, &error);
	const char *pid = text ? strstr(text, "\"pid ") : NULL;

	return pid ? strtol(pid + strlen("\"pid "), NULL, 10) : 0;
}
