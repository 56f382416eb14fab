/* A loop without a thread: the test turns it. It has rules, a table in a folder of its own, and
 * time as it passes. */
#ifndef WR_TEST_SERVE_HELPER_H
#define WR_TEST_SERVE_HELPER_H

#include "serve/loop.h"
#include "serve/service.h"

#define BENCH_SLOW_MS 60000u /* --slow and --drain: longer than a test may stand still */

struct bench {
	struct wr_service service;
	struct wr_loop loop;
	char folder[64];
};

void bench_open(struct bench *bench, const char *rules);

/* The same with --redis. */
void bench_open_redis(struct bench *bench, const char *rules, const char *url);
void bench_close(struct bench *bench);

/* A new table and engine for the same rules, as after a resize. */
void bench_move(struct bench *bench, const char *table);

/* Turns the loop until nothing is left to be done now. */
void bench_turn(struct bench *bench);

#endif
