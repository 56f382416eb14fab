/* Tests the Redis backend with error replies and with replies that are lost or late. The connection
 * is simulated, and each test sets the replies. */
#include "queue/queue_test.h"

#include <errno.h>

#include "queue/redis_backend.h"

#define WORDS 24

/* The words of a call of the script. */
struct call {
	char words[WORDS][40];
	int count;
};

static struct {
	/* replies to the calls of the script, in order; NULL: the reply is lost */
	const char *replies[8];
	size_t next;
	struct call calls[8];
	char out[4096];
	size_t out_len;
	bool lost;
	unsigned connections;
} wire;

static struct wr_queue_opts opts;
static struct wr_queue_backend *backend;
static uint64_t waiting[256]; /* reported counts, by the first byte of the key */

static void add_reply(const char *text)
{
	size_t len = strlen(text);

	memcpy(wire.out + wire.out_len, text, len);
	wire.out_len += len;
}

/* Parses one command. Returns its length. */
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

static void reply_to(const struct call *call)
{
	const char *text;

	if (strcmp(call->words[0], "SCRIPT") == 0) {
		add_reply("+OK\r\n");
	} else if (strcmp(call->words[0], "CONFIG") == 0 || strcmp(call->words[0], "INFO") == 0) {
		add_reply("-NOPERM no\r\n");
	} else {
		wire.calls[wire.next] = *call;
		text = wire.replies[wire.next++];
		if (text)
			add_reply(text);
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
		reply_to(&call);
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

static const struct wr_queue_redis_wire simulated_wire = {wire_connect, wire_send, wire_receive,
							  wire_close};

static void note_waiting(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	(void)context;
	waiting[key[0]] = count;
}

/* Opens a backend. The reply to its first poll says that the last change has the number 5. */
static int setup(void **state)
{
	struct weir_error error = {0};
	struct wr_queue_redis *redis;

	(void)state;
	memset(&wire, 0, sizeof wire);
	memset(waiting, 0, sizeof waiting);
	opts = (struct wr_queue_opts){.url = "redis://127.0.0.1",
				      .prefix = "weir",
				      .assume_durable = true,
				      .max_requests = 10,
				      .max_bytes = 100000,
				      .max_line_bytes = 100000,
				      .timeout_us = S_US,
				      .lease_us = S_US,
				      .poll_us = S_US / 4,
				      .waiting = note_waiting};
	assert_int_equal(wr_queue_redis_new(&opts, NULL, &backend, &error), 0);
	redis = (struct wr_queue_redis *)backend;
	redis->link.wire = &simulated_wire;
	wire.replies[0] = "*2\r\n:100\r\n:5\r\n";
	assert_reason(backend->ops->open(backend, (struct wr_queue_moment){T0_US, S_US}, &error),
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

static void run_job(struct wr_queue_job *job)
{
	backend->ops->run(backend, &job, 1, (struct wr_queue_moment){T0_US, 2 * S_US});
}

static enum wr_queue_reason run_put(const char *first, const char *second)
{
	struct wr_queue_request request = request_of(1, "a");
	struct wr_queue_job job = {
		.verb = WR_QUEUE_PUT,
		.put = {.request = &request, .max_waiting = 9, .max_age_us = S_US}};

	wire.replies[1] = first;
	wire.replies[2] = second;
	run_job(&job);
	return job.reason;
}

static void test_error_reply(void **state)
{
	(void)state;
	assert_reason(run_put("-READONLY no\r\n", NULL), WR_QUEUE_READ_ONLY);
	assert_int_equal(wire.next, 2);
}

static void test_refusal(void **state)
{
	(void)state;
	assert_reason(run_put("*2\r\n:100\r\n$4\r\nfull\r\n", NULL), WR_QUEUE_FULL);
}

/* Redis may have run the first call, or may run it later. So the request may be stored although the
 * second call was refused. */
static void test_error_after_a_lost_reply(void **state)
{
	(void)state;
	assert_reason(run_put(NULL, "-READONLY no\r\n"), WR_QUEUE_AWAY);
	assert_int_equal(wire.next, 3);
}

static void test_full_after_a_lost_reply(void **state)
{
	(void)state;
	assert_reason(run_put(NULL, "*2\r\n:100\r\n$4\r\nfull\r\n"), WR_QUEUE_AWAY);
}

static void test_success_after_a_lost_reply(void **state)
{
	(void)state;
	assert_reason(run_put(NULL, "*5\r\n:100\r\n$0\r\n\r\n:1\r\n:1\r\n:1\r\n"), WR_QUEUE_OK);
	assert_int_equal(waiting[1], 1);
	/* Both calls have the same ticket. */
	assert_memory_equal(wire.calls[1].words[5], wire.calls[2].words[5], 32);
}

/* ---- changes by other processes ---- */

/* Makes the backend fail and reopens it. `poll` is the reply to its poll, and `next` is the reply
 * to the call after the poll. */
static void reopen_backend(const char *poll, const char *next)
{
	struct weir_error error = {0};

	wire.replies[wire.next] = NULL;
	backend->ops->tick(backend, (struct wr_queue_moment){T0_US, 2 * S_US});
	assert_reason(backend->failed, WR_QUEUE_AWAY);
	backend->failed = WR_QUEUE_OK;
	backend->ops->close(backend);
	wire.replies[wire.next] = poll;
	wire.replies[wire.next + 1] = next;
	assert_reason(
		backend->ops->open(backend, (struct wr_queue_moment){T0_US, 3 * S_US}, &error),
		WR_QUEUE_OK);
}

/* A line that became empty while the backend was closed is reported. */
static void test_reopened(void **state)
{
	(void)state;
	waiting[7] = 3;
	reopen_backend("*4\r\n:100\r\n:6\r\n$16\r\n\7 the first line\r\n:0\r\n", NULL);
	assert_int_equal(waiting[7], 0);
	assert_string_equal(wire.calls[2].words[5], "5");
}

static void test_reopened_after_redis_lost_data(void **state)
{
	(void)state;
	reopen_backend("*2\r\n:100\r\n:2\r\n", "*2\r\n:100\r\n:2\r\n");
	assert_string_equal(wire.calls[2].words[5], "5");
	assert_string_equal(wire.calls[3].words[5], "-1");
	assert_int_equal(((struct wr_queue_redis *)backend)->changes, 2);
}

/* ---- takes ---- */

/* The script refuses a take, because an earlier process with the same owner name has numbered its
 * connections up to 7. The backend continues with number 8. */
static void test_continues_the_count_of_connections(void **state)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_TAKE, .take = {.max = 1}};

	(void)state;
	wire.replies[1] = "*4\r\n:100\r\n:-1\r\n:7\r\n$0\r\n\r\n";
	wire.replies[2] = "*4\r\n:100\r\n:0\r\n:-1\r\n$0\r\n\r\n";
	run_job(&job);
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(job.take.count, 0);
	assert_true(job.take.next_us == 0);
	assert_string_equal(wire.calls[1].words[10], "1");
	run_job(&job);
	assert_string_equal(wire.calls[2].words[9],
			    "0"); /* makes the script free all lines with a fence above 0 */
	assert_string_equal(wire.calls[2].words[10], "8");
	assert_true(job.take.next_us == UINT64_MAX);
}

/* Feeds a new reader. Returns the result of redisReaderGetReply(). */
static int read_text(const char *text, void **reply)
{
	struct wr_queue_redis_reader reader;
	int rc;

	assert_true(wr_queue_redis_reader_open(&reader));
	assert_int_equal(redisReaderFeed(reader.state, text, strlen(text)), REDIS_OK);
	rc = redisReaderGetReply(reader.state, reply);
	wr_queue_redis_reader_close(&reader);
	return rc;
}

/* Without a bound, hiredis would reserve 6 GB for the array of the first reply. */
static void test_arrays_have_a_bound(void **unused)
{
	void *object = NULL;
	redisReply *reply;

	(void)unused;
	assert_int_equal(read_text("*777777770\r\n", &object), REDIS_ERR);
	assert_int_equal(read_text("*2\r\n*1048577\r\n", &object), REDIS_ERR);
	assert_int_equal(read_text("*1048576\r\n", &object), REDIS_OK);
	assert_null(object);
	assert_int_equal(read_text("*3\r\n:1\r\n*0\r\n*2\r\n$1\r\nx\r\n:7\r\n", &object), REDIS_OK);
	reply = object;
	assert_int_equal(reply->elements, 3);
	assert_int_equal(reply->element[0]->integer, 1);
	assert_int_equal(reply->element[1]->elements, 0);
	assert_string_equal(reply->element[2]->element[0]->str, "x");
	assert_int_equal(reply->element[2]->element[1]->integer, 7);
	freeReplyObject(reply);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_error_reply),
		TEST(test_refusal),
		TEST(test_error_after_a_lost_reply),
		TEST(test_full_after_a_lost_reply),
		TEST(test_success_after_a_lost_reply),
		TEST(test_reopened),
		TEST(test_reopened_after_redis_lost_data),
		TEST(test_continues_the_count_of_connections),
		cmocka_unit_test(test_arrays_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
