/* Helpers of the script suites: a server with take.lua, and for some suites with lease.lua, under a
 * clock that the test sets. The functions call the scripts for limits of src/algo. */
#ifndef TEST_REDIS_SCRIPT_H
#define TEST_REDIS_SCRIPT_H

#include "algo/algo_test.h"
#include "redis/script.h"
#include "redis/script_lease.h"
#include "redis/server.h"

#define US 1000ull           /* one µs in ns */
#define NOW 1700000040000000 /* T0 in µs: a whole minute */
#define SECOND_US 1000000ull
#define MINUTE_US (60 * SECOND_US)

struct script_test {
	struct redis_server server;
	char sha1[41];  /* SHA1 of take.lua with the test's clock */
	char lease[41]; /* SHA1 of lease.lua with the test's clock */
};

/* A cmocka setup function. It sets *state to a struct script_test. */
int script_setup(void **state);
int script_lease_setup(void **state); /* loads lease.lua as well */
int script_teardown(void **state);

/* Returns the limit as an argument of a call. Its times must be whole µs. */
struct wr_take take_of(const struct weir_limit *limit, int64_t cost);

/* Sends a call at now_us with the keys KEY0, KEY1, … A report has the additional key KEYr. The first
 * key of a claim is KEYm; KEY0 follows. */
void script_send(struct script_test *test, const char *key, const struct wr_take *takes,
		 size_t count, uint64_t report_seq, uint64_t now_us);
/* Reads the reply to the call. */
void script_read_reply(struct script_test *test, const struct wr_take *takes, size_t count,
		       struct wr_taken *taken);

/* Sends a call for one limit, and reads its reply. */
struct wr_taken script_take(struct script_test *test, const char *key, struct wr_take take,
			    uint64_t now_us);

/* Calls lease.lua once, with the counter `key` and the record KEYl. A report has the number 1. */
struct wr_leased script_lease(struct script_test *test, const char *key,
			      const struct wr_redis_lease_call *call, uint64_t now_us);

#endif
