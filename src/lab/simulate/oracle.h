/* An exact limiter that sees the requests of all nodes in the order of time, and measures how far
 * the decisions of the fleet are from its own.
 *
 *   beyond           units that the fleet admitted and the exact limiter did not
 *   wrongly refused  units that the exact limiter admitted and the fleet did not
 *   excess           units in use beyond the capacity, after an admission of the fleet
 *
 * The first two are compared for each client and each period, so that it does not matter which of
 * two requests within a period was admitted.
 *
 * Example: 3 per second. Five requests come in the first second and four in the next one. The fleet
 * admits all five, and then two. The exact limiter admits three in each second. Two units are
 * beyond, one unit is wrongly refused, and the excess is two.
 *
 * The memory is about 100 bytes for each key. For a sliding window log there are also 16 bytes for
 * each admission that is less than a period old. The arithmetic shares no code with src/algo. */
#ifndef WR_LAB_SIMULATE_ORACLE_H
#define WR_LAB_SIMULATE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

struct wr_lab_oracle;

struct wr_lab_oracle_opts {
	uint32_t algorithm; /* enum weir_algorithm, but not WEIR_CONCURRENT */
	uint32_t limit;
	uint32_t capacity; /* units that the limit admits at once */
	uint64_t period_ns;
	uint32_t keys;
	/* Times may be wrong by this much, because Redis counts in µs. The excess is computed in
	 * favour of the fleet. */
	uint64_t slack_ns;
};

/* Sums over all keys, in units. */
struct wr_lab_oracle_totals {
	uint64_t beyond, wrongly_refused;
	uint64_t exact; /* units that the exact limiter admitted */
};

/* Returns NULL if there is no memory. */
struct wr_lab_oracle *wr_lab_oracle_new(const struct wr_lab_oracle_opts *opts);
void wr_lab_oracle_free(struct wr_lab_oracle *oracle);

/* Passes in a request and the fleet's decision. at_ns is the time since the start of a window.
 * Times must not go back. Has no effect once there is no memory for a log; see
 * wr_lab_oracle_failed(). */
void wr_lab_oracle_see(struct wr_lab_oracle *oracle, uint32_t key, uint32_t cost, uint64_t at_ns,
		       bool admitted);

/* Returns the sums at the end of a run. */
void wr_lab_oracle_totals(struct wr_lab_oracle *oracle, struct wr_lab_oracle_totals *totals);
/* Returns the largest excess of the key at any time. */
uint64_t wr_lab_oracle_excess(const struct wr_lab_oracle *oracle, uint32_t key);
/* Returns how many units of the key the fleet has in use at at_ns, which must not be before the
 * latest request. For a bucket, the number is rounded up. */
uint64_t wr_lab_oracle_used(struct wr_lab_oracle *oracle, uint32_t key, uint64_t at_ns);
bool wr_lab_oracle_failed(const struct wr_lab_oracle *oracle);

#endif
