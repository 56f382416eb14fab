/* A recorded trace of LLM requests (azure_llm_code_2023.csv) under a limit on tokens. Each request
 * reserves tokens when it arrives and is settled with the tokens of the trace when its answer ends.
 * The clock is the trace's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/weir.h>

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define MIDNIGHT_NS (1700092800ull * SECOND_NS) /* 16 November 2023, 0:00 UTC */
#define ROWS 200
#define LIMIT 60000 /* tokens per minute; the trace has 415,398 tokens in 166 s */
#define ANSWER 1000 /* longest answer; the longest one of the trace has 928 tokens */

struct request {
	uint64_t arrived_ns;
	uint64_t ends_ns; /* when the answer ends */
	int64_t reserved;
	int64_t actual;
	struct weir_decision taken; /* all zero before the request arrives */
	bool in_flight;
};

static struct request requests[ROWS];
static bool keeps_charged_ns; /* the replay keeps only charged_ns of each decision */
static struct weir_table *table;
static struct weir_limit limit;

/* ---- the trace ---- */

/* Reads a number that the character `end` follows, and passes over both. */
static uint64_t read_number(const char **at, char end)
{
	char *after;
	uint64_t number = strtoul(*at, &after, 10);

	assert_true(after > *at && *after == end);
	*at = after + 1;
	return number;
}

/* Reads a row such as "2023-11-16 18:32:27.4791460,1200,15". The answer of the fake server takes
 * 100 ms, and 10 ms for each token. */
static struct request read_row(const char *line)
{
	static const char day[] = "2023-11-16 ";
	const char *at = line + sizeof day - 1;
	uint64_t arrived_s, ticks;
	int64_t prompt, answer;

	assert_memory_equal(line, day, sizeof day - 1);
	arrived_s = read_number(&at, ':') * 3600;
	arrived_s += read_number(&at, ':') * 60;
	arrived_s += read_number(&at, '.');
	ticks = read_number(&at, ','); /* of 100 ns */
	prompt = (int64_t)read_number(&at, ',');
	answer = (int64_t)read_number(&at, '\n');

	uint64_t arrived_ns = MIDNIGHT_NS + arrived_s * SECOND_NS + ticks * 100;

	return (struct request){.arrived_ns = arrived_ns,
				.ends_ns = arrived_ns + (uint64_t)(10 + answer) * 10000000,
				.reserved = prompt + ANSWER,
				.actual = prompt + answer};
}

static int read_trace(void **unused)
{
	FILE *file = fopen(TEST_TRACE, "r");
	char line[256];
	uint32_t count = 0;

	(void)unused;
	keeps_charged_ns = false;
	assert_non_null(file);
	while (fgets(line, sizeof line, file)) {
		if (line[0] == '#')
			continue;
		assert_in_range(count, 0, ROWS - 1);
		requests[count++] = read_row(line);
	}
	fclose(file);
	assert_int_equal(count, ROWS);
	return 0;
}

/* ---- replay ---- */

static void open_table(uint32_t algorithm)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .dir = "/dev/shm",
				 .memory_bytes = 8 << 20,
				 .log_bytes = 4 << 20};
	char name[64];

	snprintf(name, sizeof name, "test-lib-trace-%d", (int)getpid());
	opts.name = name;
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	weir_remove(name, opts.dir, NULL);
	limit = (struct weir_limit){.size = sizeof limit,
				    .algorithm = algorithm,
				    .limit = LIMIT,
				    .period_ns = MINUTE_NS};
	assert_int_equal(weir_limit_check(&limit, NULL), 0);
}

static void settle(struct request *request)
{
	struct weir_decision after;

	assert_int_equal(weir_settle(table, &limit, "tenant", 6, &request->taken, request->reserved,
				     request->actual, request->ends_ns, &after),
			 0);
	request->in_flight = false;
}

/* Returns the request in flight whose answer ends first, or NULL if none ends by now_ns. */
static struct request *next_end(uint64_t now_ns)
{
	struct request *next = NULL;

	for (struct request *r = requests; r < requests + ROWS; r++)
		if (r->in_flight && r->ends_ns <= now_ns && (!next || r->ends_ns < next->ends_ns))
			next = r;
	return next;
}

/* Checks that a request is refused while the tenant has debt. */
static void take(struct request *request)
{
	struct weir_decision before;

	assert_int_equal(weir_take(table, &limit, "tenant", 6, 0, request->arrived_ns, &before), 0);
	assert_int_equal(weir_take(table, &limit, "tenant", 6, request->reserved,
				   request->arrived_ns, &request->taken),
			 0);
	assert_false(before.debt && request->taken.admitted);
	request->in_flight = request->taken.admitted;
	if (keeps_charged_ns)
		request->taken = (struct weir_decision){.charged_ns = request->taken.charged_ns};
}

/* Returns the tokens that the requests in flight use beyond their reservations. */
static int64_t shortfall(void)
{
	int64_t sum = 0;

	for (struct request *r = requests; r < requests + ROWS; r++)
		if (r->in_flight && r->actual > r->reserved)
			sum += r->actual - r->reserved;
	return sum;
}

/* Replays the trace. Answers that end before the next arrival are settled first. Sets
 * *most_short, if it is not NULL, to the largest shortfall() after an admission. Returns the number
 * of admitted requests. */
