/* Requests whose cost is known only after the response: reservations, debt, counting by status, and
 * limits on concurrent requests. */
#include "helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/ask.h"

static const char llm[] =
	"domain: d\n"
	"requests:\n"
	"- when: {path: /chat}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost:\n"
	"    reserve: {from: header.x-max-tokens, default: 200, max: 400}\n"
	"    actual: {from: response.json./usage/total_tokens, default: reserved}\n"
	"- when: {path: /graphql}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {from: header.x-query-cost, default: 1, max: 100}\n"
	"- when: {path: /login}\n"
	"  descriptor: [{key: login, from: remote_address}]\n"
	"  count: {status: [401, 403]}\n"
	"- when: {path: '/v1/*'}\n"
	"  descriptor: [{key: user, from: identity}]\n"
	"  count: {except: [5xx]}\n"
	"- when: {path: /head}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {reserve: 100, actual: {from: response.header.x-cost, default: 7, max: 300}}\n"
	"- when: {path: /bytes}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {reserve: 0, actual: {from: response.bytes}}\n"
	"- when: {path: /time}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {reserve: 10, actual: {from: response.time_ms}}\n"
	"- when: {path: /upload}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {from: request.bytes, default: 9, max: 700}\n"
	"- when: {path: /upload-counted}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost: {from: request.bytes, max: 700}\n"
	"  count: {except: [5xx]}\n"
	"- when: {path: /upload-settled}\n"
	"  descriptor: [{key: tenant, from: identity}]\n"
	"  cost:\n"
	"    reserve: {from: request.bytes, max: 700}\n"
	"    actual: {from: response.header.x-cost, default: reserved}\n"
	"descriptors:\n"
	"- key: tenant\n"
	"  rate_limits:\n"
	"  - {unit: hour, requests_per_unit: 1000, name: tokens, max_debt: 500}\n"
	"  - {concurrent: 2, max_hold: 2m, name: in-flight}\n"
	"- {key: login, rate_limit: {unit: hour, requests_per_unit: 3}}\n"
	"- {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}\n";

/* A request in flight. */
struct flight {
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	_Alignas(16) char reading[WEIR_READER_BYTES];
	struct weir_ask *ask;
	int verdict;
};

static struct weir_str str(const char *text)
{
	return (struct weir_str){text, text ? strlen(text) : 0};
}

/* Decides a request of the identity "t". `header` is "name: value" or NULL. */
static void depart(struct rig *rig, struct flight *flight, const char *path, const char *header)
{
	struct weir_header field = {str(""), str("")};
	struct weir_http_view view = {.size = sizeof view,
				      .peer_len = 4,
				      .peer = {192, 0, 2, 1},
				      .method = str("POST"),
				      .target = str(path),
				      .identity = str("t"),
				      .headers = &field,
				      .header_count = header != NULL};

	if (header) {
		field.name = (struct weir_str){header, strcspn(header, ":")};
		field.value = str(header + field.name.len + 2);
	}
	assert_int_equal(weir_ask_init(flight->memory, sizeof flight->memory, rig->engine, str("d"),
				       &flight->ask),
			 0);
	assert_int_equal(weir_ask_http(flight->ask, &view), 0);
	flight->verdict = weir_ask_decide(flight->ask, rig->now_ns);
}

static uint32_t left(struct flight *flight, const char *rule)
{
	(void)rule;
	for (uint8_t i = 0; i < flight->ask->need_count; i++)
		if (flight->ask->needs[i].need.limit->algorithm != WEIR_CONCURRENT)
			return flight->ask->needs[i].need.decision.remaining;
	return UINT32_MAX;
}

