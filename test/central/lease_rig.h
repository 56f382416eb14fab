/* A node that borrows, for tests that are Redis and the processes that spend: a rig whose central
 * has a table. */
#ifndef TEST_CENTRAL_LEASE_RIG_H
#define TEST_CENTRAL_LEASE_RIG_H

#include "rig.h"

#include "redis/script_lease.h"
#include "store/lease.h"

#define HOLDER "0000000000abcdef" /* as Redis knows it */
#define LIMIT 1000u
#define SECOND (1000 * MS)

extern struct weir_table *table; /* of the test that runs */

int open_table(void **state);
int close_table(void **state);
#define LEASE_TEST(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)

struct rig *begin(void);

/* How many of so many requests were paid for; whether one of another limit or cost was. */
int spend(const struct rig *rig, uint64_t key, int times);
bool spend_from(const struct rig *rig, uint64_t key, uint32_t limit, int64_t cost);

/* A question of cost 1. */
void ask(struct rig *rig, struct asker *asker, uint64_t key);

/* What stands behind the keys of the next command, which is one of the lease script: the take, and
 * of a holder: name, seq, after, spent, returned, wanted, nodes, ttl. */
const char *said(struct peer *peer);

/* Its answer: of the take, which may wait 5 s if it was refused, and of the lease. */
const char *leased(bool admitted, int remaining, int granted, uint64_t ttl_ms, bool known);

/* Two requests within a second: the second one's call brings so many units. */
struct peer *borrow(struct rig *rig, uint64_t key, int granted);

/* How many leases are still to be returned. */
uint32_t drain(struct rig *rig);

#endif
