/* Tests the lines of the decision log: exact bytes, traces, and texts of keys. */
#include "limiter/helper.h"

#include <string.h>

#include "limiter/log_text.h"
#include "wire/check/decision_json.h"
#include "wire/json.h"

static const char rules[] =
	"domain: api\n"
	"requests:\n"
	"  - {when: {path: /open}, allow: true}\n"
	"  - {when: {path: /named}, descriptor: [{key: user, from: header.x-user, missing: "
	"deny}]}\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n"
	"  - {key: door, rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket, "
	"queue_size: 1}}\n"
	"  - {key: quiet, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1, "
	"algorithm: token_bucket}}\n";

static const char cost_rules[] = "domain: api\n"
				 "requests:\n"
				 "  - when: {path: /chat}\n"
				 "    descriptor: [{key: tenant, from: header.x-tenant}]\n"
				 "    cost:\n"
				 "      reserve: {from: header.x-max, default: 200, max: 600}\n"
				 "      actual: {from: response.header.x-used, default: reserved}\n"
				 "descriptors:\n"
				 "  - key: tenant\n"
				 "    rate_limits:\n"
				 "      - {unit: minute, requests_per_unit: 1000}\n"
				 "      - {unit: hour, requests_per_unit: 9000}\n"
				 "      - {concurrent: 20, max_hold: 2m}\n"
				 "  - {key: alone, rate_limit: {concurrent: 1, max_hold: 2m}}\n";

static char log_memory[WR_DECISION_TEXT_BYTES];

static const char *written(struct rig *rig, struct wr_decision_view view,
			   void (*write)(const struct wr_decision_view *view, struct wr_buf *out))
{
	static char text[WR_DECISION_LINE + 1];
	struct wr_buf out;

	view.ask = rig->ask;
	view.now_ns = rig->now_ns;
	view.via = "test";
	wr_buf_init_fixed(&out, text, sizeof text);
	write(&view, &out);
	assert_false(wr_buf_failed(&out));
	return text;
}

static const char *line_of(struct rig *rig, struct wr_decision_view view)
{
	return written(rig, view, wr_decision_json);
}

static const char *settlement_of(struct rig *rig, struct wr_decision_view view)
{
	return written(rig, view, wr_decision_settlement_json);
}

/* Decides a request and stores the texts of its descriptors for the log. */
static int ask(struct rig *rig, const char *descriptor)
{
	rig_begin(rig);
	wr_ask_set_log_memory(rig->ask, log_memory, sizeof log_memory);
	assert_int_equal(rig_add(rig, descriptor, 1), 0);
	return rig_decide(rig);
}

static const struct wr_decision_view as_text = {
	.keys = WEIR_KEYS_TEXT, .sampled_ppm = 1000000, .enforced = true};

static void test_lines(void **state)
{
	struct wr_decision_view view = as_text;
	struct wr_trace trace;
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	rig.now_ns = NOW_NS + 104999999;
	assert_true(wr_trace_read(WR_STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
				  &trace));
	view.trace = &trace;
	view.sampled_ppm = 500;
	assert_int_equal(ask(&rig, "user=7|ip=x"),
			 WEIR_ADMIT); /* there is no rule for user and ip together */
	assert_string_equal(line_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.104Z\",\"verdict\":\"admit\","
			    "\"domain\":\"api\",\"rule\":null,\"reason\":\"no_limit\","
			    "\"via\":\"test\",\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\","
			    "\"span_id\":\"00f067aa0ba902b7\",\"sampled\":0.000500}\n");
	view = as_text;
	assert_int_equal(ask(&rig, "user=7"), WEIR_ADMIT);
	assert_false(wr_decision_refused(rig.ask));
	assert_string_equal(line_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.104Z\",\"verdict\":\"admit\","
			    "\"domain\":\"api\",\"rule\":\"api/user/1m\",\"key\":\"user=7\","
			    "\"algorithm\":\"fixed_window\",\"limit\":2,\"remaining\":1,"
			    "\"via\":\"test\"}\n");
	ask(&rig, "user=7");
	assert_int_equal(ask(&rig, "user=7"), WEIR_REFUSE);
	assert_true(wr_decision_refused(rig.ask));
	view.enforced = false;
	assert_string_equal(line_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.104Z\",\"verdict\":\"refuse\","
			    "\"domain\":\"api\",\"rule\":\"api/user/1m\",\"key\":\"user=7\","
			    "\"algorithm\":\"fixed_window\",\"limit\":2,\"remaining\":0,"
			    "\"retry_after\":59.896,\"enforced\":false,\"via\":\"test\"}\n");
	rig_close(&rig);
}

