/* Shared by the exchange suites: a table, counters that are used, and the commands that Redis
 * gets. */
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

/* For cmocka: opens the table. */
int open_table(void **state);
int close_table(void **state);

/* Options of a chief loop, valid until the next call. */
const struct wr_central_opts *node_opts(const char *region);

/* Returns the slot of a counter, a fixed window of 100 per minute; below 0 without room. */
int claim(const struct rig *rig, uint64_t key);
/* The same, after a take; a cost below 0 gives back. */
int use_counter(const struct rig *rig, uint64_t key, int64_t cost);
/* Units of other nodes that are charged to the slot. */
uint32_t charged_units(const struct rig *rig, int slot);

/* Returns the arguments after the key of the next command, which must call the script. */
const char *args_after_key(struct peer *peer, const struct wr_script *script);
/* The arguments of the exchange script: "window plus minus before 0 oldest life unit regions
 * relay_ms". */
/* regions: "lacking reached relayed since last", or "" for none. */
void assert_exchange_args(struct peer *peer, const char *region, const char *state);
const char *state_text(uint64_t window, int plus, int minus, int before, const char *regions);
/* A reply of Redis: the sums of the other nodes, and their number. */
const char *sums(int plus, int minus, int before, int others);

/* Frees the rig and all slots of the table. */
void free_slots(struct rig *rig);

#endif
