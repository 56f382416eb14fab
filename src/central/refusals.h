/* What Redis refused a moment ago, so that it need not be asked again: for as long as the refusal
 * is known to last, but a second at most. Then resets, grants and raised limits act within a second
 * everywhere; they also have another identity here. Both spans begin when the call was written:
 * Redis may have decided as early as that.
 *
 * A call that was refused leaves what each of its limits said: one that refused stands for all
 * requests that cost as much or more. A fixed number of places; the oldest gives way. */
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
	uint64_t identity; /* of the limit: its id and its numbers */
	int64_t cost;
	uint64_t noted_mono_ns, until_mono_ns;
	struct wr_answer answer; /* as it was when told */
};

struct wr_refusals {
	struct wr_refusal entries[WR_REFUSALS_SETS][WR_REFUSALS_WAYS];
};

/* What is known of a limit: false if nothing. An answer without WR_ANSWER_ADMITTED is a refusal,
 * one with it says WR_ANSWER_NOT_TAKEN. Waits are told from now. */
bool wr_refusals_find(const struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, uint64_t mono_ns, struct wr_answer *answer);

/* `last_ns`: how long the call's refusal lasts, from asked_mono_ns on at least. Waits are told as
 * if it had been decided at mono_ns, now: so waiting that long suffices. */
void wr_refusals_note(struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, const struct wr_answer *answer, uint64_t last_ns,
		      uint64_t asked_mono_ns, uint64_t mono_ns);

void wr_refusals_forget(struct wr_refusals *refusals, const uint64_t key[2]); /* NULL: all */

#endif