static void test_delay_shadow_and_reasons(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	ask(&rig, "door=1");
	assert_int_equal(ask(&rig, "door=1"), WEIR_DELAY);
	assert_non_null(strstr(line_of(&rig, as_text), "\"verdict\":\"delay\""));
	assert_non_null(strstr(line_of(&rig, as_text), ",\"delay\":0.250,"));
	ask(&rig, "quiet=1");
	assert_false(wr_decision_refused(rig.ask));
	assert_int_equal(ask(&rig, "quiet=1"), WEIR_ADMIT);
	assert_true(wr_decision_refused(rig.ask)); /* refused if the rule were not in shadow mode */
	assert_non_null(strstr(line_of(&rig, as_text),
			       "\"verdict\":\"admit\",\"domain\":\"api\",\"rule\":\"api/quiet/1d\","
			       "\"key\":\"quiet=1\",\"algorithm\":\"token_bucket\""));
	assert_non_null(strstr(line_of(&rig, as_text), ",\"shadowed\":true,"));
	rig_http(&rig, "GET /open", NULL, "192.0.2.1");
	assert_non_null(strstr(line_of(&rig, as_text), "\"rule\":null,\"reason\":\"allowed\""));
	assert_int_equal(rig_http(&rig, "GET /named", NULL, "192.0.2.1"), WEIR_REFUSE);
	assert_non_null(strstr(line_of(&rig, as_text),
			       "\"verdict\":\"refuse\",\"domain\":\"api\",\"rule\":null,"
			       "\"reason\":\"missing\""));
	rig.domain = "nobody";
	ask(&rig, "user=1");
	assert_non_null(strstr(line_of(&rig, as_text), "\"verdict\":\"admit\",\"rule\":null,"
						       "\"reason\":\"domain_not_found\""));
	rig_close(&rig);
}

/* For any bytes in a key, the line is valid JSON and not longer than WR_DECISION_LINE. */
static void test_hostile_keys(void **state)
{
	static const char *const values[] = {
		"\x1b[2J\x07\n\r\"\\</script>",
		"\xff\xfe\x80 not UTF-8",
		("\xc2\x9b"
		 "31m is a control of eight bits"),
		"\xe2\x80\xae backwards",
	};
	char long_value[10001];
	struct rig rig;

	(void)state;
	rig_open(&rig, rules, "api");
	memset(long_value, '"', sizeof long_value - 1);
	long_value[sizeof long_value - 1] = '\0';
	for (size_t i = 0; i <= sizeof values / sizeof *values; i++) {
		const char *value = i < sizeof values / sizeof *values ? values[i] : long_value;
		struct weir_entry entry = {WR_STR("user"), wr_str(value), WR_STR("")};
		struct wr_problem problem;
		const char *line;
		json_t *json;

		rig_begin(&rig);
		wr_ask_set_log_memory(rig.ask, log_memory, sizeof log_memory);
		assert_int_equal(weir_ask_add(rig.ask, &entry, 1, NULL, 1), 0);
		rig_decide(&rig);
		line = line_of(&rig, as_text);
		json = wr_wire_json_read((struct weir_str){line, strlen(line)}, &problem);
		if (!json)
			fail_msg("%s: %s", problem.detail, line);
		assert_true(strlen(json_string_value(json_object_get(json, "key"))) <=
			    WR_LOG_TEXT_MAX + 64);
		for (const char *p = line; *p && p[1]; p++)
			assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
		assert_null(strstr(line, "\xc2\x9b"));
		json_decref(json);
	}
	assert_non_null(strstr(line_of(&rig, as_text), "\\\"\xe2\x80\xa6\",\"algorithm\"")); /* … */
	rig_close(&rig);
}

static void test_keys_by_setting(void **state)
{
	struct wr_decision_view view = as_text;
	struct rig rig;
	const char *line, *at;

	(void)state;
	rig_open(&rig, rules, "api");
	ask(&rig, "user=secret");
	view.keys = WEIR_KEYS_HIDDEN;
	line = line_of(&rig, view);
	assert_null(strstr(line, "secret"));
	assert_null(strstr(line, "\"key\""));
	view.keys = WEIR_KEYS_HASHED;
	line = line_of(&rig, view);
	assert_null(strstr(line, "secret"));
	at = strstr(line, "\"key\":\"#");
	assert_non_null(at);
	assert_int_equal(strspn(at + 8, "0123456789abcdef"), 16);
	rig_close(&rig);
}

/* Each descriptor has its own text. A text that does not fit is cut between characters. */
static void test_kept(void **state)
{
	char memory[20];
	struct rig rig;
	struct weir_str text;

	(void)state;
	rig_open(&rig, rules, "api");
	rig_begin(&rig);
	wr_ask_set_log_memory(rig.ask, memory, sizeof memory);
	rig_add(&rig, "user=1|b=2", 1);
	rig_add(&rig, "user=\xc3\xa9\xc3\xa9\xc3\xa9",
		1); /* the text has 11 bytes, and there is room for 10 */
	rig_add(&rig, "user=3", 1);
	text = wr_ask_log_text(rig.ask, 0);
	assert_int_equal(text.len, 10);
	assert_memory_equal(text.ptr, "user=1|b=2", 10);
	text = wr_ask_log_text(rig.ask, 1);
	assert_int_equal(text.len, 10);
	assert_memory_equal(text.ptr, "user=\xc3\xa9\xe2\x80\xa6", 10);
	assert_int_equal(wr_ask_log_text(rig.ask, 2).len, 0);
	rig_begin(&rig);
	rig_add(&rig, "user=1", 1);
	assert_int_equal(wr_ask_log_text(rig.ask, 0).len, 0);
	rig_close(&rig);
}

