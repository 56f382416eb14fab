/* Helpers of the exchange suites: they open a table, use counters in it, and check the commands
 * that Redis gets. */
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

/* A cmocka setup function that opens the table. */
int open_table(void **state);
int close_table(void **state);

/* Returns the options of a chief loop, which are valid until the next call. */
const struct wr_central_opts *node_opts(const char *region);

/* Claims a table slot for a counter, a fixed window of 100 per minute. Returns the slot, or a
 * number below 0 if there is no room. */
int claim(const struct rig *rig, uint64_t key);
/* Claims the slot and takes `cost` units. A cost below 0 gives units back. Returns the slot. */
int use_counter(const struct rig *rig, uint64_t key, int64_t cost);
/* Returns the units of other nodes that are charged to the slot. */
uint32_t charged_units(const struct rig *rig, int slot);

/* Returns the arguments after the key of the next command, which must call the script. */
const char *args_after_key(struct peer *peer, const struct wr_script *script);
/* Checks the arguments of the next command, which must call the exchange script. `state` comes from
 * state_text(). */
void assert_exchange_args(struct peer *peer, const char *region, const char *state);
/* Returns arguments of the exchange script: "window plus minus before 0 oldest life unit regions
 * relay_ms". `regions` is "lacking reached relayed since last", or "" if the call names no
 * regions. */
const char *state_text(uint64_t window, int plus, int minus, int before, const char *regions);
/* Returns a reply of Redis with the sums of the other nodes and the number of other nodes. */
const char *sums(int plus, int minus, int before, int others);

/* Frees the rig and all slots of the table. */
void free_slots(struct rig *rig);

#endif
