/* A node that borrows units: a rig whose central has a table. The tests play Redis and the
 * processes that spend units. */
#ifndef TEST_CENTRAL_LEASE_RIG_H
#define TEST_CENTRAL_LEASE_RIG_H

#include "rig.h"

#include "redis/script_lease.h"
#include "store/lease.h"

#define HOLDER "0000000000abcdef" /* as Redis knows it */
#define LIMIT 1000u
#define SECOND (1000 * MS)

extern struct weir_table *table; /* of the running test */

int open_table(void **state);
int close_table(void **state);
#define LEASE_TEST(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)

struct rig *begin_lease_rig(void);

/* How many of `times` requests the lease pays for; whether a request of another limit or cost is
 * paid. */
int spend(const struct rig *rig, uint64_t key, int times);
bool spend_from(const struct rig *rig, uint64_t key, uint32_t limit, int64_t cost);

/* Asks a question of cost 1. */
void ask_one(struct rig *rig, struct asker *asker, uint64_t key);

/* Returns the arguments after the keys of the next command, which must call the lease script: the
 * take, and for a holder its name, seq, after, spent, returned, wanted, nodes, ttl. */
const char *lease_args(struct peer *peer);

/* A reply: of the take, with a wait of 5 s if it is refused, and of the lease. */
const char *leased(bool admitted, int remaining, int granted, uint64_t ttl_ms, bool known);

/* Asks a question of cost 1, and replies to its call. */
void answer_one(struct rig *rig, struct asker *asker, uint64_t key, struct peer *peer,
		const char *bytes);

/* Sends two requests within a second: the call of the second one is granted this many units. */
struct peer *borrow(struct rig *rig, uint64_t key, int granted);

/* Begins the shutdown. Returns the number of leases that must still be returned. */
uint32_t shut_down(struct rig *rig);

#endif
