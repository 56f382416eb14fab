/* A cache of refusals: while a refusal is known to last, but at most one second, the same request
 * is refused without asking Redis. So resets, grants and raised limits take effect within one
 * second everywhere; a changed limit also has another identity. The time counts from when the call
 * was written, because Redis may have decided then.
 *
 * A refused call stores the answer of each of its limits. A refusal applies to all requests of the
 * same or a higher cost. The cache has a fixed size; the oldest entry is replaced. */
#ifndef WR_CENTRAL_REFUSALS_H
#define WR_CENTRAL_REFUSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "limiter/question.h"

#define WR_REFUSALS_SETS 1024u
#define WR_REFUSALS_WAYS 4u
#define WR_REFUSALS_LAST_NS 1000000000ull

struct wr_refusal {
	uint64_t key[2];
	uint64_t identity; /* hash of the limit's id and numbers */
	int64_t cost;
	uint64_t noted_mono_ns, until_mono_ns;
	struct wr_answer answer; /* as of noted_mono_ns */
};

struct wr_refusals {
	struct wr_refusal entries[WR_REFUSALS_SETS][WR_REFUSALS_WAYS];
};

/* Finds the answer for a limit. Returns false if there is none. An answer without
 * WR_ANSWER_ADMITTED is a refusal; one with it also has WR_ANSWER_NOT_TAKEN. Wait times count from
 * now. */
bool wr_refusals_find(const struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, uint64_t mono_ns, struct wr_answer *answer);

/* Stores an answer. It lasts for last_ns from asked_mono_ns. Its wait times count from mono_ns
 * (now), so waiting that long suffices. */
void wr_refusals_note(struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, const struct wr_answer *answer, uint64_t last_ns,
		      uint64_t asked_mono_ns, uint64_t mono_ns);

void wr_refusals_forget(struct wr_refusals *refusals, const uint64_t key[2]); /* NULL: all keys */

#endif
