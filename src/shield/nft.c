/* Calls libnftables; see nft.h.
 *
 * In nftables 1.0.6 every form of `list` reads all elements of all sets of the table, also with
 * --terse: 0.7 s for 100,000 elements. `reset` reads only the named object. So the shield reads its
 * counter with `reset` and adds the numbers up. */
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
#define OUTPUT_BYTES 512 /* more than the output of a command below needs */

/* libnftables ends the process if it cannot open its socket, so the socket is tried out first. */
static int try_netlink(struct weir_error *error)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS,
				      "the kernel has no nftables (modprobe nf_tables)");
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

/* Runs a `reset` command and copies its output. The context is a new one: a context prints the first
 * value that it has read until another change of nftables makes it forget this value. */
static int reset(const char *command, char text[OUTPUT_BYTES], struct weir_error *error)
{
	struct nft_ctx *nft;
	const char *message;
	int rc = wr_nft_open(&nft, error);

	if (rc < 0)
		return rc;
	rc = nft_run_cmd_from_buffer(nft, command);
	message = rc == 0 ? nft_ctx_get_output_buffer(nft) : nft_ctx_get_error_buffer(nft);
	if (rc == 0)
		snprintf(text, OUTPUT_BYTES, "%s", message ? message : "");
	else
		rc = report(message ? message : "", error);
	wr_nft_close(nft);
	return rc;
}

int wr_nft_count(uint64_t *packets, uint64_t *bytes, struct weir_error *error)
{
	unsigned long long new_packets, new_bytes;
	char output[OUTPUT_BYTES];
	const char *text = output;
	int rc = reset(COUNT_COMMAND, output, error);

	if (rc < 0)
		return rc;
	text = strstr(text, "packets ");
	// NOLINTNEXTLINE(cert-err34-c): the kernel's numbers fit
	if (!text || sscanf(text, "packets %llu bytes %llu", &new_packets, &new_bytes) != 2)
		return wr_error(error, WEIR_ESYS, "nftables: unknown form of a counter");
	*packets += new_packets;
	*bytes += new_bytes;
	return 0;
}
