/* Settles an ask when the response is known: weir_ask_settles, weir_ask_reader, weir_ask_settle and
 * weir_ask_settle_outcome. Called by hosts that see responses.
 *
 * Each descriptor has an actual cost, which its entry of `requests:` tells. Each need is then
 * settled on its own: in the table, in a lease, or by a message to the central store. */
#include "limiter/settle.h"

#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "base/versioned.h"
#include "limiter/candidates.h"
#include "limiter/lease.h"
#include "limiter/share.h"
#include "rules/cost.h"
#include "store/lease.h"

#define HEADER_VALUES 16 /* maximum number of header fields of one name that are read */

/* Returns the JSON pointer that tells the actual cost of the descriptor, or an empty text. */
static struct weir_str pointer_of(const struct wr_ask_descriptor *descriptor)
{
	const struct wr_rules_request *request = descriptor->request;

	if (request && request->cost && request->cost->settles &&
	    request->cost->actual.from == WR_COST_RESPONSE_JSON)
		return request->cost->actual.name;
	return WR_STR("");
}

int weir_ask_settles(const struct weir_ask *ask)
{
	int flags = 0;

	if (!wr_ask_ok(ask) || ask->state != WR_ASK_DECIDED)
		return WEIR_EINVAL;
	if ((ask->verdict != WEIR_ADMIT && ask->verdict != WEIR_DELAY) || ask->cancelled ||
	    ask->settled || !ask->settles)
		return 0;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (!wr_ask_need_is_taken(ask, need))
			continue;
		if (wr_ask_need_is_slot(need))
			flags |= WEIR_SETTLE_NEEDED | WEIR_SETTLE_SLOT;
		if (!wr_ask_need_settles(ask, need))
			continue;
		flags |= WEIR_SETTLE_NEEDED;
		if (pointer_of(&ask->descriptors[need->descriptor]).len)
			flags |= WEIR_SETTLE_BODY;
	}
	return flags;
}

/* Lists the JSON pointers of the ask, each once, in the order of the descriptors. Returns their
 * number. */
static size_t list_pointers(const struct weir_ask *ask,
			    struct weir_str pointers[WEIR_READER_POINTERS_MAX])
{
	size_t count = 0;

	for (uint8_t i = 0; i < ask->descriptor_count && count < WEIR_READER_POINTERS_MAX; i++) {
		struct weir_str pointer = pointer_of(&ask->descriptors[i]);
		size_t at = 0;

		while (at < count && !wr_str_equal(pointers[at], pointer))
			at++;
		if (pointer.len && at == count)
			pointers[count++] = pointer;
	}
	return count;
}

int weir_ask_reader(struct weir_ask *ask, void *memory, size_t size, struct weir_str content_type,
		    struct weir_reader **reader)
{
	struct weir_str pointers[WEIR_READER_POINTERS_MAX];
	int flags = weir_ask_settles(ask), format;

	if (flags < 0 || !reader)
		return WEIR_EINVAL;
	format = weir_reader_format(content_type);
	if (!(flags & WEIR_SETTLE_BODY) || format == 0)
		return WEIR_ENOENT;
	return weir_reader_init(memory, size, pointers, list_pointers(ask, pointers), format,
				reader);
}

/* ---- the actual cost ---- */

/* Reads the values of a header field of the response. Returns the number of values. */
static size_t header_values(const struct weir_outcome *outcome, struct weir_str name,
			    struct weir_str values[HEADER_VALUES])
{
	size_t count = 0;

	if (outcome->header) {
		count = outcome->header(outcome->context, name, values, HEADER_VALUES);
		return count < HEADER_VALUES ? count : HEADER_VALUES;
	}
	for (size_t i = 0; i < outcome->header_count && count < HEADER_VALUES; i++)
		if (wr_str_equal_nocase(outcome->headers[i].name, name))
			values[count++] = outcome->headers[i].value;
	return count;
}

/* Reads a number from a header field of the response. If there are several fields, the largest
 * number counts. Returns false if there is no number. */
static bool read_header(const struct weir_outcome *outcome, struct weir_str name, int64_t *value)
{
	struct weir_str values[HEADER_VALUES];

	return wr_rules_cost_largest(values, header_values(outcome, name, values), value);
}

