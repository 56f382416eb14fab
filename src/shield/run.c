/* The loop of weir shield; see run.h.
 *
 *   each 100 ms   are there other bans, or has one ended? then plan and apply
 *   each second   protected addresses, files, the counter of dropped packets, the state */
#include "shield/run.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/signals.h"
#include "net/log.h"
#include "shield/lock.h"
#include "shield/nft.h"
#include "shield/rules_count.h"
#include "shield/run_impl.h"
#include "table/paths.h"
#include "table/pause.h"

#define LOOK_MS 100
#define SECOND_MS 1000
#define TABLE_TRIES 100    /* attempts to open a missing table at the start, LOOK_MS apart */
#define STEP_NS 2000000000 /* a wall clock that moved by more than this has stepped */

/* ---- work of the loop ---- */

/* Opens the table, also a resized one. The user that the shield changes to may have another default
 * folder, so a table in WR_SYSTEM_DIR is looked for there again. */
static int open_existing(const struct wr_nft_shield *shield, struct weir_table **table,
			 struct weir_error *error)
{
	const char *former = shield->table ? shield->table->path : "";
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = shield->settings->table_name,
				 .dir = shield->settings->table_dir};

	if (!opts.dir && strncmp(former, WR_SYSTEM_DIR "/", sizeof WR_SYSTEM_DIR) == 0)
		opts.dir = WR_SYSTEM_DIR;
	return weir_open(&opts, table, error);
}

/* Returns the number of a file, or 0 if there is none. The kernel does not give the number of a file
 * that is still open to another file. */
static ino_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* Opens the table again after a resize, or if another table has its name. The old one stays in use
 * if this fails. */
static void follow_table(struct wr_nft_shield *shield)
{
	ino_t inode = inode_of(shield->table->path);
	struct weir_table *table;
	struct weir_error error;
	bool resized;

	if (weir_moved(shield->table) == 0 && inode == shield->inode) {
		shield->is_table_lost = false; /* the file may have been moved away and back */
		return;
	}
	if (open_existing(shield, &table, &error) < 0) {
		if (!shield->is_table_lost)
			wr_log(WR_LOG_WARN,
			       "cannot open the table again, which was resized, removed or "
			       "replaced: %s; until this succeeds, the bans of the former table "
			       "stay",
			       error.text);
		shield->is_table_lost = true;
		return;
	}
	resized = weir_moved(shield->table) != 0;
	weir_close(shield->table);
	shield->table = table;
	shield->inode = inode;
	shield->is_table_lost = false;
	shield->replan = true;
	wr_log(WR_LOG_INFO, resized ? "opened the resized table"
				    : "opened the table that has replaced the former one");
}

static int64_t wall_offset_ns(void)
{
	return (int64_t)(wr_clock_wall_ns() - wr_clock_mono_ns());
}

/* Detects a step of the wall clock. The kernel's timeouts do not follow it. */
static void look_at_clock(struct wr_nft_shield *shield)
{
	int64_t offset = wall_offset_ns();
	int64_t moved = offset - shield->wall_offset_ns;

	if (moved > STEP_NS || moved < -STEP_NS) {
		wr_nft_present_doubt(&shield->present);
		shield->wall_offset_ns = offset;
		shield->replan = true;
	}
}

static void write_state(struct wr_nft_shield *shield)
{
	shield->state.pid = (uint64_t)getpid();
	shield->state.updated_s = wr_clock_wall_ns() / WR_SECOND_NS;
	wr_shield_state_write(shield->table, &shield->state);
}

/* Another program may have flushed the chains, which leaves the counter and the sets. */
static int check_rules(const struct wr_nft_design *design, struct weir_error *error)
{
	unsigned count, expected = wr_nft_rules_of(design);
	int rc = wr_nft_rules_count(&count, error);

	if (rc == 0 && count != expected)
		return wr_error(error, WEIR_ESYS,
				"another program has changed the rules of " WR_NFT_TABLE
				": %u instead of %u",
				count, expected);
	return rc;
}

static void work_each_second(struct wr_nft_shield *shield)
{
	struct weir_error error;

	follow_table(shield);
	wr_nft_lists_look(shield, false);
	if (shield->present.has_table &&
	    (wr_nft_count(&shield->state.packets, &shield->state.bytes, &error) < 0 ||
	     check_rules(&shield->settings->design, &error) < 0))
		wr_nft_note_failure(shield, &error);
	write_state(shield);
}

