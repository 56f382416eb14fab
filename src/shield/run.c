/* The loop of weir shield; see run.h.
 *
 *   each 100 ms   are there other bans, or has one ended? then plan and apply
 *   each second   protected addresses, files, the counter of dropped packets, the state */
#include "shield/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/log.h"
#include "shield/apply.h"
#include "shield/lists.h"
#include "shield/lock.h"
#include "shield/nft.h"

#define LOOK_MS 100
#define SECOND_MS 1000
#define SSH_MS 10000      /* interval of looking for SSH connections if no ban is new */
#define RETRY_MIN_MS 1000 /* wait after a failed change; doubled with each further failure */
#define RETRY_MAX_MS 30000
#define STEP_NS 2000000000 /* a wall clock that moved by more than this has stepped */
/* Interval of plans if neither the bans nor the time cause one. A writer that was killed may have left
 * the count of changes as it was. */
#define PLAN_S 60
#define SKIPS_LOGGED 20 /* maximum number of protected bans that one plan logs */
#define RULES_ERROR_TEXT 512

struct shield {
	const struct wr_nft_settings *settings;
	struct weir_table *table;
	struct nft_ctx *nft;
	struct wr_protect protect;
	struct wr_nft_present present;
	struct wr_nft_skip *skips; /* the protected bans of the latest plan, which were logged */
	size_t skip_count;
	struct wr_shield_state state;
	uint64_t changes;                     /* wr_ban_changes() before the latest plan */
	uint32_t next_s;                      /* time at which the latest plan changes by itself */
	uint64_t second_ms, ssh_ms, retry_ms; /* monotonic times of the next work */
	uint64_t retry_wait_ms;
	uint64_t rules_stamp, never_stamp;
	int64_t wall_offset_ns; /* wall clock minus monotonic clock */
	bool replan;            /* plan although the bans are the same */
	bool protect_differs;   /* the kernel's sets of protected addresses are out of date */
	bool was_full;
	int signals, lock;
};

static uint64_t mono_ms(void)
{
	return wr_clock_mono_ns() / 1000000;
}

/* Returns the time of the wall clock, as it was at the latest look_at_clock(), plus the time since
 * then. So a plan never has a time that is after a step which look_at_clock() has not seen. */
static uint64_t wall_ms(const struct shield *shield)
{
	return (wr_clock_mono_ns() + (uint64_t)shield->wall_offset_ns) / 1000000;
}

/* ---- protected addresses ---- */

/* Replaces the list of a kind, and notes if it differs. */
static void replace_list(struct shield *shield, enum wr_protect_kind kind,
			 struct wr_protect_list *list)
{
	if (wr_protect_replace(&shield->protect, kind, list)) {
		shield->protect_differs = true;
		shield->replan = true;
	}
}

/* Reads the addresses of `allow: true` in the rules. Returns 0 or an error. */
static int read_rules(struct shield *shield, struct weir_error *error)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_protect_list list = {0};
	struct weir_rules *rules;
	char text[RULES_ERROR_TEXT] = "";
	int rc;

	if (!shield->settings->rules)
		return 0;
	rc = weir_rules_load(shield->settings->rules, &rules, &errors);
	if (rc < 0) {
		if (errors.count)
			weir_diagnostic_text(&errors.items[0], text, sizeof text);
		weir_errors_free(&errors);
		return wr_error(error, rc, "--rules %s: %.*s; weir check shows all errors",
				shield->settings->rules, (int)strcspn(text, "\n"),
				text[0] ? text : weir_strerror(rc));
	}
	weir_errors_free(&errors);
	rc = wr_protect_read_rules(rules, &list) ? 0
						 : wr_error(error, WEIR_EMEMORY, "out of memory");
	weir_rules_free(rules);
	if (rc == 0)
		replace_list(shield, WR_PROTECT_RULES, &list);
	wr_protect_list_free(&list);
	return rc;
}

static int read_never(struct shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	int rc = wr_protect_read_option(&shield->settings->never, "--never", true, &list, error);

	if (rc == 0)
		replace_list(shield, WR_PROTECT_NEVER, &list);
	wr_protect_list_free(&list);
	return rc;
}

static int read_own(struct shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	int rc = wr_protect_read_own(&list, error);

	if (rc == 0)
		replace_list(shield, WR_PROTECT_OWN, &list);
	wr_protect_list_free(&list);
	return rc;
}

static int read_ssh(struct shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	int rc = wr_protect_read_ssh(&shield->settings->ssh_ports, &list, error);

	if (rc == 0)
		replace_list(shield, WR_PROTECT_SSH, &list);
	wr_protect_list_free(&list);
	shield->ssh_ms = mono_ms() + SSH_MS;
	return rc;
}

