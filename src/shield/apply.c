/* Writes plans to the kernel; see apply.h. */
#include "shield/apply.h"

#include <unistd.h>

#include "base/error.h"
#include "shield/nft.h"

#define TEXT_MAX ((size_t)1 << 30)

static int no_memory(struct weir_error *error)
{
	return wr_error(error, WEIR_EMEMORY, "out of memory");
}

/* Runs the commands in the buffer and empties it. */
static int run_buffer(struct nft_ctx *nft, struct wr_buf *buf, struct weir_error *error)
{
	int rc = 0;

	if (wr_buf_failed(buf))
		return no_memory(error);
	if (buf->len)
		rc = wr_nft_run(nft, buf->ptr, error);
	wr_buf_clear(buf);
	return rc;
}

/* ---- the whole table ---- */

static bool put_protect(struct wr_buf *buf, const struct wr_protect *protect, bool v4)
{
	struct wr_protect_list all = {0};
	bool ok = wr_protect_all(protect, v4, &all);

	if (ok)
		wr_nft_text_never(buf, v4, &all);
	wr_protect_list_free(&all);
	return ok;
}

bool wr_nft_text_all(struct wr_buf *buf, const struct wr_nft_design *design,
		     const struct wr_protect *protect, const struct wr_nft_plan *plan,
		     uint64_t now_ms, long pid)
{
	wr_nft_text_table(buf, design, pid);
	if (!put_protect(buf, protect, true) || !put_protect(buf, protect, false))
		return false;
	for (unsigned set = 0; set < WR_NFT_SET_COUNT; set++) {
		struct wr_nft_elements part = wr_nft_elements_of_set(&plan->wanted, set);

		for (size_t at = 0; at < part.count; at += WR_NFT_BATCH) {
			size_t count = part.count - at;

			wr_nft_text_add(buf, part.items + at,
					count < WR_NFT_BATCH ? count : WR_NFT_BATCH, false, now_ms);
		}
	}
	return !wr_buf_failed(buf);
}

/* Makes the plan's elements the present ones. */
static void take_over(struct wr_nft_plan *plan, struct wr_nft_present *present)
{
	wr_nft_elements_free(&present->elements);
	present->elements = plan->wanted;
	plan->wanted = (struct wr_nft_elements){0};
	present->has_table = true;
}

int wr_nft_apply_all(struct nft_ctx *nft, const struct wr_nft_design *design,
		     const struct wr_protect *protect, struct wr_nft_plan *plan, uint64_t now_ms,
		     struct wr_nft_present *present, struct weir_error *error)
{
	struct wr_buf buf;
	int rc;

	wr_buf_init(&buf, TEXT_MAX);
	rc = wr_nft_text_all(&buf, design, protect, plan, now_ms, getpid())
		     ? run_buffer(nft, &buf, error)
		     : no_memory(error);
	wr_buf_free(&buf);
	if (rc == 0)
		take_over(plan, present);
	return rc;
}

/* ---- changes ---- */

enum step { STEP_ADD, STEP_RENEW, STEP_DELETE };

/* Writes the elements of the hash sets in transactions of at most WR_NFT_BATCH elements. The
 * elements of a command are in one set. */
static int run_steps(struct nft_ctx *nft, const struct wr_nft_elements *elements, enum step step,
		     uint64_t now_ms, struct wr_buf *buf, struct weir_error *error)
{
	size_t at = 0;

	while (at < elements->count) {
		const struct wr_nft_element *items = elements->items + at;
		size_t count = 0;
		int rc;

		while (at + count < elements->count && count < WR_NFT_BATCH &&
		       items[count].set == items[0].set)
			count++;
		if (step == STEP_DELETE)
			wr_nft_text_delete(buf, items, count);
		else
			wr_nft_text_add(buf, items, count, step == STEP_RENEW, now_ms);
		rc = run_buffer(nft, buf, error);
		if (rc < 0)
			return rc;
		at += count;
	}
	return 0;
}

static int run_nets(struct nft_ctx *nft, const struct wr_nft_changes *changes,
		    const struct wr_nft_elements *wanted, uint64_t now_ms, struct wr_buf *buf,
		    struct weir_error *error)
{
	for (unsigned set = WR_NFT_NETS4; set <= WR_NFT_NETS6; set++) {
		struct wr_nft_elements part = wr_nft_elements_of_set(wanted, set);

		if (changes->nets_differ[set])
			wr_nft_text_nets(buf, set, &part, now_ms);
	}
	return run_buffer(nft, buf, error);
}

int wr_nft_apply_changes(struct nft_ctx *nft, struct wr_nft_plan *plan, uint64_t now_ms,
			 struct wr_nft_present *present, struct weir_error *error)
{
	struct wr_nft_changes changes = {0};
	struct wr_buf buf;
	int rc = 0;

	wr_buf_init(&buf, TEXT_MAX);
	if (!wr_nft_diff(&present->elements, &plan->wanted, (uint32_t)(now_ms / 1000), &changes))
		rc = no_memory(error);
	/* First the removals: they make room, and a release is to take effect soon. */
	if (rc == 0)
		rc = run_steps(nft, &changes.remove, STEP_DELETE, now_ms, &buf, error);
	if (rc == 0)
		rc = run_nets(nft, &changes, &plan->wanted, now_ms, &buf, error);
	if (rc == 0)
		rc = run_steps(nft, &changes.add, STEP_ADD, now_ms, &buf, error);
	if (rc == 0)
		rc = run_steps(nft, &changes.renew, STEP_RENEW, now_ms, &buf, error);
	wr_buf_free(&buf);
	wr_nft_changes_free(&changes);
	if (rc == 0)
		take_over(plan, present);
	return rc;
}

int wr_nft_apply_protect(struct nft_ctx *nft, const struct wr_protect *protect,
			 struct weir_error *error)
{
	struct wr_buf buf;
	int rc;

	wr_buf_init(&buf, TEXT_MAX);
	rc = put_protect(&buf, protect, true) && put_protect(&buf, protect, false)
		     ? run_buffer(nft, &buf, error)
		     : no_memory(error);
	wr_buf_free(&buf);
	return rc;
}

void wr_nft_present_doubt(struct wr_nft_present *present)
{
	for (size_t i = 0; i < present->elements.count; i++)
		present->elements.items[i].until_s = WR_NFT_UNKNOWN;
}
