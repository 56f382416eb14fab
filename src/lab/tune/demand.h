/* The demand of one client: which limits would have admitted all of its requests.
 *
 * For a token bucket with a given rate, a client needs a burst of at least its largest backlog. The
 * backlog rises by the units of each request, and falls with the rate until it is 0. The demand
 * keeps one such bucket for each candidate rate. A bucket of the demand has no capacity, so it never
 * refuses, and its largest backlog is the answer: a token bucket of this rate admits all requests
 * if and only if its burst is at least the largest backlog, rounded up.
 *
 * Example: 1 per second; requests at 0, 0.2, 0.4 and 3 s. The backlogs after the requests are 1,
 * 1.8, 2.6 and 1. The client needs a burst of 3.
 *
 * The arithmetic is that of algo/bucket.h: the unit of a backlog is 1/period of a token, so nothing
 * is rounded before the end. */
#ifndef WR_LAB_TUNE_DEMAND_H
#define WR_LAB_TUNE_DEMAND_H

#include <stddef.h>
#include <stdint.h>

#define WR_LAB_RATES 24u /* number of candidate rates */

/* A candidate rate: `limit` units per period. */
struct wr_lab_rate {
	uint32_t limit;
	uint64_t period_ns;
};

/* The units of time. X(enum, name in rule files, seconds) */
#define WR_LAB_UNITS(X)                                                                            \
	X(WR_LAB_PER_SECOND, "second", 1)                                                          \
	X(WR_LAB_PER_MINUTE, "minute", 60)                                                         \
	X(WR_LAB_PER_HOUR, "hour", 3600)                                                           \
	X(WR_LAB_PER_DAY, "day", 86400)

enum wr_lab_unit {
#define WR_LAB_UNIT_ENUM(name, text, seconds) name,
	WR_LAB_UNITS(WR_LAB_UNIT_ENUM)
#undef WR_LAB_UNIT_ENUM
		WR_LAB_UNIT_COUNT
};

/* Returns the name and the length of a unit. */
const char *wr_lab_unit_name(enum wr_lab_unit unit);
uint64_t wr_lab_unit_ns(enum wr_lab_unit unit);

/* Fills rates[] in rising order. With WR_LAB_UNIT_COUNT, the rates are from 1 per hour to 20,000
 * per second, in the unit in which each is a small number. Otherwise they are 1, 2, 5, 10, … per
 * unit. */
void wr_lab_rates(enum wr_lab_unit unit, struct wr_lab_rate rates[WR_LAB_RATES]);

#define WR_LAB_NO_BURST UINT32_MAX /* no burst that a rule file can have is enough */

/* The largest number of units in windows of each unit of time. The windows begin at multiples of
 * their length since 1970, as the windows of rules do. */
struct wr_lab_window {
	uint64_t index; /* number of the current window */
	uint64_t units; /* units in the current window */
	uint64_t peak;
};

#define WR_LAB_BATCH_NS 2000000000ull        /* a batch ends this long after its first request */
#define WR_LAB_BURST_TIMES 5u                /* a burst is this many times the client's average */
#define WR_LAB_ACTIVE_GAP_NS 60000000000ull  /* a client is active this long after a request */
#define WR_LAB_VISIT_GAP_NS 1800000000000ull /* a longer pause ends a visit */

/* A state of zeros is a client that has sent nothing. */
struct wr_lab_demand {
	uint64_t first_ns, last_ns;
	uint64_t requests, units;
	uint64_t backlog[WR_LAB_RATES]; /* at last_ns, in 1/period of a token */
	uint64_t most[WR_LAB_RATES];    /* the largest backlog; UINT64_MAX: it was too large */
	struct wr_lab_window windows[WR_LAB_UNIT_COUNT];
	/* A batch is a request and the requests within WR_LAB_BATCH_NS after it. The next request
	 * begins the next batch. So a client with a steady rate has small batches of the same size,
	 * however long it goes on. */
	uint64_t batch_ns; /* time of the first request of the batch */
	uint64_t batches, batch_requests, batch_peak;
	/* Pauses of more than WR_LAB_BATCH_NS within a visit. */
	uint64_t pauses, pause_ns;
	uint64_t active_ns; /* sum of the pauses; a pause counts at most WR_LAB_ACTIVE_GAP_NS */
};

/* Adds a request of `n` units. A time before that of the previous request counts as the time of
 * the previous request. */
void wr_lab_demand_add(struct wr_lab_demand *demand, const struct wr_lab_rate rates[WR_LAB_RATES],
		       uint64_t time_ns, uint64_t n);

/* Returns the smallest burst with which a token bucket of this rate admits all requests, or
 * WR_LAB_NO_BURST. */
uint32_t wr_lab_demand_burst(const struct wr_lab_demand *demand,
			     const struct wr_lab_rate rates[WR_LAB_RATES], size_t rate);

/* Returns the requests per minute while the client is active. A client is active for at least a
 * minute. `demand` has at least one request. */
double wr_lab_demand_pace(const struct wr_lab_demand *demand);

/* Returns the number of requests of the client's largest burst, or 1 if it sends no bursts. A burst is
 * a batch of at least WR_LAB_BURST_TIMES times the requests that the client sends on average in
 * WR_LAB_BATCH_NS while it is active. */
uint64_t wr_lab_demand_largest(const struct wr_lab_demand *demand);

#endif