static void test_traces(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true},
		{"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", true},
		{"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more", false},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", false},
		{"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
		{"00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
		{"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", false},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01", false},
		{"", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct wr_trace trace;

		assert_int_equal(wr_trace_read(wr_str(cases[i].text), &trace), cases[i].good);
		assert_int_equal(trace.known, cases[i].good);
	}
}

static void settle_chat(struct rig *rig, const char *used)
{
	struct weir_header header = {{"x-used", 6}, {used, strlen(used)}};
	struct weir_outcome outcome = {
		.size = sizeof outcome, .status = 200, .headers = &header, .header_count = 1};

	assert_int_equal(weir_ask_settle_outcome(rig->ask, &outcome, rig->now_ns), 0);
}

/* The line of a decision has its cost. The line of a settlement shows one limit on units. */
static void test_costs(void **state)
{
	struct wr_decision_view view = as_text;
	struct rig rig;

	(void)state;
	view.keys = WEIR_KEYS_HIDDEN;
	rig_open(&rig, cost_rules, "api");
	assert_int_equal(rig_http(&rig, "POST /chat", "x-tenant: 7\nx-max: 500", NULL), WEIR_ADMIT);
	/* The limit with the fewest units left is the one on concurrent requests. */
	assert_string_equal(line_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.000Z\",\"verdict\":\"admit\","
			    "\"domain\":\"api\",\"rule\":\"api/tenant/concurrent/2m\","
			    "\"algorithm\":\"concurrent\",\"limit\":20,\"remaining\":19,"
			    "\"via\":\"test\"}\n");
	assert_false(wr_decision_has_settlement(rig.ask));
	settle_chat(&rig, "300");
	assert_true(wr_decision_has_settlement(rig.ask));
	assert_string_equal(settlement_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.000Z\",\"verdict\":\"settle\","
			    "\"domain\":\"api\",\"rule\":\"api/tenant/1m\","
			    "\"algorithm\":\"fixed_window\",\"reserved\":500,\"actual\":300,"
			    "\"refunded\":200,\"debt\":0,\"via\":\"test\"}\n");
	assert_int_equal(rig_http(&rig, "POST /chat", "x-tenant: 7\nx-max: 600", NULL), WEIR_ADMIT);
	settle_chat(&rig, "800");
	view.sampled_ppm = 250000;
	assert_string_equal(settlement_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.000Z\",\"verdict\":\"settle\","
			    "\"domain\":\"api\",\"rule\":\"api/tenant/1m\","
			    "\"algorithm\":\"fixed_window\",\"reserved\":600,\"actual\":800,"
			    "\"refunded\":0,\"debt\":200,\"via\":\"test\",\"sampled\":0.250000}\n");
	view.sampled_ppm = 1000000;
	assert_int_equal(rig_http(&rig, "POST /chat", "x-tenant: 7", NULL), WEIR_REFUSE);
	assert_string_equal(line_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.000Z\",\"verdict\":\"refuse\","
			    "\"domain\":\"api\",\"rule\":\"api/tenant/1m\","
			    "\"algorithm\":\"fixed_window\",\"cost\":200,\"limit\":1000,"
			    "\"remaining\":0,\"debt\":100,\"retry_after\":60,\"via\":\"test\"}\n");
	rig_close(&rig);
}

/* A request that only held a slot has no settlement in the log. A cancelled request was settled with
 * 0 units. */
static void test_slots_and_cancellation(void **state)
{
	struct wr_decision_view view = as_text;
	struct rig rig;

	(void)state;
	view.keys = WEIR_KEYS_HIDDEN;
	rig_open(&rig, cost_rules, "api");
	assert_int_equal(rig_ask(&rig, "alone=1"), WEIR_ADMIT);
	settle_chat(&rig, "1");
	assert_false(wr_decision_has_settlement(rig.ask));
	assert_int_equal(rig_http(&rig, "POST /chat", "x-tenant: 7\nx-max: 500", NULL), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns), 0);
	assert_string_equal(settlement_of(&rig, view),
			    "{\"time\":\"2026-11-16T00:00:00.000Z\",\"verdict\":\"settle\","
			    "\"domain\":\"api\",\"rule\":\"api/tenant/1m\","
			    "\"algorithm\":\"fixed_window\",\"reserved\":500,\"actual\":0,"
			    "\"refunded\":500,\"debt\":0,\"via\":\"test\"}\n");
	rig_close(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_delay_shadow_and_reasons),
		cmocka_unit_test(test_hostile_keys),
		cmocka_unit_test(test_keys_by_setting),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_traces),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_slots_and_cancellation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
