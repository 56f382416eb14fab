/* What the store in Redis makes of answers that are lost, late or odd: the connection is made up,
 * and each answer is written here. */
#include "queue/queue_test.h"

#include <errno.h>

#include "queue/redis_backend.h"

#define WORDS 24

/* One call of the script: its words, as texts. */
struct call {
	char words[WORDS][40];
	int count;
};

static struct {
	const char *answers[8]; /* to calls of the script, one after the other; NULL: it is lost */
	size_t next;
	struct call calls[8];
	char out[4096];
	size_t out_len;
	bool lost;
	unsigned connections;
} wire;

static struct wr_queue_opts opts;
static struct wr_queue_backend *backend;
static uint64_t told[256];

static void answer(const char *text)
{
	size_t len = strlen(text);

	memcpy(wire.out + wire.out_len, text, len);
	wire.out_len += len;
}

/* Reads one command of `bytes`; returns its length. */
static size_t read_command(const char *bytes, struct call *call)
{
	const char *at = bytes;
	char *end;

	memset(call, 0, sizeof *call);
	call->count = (int)strtol(at + 1, &end, 10);
	at = end + 2;
	for (int i = 0; i < call->count; i++) {
		size_t len = strtoul(at + 1, &end, 10);

		at = end + 2;
		if (i < WORDS)
			memcpy(call->words[i], at, len < 39 ? len : 39);
		at += len + 2;
	}
	return (size_t)(at - bytes);
}

static void carry_out(const struct call *call)
{
	const char *text;

	if (strcmp(call->words[0], "SCRIPT") == 0) {
		answer("+OK\r\n");
	} else if (strcmp(call->words[0], "CONFIG") == 0 || strcmp(call->words[0], "INFO") == 0) {
		answer("-NOPERM no\r\n");
	} else {
		wire.calls[wire.next] = *call;
		text = wire.answers[wire.next++];
		if (text)
			answer(text);
		wire.lost |= !text;
	}
}

static bool wire_connect(void *context)
{
	(void)context;
	wire.lost = false;
	wire.out_len = 0;
	wire.connections++;
	return true;
}

static ssize_t wire_send(void *context, const void *bytes, size_t len)
{
	struct call call;

	(void)context;
	for (size_t at = 0; at < len && !wire.lost;) {
		at += read_command((const char *)bytes + at, &call);
		carry_out(&call);
	}
	return (ssize_t)len;
}

static ssize_t wire_receive(void *context, void *bytes, size_t cap)
{
	size_t len = wire.out_len;

	(void)context;
	assert_true(len <= cap);
	errno = ETIMEDOUT;
	memcpy(bytes, wire.out, len);
	wire.out_len = 0;
	return len ? (ssize_t)len : -1;
}

static void wire_close(void *context)
{
	(void)context;
}

static const struct wr_remote_wire made_up = {wire_connect, wire_send, wire_receive, wire_close};

static void tell(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	(void)context;
	told[key[0]] = count;
}

/* A store that is open; its first poll is answered with 5 changes. */
static int setup(void **state)
{
	struct weir_error error = {0};
	struct wr_remote *redis;

	(void)state;
	memset(&wire, 0, sizeof wire);
	memset(told, 0, sizeof told);
	opts = (struct wr_queue_opts){.url = "redis://127.0.0.1",
				      .prefix = "weir",
				      .assume_durable = true,
				      .max_requests = 10,
				      .max_bytes = 100000,
				      .max_line_bytes = 100000,
				      .timeout_us = S_US,
				      .lease_us = S_US,
				      .poll_us = S_US / 4,
				      .waiting = tell};
	assert_int_equal(wr_remote_new(&opts, NULL, &backend, &error), 0);
	redis = (struct wr_remote *)backend;
	redis->link.wire = &made_up;
	wire.answers[0] = "*2\r\n:100\r\n:5\r\n";
	assert_reason(backend->ops->open(backend, (struct wr_moment){T0_US, S_US}, &error),
		      WR_QUEUE_OK);
	assert_string_equal(wire.calls[0].words[4], "poll");
	assert_string_equal(wire.calls[0].words[5], "-1");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	backend->ops->free(backend);
	return 0;
}

static void run(struct wr_queue_job *job)
{
	backend->ops->run(backend, &job, 1, (struct wr_moment){T0_US, 2 * S_US});
}

