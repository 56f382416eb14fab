/* What the suites of exchanges share: a table, counters that are used, and what Redis is told. */
#ifndef TEST_CENTRAL_EXCHANGE_RIG_H
#define TEST_CENTRAL_EXCHANGE_RIG_H

#include "rig.h"

#include "central/exchange.h"

#define URL "redis://127.0.0.1:6379"
#define FAR "redis://127.0.0.2:6380"
#define OWNER 0xabcdefull
#define SYNC (100 * MS)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define WINDOW (NOW_NS / MINUTE)

extern struct weir_table *table;

/* For cmocka: the table. */
int open_table(void **state);
int close_table(void **state);

/* A chief's; they last until the next call. */
const struct wr_central_opts *node_opts(const char *region);

/* The slot of a counter, a fixed window of 100 a minute; below 0: there is no room. */
int claim(const struct rig *rig, uint64_t key);
/* … after a take, or below 0 a give-back. */
int use(const struct rig *rig, uint64_t key, int64_t cost);
/* What of others is charged to it. */
uint32_t charged(const struct rig *rig, int slot);

/* The next command, which is a call of the script: what stands behind the id of its key. */
const char *behind_key(struct peer *peer, const struct wr_script *script);
/* … of the exchange script: "window plus minus before 0 oldest life unit regions relay_ms". */
/* regions: "lacking reached relayed since last", or "": none of it. */
void assert_said(struct peer *peer, const char *region, const char *state);
const char *state_text(uint64_t window, int plus, int minus, int before, const char *regions);
/* What Redis answers: the sums of all others, and how many they are. */
const char *sums(int plus, int minus, int before, int others);

/* Frees the rig, and all slots with the table. */
void free_slots(struct rig *rig);

#endif