static bool read_json(const struct weir_ask *ask, const struct weir_outcome *outcome,
		      struct weir_str pointer, int64_t *value)
{
	struct weir_str pointers[WEIR_READER_POINTERS_MAX];
	size_t count = list_pointers(ask, pointers);

	for (size_t i = 0; outcome->reader && i < count; i++)
		if (wr_str_equal(pointers[i], pointer))
			return weir_reader_value(outcome->reader, i, value) == WEIR_READER_FOUND;
	return false;
}

static bool read_actual(const struct weir_ask *ask, const struct weir_outcome *outcome,
			const struct wr_rules_cost_source *source, int64_t *value)
{
	switch ((enum wr_cost_from)source->from) {
	case WR_COST_RESPONSE_HEADER:
		return read_header(outcome, source->name, value);
	case WR_COST_RESPONSE_JSON:
		return read_json(ask, outcome, source->name, value);
	case WR_COST_RESPONSE_BYTES:
		*value = outcome->bytes < INT64_MAX ? (int64_t)outcome->bytes : INT64_MAX;
		return outcome->status != 0;
	case WR_COST_RESPONSE_STATUS:
		*value = outcome->status;
		return outcome->status != 0;
	case WR_COST_RESPONSE_TIME_MS:
		*value = (int64_t)(outcome->time_ns / 1000000 + (outcome->time_ns % 1000000 != 0));
		return true;
	case WR_COST_NUMBER:
		*value = source->otherwise;
		return true;
	case WR_COST_HEADER:
	case WR_COST_QUERY:
	case WR_COST_REQUEST_BYTES:
		break;
	}
	return false;
}

/* Returns the units that the descriptor reserves, which was charged `charged` units. They differ if
 * the length of the body was not known at arrival, and has been received since. */
static int64_t reserved_cost(struct wr_ask_descriptor *descriptor, int64_t charged,
			     const struct weir_outcome *outcome)
{
	const struct wr_rules_cost_source *source;
	int64_t bytes, units;
	enum wr_cost_note note;

	if (descriptor->cost_note != WR_COST_LENGTH_LATER)
		return charged;
	source = &descriptor->request->cost->arrival;
	bytes = outcome->request_bytes < INT64_MAX ? (int64_t)outcome->request_bytes : INT64_MAX;
	units = wr_rules_cost_value(source, outcome->request_known, bytes, &note);
	descriptor->actual_note = (uint8_t)note;
	return outcome->request_known ? units : charged;
}

/* Returns the actual cost of the descriptor, which was charged `charged` units. */
static int64_t actual_cost(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
			   int64_t charged, const struct weir_outcome *outcome)
{
	const struct wr_rules_request *request = descriptor->request;
	enum wr_cost_note note = WR_COST_AS_GIVEN;
	int64_t value = 0;

	charged = reserved_cost(descriptor, charged, outcome);
	if (request->count && !wr_rules_counts_status(request->count, outcome->status))
		return 0;
	if (!request->cost || !request->cost->settles)
		return charged;

	const struct wr_rules_cost_source *source = &request->cost->actual;
	bool found = read_actual(ask, outcome, source, &value);

	/* A client must not lower its cost by leaving early: then the reservation stays, whatever
	 * `default` is. */
	if ((outcome->status == 0 || outcome->incomplete) && !found)
		return charged;
	value = wr_rules_cost_value(source, found, value, &note);
	descriptor->actual_note = (uint8_t)note;
	if (value == WR_COST_RESERVED || (outcome->status == 0 && value < charged))
		return charged;
	return value;
}

/* ---- settling ---- */

/* Settles this node's own counter of a limit that the central store decides (share.c). */
static void settle_booked(struct weir_ask *ask, struct wr_ask_need *need, int64_t charged,
			  int64_t actual, uint64_t now_ns)
{
	if (need->booked && actual < charged)
		wr_ask_need_unbook(ask, need, charged - actual, now_ns);
	else if (actual > charged)
		wr_ask_need_book_more(ask, need, actual - charged, now_ns);
}

