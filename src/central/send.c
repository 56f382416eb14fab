/* Sends questions whose sender gets no answer: give-backs, debts, reports, late takes and resets.
 * Called by the host through wr_central_send. */
#include <string.h>

#include "base/assert.h"
#include "central/inner.h"

static enum wr_call_kind call_kind(uint8_t question)
{
	switch (question) {
	case WR_QUESTION_RETURN:
	case WR_QUESTION_LATE:
		return WR_CALL_RETURN;
	case WR_QUESTION_OWE:
		return WR_CALL_OWE;
	case WR_QUESTION_REPORT:
		return WR_CALL_REPORT;
	case WR_QUESTION_RESET:
		return WR_CALL_RESET;
	}
	return WR_CALL_KINDS;
}

static void pass_on(struct wr_central *central, struct wr_call *call)
{
	if (!call)
		return;
	if (call->kind == WR_CALL_RESET) {
		wr_central_forget(central, call->key);
		wr_central_late_forget(central, call->key);
	}
	if (call->kind == WR_CALL_REPORT)
		wr_central_reports_add(central, call);
	else
		wr_call_send(central, call);
}

static void count_lost(struct wr_central *central, enum wr_call_kind kind)
{
	if (kind == WR_CALL_REPORT)
		central->counts.reports_lost++;
	if (kind == WR_CALL_RETURN)
		central->counts.returns_lost++;
	if (kind == WR_CALL_OWE)
		central->counts.owed_lost++;
	central->counts.faults[WR_FAULT_FULL]++;
}

/* Adds the part to the call if both have the same kind and key, the call has room, and neither belongs to a
 * counter whose units can be leased. Otherwise sends the call (or stores it, if it is a report) and
 * adds the part to a new call. Returns the call that contains the part, or NULL if there is no
 * memory. */
static struct wr_call *add_item(struct wr_central *central, struct wr_call *call,
				struct wr_central_part *part, enum wr_call_kind kind)
{
	bool joins = call && call->kind == kind && !call->leased && !part->leased &&
		     call->count < WR_TAKES_MAX && wr_central_same_key(call->key, part->key);

	if (!joins) {
		pass_on(central, call);
		call = wr_call_new(central, kind);
		if (!call) {
			count_lost(central, kind);
			wr_central_part_free(central, part);
			return NULL;
		}
		memcpy(call->key, part->key, sizeof call->key);
		call->leased = part->leased && kind != WR_CALL_RESET;
	}
	wr_call_add(call, part);
	return call;
}

/* Sends the items of a question. Late takes come from other processes of this node, whose asks
 * timed out before the answer came. If there is no memory for a late take, it is counted as a lost
 * give-back. */
static void send_items(struct wr_central *central, struct wr_central_question *reader)
{
	enum wr_call_kind kind = call_kind(reader->kind);
	struct wr_call *call = NULL;

	while (kind != WR_CALL_KINDS && reader->left) {
		struct wr_central_part *part = wr_central_part_new(central);

		if (!part) {
			count_lost(central, kind);
			break;
		}
		if (!wr_central_question_next(reader, part)) {
			wr_central_part_free(central, part);
			break;
		}
		if (reader->kind == WR_QUESTION_LATE)
			wr_central_late_add(central, part);
		else
			call = add_item(central, call, part, kind);
	}
	pass_on(central, call);
}

static enum wr_call_kind settled_kind(const struct wr_central_part *part)
{
	return part->take.cost < 0 ? WR_CALL_RETURN : WR_CALL_OWE;
}

void wr_central_send_settled(struct wr_central *central, struct wr_central_part *parts)
{
	struct wr_call *call = NULL;

	while (parts) {
		struct wr_central_part *part = parts;

		parts = part->call_next;
		call = add_item(central, call, part, settled_kind(part));
	}
	pass_on(central, call);
}

void wr_central_count_lost_part(struct wr_central_counts *counts,
				const struct wr_central_part *part)
{
	if (settled_kind(part) == WR_CALL_RETURN)
		counts->returns_lost++;
	else
		counts->owed_lost++;
}

void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns)
{
	struct wr_central_question reader;

	wr_central_enter(central, now_ns, mono_ns);
	if (wr_central_question_open(&reader, question, len))
		send_items(central, &reader);
	wr_central_exit(central);
}

void wr_central_forget(struct wr_central *central, const uint64_t key[2])
{
	wr_assert(central->magic == WR_CENTRAL_MAGIC);
	wr_refusals_forget(central->refusals, key);
	if (key)
		wr_central_lease_holds_void(central, key);
}
