/* Tables with statistics for the tests. */
#ifndef TEST_STATS_HELPER_H
#define TEST_STATS_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "stats/stats.h"

#define SECOND_NS 1000000000ull
#define START_S 1794787200ull /* 2026-11-16 00:00 UTC: a minute, an hour and five minutes begin */

struct weir_table *table_of(uint64_t bytes);

/* Opens a handle on the heap, because the list of open handles still has it after a failed test. */
struct wr_stats *open_stats(const struct weir_table *table);
void close_stats(struct wr_stats *stats);

void add(struct wr_stats *stats, uint32_t slot, enum wr_stat what, uint64_t n);

/* The statistics of a rule. */
struct weir_stat total(struct weir_table *table, const char *rule);

/* Returns the next number of a pseudo-random sequence, which is the same in each run. */
uint64_t random_from(uint64_t *state);

#endif