/* Takes units that the request used beyond its reserved ones from the lease. Returns the number of
 * units that the lease does not have. */
static uint64_t owe_lease(struct weir_ask *ask, const struct wr_ask_need *need, uint64_t units)
{
	const struct weir_limit *limit = need->need.limit;
	uint64_t identity = wr_store_lease_identity(limit->limit, limit->burst, need->granted);

	return units - wr_store_lease_spend_rest(ask->engine->table, need->need.key, identity,
						 units, wr_engine_mono_ns(ask->engine));
}

/* Settles units that are counted in the central store: in the lease, and with a message. */
static void settle_centrally(struct weir_ask *ask, struct wr_ask_need *need, int64_t charged,
			     int64_t actual, uint64_t now_ns, uint64_t *returned, uint64_t *owed)
{
	uint64_t message;

	*returned = actual < charged ? (uint64_t)(charged - actual) : 0;
	*owed = actual > charged ? (uint64_t)(actual - charged) : 0;
	message = *returned + *owed; /* one of the two is 0 */
	settle_booked(ask, need, charged, actual, now_ns);
	if (*owed) /* an operator can have changed the grant since the decision */
		wr_ask_need_find_grant(ask, need, now_ns);
	if (need->decided_by == WR_NEED_LEASED && *returned) {
		wr_ask_need_lease_return(ask, need, (int64_t)*returned,
					 wr_engine_mono_ns(ask->engine));
		return;
	}
	if (*owed && wr_ask_need_owes_lease(need))
		message = owe_lease(ask, need, *owed);
	if (!ask->no_secret && message) {
		need->message = *returned ? WR_MESSAGE_RETURN : WR_MESSAGE_OWE;
		need->message_cost = (int64_t)message;
	}
}

/* Settles units that this node admitted without the central store. The report of these units then
 * contains the actual units. If the report was sent already, a debt is charged with a message.
 * Units are not given back with a message: the central store may not have counted the report yet,
 * and would give back units of other requests. Then *returned is set to 0, because only this node's
 * own counter got the units back. */
static void settle_report(const struct weir_ask *ask, struct wr_ask_need *need, int64_t charged,
			  int64_t actual, uint64_t *returned)
{
	if (need->message == WR_MESSAGE_REPORT) {
		need->message = actual ? WR_MESSAGE_REPORT : WR_MESSAGE_NONE;
		need->message_cost = actual;
	} else if (wr_ask_need_is_reported(ask, need)) {
		*returned = 0;
		need->message = actual > charged ? WR_MESSAGE_OWE : WR_MESSAGE_NONE;
		need->message_cost = actual > charged ? actual - charged : 0;
	}
}

/* The decision of a need that was restored from a reservation has no numbers. */
uint32_t wr_ask_need_used_after(const struct wr_ask_need *need)
{
	const struct weir_decision *decision = &need->need.decision;
	uint64_t used;

	if (need->decided_by != WR_NEED_TABLE || decision->limit == 0)
		return need->used;
	used = need->given ? wr_store_units_used(decision) : 0;
	return used < UINT32_MAX ? (uint32_t)used : UINT32_MAX;
}

/* Settles one counter: `actual` units were used instead of need->need.cost. */
static void settle_need(struct weir_ask *ask, struct wr_ask_need *need, int64_t actual,
			uint64_t now_ns)
{
	struct wr_need *one = &need->need;
	int64_t charged = one->cost;
	uint64_t returned = 0, owed = 0;
	struct weir_decision after;

	if (wr_ask_need_is_slot(need))
		actual = 0;
	if (one->limit->algorithm == WEIR_LEAKY_BUCKET)
		return;
	if (actual != charged && need->decided_by == WR_NEED_TABLE) {
		struct wr_store_taken taken = {.charged_ns = one->decision.charged_ns,
					       .used = wr_ask_need_used_after(need),
					       .given = need->given};

		wr_store_settle(ask->engine->table, one->limit, one->key, charged, actual, &taken,
				now_ns, &returned, &owed, &after);
		wr_ask_need_exchange_settle(ask, need, returned, owed);
		settle_report(ask, need, charged, actual, &returned);
	} else if (actual != charged) {
		settle_centrally(ask, need, charged, actual, now_ns, &returned, &owed);
	}
	if (!wr_ask_need_is_slot(need) && returned > ask->returned)
		ask->returned = returned;
	if (owed > ask->owed)
		ask->owed = owed;
	if (need->rule && need->rule->candidate_count)
		wr_candidates_settle(ask, need, actual, now_ns);
	wr_ask_count_settled(ask, need, (uint64_t)charged, (uint64_t)actual, returned, owed,
			     now_ns);
}