static uint32_t replay(int64_t *most_short)
{
	uint32_t admitted = 0;
	struct request *ends;

	for (struct request *r = requests; r < requests + ROWS; r++) {
		while ((ends = next_end(r->arrived_ns)))
			settle(ends);
		take(r);
		admitted += r->in_flight;
		if (most_short && r->in_flight && shortfall() > *most_short)
			*most_short = shortfall();
	}
	while ((ends = next_end(UINT64_MAX)))
		settle(ends);
	return admitted;
}

/* ---- what the limit promises ---- */

/* Returns the tokens of admitted requests that arrived in [start_ns, end_ns). */
static int64_t tokens_in(uint64_t start_ns, uint64_t end_ns)
{
	int64_t sum = 0;

	for (struct request *r = requests; r < requests + ROWS; r++)
		if (r->taken.charged_ns && r->arrived_ns >= start_ns && r->arrived_ns < end_ns)
			sum += r->actual;
	return sum;
}

/* Checks the tokens in each of the four minutes of the trace. */
static void check_minutes(int64_t most)
{
	uint64_t first = requests[0].arrived_ns / MINUTE_NS * MINUTE_NS;

	assert_int_equal(requests[ROWS - 1].arrived_ns / MINUTE_NS - first / MINUTE_NS, 3);
	for (uint64_t at_ns = first; at_ns < first + 4 * MINUTE_NS; at_ns += MINUTE_NS)
		assert_in_range(tokens_in(at_ns, at_ns + MINUTE_NS), 0, most);
}

static void test_fixed_window_is_never_exceeded(void **unused)
{
	(void)unused;
	open_table(WEIR_FIXED_WINDOW);
	assert_int_equal(replay(NULL), 75);
	check_minutes(LIMIT);
	assert_int_equal(tokens_in(0, UINT64_MAX), 130863);
	weir_close(table);
}

static void test_sliding_log_is_never_exceeded(void **unused)
{
	(void)unused;
	open_table(WEIR_SLIDING_LOG);
	assert_int_equal(replay(NULL), 70);
	assert_int_equal(tokens_in(0, UINT64_MAX), 117853);
	for (struct request *r = requests; r < requests + ROWS; r++)
		assert_in_range(tokens_in(r->arrived_ns - MINUTE_NS + 1, r->arrived_ns + 1), 0,
				LIMIT);
	weir_close(table);
}

static void check_token_bucket(uint32_t admitted, int64_t tokens)
{
	open_table(WEIR_TOKEN_BUCKET);
	assert_int_equal(replay(NULL), admitted);
	assert_int_equal(tokens_in(0, UINT64_MAX), tokens);
	for (struct request *from = requests; from < requests + ROWS; from++) {
		for (struct request *to = from; to < requests + ROWS; to++) {
			uint64_t span_ns = to->arrived_ns - from->arrived_ns;

			assert_in_range(tokens_in(from->arrived_ns, to->arrived_ns + 1), 0,
					LIMIT + span_ns / (MINUTE_NS / LIMIT));
		}
	}
	weir_close(table);
}

static void test_token_bucket_is_never_exceeded(void **unused)
{
	(void)unused;
	check_token_bucket(96, 142214);
}

/* The bucket gets back fewer tokens, so it admits fewer requests. */
static void test_token_bucket_without_decisions(void **unused)
{
	(void)unused;
	keeps_charged_ns = true;
	check_token_bucket(87, 120605);
}

/* ---- a reservation that is too small ---- */

static void reserve_too_little(void)
{
	for (struct request *r = requests; r < requests + ROWS; r++)
		r->reserved = 500;
}

static void test_overshoot_is_at_most_what_was_in_flight(void **unused)
{
	int64_t most_short = 0;

	(void)unused;
	reserve_too_little();
	open_table(WEIR_FIXED_WINDOW);
	assert_int_equal(replay(&most_short), 71);
	check_minutes(LIMIT + most_short);
	assert_int_equal(tokens_in(0, UINT64_MAX), 147677);
	weir_close(table);
}

static void test_debt_is_paid_before_the_next_admission(void **unused)
{
	(void)unused;
	reserve_too_little();
	open_table(WEIR_SLIDING_LOG);
	assert_int_equal(replay(NULL), 64);
	assert_int_equal(tokens_in(0, UINT64_MAX), 129730);
	weir_close(table);
	open_table(WEIR_TOKEN_BUCKET);
	assert_int_equal(replay(NULL), 73);
	assert_int_equal(tokens_in(0, UINT64_MAX), 153557);
	weir_close(table);
	keeps_charged_ns = true;
	open_table(WEIR_TOKEN_BUCKET);
	assert_int_equal(replay(NULL), 73);
	assert_int_equal(tokens_in(0, UINT64_MAX), 159057);
	weir_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_fixed_window_is_never_exceeded, read_trace),
		cmocka_unit_test_setup(test_sliding_log_is_never_exceeded, read_trace),
		cmocka_unit_test_setup(test_token_bucket_is_never_exceeded, read_trace),
		cmocka_unit_test_setup(test_token_bucket_without_decisions, read_trace),
		cmocka_unit_test_setup(test_overshoot_is_at_most_what_was_in_flight, read_trace),
		cmocka_unit_test_setup(test_debt_is_paid_before_the_next_admission, read_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
