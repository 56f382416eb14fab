/* Shared by the suites of the scripts: a server with take.lua, or with that and lease.lua, under a
 * clock of the test, and functions that call them for limits as in src/algo. */
#ifndef TEST_REDIS_SCRIPT_H
#define TEST_REDIS_SCRIPT_H

#include "algo/algo_test.h"
#include "redis/script.h"
#include "redis/script_lease.h"
#include "redis/server.h"

#define US 1000ull           /* in ns */
#define NOW 1700000040000000 /* T0 in µs: a whole minute */
#define SECOND_US 1000000ull
#define MINUTE_US (60 * SECOND_US)

struct script_test {
	struct redis_server server;
	char sha1[41];  /* of take.lua with the test's clock */
	char lease[41]; /* of lease.lua */
};

/* For cmocka: the state is a struct script_test. */
int script_setup(void **state);
int script_lease_setup(void **state); /* with lease.lua as well */
int script_teardown(void **state);

/* The limit as an argument of a call. Its times must be whole µs. */
struct wr_take take_of(const struct weir_limit *limit, int64_t cost);

/* Sends a call at now_us on keys KEY0, KEY1, …; a report's last key is KEYr. */
void script_send(struct script_test *test, const char *key, const struct wr_take *takes,
		 size_t count, uint64_t report_seq, uint64_t now_us);
/* Reads the replies to it. */
void script_hear(struct script_test *test, const struct wr_take *takes, size_t count,
		 struct wr_taken *taken);

/* Both, for one limit. */
struct wr_taken script_take(struct script_test *test, const char *key, struct wr_take take,
			    uint64_t now_us);

/* One call of lease.lua on the counter `key`; its record is KEYl. A report has the number 1. */
struct wr_leased script_lease(struct script_test *test, const char *key,
			      const struct wr_lease_call *call, uint64_t now_us);

#endif