/* Settles the request by a response and ends it. */
static void arrive(struct rig *rig, struct flight *flight, uint32_t status, const char *body)
{
	struct weir_outcome outcome = {.size = sizeof outcome, .status = status};

	if (body && weir_ask_settles(flight->ask) & WEIR_SETTLE_BODY) {
		assert_int_equal(weir_ask_reader(flight->ask, flight->reading,
						 sizeof flight->reading, str("application/json"),
						 &outcome.reader),
				 0);
		weir_reader_feed(outcome.reader, body, strlen(body));
		weir_reader_end(outcome.reader);
	}
	assert_int_equal(weir_ask_settle_outcome(flight->ask, &outcome, rig->now_ns), 0);
	assert_int_equal(weir_ask_settle_outcome(flight->ask, &outcome, rig->now_ns), WEIR_EINVAL);
	assert_int_equal(weir_ask_cancel(flight->ask, rig->now_ns), WEIR_EINVAL);
	assert_int_equal(weir_ask_settles(flight->ask), 0);
	weir_ask_done(flight->ask);
}

/* Returns the number of tokens that are left, without taking any. */
static uint32_t tokens(struct rig *rig)
{
	struct flight flight = {.ask = NULL};
	struct weir_http_view view = {.size = sizeof view,
				      .method = str("GET"),
				      .target = str("/graphql"),
				      .identity = str("t")};
	uint32_t remaining;

	weir_ask_init(flight.memory, sizeof flight.memory, rig->engine, str("d"), &flight.ask);
	weir_ask_hits(flight.ask, 0);
	weir_ask_http(flight.ask, &view);
	weir_ask_decide(flight.ask, rig->now_ns);
	assert_int_equal(weir_ask_settles(flight.ask), 0);
	remaining = left(&flight, "tokens");
	weir_ask_done(flight.ask);
	return remaining;
}

static void reservations(void **state)
{
	struct flight one, two, three;
	int64_t charged, actual;
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	depart(&rig, &one, "/chat", NULL);
	assert_int_equal(one.verdict, WEIR_ADMIT);
	assert_int_equal(weir_ask_settles(one.ask),
			 WEIR_SETTLE_NEEDED | WEIR_SETTLE_BODY | WEIR_SETTLE_SLOT);
	assert_int_equal(left(&one, "tokens"), 800);
	assert_int_equal(weir_ask_cost(one.ask, &charged, &actual), 0);
	assert_int_equal(charged, 200);
	assert_int_equal(actual, -1);
	depart(&rig, &two, "/chat", "x-max-tokens: 350");
	assert_int_equal(left(&two, "tokens"), 450);
	/* Both slots are taken. The refusal takes no tokens. */
	depart(&rig, &three, "/chat", NULL);
	assert_int_equal(three.verdict, WEIR_REFUSE);
	assert_int_equal(weir_ask_settles(three.ask), 0);
	weir_ask_done(three.ask);
	assert_int_equal(tokens(&rig), 450);
	/* 200 were reserved and 150 used: 50 come back, and so does the slot. */
	arrive(&rig, &one, 200, "{\"usage\": {\"total_tokens\": 150}}");
	assert_int_equal(tokens(&rig), 500);
	depart(&rig, &three, "/chat", "x-max-tokens: 9999");
	assert_int_equal(three.verdict, WEIR_ADMIT);
	assert_int_equal(left(&three, "tokens"), 100); /* clamped to 400 */
	/* No usage in the response: the reservation stays. */
	arrive(&rig, &two, 200, "{\"usage\": null}");
	assert_int_equal(tokens(&rig), 100);
	/* 400 were reserved and 1,400 used. The debt is at most 500: 400 + 500 are beyond. */
	arrive(&rig, &three, 200, "{\"usage\": {\"total_tokens\": 1400}}");
	assert_int_equal(tokens(&rig), 0);
	depart(&rig, &one, "/chat", "x-max-tokens: 1");
	assert_int_equal(one.verdict, WEIR_REFUSE);
	assert_int_equal(one.ask->needs[0].need.decision.debt, 500);
	weir_ask_done(one.ask);
	/* The window ends, and with it the debt. */
	rig.now_ns += HOUR_NS;
	assert_int_equal(tokens(&rig), 1000);
	rig_close(&rig);
}

