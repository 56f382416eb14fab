/* Simple models of the five algorithms, written from their descriptions and not from the code: a
 * level with an explicit overflow, a schedule of departures, a count for each window, a list of all
 * stamps. They only decide whether n would fit at a given time; remaining, retry_after, reset_after
 * and delay are found by trying.
 *
 * Windows and logs have a time of their own: the start of the latest window, or the latest stamp. A
 * request that is up to ORACLE_LATE_NS behind counts as of that time. A bucket's level is a line
 * through time, and a latecomer may be placed at any point between its own time and latest_ns;
 * oracle_fits() and the values found by trying use its own time. */
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
	uint64_t latest_ns; /* buckets and log: latest change */
	uint64_t last_ns;   /* buckets: of the last change, a latecomer's own time */
	__int128 level;     /* token bucket at last_ns, in 1/period of a token */
	__int128 free_at; /* leaky bucket: when the next may leave at the earliest, in 1/limit ns */
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

/* Whether n (at least 1) would be admitted under the ceiling. */
bool oracle_fits(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns);
/* Whether the past has no effect any more. */
bool oracle_fresh(const struct oracle *o, uint64_t now_ns);
/* Records n as taken, or given back. */
void oracle_take(struct oracle *o, uint64_t n, uint64_t now_ns);
void oracle_give(struct oracle *o, uint64_t n, uint64_t now_ns);
/* Windows and log: moves records from after now_ns to the present, unless now_ns is late. */
void oracle_carry(struct oracle *o, uint64_t now_ns);

/* Found by trying. */
uint32_t oracle_remaining(const struct oracle *o, uint64_t now_ns);
uint64_t oracle_retry_after(const struct oracle *o, uint32_t ceiling, uint64_t n, uint64_t now_ns);
uint64_t oracle_reset_after(const struct oracle *o, uint64_t now_ns);
uint64_t oracle_delay(const struct oracle *o, uint64_t now_ns);

#endif
