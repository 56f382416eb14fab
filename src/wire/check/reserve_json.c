/* Reads and writes the JSON of reservations (reserve_json.h). Called by serve/http/reserve.c. */
#include "wire/check/reserve_json.h"

#include "limiter/reservation.h"

#define SECOND_NS 1000000000ull

static const char *const reserve_members[] = {"ttl", NULL};
static const char *const settle_members[] = {"reservation", "actual", NULL};

int wr_check_open_reserve(struct wr_check *check, struct weir_str body, uint64_t *ttl_ns,
			  struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, "ttl", 0};
	int64_t ttl_s = 0;
	const json_t *ttl;

	*check = (struct wr_check){.document = wr_wire_json_read(body, problem),
				   .members = WR_CHECK_MEMBERS ", ttl",
				   .others = reserve_members};
	if (!check->document || wr_check_open_document(check, problem) != 0)
		return -1;
	ttl = json_object_get(check->document, "ttl");
	if (ttl && wr_wire_json_get_int(ttl, &at, 1, WR_RESERVATION_TTL_MAX_NS / SECOND_NS, &ttl_s,
					problem) != 0) {
		wr_check_close(check);
		return -1;
	}
	*ttl_ns = (uint64_t)ttl_s * SECOND_NS;
	return 0;
}

static int read_token(struct wr_check_settle *settle, struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, "reservation", 0};
	const json_t *value = json_object_get(settle->check.document, "reservation");

	if (!value)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL,
				     "\"reservation\" is missing");
	return wr_wire_json_get_text(value, &at, &settle->token, problem);
}

static int read_actual(struct wr_check_settle *settle, struct wr_problem *problem)
{
	struct wr_wire_json_at at = {NULL, "actual", 0};
	const json_t *value = json_object_get(settle->check.document, "actual");

	if (!value)
		return wr_problem_at(problem, WR_MISSING_MEMBER, NULL, "\"actual\" is missing");
	return wr_wire_json_get_int(value, &at, 0, WR_CHECK_HITS_MAX, &settle->actual, problem);
}

/* Checks that the body has no other members than the reservation. */
static int check_members(const struct wr_check_settle *settle, bool commits,
			 struct wr_problem *problem)
{
	const char *name;
	json_t *value;

	json_object_foreach(settle->check.document, name, value) {
		struct wr_wire_json_at at = {NULL, name, 0};

		if (strcmp(name, "reservation") != 0 && !(commits && strcmp(name, "actual") == 0))
			return wr_wire_json_unknown(
				&at, commits ? settle->check.members : "reservation", problem);
	}
	return 0;
}

static bool describes_request(const json_t *document)
{
	return json_object_get(document, "domain") || json_object_get(document, "descriptors") ||
	       json_object_get(document, "request");
}

/* Checks the description of the request, although it is needed only if the reservation is unknown.
 * The actual cost is that of each descriptor, so the description has no costs. It has no limits
 * either, because a reservation has none. */
static int check_description(const struct wr_check *check, struct wr_problem *problem)
{
	static const char *const surplus[] = {"hits", "limit"};
	struct wr_wire_json_at hits = {NULL, "hits", 0}, list = {NULL, "descriptors", 0};
	json_t *descriptor;
	size_t i;

	if (json_object_get(check->document, "hits"))
		return wr_wire_json_unknown(&hits, check->members, problem);
	if (wr_check_add(check, 0, NULL, problem) != 0)
		return -1;
	json_array_foreach(json_object_get(check->document, "descriptors"), i, descriptor) {
		struct wr_wire_json_at item = {&list, NULL, i};

		for (size_t j = 0; j < sizeof surplus / sizeof *surplus; j++) {
			struct wr_wire_json_at at = {&item, surplus[j], 0};

			if (json_object_get(descriptor, surplus[j]))
				return wr_wire_json_unknown(&at, "entries", problem);
		}
	}
	return 0;
}

static int read_settle(struct wr_check_settle *settle, bool commits, struct wr_problem *problem)
{
	if (wr_wire_json_need_object(settle->check.document, NULL, problem) != 0 ||
	    read_token(settle, problem) != 0 || (commits && read_actual(settle, problem) != 0))
		return -1;
	if (!commits || !describes_request(settle->check.document))
		return check_members(settle, commits, problem);
	settle->check.count = 1;
	return 0;
}

int wr_check_open_settle(struct wr_check_settle *settle, struct weir_str body, bool commits,
			 struct wr_problem *problem)
{
	*settle = (struct wr_check_settle){
		.check = {.document = wr_wire_json_read(body, problem),
			  .members = "reservation, actual, domain, descriptors, request",
			  .others = settle_members}};
	if (!settle->check.document)
		return -1;
	if (read_settle(settle, commits, problem) != 0) {
		wr_check_close(&settle->check);
		return -1;
	}
	if (settle->check.count == 0)
		return 0;
	if (wr_check_open_document(&settle->check, problem) != 0)
		return -1;
	if (check_description(&settle->check, problem) == 0)
		return 0;
	wr_check_close(&settle->check);
	return -1;
}

void wr_check_answer_settled(const char *status, uint64_t refunded, uint64_t charged,
			     struct wr_json_out *json)
{
	wr_json_object(json);
	wr_json_member_string(json, "status", wr_str(status));
	wr_json_member_uint(json, "refunded", refunded);
	wr_json_member_uint(json, "charged", charged);
	wr_json_end_object(json);
}
