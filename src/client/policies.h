/* Collects the policies of a response from its header fields, for weir/ratelimit.h. */
#ifndef WR_CLIENT_POLICIES_H
#define WR_CLIENT_POLICIES_H

#include <stdint.h>

#include <weir/ratelimit.h>

struct wr_told {
	struct weir_ratelimit *result;
	uint64_t server_ns;     /* the server's time: its Date, or the client's time */
	struct weir_str x_name; /* value of X-RateLimit-Resource or -Bucket */
};

/* Reads a field. A field that tells nothing about a policy is ignored. */
void wr_told_read(struct wr_told *policies, const struct weir_header *field);

/* Called after the last field. Joins the parts of a policy that came in several fields, and removes
 * policies with neither a limit nor a remaining amount. */
void wr_told_finish(struct wr_told *policies);

/* Returns the time from now until at_ns, a time of the server's clock. 0: it is in the past. */
uint64_t wr_told_until(const struct wr_told *policies, uint64_t at_ns);

#endif