static enum wr_queue_reason put(const char *first, const char *second)
{
	struct wr_deferred request = request_of(1, "a");
	struct wr_queue_job job = {
		.verb = WR_QUEUE_PUT,
		.put = {.request = &request, .max_waiting = 9, .max_age_us = S_US}};

	wire.answers[1] = first;
	wire.answers[2] = second;
	run(&job);
	return job.reason;
}

static void test_an_answer_is_believed(void **state)
{
	(void)state;
	assert_reason(put("-READONLY no\r\n", NULL), WR_QUEUE_READ_ONLY);
	assert_int_equal(wire.next, 2);
}

static void test_a_refusal_is_believed(void **state)
{
	(void)state;
	assert_reason(put("*2\r\n:100\r\n$4\r\nfull\r\n", NULL), WR_QUEUE_FULL);
}

/* The first call may have been carried out, or may be yet: what the second one is answered does not
 * say that the request is not stored. */
static void test_a_refusal_after_a_lost_answer(void **state)
{
	(void)state;
	assert_reason(put(NULL, "-READONLY no\r\n"), WR_QUEUE_AWAY);
	assert_int_equal(wire.next, 3);
}

static void test_full_after_a_lost_answer(void **state)
{
	(void)state;
	assert_reason(put(NULL, "*2\r\n:100\r\n$4\r\nfull\r\n"), WR_QUEUE_AWAY);
}

static void test_success_after_a_lost_answer(void **state)
{
	(void)state;
	assert_reason(put(NULL, "*5\r\n:100\r\n$0\r\n\r\n:1\r\n:1\r\n:1\r\n"), WR_QUEUE_OK);
	assert_int_equal(told[1], 1);
	/* By the ticket Redis knows that it is the same. */
	assert_memory_equal(wire.calls[1].words[5], wire.calls[2].words[5], 32);
}

/* ---- changes of others ---- */

/* Opened again after a failure; its poll is answered so. */
static void open_again(const char *poll, const char *next)
{
	struct weir_error error = {0};

	wire.answers[wire.next] = NULL;
	backend->ops->tick(backend, (struct wr_moment){T0_US, 2 * S_US});
	assert_reason(backend->failed, WR_QUEUE_AWAY);
	backend->failed = WR_QUEUE_OK;
	backend->ops->close(backend);
	wire.answers[wire.next] = poll;
	wire.answers[wire.next + 1] = next;
	assert_reason(backend->ops->open(backend, (struct wr_moment){T0_US, 3 * S_US}, &error),
		      WR_QUEUE_OK);
}

/* A line that became empty meanwhile is told. */
static void test_opened_again(void **state)
{
	(void)state;
	told[7] = 3;
	open_again("*4\r\n:100\r\n:6\r\n$16\r\n\7 the first line\r\n:0\r\n", NULL);
	assert_int_equal(told[7], 0);
	assert_string_equal(wire.calls[2].words[5], "5");
}

static void test_opened_again_after_a_loss(void **state)
{
	(void)state;
	open_again("*2\r\n:100\r\n:2\r\n", "*2\r\n:100\r\n:2\r\n");
	assert_string_equal(wire.calls[2].words[5], "5");
	assert_string_equal(wire.calls[3].words[5], "-1");
	assert_int_equal(((struct wr_remote *)backend)->changes, 2);
}

/* ---- takes ---- */

/* A process before had this name, and more connections. */
static void test_counts_on_from_a_process_before(void **state)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_TAKE, .take = {.max = 1}};

	(void)state;
	wire.answers[1] = "*4\r\n:100\r\n:-1\r\n:7\r\n$0\r\n\r\n";
	wire.answers[2] = "*4\r\n:100\r\n:0\r\n:-1\r\n$0\r\n\r\n";
	run(&job);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.take.count, 0);
	assert_true(job.take.next_us == 0);
	assert_string_equal(wire.calls[1].words[10], "1");
	run(&job);
	assert_string_equal(wire.calls[2].words[9], "0"); /* what was not heard of comes back */
	assert_string_equal(wire.calls[2].words[10], "8");
	assert_true(job.take.next_us == UINT64_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_an_answer_is_believed),
		TEST(test_a_refusal_is_believed),
		TEST(test_a_refusal_after_a_lost_answer),
		TEST(test_full_after_a_lost_answer),
		TEST(test_success_after_a_lost_answer),
		TEST(test_opened_again),
		TEST(test_opened_again_after_a_loss),
		TEST(test_counts_on_from_a_process_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
