/* Networks that an option names, such as --trust and --refunds. */
#ifndef WR_NET_NETWORKS_H
#define WR_NET_NETWORKS_H

#include <stdbool.h>
#include <sys/socket.h>

#include <weir/error.h>

#include "base/text_list.h"
#include "rules/address.h"

struct wr_networks {
	struct wr_range *memory;
	struct wr_ranges ranges; /* sorted and joined */
};

/* Reads addresses and prefixes. 0, or below 0 and what is wrong; `flag` is named in errors. Free it
 * in both cases. */
int wr_networks_read(struct wr_networks *networks, const struct wr_text_list *list,
		     const char *flag, struct weir_error *error);
void wr_networks_free(struct wr_networks *networks);

/* The address of a TCP peer. False: `peer` is NULL or of another family. */
bool wr_networks_address(const struct sockaddr *peer, struct wr_address *address);

/* Whether one of the networks has this peer. */
bool wr_networks_hold(const struct wr_networks *networks, const struct sockaddr *peer);

#endif
