/* Tests RESP connections that wait for the central store: turns, limits, and decisions. */
#include "serve/helper.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/stream_impl.h"
#include "serve/fake_central.h"
#include "serve/fleet/redis.h"
#include "serve/resp/resp.h"
#include "serve/resp/waits.h"

#define PEERS 3
#define ASK "CL.THROTTLE k 9 1 60\r\n"
#define ANSWER                                                                                     \
	"*5\r\n:0\r\n:9\r\n:7\r\n:-1\r\n:1\r\n" /* the reply after an answer of the fake central */

static const char RULES[] = "domain: rl\n"
			    "descriptors:\n"
			    "  - {key: user, rate_limit: {unit: year, requests_per_unit: 9}}\n";

static struct bench bench;
static struct wr_quota quota;
static struct wr_listener listener = {.magic = WR_LISTENER_MAGIC,
				      .name = "resp",
				      .text = "here",
				      .endpoint = {.kind = WR_ENDPOINT_UNIX}};
static int peers[PEERS];
static struct wr_resp_host *host;
static char received[4096];

/* Returns the session of the stream that was accepted last. */
static struct wr_resp_session *newest_session(void)
{
	struct wr_list *first = wr_list_first(&bench.loop.net.streams);
	struct wr_serve_resp_talk *talk =
		wr_stream_state(wr_container_of(first, struct wr_stream, link));

	return &talk->session;
}

static int setup(void **state)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = "a secret";

	(void)state;
	bench_open_redis(&bench, RULES, "redis://127.0.0.1:1");
	fake->host.secret(fake->context, secret);
	quota = (struct wr_quota){.max = 10, .used = PEERS};
	listener.quota = &quota;
	listener.protocol = &wr_serve_resp_protocol;
	for (int i = 0; i < PEERS; i++) {
		int ends[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
			0);
		peers[i] = ends[1];
		wr_stream_accept(&bench.loop.net, &listener, NULL, ends[0], NULL);
	}
	host = newest_session()->host;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PEERS; i++)
		if (peers[i] >= 0)
			close(peers[i]);
	bench_close(&bench);
	wr_serve_resp_release();
	return 0;
}

static void say(int peer, const char *bytes)
{
	assert_int_equal(send(peers[peer], bytes, strlen(bytes), 0), strlen(bytes));
	bench_turn(&bench);
}

static const char *hear(int peer)
{
	ssize_t n;

	bench_turn(&bench);
	n = recv(peers[peer], received, sizeof received - 1, 0);
	assert_true(n >= 0 || errno == EAGAIN);
	received[n > 0 ? n : 0] = '\0';
	return received;
}

static void admit(int question)
{
	fake_answer(question, WR_ANSWER_ADMITTED, 0);
}

static void test_answered_in_order(void **state)
{
	(void)state;
	say(0, ASK ASK "PING\r\n");
	assert_int_equal(fake->count, 2);
	admit(1);
	assert_string_equal(hear(0), "");
	admit(0);
	assert_string_equal(hear(0), ANSWER ANSWER "+PONG\r\n");
	assert_int_equal(host->waits, 0);
}

/* Admits a question, and sets waits_max back to 2, because quick answers raise it. */
static void admit_of_two(int question)
{
	admit(question);
	host->waits_max = 2;
}

/* A long pipeline does not block other connections: the connections take turns. */
static void test_turns(void **state)
{
	(void)state;
	host->waits_max = 2;
	say(0, ASK ASK ASK ASK); /* two commands wait for answers, and two stand in line */
	say(1, ASK);
	say(2, ASK ASK);
	assert_int_equal(fake->count, 2);
	admit_of_two(0);
	assert_string_equal(hear(0), ANSWER);
	assert_int_equal(fake->count, 3); /* a question of peer 0, which was the first in line */
	admit_of_two(1);
	assert_string_equal(hear(0), ANSWER);
	assert_int_equal(fake->count, 4);
	admit_of_two(3);
	assert_string_equal(hear(1), ANSWER); /* peer 1 had its turn before the rest of peer 0 */
	assert_int_equal(fake->count, 5);
	admit_of_two(4);
	assert_string_equal(hear(2), ANSWER);
	admit_of_two(2);
	assert_string_equal(hear(0), ANSWER);
	assert_int_equal(fake->count, 7);
	admit_of_two(5);
	admit_of_two(6);
	assert_string_equal(hear(0), ANSWER);
	assert_string_equal(hear(2), ANSWER);
	assert_false(host->line);
}

/* When a connection closes, its position in line and its questions in flight are freed. */
static void test_leaving(void **state)
{
	(void)state;
	host->waits_max = 1;
	say(0, ASK);
	say(1, ASK);
	say(2, ASK);
	assert_int_equal(fake->count, 1);
	assert_true(host->line);
	wr_streams_cut(&bench.loop.net);
	bench_turn(&bench);
	assert_int_equal(fake->left, 1);
	assert_int_equal(host->waits, 0);
	assert_false(host->line);
	assert_int_equal(fake->count, 1);
}

/* A client that has closed its side still gets its replies. */
static void test_half_closed(void **state)
{
	(void)state;
	say(0, ASK ASK);
	shutdown(peers[0], SHUT_WR);
	bench_turn(&bench);
	admit(0);
	assert_string_equal(hear(0), ANSWER);
	admit(1);
	assert_string_equal(hear(0), ANSWER);
	bench_turn(&bench);
	assert_int_equal(recv(peers[0], received, 1, 0), 0);
}