/* Reads all lists for the first time. Returns 0 or the first error. */
static int read_lists(struct shield *shield, struct weir_error *error)
{
	struct wr_protect_list trust = {0};
	int rc;

	if (!wr_protect_init(&shield->protect))
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = wr_protect_read_option(&shield->settings->trust, "--trust", false, &trust, error);
	if (rc == 0)
		replace_list(shield, WR_PROTECT_TRUST, &trust);
	wr_protect_list_free(&trust);
	shield->never_stamp = wr_protect_stamp(&shield->settings->never);
	if (shield->settings->rules)
		shield->rules_stamp = weir_rules_fingerprint(shield->settings->rules);
	rc = rc < 0 ? rc : read_never(shield, error);
	rc = rc < 0 ? rc : read_rules(shield, error);
	rc = rc < 0 ? rc : read_own(shield, error);
	return rc < 0 ? rc : read_ssh(shield, error);
}

static void warn_if(int rc, const struct weir_error *error)
{
	if (rc < 0)
		wr_log(WR_LOG_WARN, "%s; the former list stays in force", error->text);
}

/* Reads the lists again whose files have changed, or all of them. A list with an error keeps its
 * former contents. */
static void look_at_lists(struct shield *shield, bool all)
{
	struct weir_error error;
	const char *rules = shield->settings->rules;
	uint64_t never = wr_protect_stamp(&shield->settings->never);
	uint64_t stamp = rules ? weir_rules_fingerprint(rules) : 0;

	if (all || never != shield->never_stamp)
		warn_if(read_never(shield, &error), &error);
	if (all || stamp != shield->rules_stamp)
		warn_if(read_rules(shield, &error), &error);
	shield->never_stamp = never;
	shield->rules_stamp = stamp;
	warn_if(read_own(shield, &error), &error);
	if (all || mono_ms() >= shield->ssh_ms)
		warn_if(read_ssh(shield, &error), &error);
}

/* ---- planning ---- */

struct plan_context {
	struct wr_nft_plan *plan;
	const struct wr_protect *protect;
	uint32_t now_s;
};

static int plan_one(void *context, const struct wr_ban *ban)
{
	struct plan_context *to = context;

	wr_nft_plan_ban(to->plan, to->protect, ban, to->now_s);
	return 0;
}

/* Plans for the bans in the table. Returns false if there is no memory. */
static bool make_plan(struct shield *shield, uint32_t now_s, struct wr_nft_plan *plan)
{
	struct plan_context context = {plan, &shield->protect, now_s};

	shield->changes = wr_ban_changes(shield->table);
	wr_bans_each(shield->table, now_s, plan_one, &context);
	wr_nft_plan_finish(plan, shield->settings->design.size);
	return !plan->out_of_memory;
}

