/* Fuzzes the input of the HTTP API. The first byte selects a question of /v1/check, a message of
 * /json, or header fields of /check/DOMAIN. A valid question is decided, and the response has to be
 * JSON. The fast reader of /v1/check reads the same as the full one, or declines. */
#include "fuzz.h"

#include "base/str.h"
#include "wire/check/json.h"
#include "wire/check/forward_auth.h"
#include "wire/rls/rls.h"
#include "wire/rls/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS 1794787200000000000ull
#define ANSWER_BYTES ((size_t)1 << 20)
#define LINES_MAX 32

static const char yaml[] =
	"domain: d\n"
	"requests:\n"
	"  - descriptor: [{key: a, from: [header.x, query.q, remote_address]}]\n"
	"  - descriptor: [{key: b, from: path}, {key: m, from: method}]\n"
	"  - descriptor: [{key: a, from: identity}]\n"
	"  - descriptor: [{key: h, from: host}]\n"
	"descriptors:\n"
	"  - {key: a, rate_limit: {unit: minute, requests_per_unit: 3, name: n}}\n"
	"  - {key: b, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}\n"
	"  - {key: c, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
	"  - {key: h, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, "
	"queue_size: 3}}\n"
	"  - {key: e, metadata: {x: {z: [t, 1.5, null, true]}}, rate_limit: {unlimited: true}}\n";

static struct weir_engine *engine;
static struct wr_rls_memory memory;
static char answer[ANSWER_BYTES];
static _Alignas(16) char room[2][WEIR_ASK_BYTES];

static void open_all(void)
{
	require(weir_engine_new(make_table(1 << 20), load_rules(yaml), NULL, &engine) == 0);
	require(wr_rls_memory_init(&memory, 512 << 10) == 0);
}