/* A drain waits for commands in progress. */
static void test_drained(void **state)
{
	(void)state;
	say(0, ASK);
	wr_streams_drain(&bench.loop.net);
	bench_turn(&bench);
	assert_int_equal(recv(peers[1], received, 1, 0), 0);
	assert_int_equal(recv(peers[0], received, 1, 0), -1);
	admit(0);
	assert_string_equal(hear(0), ANSWER);
	assert_int_equal(recv(peers[0], received, 1, 0), 0);
}

/* waits_max grows while answers are quick and shrinks when answers are slow, compared with the
 * timeout. The timeout is first an hour, so that no answer is slow even if the machine pauses, and
 * then 20 ms. */
static void test_adapts(void **state)
{
	uint64_t begun_ns = wr_loop_mono_ns(&bench.loop), best_ns;

	(void)state;
	bench.service.settings.redis.timeout_ns = 3600000000000;
	host->waits_max = 2;
	say(0, ASK ASK ASK); /* waits_max is reached */
	admit(0);
	admit(1);
	bench_turn(&bench);
	assert_int_equal(host->waits_max, 4);
	admit(2);
	bench_turn(&bench);
	host->waits_max = 100;
	bench.service.settings.redis.timeout_ns = 20000000;
	best_ns = wr_loop_mono_ns(&bench.loop) -
		  begun_ns; /* not less than the duration of the quickest answer */
	say(0, ASK ASK);
	/* The answers take more than a quarter of the timeout longer than the quickest answer. */
	usleep((useconds_t)(best_ns / 1000) + 10000);
	admit(3);
	admit(4);
	assert_int_equal(host->waits_max,
			 75); /* lowered once, because both questions were in flight together */
	hear(0);
}

/* ---- WEIR.CHECK: decisions of serve/decide ---- */

#define CHECK "WEIR.CHECK rl user a\r\n"

/* Returns the verdicts of all replies, such as "admit,refuse,". */
static const char *verdicts(const char *replies)
{
	static char text[256];
	size_t len = 0;
	char word[16];

	text[0] = '\0';
	while ((replies = strstr(replies, "$7\r\nverdict\r\n"))) {
		assert_int_equal(sscanf(replies, "$7 verdict $%*d %15[a-z]", word), 1);
		len += (size_t)snprintf(text + len, sizeof text - len, "%s,", word);
		assert_true(len < sizeof text);
		replies++;
	}
	return text;
}

static void test_decisions_in_order(void **state)
{
	(void)state;
	say(0, CHECK CHECK "PING\r\n");
	assert_int_equal(fake->count, 2);
	fake_answer(1, 0, 0);
	assert_string_equal(hear(0), "");
	admit(0);
	assert_string_equal(verdicts(hear(0)), "admit,refuse,");
	assert_non_null(strstr(received, "+PONG\r\n"));
	assert_int_equal(host->waits, 0);
	assert_int_equal(bench.loop.refs.current->asks, 0);
}

/* If the central store does not answer, this node's share decides, and the central store gets a
 * report. */
static void test_decision_without_answer(void **state)
{
	(void)state;
	say(0, CHECK);
	fake_fail(0);
	assert_string_equal(verdicts(hear(0)), "admit,");
	assert_int_equal(fake->messages[WR_QUESTION_REPORT], 1);
}

/* The second question is answered before it is sent. Its reply waits only for the first reply. */
static void test_decision_at_once(void **state)
{
	(void)state;
	say(0, CHECK);
	fake->at_once = true;
	fake->flags = 0;
	say(0, CHECK);
	assert_int_equal(host->waits, 1);
	assert_string_equal(hear(0), "");
	admit(0);
	assert_string_equal(verdicts(hear(0)), "admit,refuse,");
}

/* A client disconnects before its replies. The unit that was granted is given back, and the
 * question in flight is abandoned. */
static void test_decision_of_closed_connection(void **state)
{
	(void)state;
	say(0, CHECK CHECK);
	admit(1);
	wr_streams_cut(&bench.loop.net);
	bench_turn(&bench);
	assert_int_equal(fake->left, 1);
	assert_int_equal(fake->messages[WR_QUESTION_RETURN], 1);
	assert_int_equal(bench.loop.refs.current->asks, 0);
}

static void test_decision_in_shadow_mode(void **state)
{
	(void)state;
	bench.service.settings.shadow = true;
	say(0, CHECK);
	fake_answer(0, 0, 0);
	assert_string_equal(verdicts(hear(0)), "admit,");
	assert_int_equal(host->tally.limited, 1);
}

/* WEIR.FLEET replies with the fleet's secret, but only to a linked nginx worker. */
static void test_fleet(void **state)
{
	const int last = PEERS - 1; /* the newest stream */

	(void)state;
	say(last, "WEIR.FLEET\r\n");
	assert_memory_equal(hear(last), "-NOPERM ", 8);
	newest_session()->linked = true;
	say(last, "WEIR.FLEET\r\n");
	assert_memory_equal(hear(last), "$192\r\na secret", 14);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_answered_in_order),
		TEST(test_turns),
		TEST(test_leaving),
		TEST(test_half_closed),
		TEST(test_drained),
		TEST(test_adapts),
		TEST(test_decisions_in_order),
		TEST(test_decision_without_answer),
		TEST(test_decision_at_once),
		TEST(test_decision_of_closed_connection),
		TEST(test_decision_in_shadow_mode),
		TEST(test_fleet),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