static bool was_skipped(const struct shield *shield, const struct wr_nft_skip *skip)
{
	size_t low = 0, high = shield->skip_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = wr_nft_element_compare(&shield->skips[middle].element, &skip->element);

		if (order == 0)
			return shield->skips[middle].kind == skip->kind;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* Logs the protected bans that the former plan did not have, and takes over plan->skips. */
static void log_skips(struct shield *shield, struct wr_nft_plan *plan)
{
	size_t fresh = 0;

	for (size_t i = 0; i < plan->skip_count; i++) {
		const struct wr_nft_skip *skip = &plan->skips[i];
		char text[WR_ADDRESS_TEXT];
		size_t len;

		if (was_skipped(shield, skip) || ++fresh > SKIPS_LOGGED)
			continue;
		len = wr_address_text(&skip->element.address, skip->element.bits, text);
		wr_log(WR_LOG_WARN, "%.*s is banned, but its packets pass: %s", (int)len, text,
		       wr_protect_reason(skip->kind));
	}
	if (fresh > SKIPS_LOGGED)
		wr_log(WR_LOG_WARN, "… and %zu more bans of protected addresses",
		       fresh - SKIPS_LOGGED);
	free(shield->skips);
	shield->skips = plan->skips;
	shield->skip_count = plan->skip_count;
	plan->skips = NULL;
	plan->skip_count = 0;
}

static void log_full(struct shield *shield, size_t left_out)
{
	if (left_out && !shield->was_full)
		wr_log(WR_LOG_WARN,
		       "%zu bans do not fit into the kernel's sets; the gateway still refuses "
		       "these "
		       "clients. --size N raises the maximum of %u",
		       left_out, shield->settings->design.size);
	shield->was_full = left_out > 0;
}

/* ---- the kernel ---- */

static void count_elements(struct shield *shield)
{
	uint64_t counts[WR_NFT_SET_COUNT] = {0};

	for (size_t i = 0; i < shield->present.elements.count; i++)
		counts[shield->present.elements.items[i].set]++;
	shield->state.elements_v4 = counts[WR_NFT_BANNED4];
	shield->state.elements_v6 = counts[WR_NFT_BANNED6];
	shield->state.prefixes = counts[WR_NFT_NETS4] + counts[WR_NFT_NETS6];
}

/* Notes a failed change. The next attempt writes the whole table, since the kernel may have a part
 * of the change, and since another program may have removed the table. */
static void note_failure(struct shield *shield, const struct weir_error *error)
{
	uint64_t wait_ms = shield->retry_wait_ms ? shield->retry_wait_ms * 2 : RETRY_MIN_MS;

	shield->retry_wait_ms = wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
	shield->retry_ms = mono_ms() + shield->retry_wait_ms;
	shield->present.has_table = false;
	shield->replan = true;
	shield->state.failures++;
	wr_log(WR_LOG_ERROR, "%s; next attempt in %llu s", error->text,
	       (unsigned long long)shield->retry_wait_ms / 1000);
}

/* Brings the kernel to the plan, and takes over plan->wanted. Returns 0 or an error. */
static int apply(struct shield *shield, struct wr_nft_plan *plan, uint64_t now_ms,
		 struct weir_error *error)
{
	int rc = 0;

	if (!shield->present.has_table)
		return wr_nft_apply_all(shield->nft, &shield->settings->design, &shield->protect,
					plan, now_ms, &shield->present, error);
	if (shield->protect_differs)
		rc = wr_nft_apply_protect(shield->nft, &shield->protect, error);
	return rc < 0 ? rc
		      : wr_nft_apply_changes(shield->nft, plan, now_ms, &shield->present, error);
}

/* Plans and brings the kernel to the plan. Returns 0 or an error. */
static int carry(struct shield *shield, struct weir_error *error)
{
	struct wr_nft_plan plan = {0};
	uint64_t now_ms = wall_ms(shield);
	int rc = 0;

	if (!make_plan(shield, (uint32_t)(now_ms / 1000), &plan))
		rc = wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc == 0) {
		shield->next_s = (uint32_t)(now_ms / 1000) + PLAN_S;
		if (plan.next_s < shield->next_s)
			shield->next_s = plan.next_s;
		shield->state.skipped = plan.skip_count;
		shield->state.left_out = plan.left_out;
		log_full(shield, plan.left_out);
		log_skips(shield, &plan);
	}
	if (rc == 0)
		rc = apply(shield, &plan, now_ms, error);
	wr_nft_plan_free(&plan);
	if (rc == 0) {
		shield->replan = false;
		shield->protect_differs = false;
		shield->retry_wait_ms = 0;
		count_elements(shield);
	}
	return rc;
}

/* ---- work of the loop ---- */

/* Opens the table again after a resize. The old one stays in use if this fails. */
static void follow_resize(struct shield *shield)
{
	const struct wr_nft_settings *settings = shield->settings;
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = settings->table_name,
				 .dir = settings->table_dir};
	struct weir_error error;
	struct weir_table *table;

	if (weir_moved(shield->table) == 0)
		return;
	if (weir_open(&opts, &table, &error) < 0) {
		wr_log(WR_LOG_WARN, "cannot open the resized table: %s", error.text);
		return;
	}
	weir_close(shield->table);
	shield->table = table;
	shield->replan = true;
	wr_log(WR_LOG_INFO, "opened the resized table");
}

static int64_t wall_offset_ns(void)
{
	return (int64_t)(wr_clock_wall_ns() - wr_clock_mono_ns());
}

/* Detects a step of the wall clock. The kernel's timeouts do not follow it. */
static void look_at_clock(struct shield *shield)
{
	int64_t offset = wall_offset_ns();
	int64_t moved = offset - shield->wall_offset_ns;

	if (moved > STEP_NS || moved < -STEP_NS) {
		wr_nft_present_doubt(&shield->present);
		shield->wall_offset_ns = offset;
		shield->replan = true;
	}
}

static void write_state(struct shield *shield)
{
	shield->state.pid = (uint64_t)getpid();
	shield->state.updated_s = wr_clock_wall_ns() / WR_SECOND_NS;
	wr_shield_state_write(shield->table, &shield->state);
}

static void work_each_second(struct shield *shield)
{
	struct weir_error error;

	follow_resize(shield);
	look_at_lists(shield, false);
	if (shield->present.has_table &&
	    wr_nft_count(&shield->state.packets, &shield->state.bytes, &error) < 0)
		note_failure(shield, &error);
	write_state(shield);
}

static void look(struct shield *shield)
{
	struct weir_error error;
	uint64_t now_ms = mono_ms();
	bool new_bans = wr_ban_changes(shield->table) != shield->changes;

	look_at_clock(shield);
	if (now_ms >= shield->second_ms) {
		work_each_second(shield);
		shield->second_ms = now_ms + SECOND_MS;
	}
	if (now_ms < shield->retry_ms ||
	    !(new_bans || shield->replan || wall_ms(shield) / 1000 >= shield->next_s))
		return;
	if (new_bans) /* so that the ban of a connected administrator is recognised at once */
		warn_if(read_ssh(shield, &error), &error);
	if (carry(shield, &error) < 0)
		note_failure(shield, &error);
	write_state(shield);
}

