/* Simple models of the five algorithms, written from their descriptions and not from the code: a
 * level with an explicit overflow, a schedule of departures, a count for each window, a list of all
 * stamps. They only decide whether n units would fit at a given time. remaining, retry_after,
 * reset_after and delay are found by trying different numbers and times.
 *
 * Windows and logs have a time of their own: the start of the latest window, or the latest stamp. A
 * request that is up to ORACLE_LATE_NS behind that time is counted at that time. A bucket's level
 * is a linear function of time, so a latecomer may be counted at any time between its own time and
 * latest_ns; oracle_fits() and the values found by trying use its own time. */
#ifndef TEST_ALGO_ORACLE_H
#define TEST_ALGO_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/algo.h>

#define ORACLE_WINDOWS 512
#define ORACLE_STAMPS 8192
#define ORACLE_LATE_NS 1000000000

struct oracle {
	const struct weir_limit *l;
	uint64_t latest_ns; /* buckets and log: time of the latest change */
	uint64_t last_ns;   /* buckets: time of the last change; for a latecomer its own time */
	__int128 level; /* level of the token bucket at last_ns, in units of 1/period of a token */
	/* Leaky bucket: earliest time at which the next request may leave, in units of 1/limit
	 * ns. */
	__int128 free_at;
	int windows;
	uint64_t latest; /* number of the latest window */
	struct {
		uint64_t number;
		uint64_t count;
	} window[ORACLE_WINDOWS];
	int stamps;
	uint64_t stamp[ORACLE_STAMPS];
};

void oracle_init(struct oracle *o, const struct weir_limit *l);

/* Whether a request of cost n (at least 1) would be admitted under the ceiling. */
bool oracle_fits(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns);
/* Whether earlier requests have no effect any more. */
bool oracle_fresh(const struct oracle *o, uint64_t now_ns);
/* oracle_take() records n units as taken, oracle_give() as given back. */
void oracle_take(struct oracle *o, uint64_t n, uint64_t now_ns);
void oracle_give(struct oracle *o, uint64_t n, uint64_t now_ns);
/* Windows and log: if the clock stepped back, moves records that are later than now_ns to
 * now_ns. */
void oracle_carry(struct oracle *o, uint64_t now_ns);

/* Return the values of a decision, which are found by trying different numbers and times. */
uint32_t oracle_remaining(const struct oracle *o, uint64_t now_ns);
uint64_t oracle_retry_after(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns);
uint64_t oracle_reset_after(const struct oracle *o, uint64_t now_ns);
uint64_t oracle_delay(const struct oracle *o, uint64_t now_ns);

#endif
