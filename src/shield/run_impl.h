/* The state of a running shield. Private to run.c, run_lists.c and run_carry.c. */
#ifndef WR_SHIELD_RUN_IMPL_H
#define WR_SHIELD_RUN_IMPL_H

#include <sys/types.h>

#include "base/clock.h"
#include "shield/apply.h"
#include "shield/run.h"

struct wr_nft_shield {
	const struct wr_nft_settings *settings;
	struct weir_table *table;
	ino_t inode;        /* of the table's file */
	bool is_table_lost; /* the table cannot be opened again, which was logged */
	struct nft_ctx *nft;
	struct wr_protect protect;
	struct weir_rules *rules; /* of --rules, or NULL */
	struct wr_nft_present present;
	struct wr_nft_skip *skips; /* the protected bans of the latest plan, which were logged */
	size_t skip_count;
	size_t suspended[WR_SUSPEND_NONE]; /* of the latest plan */
	struct wr_shield_state state;
	uint64_t changes;                     /* wr_ban_changes() before the latest plan */
	uint64_t pauses;                      /* wr_pause_stamp() before the latest plan */
	uint32_t next_s;                      /* time at which the latest plan changes by itself */
	uint64_t second_ms, ssh_ms, retry_ms; /* monotonic times of the next work */
	uint64_t retry_wait_ms;
	uint64_t rules_stamp, never_stamp;
	int64_t wall_offset_ns; /* wall clock minus monotonic clock */
	bool replan;            /* plan although the bans are the same */
	bool protect_differs;   /* the kernel's sets of protected addresses are out of date */
	bool was_full;
	int signals, lock;
	int namespace_lock; /* socket, or -1 */
};

static inline uint64_t wr_nft_mono_ms(void)
{
	return wr_clock_mono_ns() / 1000000;
}

/* Returns the time of the wall clock, as it was at the latest look_at_clock(), plus the time since
 * then. So a plan never has a time that is after a step which look_at_clock() has not seen. */
static inline uint64_t wr_nft_wall_ms(const struct wr_nft_shield *shield)
{
	return (wr_clock_mono_ns() + (uint64_t)shield->wall_offset_ns) / 1000000;
}

/* ---- run_lists.c ---- */

/* Reads the rules and all lists of protected addresses for the first time. Returns 0 or the first error. */
int wr_nft_lists_read(struct wr_nft_shield *shield, struct weir_error *error);

/* Reads the lists again whose files have changed, or all of them. A list with an error keeps its
 * former contents. */
void wr_nft_lists_look(struct wr_nft_shield *shield, bool all);

/* Reads the peers of SSH connections again. */
void wr_nft_lists_look_ssh(struct wr_nft_shield *shield);

/* ---- run_carry.c ---- */

/* Plans for the bans in the table. Returns false if there is no memory. */
bool wr_nft_make_plan(struct wr_nft_shield *shield, uint32_t now_s, struct wr_nft_plan *plan);

/* Logs the protected bans that the former plan did not have, and takes over plan->skips. Logs when
 * the first ban is skipped for the state of its rule, and when no ban is any more. */
void wr_nft_log_skips(struct wr_nft_shield *shield, struct wr_nft_plan *plan);

/* Plans and brings the kernel to the plan. Returns 0 or an error. */
int wr_nft_carry(struct wr_nft_shield *shield, struct weir_error *error);

/* Notes a failed change. The next attempt writes the whole table, since the kernel may have a part
 * of the change, and since another program may have removed the table. */
void wr_nft_note_failure(struct wr_nft_shield *shield, const struct weir_error *error);

#endif