static void refunds_stay_in_their_window(void **state)
{
	struct flight one, two;
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	rig.now_ns = NOW_NS + HOUR_NS - SECOND_NS;
	depart(&rig, &one, "/chat", "x-max-tokens: 400");
	rig.now_ns += 2 * SECOND_NS;
	depart(&rig, &two, "/chat", "x-max-tokens: 300");
	assert_int_equal(tokens(&rig), 700);
	/* The 400 were charged in the window before, so nothing comes back to this window. */
	arrive(&rig, &one, 200, "{\"usage\": {\"total_tokens\": 1}}");
	assert_int_equal(tokens(&rig), 700);
	arrive(&rig, &two, 200, "{\"usage\": {\"total_tokens\": 1}}");
	assert_int_equal(tokens(&rig), 999);
	rig_close(&rig);
}

static void costs_known_at_arrival(void **state)
{
	struct flight one;
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	depart(&rig, &one, "/graphql", "x-query-cost: 30");
	assert_int_equal(left(&one, "tokens"), 970);
	/* Only the slot is settled. */
	assert_int_equal(weir_ask_settles(one.ask), WEIR_SETTLE_NEEDED | WEIR_SETTLE_SLOT);
	arrive(&rig, &one, 500, NULL);
	assert_int_equal(tokens(&rig), 970);
	rig_close(&rig);
}

/* A chunked body is charged as the longest possible one until it has been received. */
static void bodies_of_unknown_length(void **state)
{
	static const struct {
		const char *path;
		uint64_t longest; /* 0: no maximum */
		uint64_t bytes;
		bool received;
		uint32_t status;
		uint32_t left_before, left;
	} cases[] = {
		{"/upload", 0, 50, true, 200, 300, 950},
		{"/upload", 600, 50, true, 200, 400, 950},
		{"/upload", 0, 0, true, 200, 300, 1000},
		{"/upload", 0, 900, true, 200, 300, 300}, /* clamped */
		/* The body was not received to its end: the client gains nothing. */
		{"/upload", 0, 50, false, 200, 300, 300},
		{"/upload", 0, 50, false, 0, 300, 300},
		/* The body was received, and then the client left. */
		{"/upload", 0, 50, true, 0, 300, 950},
		{"/upload-counted", 0, 50, true, 200, 300, 950},
		{"/upload-counted", 0, 50, true, 502, 300, 1000},
		{"/upload-settled", 0, 50, true, 200, 300, 950},
		{"/upload-settled", 0, 50, false, 200, 300, 300},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_outcome outcome = {.size = sizeof outcome,
					       .status = cases[i].status,
					       .request_known = cases[i].received,
					       .request_bytes = cases[i].bytes};
		struct weir_http_view view = {.size = sizeof view,
					      .method = str("POST"),
					      .target = str(cases[i].path),
					      .identity = str("t"),
					      .body_known = WEIR_LENGTH_LATER,
					      .body_bytes = cases[i].longest};
		struct flight one = {.ask = NULL};
		struct rig rig;

		rig_open(&rig, llm, "d");
		weir_ask_init(one.memory, sizeof one.memory, rig.engine, str("d"), &one.ask);
		assert_int_equal(weir_ask_http(one.ask, &view), 0);
		assert_int_equal(weir_ask_decide(one.ask, rig.now_ns), WEIR_ADMIT);
		assert_int_equal(left(&one, "tokens"), cases[i].left_before);
		assert_int_equal(weir_ask_settles(one.ask), WEIR_SETTLE_NEEDED | WEIR_SETTLE_SLOT);
		assert_int_equal(weir_ask_settle_outcome(one.ask, &outcome, rig.now_ns), 0);
		weir_ask_done(one.ask);
		if (tokens(&rig) != cases[i].left)
			fail_msg("case %zu: %u left instead of %u", i, tokens(&rig), cases[i].left);
		rig_close(&rig);
	}
}

