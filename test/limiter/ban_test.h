/* Shared by the suites of automatic bans: refusals, and the ban that they led to. */
#ifndef TEST_LIMITER_BAN_H
#define TEST_LIMITER_BAN_H

#include "control_test.h"

#include "limiter/ban.h"

static inline void move(struct rig *rig, uint64_t ns)
{
	rig->now_ns += ns;
}

/* Sends requests that are all refused. */
static inline void refuse(struct rig *rig, const char *descriptor, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(rig_ask(rig, descriptor), WEIR_REFUSE);
}

/* Returns whether the last request was refused by a ban. */
static inline bool was_banned(struct rig *rig)
{
	return rig_status(rig, 0).decision.banned;
}

static struct weir_counter last_counter;

static inline int keep_counter(void *context, const struct weir_counter *counter)
{
	(void)context;
	last_counter = *counter;
	return 0;
}

static inline struct weir_counter counter_at(struct rig *rig, const char *descriptor)
{
	last_counter = (struct weir_counter){0};
	assert_true(weir_control_get(rig->engine, whom(rig, descriptor), rig->now_ns, keep_counter,
				     NULL) > 0);
	return last_counter;
}

static inline void ban_until(struct rig *rig, const char *descriptor, uint64_t until_ns)
{
	assert_true(weir_control_ban(rig->engine, whom(rig, descriptor), until_ns, rig->now_ns,
				     NULL) > 0);
}

struct find_bans {
	const char *rule;
	struct weir_ban_stat found;
};

static inline int find_bans(void *context, const struct weir_ban_stat *stat)
{
	struct find_bans *find = context;

	if (wr_str_equal(stat->rule, wr_str(find->rule)))
		find->found = *stat;
	return 0;
}

static inline struct weir_ban_stat bans_of(struct rig *rig, const char *rule)
{
	struct find_bans find = {.rule = rule};

	assert_int_equal(weir_bans_each(rig->table, find_bans, &find), 0);
	return find.found;
}

static inline int count_listed(void *context, const struct wr_ban *ban)
{
	*(struct wr_ban *)context = *ban;
	return ban->flags & WR_BAN_SHADOW ? 0 : 1;
}

/* Returns the end of the only ban in the list, in ns, or 0. */
static inline uint64_t listed_until(struct rig *rig, struct wr_ban *ban)
{
	bool any = wr_bans_each(rig->table, (uint32_t)(rig->now_ns / SECOND_NS), count_listed, ban);

	return any ? ban->until_s * SECOND_NS : 0;
}

#endif
