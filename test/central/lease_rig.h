/* A rig whose central has a table, so that the node borrows units. The tests play Redis and the
 * processes that spend the units. */
#ifndef TEST_CENTRAL_LEASE_RIG_H
#define TEST_CENTRAL_LEASE_RIG_H

#include "rig.h"

#include "redis/script_lease.h"
#include "store/lease.h"

#define HOLDER "0000000000abcdef" /* the name of this node's holder in Redis */
#define LIMIT 1000u
#define SECOND (1000 * MS)

extern struct weir_table *table; /* the table of the running test */

int open_table(void **state);
int close_table(void **state);
#define LEASE_TEST(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)

struct rig *begin_lease_rig(void);

/* Returns how many of `times` requests the lease pays for. */
int spend(const struct rig *rig, uint64_t key, int times);
/* Returns whether the lease pays for a request with this limit and cost. */
bool spend_from(const struct rig *rig, uint64_t key, uint32_t limit, int64_t cost);

/* Asks a question of cost 1. */
void ask_one(struct rig *rig, struct asker *asker, uint64_t key);

/* Returns the arguments after the keys of the next command, which must call the lease script. The
 * arguments are those of the take. If there is a holder, its name, seq, after, spent, returned,
 * wanted, nodes and ttl follow. */
const char *lease_args(struct peer *peer);

/* Returns a reply to the take and to the lease request. A refused take must wait for 5 s. */
const char *leased(bool admitted, int remaining, int granted, uint64_t ttl_ms, bool known);

/* Asks a question of cost 1, and sends a reply to its call. */
void answer_one(struct rig *rig, struct asker *asker, uint64_t key, struct peer *peer,
		const char *bytes);

/* Sends two requests within a second. The call of the second request is granted `granted` units. */
struct peer *borrow(struct rig *rig, uint64_t key, int granted);

/* Begins the shutdown. Returns the number of leases that must still be returned. */
uint32_t shut_down(struct rig *rig);

#endif
