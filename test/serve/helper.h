/* A loop without a thread, which runs when the test calls bench_turn. The loop has rules, a table
 * in a folder of its own, and the real time. */
#ifndef WR_TEST_SERVE_HELPER_H
#define WR_TEST_SERVE_HELPER_H

#include "serve/loop.h"
#include "serve/service.h"

#define BENCH_SLOW_MS                                                                              \
	60000u /* value of --slow and --drain, longer than a test may be interrupted */

struct bench {
	struct wr_service service;
	struct wr_loop loop;
	char folder[64];
};

void bench_open(struct bench *bench, const char *rules);

/* Like bench_open, with --redis URL. */
void bench_open_redis(struct bench *bench, const char *rules, const char *url);
void bench_close(struct bench *bench);

/* Gives the loop a new table and engine with the same rules, as a resize does. */
void bench_move(struct bench *bench, const char *table);

/* Runs the loop until all work that is due has been done. */
void bench_turn(struct bench *bench);

#endif
