/* Lists of networks that are read from options such as --trust and --refunds. */
#ifndef WR_NET_NETWORKS_H
#define WR_NET_NETWORKS_H

#include <stdbool.h>
#include <sys/socket.h>

#include <weir/error.h>

#include "base/text_list.h"
#include "base/address.h"

struct wr_networks {
	struct wr_address_range *memory; /* the array that `ranges` points to, or NULL */
	struct wr_address_ranges ranges; /* sorted; ranges that overlap or touch are joined */
};

/* Reads a list of addresses and prefixes. Returns 0, or an error code; `error` then names the
 * option `flag`. The caller calls wr_networks_free in both cases. */
int wr_networks_read(struct wr_networks *networks, const struct wr_text_list *list,
		     const char *flag, struct weir_error *error);
void wr_networks_free(struct wr_networks *networks);

/* Converts the socket address of a TCP peer to a struct wr_address. Returns false if `peer` is NULL
 * or is neither IPv4 nor IPv6. */
bool wr_networks_address(const struct sockaddr *peer, struct wr_address *address);

/* Returns whether one of the networks contains this peer. */
bool wr_networks_hold(const struct wr_networks *networks, const struct sockaddr *peer);

#endif