/* Waits for a signal. Returns its number, or 0 after LOOK_MS. */
static unsigned wait_for_signal(struct shield *shield)
{
	struct pollfd poll_fd = {.fd = shield->signals, .events = POLLIN};
	struct signalfd_siginfo info;

	if (poll(&poll_fd, 1, LOOK_MS) <= 0 ||
	    read(shield->signals, &info, sizeof info) != (ssize_t)sizeof info)
		return 0;
	return info.ssi_signo;
}

static void run_loop(struct shield *shield)
{
	for (;;) {
		unsigned number = wait_for_signal(shield);

		if (number == SIGTERM || number == SIGINT)
			return;
		if (number == SIGHUP)
			look_at_lists(shield, true);
		look(shield);
	}
}

/* ---- start and end ---- */

static int open_table(struct shield *shield, struct weir_error *error)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = shield->settings->table_name,
				 .dir = shield->settings->table_dir};
	int rc = weir_open(&opts, &shield->table, error);

	if (rc == WEIR_ENOENT)
		return wr_error(error, rc,
				"there is no table %s: start weir gateway or weir serve first, or "
				"name the table with --table and --dir",
				opts.name ? opts.name : "default");
	return rc;
}

static int open_signals(struct shield *shield, struct weir_error *error)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	shield->signals = signalfd(-1, &set, SFD_CLOEXEC);
	return shield->signals < 0 ? wr_error_errno(error, WEIR_ESYS, "signalfd") : 0;
}

/* Refuses a second shield in this network namespace. A table without a living owner is left from a
 * shield that was killed, or that ended with --leave; it is replaced. */
static int check_owner(struct weir_error *error)
{
	long owner = wr_nft_owner();

	if (wr_nft_is_shield(owner))
		return wr_error(error, WEIR_EINVAL,
				"weir shield already runs in this network namespace: process %ld; "
				"stop it first",
				owner);
	if (owner)
		wr_log(WR_LOG_INFO, "replaces the table of process %ld, which has ended", owner);
	return 0;
}

static int start(struct shield *shield, struct weir_error *error)
{
	int rc = wr_nft_rights_check(error);

	rc = rc < 0 ? rc : open_table(shield, error);
	if (rc == 0) {
		shield->lock = wr_nft_lock(shield->table->path, error);
		rc = shield->lock < 0 ? shield->lock : 0;
	}
	rc = rc < 0 ? rc : open_signals(shield, error);
	rc = rc < 0 ? rc : wr_nft_open(&shield->nft, error);
	rc = rc < 0 ? rc : wr_nft_rights_drop(&shield->settings->user, error);
	rc = rc < 0 ? rc : wr_nft_filter_load(error);
	rc = rc < 0 ? rc : read_lists(shield, error);
	rc = rc < 0 ? rc : check_owner(error);
	return rc < 0 ? rc : carry(shield, error);
}

static void end(struct shield *shield)
{
	struct weir_error error;

	if (shield->present.has_table) {
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

static void free_all(struct shield *shield)
{
	wr_nft_elements_free(&shield->present.elements);
	wr_protect_free(&shield->protect);
	free(shield->skips);
	wr_nft_close(shield->nft);
	if (shield->table)
		weir_close(shield->table);
	if (shield->signals >= 0)
		close(shield->signals);
	if (shield->lock >= 0)
		close(shield->lock);
}

int wr_nft_run_shield(const struct wr_nft_settings *settings, struct weir_error *error)
{
	struct shield shield = {.settings = settings,
				.signals = -1,
				.lock = -1,
				.wall_offset_ns = wall_offset_ns()};
	int rc = start(&shield, error);

	if (rc == 0) {
		write_state(&shield);
		wr_log(WR_LOG_INFO, "ready: %llu IPv4 addresses, %llu IPv6 networks, %llu prefixes",
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
	struct shield shield = {.settings = settings,
				.signals = -1,
				.lock = -1,
				.wall_offset_ns = wall_offset_ns()};
	struct wr_nft_plan plan = {0};
	uint64_t now_ms = wall_ms(&shield);
	int rc = open_table(&shield, error);

	rc = rc < 0 ? rc : read_lists(&shield, error);
	if (rc == 0 &&
	    (!make_plan(&shield, (uint32_t)(now_ms / 1000), &plan) ||
	     !wr_nft_text_all(buf, &settings->design, &shield.protect, &plan, now_ms, getpid())))
		rc = wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc == 0)
		log_skips(&shield, &plan);
	wr_nft_plan_free(&plan);
	free_all(&shield);
	return rc;
}
