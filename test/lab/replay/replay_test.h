/* Records of a log, made by hand, for the tests of replay. */
#ifndef TEST_LAB_REPLAY_TEST_H
#define TEST_LAB_REPLAY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/replay/replay.h"

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define NOON_NS (1772366400ull * SECOND_NS) /* 2026-03-01 12:00 UTC */

/* Makes a replay of rules in a text. Fails the test if that is not possible. */
struct wr_lab_replay *replay_open(const char *yaml, const struct wr_lab_replay_opts *opts);

/* Returns a request GET / of an IPv4 address at noon plus `after_ns`. */
struct wr_lab_record replay_record(const char *client, uint64_t after_ns);

/* Feeds a request GET / of an IPv4 address. Returns whether it was admitted. */
bool replay_get(struct wr_lab_replay *replay, const char *client, uint64_t after_ns);

/* Ends the replay. Returns its report. */
const struct wr_lab_replay_report *replay_end(struct wr_lab_replay *replay);

/* Asserts the text and the count of key `at` in a list of keys. */
void replay_assert_key(const struct wr_lab_top_key *key, const char *text, uint64_t count);

#endif
