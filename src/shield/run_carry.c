/* Plans, and brings the kernel to the plan. Called by run.c. */
#include <stdlib.h>

#include "base/error.h"
#include "net/log.h"
#include "shield/run_impl.h"
#include "table/pause.h"

#define RETRY_MIN_MS 1000 /* wait after a failed change; doubled with each further failure */
#define RETRY_MAX_MS 30000
/* Interval of plans if neither the bans nor the time cause one. A writer that was killed may have left
 * the count of changes as it was. */
#define PLAN_S 60
#define SKIPS_LOGGED 20 /* maximum number of protected bans that one plan logs */

/* ---- planning ---- */

struct plan_context {
	struct wr_nft_plan *plan;
	const struct wr_protect *protect;
	struct wr_suspend suspend;
	uint32_t now_s;
};

static int plan_one(void *context, const struct wr_ban *ban)
{
	struct plan_context *to = context;
	struct wr_nft_element element;
	enum wr_suspend_kind kind;

	if (!wr_nft_element_of(ban, to->now_s, &element))
		return 0;
	kind = wr_suspend_find(&to->suspend, ban);
	if (kind != WR_SUSPEND_NONE)
		to->plan->suspended[kind]++;
	else
		wr_nft_plan_ban(to->plan, to->protect, ban, to->now_s);
	return 0;
}

bool wr_nft_make_plan(struct wr_nft_shield *shield, uint32_t now_s, struct wr_nft_plan *plan)
{
	struct plan_context context = {plan, &shield->protect, {0}, now_s};

	shield->changes = wr_ban_changes(shield->table);
	shield->pauses = wr_pause_stamp(shield->table);
	if (!wr_suspend_read(&context.suspend, shield->table, shield->rules))
		plan->out_of_memory = true;
	wr_bans_each(shield->table, now_s, plan_one, &context);
	wr_suspend_free(&context.suspend);
	wr_nft_plan_finish(plan, shield->settings->design.size);
	return !plan->out_of_memory;
}

static bool was_skipped(const struct wr_nft_shield *shield, const struct wr_nft_skip *skip)
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

static void log_suspended(struct wr_nft_shield *shield, const struct wr_nft_plan *plan)
{
	for (unsigned kind = 0; kind < WR_SUSPEND_NONE; kind++) {
		size_t count = plan->suspended[kind];

		if ((count == 0) != (shield->suspended[kind] == 0))
			wr_log(WR_LOG_INFO, "%s: %s",
			       count ? "skips bans" : "does not skip bans any more",
			       wr_suspend_reason((enum wr_suspend_kind)kind));
		shield->suspended[kind] = count;
	}
}

void wr_nft_log_skips(struct wr_nft_shield *shield, struct wr_nft_plan *plan)
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
	log_suspended(shield, plan);
}

static void log_full(struct wr_nft_shield *shield, size_t left_out)
{
	if (left_out && !shield->was_full)
		wr_log(WR_LOG_WARN,
		       "%zu bans do not fit into the kernel's sets, so these packets pass; the "
		       "gateway refuses only clients that rules or operators have banned. "
		       "--size N raises the maximum of %u",
		       left_out, shield->settings->design.size);
	shield->was_full = left_out > 0;
}

/* ---- the kernel ---- */

static size_t count_skipped(const struct wr_nft_plan *plan)
{
	size_t count = plan->skip_count;

	for (unsigned kind = 0; kind < WR_SUSPEND_NONE; kind++)
		count += plan->suspended[kind];
	return count;
}

static void count_elements(struct wr_nft_shield *shield)
{
	uint64_t counts[WR_NFT_SET_COUNT] = {0};

	for (size_t i = 0; i < shield->present.elements.count; i++)
		counts[shield->present.elements.items[i].set]++;
	shield->state.elements_v4 = counts[WR_NFT_BANNED4];
	shield->state.elements_v6 = counts[WR_NFT_BANNED6];
	shield->state.prefixes = counts[WR_NFT_NETS4] + counts[WR_NFT_NETS6];
}

void wr_nft_note_failure(struct wr_nft_shield *shield, const struct weir_error *error)
{
	uint64_t wait_ms = shield->retry_wait_ms ? shield->retry_wait_ms * 2 : RETRY_MIN_MS;

	shield->retry_wait_ms = wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
	shield->retry_ms = wr_nft_mono_ms() + shield->retry_wait_ms;
	shield->present.has_table = false;
	shield->replan = true;
	shield->state.failures++;
	wr_log(WR_LOG_ERROR, "%s; next attempt in %llu s", error->text,
	       (unsigned long long)shield->retry_wait_ms / 1000);
}

/* Brings the kernel to the plan, and takes over plan->wanted. Returns 0 or an error. */
static int apply(struct wr_nft_shield *shield, struct wr_nft_plan *plan, uint64_t now_ms,
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

int wr_nft_carry(struct wr_nft_shield *shield, struct weir_error *error)
{
	struct wr_nft_plan plan = {0};
	uint64_t now_ms = wr_nft_wall_ms(shield);
	int rc = 0;

	if (!wr_nft_make_plan(shield, (uint32_t)(now_ms / 1000), &plan))
		rc = wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc == 0) {
		shield->next_s = (uint32_t)(now_ms / 1000) + PLAN_S;
		if (plan.next_s < shield->next_s)
			shield->next_s = plan.next_s;
		shield->state.skipped = count_skipped(&plan);
		shield->state.left_out = plan.left_out;
		log_full(shield, plan.left_out);
		wr_nft_log_skips(shield, &plan);
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
