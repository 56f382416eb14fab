/* Compares two decisions on each request: of two sets of rules, or of the log and weir. Counts the
 * requests that only one of the two refused, and finds the clients of these requests. */
#ifndef WR_LAB_REPLAY_DIFF_H
#define WR_LAB_REPLAY_DIFF_H

#include "lab/log/log.h"
#include "lab/replay/keys.h"
#include "lab/replay/top.h"

enum wr_lab_side { WR_LAB_FIRST, WR_LAB_SECOND };

struct wr_lab_diff {
	uint64_t requests;
	uint64_t both; /* refused by both */
	uint64_t only[2];
	/* Set by wr_lab_diff_end(). Clients of which both sides refused a request, and clients of
	 * which only one side refused requests. */
	uint64_t clients, clients_both, clients_only[2];
	bool clients_exact; /* otherwise the numbers of clients are estimates */
	struct wr_lab_keys keys;
	struct wr_lab_top top; /* a group for each side: requests that only this side refused */
};

/* Returns false if there is no memory. */
bool wr_lab_diff_init(struct wr_lab_diff *diff);
void wr_lab_diff_free(struct wr_lab_diff *diff);

/* Counts a request. refused[side] says whether this side refused it. */
void wr_lab_diff_feed(struct wr_lab_diff *diff, const struct wr_lab_record *record,
		      const bool refused[2]);

void wr_lab_diff_end(struct wr_lab_diff *diff);

/* Finds the clients with the most requests that only this side refused. Returns their number. */
size_t wr_lab_diff_top(const struct wr_lab_diff *diff, enum wr_lab_side side,
		       const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS]);

#endif