static void look(struct wr_nft_shield *shield)
{
	struct weir_error error;
	uint64_t now_ms = wr_nft_mono_ms();
	bool new_bans = wr_ban_changes(shield->table) != shield->changes;

	look_at_clock(shield);
	if (now_ms >= shield->second_ms) {
		work_each_second(shield);
		shield->second_ms = now_ms + SECOND_MS;
	}
	shield->replan |= wr_pause_stamp(shield->table) != shield->pauses;
	if (now_ms < shield->retry_ms ||
	    !(new_bans || shield->replan || wr_nft_wall_ms(shield) / 1000 >= shield->next_s))
		return;
	if (new_bans) /* so that the ban of a connected administrator is recognised at once */
		wr_nft_lists_look_ssh(shield);
	if (wr_nft_carry(shield, &error) < 0)
		wr_nft_note_failure(shield, &error);
	write_state(shield);
}

/* Waits for a signal. Returns its number, or 0 after LOOK_MS. */
static unsigned wait_for_signal(struct wr_nft_shield *shield)
{
	struct pollfd poll_fd = {.fd = shield->signals, .events = POLLIN};
	struct signalfd_siginfo info;

	if (poll(&poll_fd, 1, LOOK_MS) <= 0 ||
	    read(shield->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return 0;
	return info.ssi_signo;
}

static void run_loop(struct wr_nft_shield *shield)
{
	for (;;) {
		unsigned number = wait_for_signal(shield);

		if (number == SIGTERM || number == SIGINT)
			return;
		if (number == SIGHUP)
			wr_nft_lists_look(shield, true);
		wr_nft_lock_answer(shield->namespace_lock);
		look(shield);
	}
}

/* ---- start and end ---- */

/* Opens the table. With `wait`, the table may be missing for some seconds: the gateway may start at
 * the same time. */
static int open_table(struct wr_nft_shield *shield, bool wait, struct weir_error *error)
{
	const char *name = shield->settings->table_name;
	int rc = open_existing(shield, &shield->table, error);

	if (rc == WEIR_ENOENT && wait)
		wr_log(WR_LOG_INFO,
		       "waits up to %d s for the table %s, which weir gateway and weir serve make",
		       TABLE_TRIES * LOOK_MS / 1000, name ? name : "default");
	for (int tries = 0; rc == WEIR_ENOENT && wait && tries < TABLE_TRIES; tries++) {
		poll(NULL, 0, LOOK_MS);
		rc = open_existing(shield, &shield->table, error);
	}
	if (rc == 0)
		shield->inode = inode_of(shield->table->path);
	if (rc == WEIR_ENOENT)
		return wr_error(error, rc,
				"there is no table %s: start weir gateway or weir serve first, or "
				"name the table with --table and --dir",
				name ? name : "default");
	return rc;
}

/* Opens the table once more with the remaining rights: a resize makes this necessary later. */
static int check_access(const struct wr_nft_shield *shield, struct weir_error *error)
{
	struct weir_error reason;
	struct weir_table *table;
	int rc = open_existing(shield, &table, &reason);

	if (rc == 0)
		weir_close(table);
	return rc == 0 ? 0
		       : wr_error(error, rc,
				  "after giving up rights, the shield could not open the table "
				  "again when it is resized: %s; name a user with access to the "
				  "table with --user, or change its owner or group (chown, chgrp)",
				  reason.text);
}

static int open_signals(struct wr_nft_shield *shield, struct weir_error *error)
{
	/* A reader of the log that ends must not end the shield, which would leave its table. */
	signal(SIGPIPE, SIG_IGN);
	shield->signals = wr_signals_open();
	return shield->signals < 0 ? wr_error_errno(error, WEIR_ESYS, "signalfd") : 0;
}

static int lock_all(struct wr_nft_shield *shield, struct weir_error *error)
{
	const struct wr_nft_user *user = &shield->settings->user;
	int rc;

	shield->lock = wr_nft_lock(shield->table->path, error);
	if (shield->lock < 0)
		return shield->lock;
	rc = wr_nft_lock_namespace(user->change ? user->uid : geteuid(), error);
	if (rc >= 0)
		shield->namespace_lock = rc;
	return rc < 0 && rc != WEIR_ENOENT ? rc : 0;
}

/* Refuses to replace a table of another program, which has no owner. Refuses a second shield in
 * this network namespace, also if a stranger holds the name of the socket. A table without a living
 * owner is left from a shield that was killed, or that ended with --leave; it is replaced. */
static int check_owner(struct weir_error *error)
{
	long owner = wr_nft_owner();

	if (wr_nft_is_shield(owner))
		return wr_error(error, WEIR_EINVAL,
				"weir shield already runs in this network namespace: process %ld; "
				"stop it first",
				owner);
	if (!owner && wr_nft_table_exists())
		return wr_error(error, WEIR_EINVAL,
				"the table " WR_NFT_TABLE " of nftables is not one of weir shield, "
				"which would replace it: give it another name, or remove it with "
				"nft delete table " WR_NFT_TABLE);
	if (owner)
		wr_log(WR_LOG_INFO, "replaces the table of process %ld, which has ended", owner);
	return 0;
}

static int start(struct wr_nft_shield *shield, struct weir_error *error)
{
	int rc = wr_nft_rights_check(error);

	rc = rc < 0 ? rc : open_table(shield, true, error);
	rc = rc < 0 ? rc : lock_all(shield, error);
	rc = rc < 0 ? rc : open_signals(shield, error);
	rc = rc < 0 ? rc : wr_nft_open(&shield->nft, error);
	rc = rc < 0 ? rc : wr_nft_rights_drop(&shield->settings->user, error);
	rc = rc < 0 ? rc : wr_nft_filter_load(error);
	rc = rc < 0 ? rc : check_access(shield, error);
	rc = rc < 0 ? rc : wr_nft_lists_read(shield, error);
	rc = rc < 0 ? rc : check_owner(error);
	return rc < 0 ? rc : wr_nft_carry(shield, error);
}

/* After a failed change, the kernel can still have the table of this shield, or that of another
 * program. */
static bool has_table(const struct wr_nft_shield *shield)
{
	return shield->present.has_table || wr_nft_owner() == (long)getpid();
}

static void end(struct wr_nft_shield *shield)
{
	struct weir_error error;

	if (has_table(shield)) {
		wr_nft_count(&shield->state.packets, &shield->state.bytes, &error);
		if (shield->settings->leave)
			wr_log(WR_LOG_INFO,
			       "leaves the table " WR_NFT_TABLE "; its bans end by themselves");
		else if (wr_nft_run(shield->nft, "delete table " WR_NFT_TABLE "\n", &error) < 0)
			wr_log(WR_LOG_ERROR, "cannot remove the table " WR_NFT_TABLE ": %s",
			       error.text);
	}
	shield->state.pid = 0;
	shield->state.elements_v4 = shield->state.elements_v6 = shield->state.prefixes = 0;
	shield->state.updated_s = wr_clock_wall_ns() / WR_SECOND_NS;
	wr_shield_state_write(shield->table, &shield->state);
}

static void free_all(struct wr_nft_shield *shield)
{
	wr_nft_elements_free(&shield->present.elements);
	wr_protect_free(&shield->protect);
	weir_rules_free(shield->rules);
	free(shield->skips);
	wr_nft_close(shield->nft);
	if (shield->table)
		weir_close(shield->table);
	if (shield->signals >= 0)
		close(shield->signals);
	if (shield->lock >= 0)
		close(shield->lock);
	if (shield->namespace_lock >= 0)
		close(shield->namespace_lock);
}

int wr_nft_run_shield(const struct wr_nft_settings *settings, struct weir_error *error)
{
	struct wr_nft_shield shield = {.settings = settings,
				       .signals = -1,
				       .lock = -1,
				       .namespace_lock = -1,
				       .wall_offset_ns = wall_offset_ns()};
	int rc = start(&shield, error);

	if (rc == 0) {
		write_state(&shield);
		wr_log(WR_LOG_INFO, "ready: IPv4 addresses %llu, IPv6 networks %llu, prefixes %llu",
		       (unsigned long long)shield.state.elements_v4,
		       (unsigned long long)shield.state.elements_v6,
		       (unsigned long long)shield.state.prefixes);
		run_loop(&shield);
		end(&shield);
	}
	free_all(&shield);
	return rc;
}

int wr_nft_dry_run(const struct wr_nft_settings *settings, struct wr_buf *buf,
		   struct weir_error *error)
{
	struct wr_nft_shield shield = {.settings = settings,
				       .signals = -1,
				       .lock = -1,
				       .namespace_lock = -1,
				       .wall_offset_ns = wall_offset_ns()};
	struct wr_nft_plan plan = {0};
	uint64_t now_ms = wr_nft_wall_ms(&shield);
	int rc = open_table(&shield, false, error);

	rc = rc < 0 ? rc : wr_nft_lists_read(&shield, error);
	if (rc == 0 &&
	    (!wr_nft_make_plan(&shield, (uint32_t)(now_ms / 1000), &plan) ||
	     !wr_nft_text_all(buf, &settings->design, &shield.protect, &plan, now_ms, getpid())))
		rc = wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc == 0)
		wr_nft_log_skips(&shield, &plan);
	wr_nft_plan_free(&plan);
	free_all(&shield);
	return rc;
}