/* Settles all counters. actual[i] is the actual cost of descriptor i. Several needs can have the
 * same counter; their actual costs are added up. */
static void settle_needs(struct weir_ask *ask, const int64_t *actual, uint64_t now_ns)
{
	int64_t sums[WEIR_NEEDS_MAX] = {0};

	ask->actual = 0;
	for (uint8_t i = 0; i < ask->descriptor_count; i++)
		ask->actual = actual[i] > ask->actual ? actual[i] : ask->actual;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (need->counts &&
		    __builtin_add_overflow(sums[need->same_as], actual[need->descriptor],
					   &sums[need->same_as]))
			sums[need->same_as] = INT64_MAX;
	}
	for (uint8_t i = 0; i < ask->need_count; i++)
		if (ask->needs[i].same_as == i && wr_ask_need_is_taken(ask, &ask->needs[i]))
			settle_need(ask, &ask->needs[i], sums[i], now_ns);
	ask->settled = true;
}

static int check_settle(const struct weir_ask *ask, uint64_t now_ns)
{
	if (!wr_ask_ok(ask) || ask->state != WR_ASK_DECIDED || ask->cancelled || ask->settled)
		return WEIR_EINVAL;
	return now_ns > INT64_MAX ? WEIR_ETIME : 0;
}

/* Returns the number of units that each need of the descriptor was charged, slots excepted. */
static int64_t charged_cost(const struct weir_ask *ask, const struct wr_ask_descriptor *descriptor)
{
	for (uint8_t i = 0; i < descriptor->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[descriptor->first_need + i];

		if (!wr_ask_need_is_slot(need) && need->counts)
			return need->own_cost;
	}
	return 0;
}

int weir_ask_settle_outcome(struct weir_ask *ask, const struct weir_outcome *given, uint64_t now_ns)
{
	int64_t actual[WEIR_DESCRIPTORS_MAX];
	struct weir_outcome outcome;
	int rc = check_settle(ask, now_ns);

	if (rc)
		return rc;
	if (!given || !wr_versioned_read(given, &outcome, sizeof outcome,
					 offsetof(struct weir_outcome, bytes)))
		return WEIR_EINVAL;
	for (uint8_t i = 0; i < ask->descriptor_count; i++) {
		struct wr_ask_descriptor *descriptor = &ask->descriptors[i];
		int64_t charged = charged_cost(ask, descriptor);

		actual[i] = descriptor->request ? actual_cost(ask, descriptor, charged, &outcome)
						: charged;
	}
	settle_needs(ask, actual, now_ns);
	return 0;
}

int weir_ask_settle(struct weir_ask *ask, int64_t actual, uint64_t now_ns)
{
	int64_t each[WEIR_DESCRIPTORS_MAX];
	int rc = check_settle(ask, now_ns);

	if (rc)
		return rc;
	if (actual < 0)
		return WEIR_EINVAL;
	for (uint8_t i = 0; i < ask->descriptor_count; i++)
		each[i] = actual;
	settle_needs(ask, each, now_ns);
	return 0;
}

int weir_ask_cost(const struct weir_ask *ask, int64_t *charged, int64_t *actual)
{
	int64_t largest = 0;

	if (!wr_ask_ok(ask) || ask->state != WR_ASK_DECIDED || !charged)
		return WEIR_EINVAL;
	for (uint8_t i = 0; i < ask->need_count; i++) {
		const struct wr_ask_need *need = &ask->needs[i];

		if (!wr_ask_need_is_slot(need) && need->own_cost > largest)
			largest = need->own_cost;
	}
	*charged = largest;
	if (actual)
		*actual = ask->settled ? ask->actual : -1;
	return 0;
}