static void counting_by_status(void **state)
{
	static const struct {
		const char *path;
		uint32_t status;
		bool counts;
	} cases[] = {
		{"/login", 200, false}, {"/login", 401, true},  {"/login", 500, false},
		{"/login", 403, true},  {"/login", 302, false}, {"/v1/x", 502, false},
		{"/v1/x", 200, true},   {"/v1/x", 404, true},   {"/v1/x", 599, false},
	};
	struct flight one, many[4];
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	for (size_t i = 0, logins = 3, users = 3; i < sizeof cases / sizeof *cases; i++) {
		size_t *rest = cases[i].path[1] == 'l' ? &logins : &users;

		depart(&rig, &one, cases[i].path, NULL);
		assert_int_equal(one.verdict, WEIR_ADMIT);
		*rest -= 1;
		assert_int_equal(left(&one, ""), *rest);
		arrive(&rig, &one, cases[i].status, NULL);
		*rest += !cases[i].counts;
	}
	/* Attempts in flight count: of four at once, one is admitted, because two have failed. */
	for (int i = 0; i < 4; i++)
		depart(&rig, &many[i], "/login", NULL);
	assert_int_equal(many[0].verdict, WEIR_ADMIT);
	assert_int_equal(many[1].verdict, WEIR_REFUSE);
	/* The client left: the status is not known, so the attempt counts. */
	arrive(&rig, &many[0], 0, NULL);
	for (int i = 1; i < 4; i++)
		weir_ask_done(many[i].ask);
	depart(&rig, &one, "/login", NULL);
	assert_int_equal(one.verdict, WEIR_REFUSE);
	weir_ask_done(one.ask);
	rig_close(&rig);
}

/* Settles a request for `path`, and returns by how much the tokens fell in all. */
static uint32_t spent(struct rig *rig, const char *path, const struct weir_outcome *given)
{
	struct weir_outcome outcome = *given;
	uint32_t before = tokens(rig);
	struct flight one;

	outcome.size = sizeof outcome;
	depart(rig, &one, path, NULL);
	assert_int_equal(one.verdict, WEIR_ADMIT);
	assert_int_equal(weir_ask_settle_outcome(one.ask, &outcome, rig->now_ns), 0);
	weir_ask_done(one.ask);
	return before - tokens(rig);
}

static void sources_of_actual_costs(void **state)
{
	static const struct {
		const char *value;
		uint32_t cost;
	} cases[] = {
		{"5", 5},       {" 12.2 ", 13},
		{"0", 0},       {"-3", 7},
		{"many", 7},    {"", 7},
		{"99999", 300}, {"11111111111111111111111111111111111111111111", 300},
	};
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_header field = {str("X-Cost"), str(cases[i].value)};

		rig.now_ns += HOUR_NS;
		assert_int_equal(spent(&rig, "/head",
				       &(struct weir_outcome){.status = 200,
							      .headers = &field,
							      .header_count = 1}),
				 cases[i].cost);
	}
	rig.now_ns += HOUR_NS;
	assert_int_equal(spent(&rig, "/head", &(struct weir_outcome){.status = 200}), 7);
	assert_int_equal(spent(&rig, "/bytes", &(struct weir_outcome){.status = 200, .bytes = 123}),
			 123);
	/* The client left: in the middle of the response, and before it. */
	assert_int_equal(
		spent(&rig, "/head", &(struct weir_outcome){.status = 200, .incomplete = 1}), 100);
	assert_int_equal(spent(&rig, "/head", &(struct weir_outcome){.status = 0}), 100);
	assert_int_equal(spent(&rig, "/time", &(struct weir_outcome){.time_ns = 3000000}), 10);
	assert_int_equal(spent(&rig, "/time", &(struct weir_outcome){.time_ns = 99000000}), 99);
	/* Without a response, the number of bytes is not known, so the reservation stays. */
	assert_int_equal(spent(&rig, "/bytes", &(struct weir_outcome){.bytes = 123}), 0);
	assert_int_equal(
		spent(&rig, "/time", &(struct weir_outcome){.status = 200, .time_ns = 41000001}),
		42);
	rig_close(&rig);
}

