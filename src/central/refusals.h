/* A cache of refusals. When Redis has refused a request, later requests of the same key and limit
 * are refused without asking Redis, until the refusal ends, but for at most one second. This time
 * begins when the call was written, because Redis cannot have decided earlier. So resets, grants
 * and raised limits take effect everywhere within one second. A changed limit is not found in the
 * cache, because it has another identity. A refused call stores the answers of all its limits. A
 * stored refusal applies to all requests of the same or a higher cost. The cache has a fixed size,
 * and the entry that ends first is replaced. */
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
	uint64_t identity; /* hash of the limit's id and settings */
	int64_t cost;
	uint64_t noted_mono_ns, until_mono_ns;
	struct wr_answer answer; /* its wait times count from noted_mono_ns */
};

struct wr_refusals {
	struct wr_refusal entries[WR_REFUSALS_SETS][WR_REFUSALS_WAYS];
};

/* Sets *answer to the stored answer for a limit. Returns false if no answer is stored. There are
 * two kinds of answers. Without the flag WR_ANSWER_ADMITTED, the limit has refused. With this flag,
 * the limit has admitted, but another limit of the same call has refused; such an answer has the
 * flag WR_ANSWER_NOT_TAKEN too. The wait times of *answer count from now. */
bool wr_refusals_find(const struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, uint64_t mono_ns, struct wr_answer *answer);

/* Stores an answer. It is used for last_ns, beginning at asked_mono_ns, the time at which Redis was
 * asked. Its wait times count from mono_ns, the current time. Redis has decided before mono_ns, so
 * the wait times may be too long, but not too short. */
void wr_refusals_note(struct wr_refusals *refusals, const uint64_t key[2], uint64_t identity,
		      int64_t cost, const struct wr_answer *answer, uint64_t last_ns,
		      uint64_t asked_mono_ns, uint64_t mono_ns);

/* Drops the answers of a key, or of all keys if `key` is NULL. */
void wr_refusals_forget(struct wr_refusals *refusals, const uint64_t key[2]);

#endif
