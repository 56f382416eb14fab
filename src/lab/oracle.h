/* An exact limiter that sees the requests of all nodes in the order of true time, and judges what
 * the fleet decided.
 *
 * The oracle counts the units that the fleet admitted, also beyond the limit. A request is
 *   beyond           if the fleet admitted it, although the limit had no room for it
 *   wrongly refused  if the fleet refused it, although the limit had room for it
 *
 * Example: 3 per second, and the fleet admits 5 requests in one second. Two of them are beyond. If
 * the fleet then refuses a request in the next second, that request is wrongly refused.
 *
 * The memory is a few bytes for each key. For a sliding window log it is also 16 bytes for each
 * admission that is less than a period old. The arithmetic shares no code with src/algo. */
#ifndef WR_LAB_ORACLE_H
#define WR_LAB_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

struct wr_lab_oracle;

enum wr_lab_judgement { WR_LAB_RIGHT, WR_LAB_BEYOND, WR_LAB_WRONGLY_REFUSED };

struct wr_lab_oracle_opts {
	uint32_t algorithm; /* enum weir_algorithm, but not WEIR_CONCURRENT */
	uint32_t limit;
	uint32_t capacity; /* units that the limit admits at once */
	uint64_t period_ns;
	uint32_t keys;
	/* Times may be wrong by this much, because Redis counts in µs. A request is judged in favour
	 * of the fleet if its judgement depends on that. */
	uint64_t slack_ns;
};

/* Returns NULL if there is no memory. */
struct wr_lab_oracle *wr_lab_oracle_new(const struct wr_lab_oracle_opts *opts);
void wr_lab_oracle_free(struct wr_lab_oracle *oracle);

/* Judges a request. at_ns is the time since the start of a window. Times must not go back. Returns
 * WR_LAB_RIGHT for all requests once there is no memory for a log; see wr_lab_oracle_failed(). */
enum wr_lab_judgement wr_lab_oracle_judge(struct wr_lab_oracle *oracle, uint32_t key, uint32_t cost,
					  uint64_t at_ns, bool admitted);

/* Returns the largest number of units of the key beyond the capacity at any time. */
uint64_t wr_lab_oracle_excess(const struct wr_lab_oracle *oracle, uint32_t key);
/* Returns how many units of the key are in use at at_ns, which must not be before the latest
 * request. For a bucket, the number is rounded up. */
uint64_t wr_lab_oracle_used(struct wr_lab_oracle *oracle, uint32_t key, uint64_t at_ns);
bool wr_lab_oracle_failed(const struct wr_lab_oracle *oracle);

#endif