static void slots_expire_and_are_given_back(void **state)
{
	struct flight one, two, three;
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	depart(&rig, &one, "/graphql", NULL);
	rig.now_ns += SECOND_NS;
	depart(&rig, &two, "/graphql", NULL);
	depart(&rig, &three, "/graphql", NULL);
	assert_int_equal(three.verdict, WEIR_REFUSE);
	assert_int_equal(rig_status(&(struct rig){.ask = three.ask}, 0).decision.retry_after_ns,
			 SECOND_NS);
	weir_ask_done(three.ask);
	/* The ask of the first request ends without being settled, as if its process were killed.
	 * Its slot is free after max_hold. */
	weir_ask_done(one.ask);
	rig.now_ns = NOW_NS + 2 * MINUTE_NS - 1000;
	depart(&rig, &three, "/graphql", NULL);
	assert_int_equal(three.verdict, WEIR_REFUSE);
	weir_ask_done(three.ask);
	rig.now_ns = NOW_NS + 2 * MINUTE_NS + 1000;
	depart(&rig, &three, "/graphql", NULL);
	assert_int_equal(three.verdict, WEIR_ADMIT);
	/* A cancelled request gives its slot back too. */
	assert_int_equal(weir_ask_cancel(three.ask, rig.now_ns), 0);
	weir_ask_done(three.ask);
	depart(&rig, &three, "/graphql", NULL);
	assert_int_equal(three.verdict, WEIR_ADMIT);
	arrive(&rig, &three, 200, NULL);
	arrive(&rig, &two, 200, NULL);
	rig_close(&rig);
}

/* weir_ask_settle settles descriptors of weir_ask_add. */
static void settling_without_http(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	rig_begin(&rig);
	rig_add(&rig, "tenant=7", 600);
	assert_int_equal(weir_ask_settle(rig.ask, 1, NOW_NS), WEIR_EINVAL);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_settles(rig.ask), WEIR_SETTLE_NEEDED | WEIR_SETTLE_SLOT);
	assert_int_equal(weir_ask_settle(rig.ask, -1, rig.now_ns), WEIR_EINVAL);
	assert_int_equal(weir_ask_settle(rig.ask, 500, UINT64_MAX), WEIR_ETIME);
	assert_int_equal(weir_ask_settle(rig.ask, 500, rig.now_ns), 0);
	assert_int_equal(weir_ask_settle(rig.ask, 500, rig.now_ns), WEIR_EINVAL);
	rig_begin(&rig);
	rig_add(&rig, "tenant=7", 1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig.ask->needs[0].need.decision.remaining, 499);
	rig_close(&rig);
}

/* The same counter named twice is charged once with the sum, and settled with the sum. */
static void one_counter_twice(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, llm, "d");
	rig_begin(&rig);
	rig_add(&rig, "tenant=7", 300);
	rig_add(&rig, "tenant=7", 300);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(weir_ask_settle(rig.ask, 100, rig.now_ns), 0);
	rig_begin(&rig);
	rig_add(&rig, "tenant=7", 1);
	rig_decide(&rig);
	assert_int_equal(rig.ask->needs[0].need.decision.remaining, 799);
	assert_int_equal(rig.ask->needs[1].need.decision.remaining, 1);
	rig_close(&rig);
}

/* Two readings of a path can use one counter. The delivery of a deferred request is charged and
 * settled once for both, as the request itself would be. */
static void delivery_with_two_readings(void **state)
{
	static const char shared[] = "domain: d\n"
				     "requests:\n"
				     "- descriptor: [{key: p, from: path}]\n"
				     "  cost: {reserve: 10, actual: {from: response.status}}\n"
				     "descriptors:\n"
				     "- {key: p, value: '/a*', share_threshold: true, rate_limit: "
				     "{unit: hour, requests_per_unit: 1000, on_limit: defer}}\n";
	static char record[WEIR_RECORD_MAX];
	struct weir_http_view view = {
		.size = sizeof view, .method = str("POST"), .target = str("/a%2Fb")};
	struct weir_outcome outcome = {.size = sizeof outcome, .status = 300};
	struct weir_str bytes;
	struct rig rig;

	(void)state;
	rig_open(&rig, shared, "d");
	rig_begin(&rig);
	assert_int_equal(weir_ask_record(rig.ask, record, sizeof record), 0);
	assert_int_equal(weir_ask_http(rig.ask, &view), 0);
	assert_int_equal(rig.ask->descriptor_count, 2);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	bytes = weir_ask_recorded(rig.ask);
	assert_true(bytes.len > 0);
	assert_int_equal(weir_ask_settle_outcome(rig.ask, &outcome, rig.now_ns), 0);
	rig_begin(&rig);
	assert_int_equal(weir_ask_replay(rig.ask, record, bytes.len), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig.ask->needs[0].need.decision.remaining, 1000 - 300 - 10);
	assert_int_equal(weir_ask_settle_outcome(rig.ask, &outcome, rig.now_ns), 0);
	rig_begin(&rig);
	assert_int_equal(weir_ask_http(rig.ask, &view), 0);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(rig.ask->needs[0].need.decision.remaining, 1000 - 300 - 300 - 10);
	rig_close(&rig);
}