static void require_json(struct weir_str text)
{
	json_t *read =
		json_loadb(text.ptr, text.len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

	require(read != NULL);
	json_decref(read);
}

static void check_problem(const struct wr_problem *problem)
{
	struct wr_json_out json;
	struct wr_buf buf;

	require(problem->detail[0] && (problem->pointer[0] == '\0' || problem->pointer[0] == '/'));
	wr_buf_init_fixed(&buf, answer, WR_PROBLEM_TEXT);
	wr_json_begin(&json, &buf);
	wr_problem_json(problem, &json);
	require(!wr_buf_failed(&buf));
	require_json(wr_buf_str(&buf));
}

/* ---- /v1/check ---- */

static struct weir_ask *begin(int which, struct weir_str domain)
{
	struct weir_ask *ask;

	require(weir_ask_init(room[which], WEIR_ASK_BYTES, engine, domain, &ask) == 0);
	return ask;
}

/* Both readers give the same statuses for a question. Both asks are cancelled. */
static void compare_quick(struct weir_str body, const struct wr_check *check)
{
	struct weir_result slow_result = {.size = sizeof slow_result}, quick_result = slow_result;
	struct weir_ask *slow, *quick_ask;
	struct wr_check_quick quick;
	struct wr_problem problem;

	if (!wr_check_quick(body, &quick))
		return;
	if (!check)
		abort();
	require(!check->many && wr_str_equal(quick.domain, wr_check_domain(check, 0)));
	slow = begin(0, quick.domain);
	quick_ask = begin(1, quick.domain);
	require((wr_check_add(check, 0, slow, &problem) == 0) ==
		wr_check_quick_add(&quick, quick_ask));
	require(wr_ask_lacks_time(slow) == wr_ask_lacks_time(quick_ask));
	require(decide_ask(slow, NOW_NS) > 0);
	weir_ask_cancel(slow, NOW_NS);
	require(decide_ask(quick_ask, NOW_NS) > 0);
	weir_ask_cancel(quick_ask, NOW_NS);
	weir_ask_result(slow, &slow_result);
	weir_ask_result(quick_ask, &quick_result);
	require(slow_result.descriptors == quick_result.descriptors);
	weir_ask_done(slow);
	weir_ask_done(quick_ask);
}

static void answer_one(const struct wr_check *check, size_t i)
{
	struct weir_ask *ask = begin(0, wr_check_domain(check, i));
	struct wr_problem problem;
	struct wr_json_out json;
	struct wr_buf out;
	int verdict;

	if (wr_check_add(check, i, ask, &problem) != 0) {
		check_problem(&problem);
	} else {
		verdict = decide_ask(ask, NOW_NS);
		require(verdict > 0 && verdict != WEIR_WAIT);
		wr_buf_init_fixed(&out, answer, sizeof answer);
		wr_json_begin(&json, &out);
		wr_check_answer(ask, verdict, &json);
		require(!wr_buf_failed(&out));
		require_json(wr_buf_str(&out));
	}
	weir_ask_done(ask);
}

static void fuzz_check(struct weir_str body)
{
	struct wr_problem problem;
	struct wr_check check;

	if (wr_check_open(&check, body, &problem) != 0) {
		check_problem(&problem);
		compare_quick(body, NULL);
		return;
	}
	compare_quick(body, &check);
	for (size_t i = 0; i < check.count; i++)
		answer_one(&check, i);
	wr_check_close(&check);
}

/* ---- /json ---- */

static struct weir_str write_message(const ProtobufCMessage *message)
{
	struct wr_json_out json;
	struct wr_buf out;

	wr_buf_init_fixed(&out, answer, sizeof answer);
	wr_json_begin(&json, &out);
	wr_rls_json_write(message, &json);
	require(!wr_buf_failed(&out));
	require_json(wr_buf_str(&out));
	return wr_buf_str(&out);
}

static void fuzz_rls(struct weir_str body)
{
	struct wr_rls_options options = {.dynamic_metadata = true, .bodies = true};
	Pb__RateLimitResponse *response;
	struct weir_error error;
	struct wr_problem problem = {0};
	Pb__RateLimitRequest *request;
	struct weir_ask *ask;

	wr_rls_memory_reset(&memory);
	request = (Pb__RateLimitRequest *)wr_rls_json_read(&pb__rate_limit_request__descriptor,
							   body, &memory, &problem);
	if (!request) {
		check_problem(&problem);
		return;
	}
	/* a valid message can be written and read again */
	require(wr_rls_json_read(&pb__rate_limit_request__descriptor, write_message(&request->base),
				 &memory, &problem) ||
		memory.full);
	if (wr_rls_check(request, &error) != 0)
		return;
	ask = begin(0, wr_rls_domain(request));
	if (wr_rls_ask(request, ask, &memory, &error) == 0) {
		int verdict = weir_ask_decide(ask, NOW_NS);

		require(verdict > 0);
		response = wr_rls_answer(ask, verdict == WEIR_DELAY ? WEIR_ADMIT : verdict, request,
					 &options, &memory);
		if (response)
			write_message(&response->base);
	}
	weir_ask_done(ask);
}

/* ---- /check/DOMAIN ---- */

struct lines {
	struct weir_header items[LINES_MAX];
	size_t count;
};

static size_t find(void *context, struct weir_str name, struct weir_str *values, size_t max)
{
	const struct lines *lines = context;
	size_t count = 0;

	for (size_t i = 0; i < lines->count; i++) {
		if (!wr_str_equal_nocase(lines->items[i].name, name))
			continue;
		if (count < max)
			values[count] = lines->items[i].value;
		count++;
	}
	return count;
}

static void fuzz_forward(struct weir_str text, uint8_t how)
{
	struct lines lines = {.count = 0};
	struct wr_forward forward = {.header = find,
				     .context = &lines,
				     .host = WR_STR("h"),
				     .identity = how & 64 ? WR_STR("x") : WR_STR(""),
				     .by = (enum wr_forward_by)((how >> 3) % 3),
				     .proxies = how & 128 ? wr_forward_neighbours() : NULL};
	struct weir_http_view view;
	struct wr_problem problem;
	struct weir_ask *ask;

	while (text.len && lines.count < LINES_MAX) {
		struct weir_str line = wr_str_first(text, wr_str_find(text, '\n'));
		size_t colon = wr_str_find(line, ':');

		text = wr_str_from(text, line.len + (line.len < text.len));
		lines.items[lines.count++] = (struct weir_header){
			wr_str_first(line, colon),
			wr_str_trim(wr_str_from(line, colon < line.len ? colon + 1 : colon))};
	}
	if (wr_forward_view(&forward, &view, &problem) != 0) {
		check_problem(&problem);
		return;
	}
	require(view.method.len && view.target.len);
	require(view.peer_len == 0 || view.peer_len == 16);
	ask = begin(0, WR_STR("d"));
	require(weir_ask_http(ask, &view) != WEIR_EINVAL);
	require(weir_ask_decide(ask, NOW_NS) > 0);
	weir_ask_done(ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_str rest;

	if (!engine)
		open_all();
	if (size < 1)
		return 0;
	rest = (struct weir_str){(const char *)data + 1, size - 1};
	if (data[0] % 4 < 2)
		fuzz_check(rest);
	else if (data[0] % 4 == 2)
		fuzz_rls(rest);
	else
		fuzz_forward(rest, data[0]);
	return 0;
}