static void shadow_mode_and_candidates(void **state)
{
	static const char shadow[] = "domain: d\n"
				     "requests:\n"
				     "- when: {path: /x}\n"
				     "  descriptor: [{key: k, value: v}]\n"
				     "  cost: {reserve: 60, actual: {from: response.status}}\n"
				     "descriptors:\n"
				     "- key: k\n"
				     "  shadow_mode: true\n"
				     "  rate_limit:\n"
				     "    {unit: hour, requests_per_unit: 100,\n"
				     "     candidates: [{unit: hour, requests_per_unit: 100, "
				     "algorithm: token_bucket}]}\n";
	static const uint32_t shadowed[] = {100, 40, 0};
	struct flight one;
	struct rig rig;

	(void)state;
	rig_open(&rig, shadow, "d");
	for (size_t i = 0; i < 3; i++) {
		depart(&rig, &one, "/x", NULL);
		assert_int_equal(one.verdict, WEIR_ADMIT);
		assert_int_equal(one.ask->needs[0].taken, i < 1 || shadowed[i] >= 60);
		weir_ask_done(one.ask);
	}
	rig_close(&rig);
	rig_open(&rig, shadow, "d");
	for (size_t i = 0; i < 3; i++) {
		depart(&rig, &one, "/x", NULL);
		assert_true(one.ask->needs[0].taken);
		arrive(&rig, &one, 20, NULL); /* 20 of 60 were used, so three fit */
	}
	rig_close(&rig);
}

/* A busy token bucket gets back all unused tokens, even if many tokens have flowed in since. */
static void refunds_of_a_busy_bucket(void **state)
{
	static const char bucket[] = "domain: d\n"
				     "requests:\n"
				     "- when: {path: /x}\n"
				     "  descriptor: [{key: k, value: v}]\n"
				     "  cost: {reserve: 200, actual: {from: response.status}}\n"
				     "descriptors:\n"
				     "- key: k\n"
				     "  rate_limit: {unit: second, requests_per_unit: 10, "
				     "algorithm: token_bucket, burst: 1000}\n";
	struct flight one, others[4];
	struct rig rig;

	(void)state;
	rig_open(&rig, bucket, "d");
	for (int i = 0; i < 4; i++)
		depart(&rig, &others[i], "/x", NULL);
	depart(&rig, &one, "/x", NULL);
	assert_int_equal(left(&one, ""), 0);
	/* 500 tokens have flowed in. The bucket lacked at least 499 all the time, so that all of the
	 * 100 unused tokens come back. */
	rig.now_ns += 50 * SECOND_NS;
	arrive(&rig, &one, 100, NULL);
	depart(&rig, &one, "/x", NULL);
	assert_int_equal(left(&one, ""), 500 + 100 - 200);
	weir_ask_done(one.ask);
	for (int i = 0; i < 4; i++)
		weir_ask_done(others[i].ask);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reservations),
		cmocka_unit_test(refunds_stay_in_their_window),
		cmocka_unit_test(costs_known_at_arrival),
		cmocka_unit_test(bodies_of_unknown_length),
		cmocka_unit_test(counting_by_status),
		cmocka_unit_test(sources_of_actual_costs),
		cmocka_unit_test(slots_expire_and_are_given_back),
		cmocka_unit_test(settling_without_http),
		cmocka_unit_test(one_counter_twice),
		cmocka_unit_test(delivery_with_two_readings),
		cmocka_unit_test(shadow_mode_and_candidates),
		cmocka_unit_test(refunds_of_a_busy_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
