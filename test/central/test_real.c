/* Tests with a real server that the scripts understand the arguments. Sockets and clocks are real.
 * The limits have a period of a year, so no result depends on the time. */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "redis/server.h"

#define LINES_MAX 8
#define PATIENCE_S 30
#define YEAR_NS (365 * 86400ull * 1000 * MS)

struct live {
	struct redis_server server;
	struct rig rig; /* only the fields that questions need are used */
	struct wr_central_link *links[LINES_MAX];
	int fds[LINES_MAX];
	bool up[LINES_MAX];
	int secrets;
	uint32_t nodes;
	char message[64];
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void on_open(void *context, struct wr_central_link *link)
{
	struct live *live = context;
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	for (int i = 0; i < LINES_MAX; i++) {
		if (live->links[i])
			continue;
		memcpy(name.sun_path, link->at.host, strlen(link->at.host) + 1);
		live->fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(connect(live->fds[i], (struct sockaddr *)&name, sizeof name), 0);
		live->links[i] = link;
		live->up[i] = false;
		return;
	}
	fail();
}

static void on_close(void *context, struct wr_central_link *link)
{
	struct live *live = context;

	for (int i = 0; i < LINES_MAX; i++)
		if (live->links[i] == link) {
			close(live->fds[i]);
			live->links[i] = NULL;
		}
}

static void on_dirty(void *context, struct wr_central_link *link)
{
	(void)context, (void)link;
}

static void on_wake(void *context, uint64_t mono_ns)
{
	(void)context, (void)mono_ns;
}

static void on_log(void *context, enum wr_central_log_level level, const char *text)
{
	(void)context;
	if (level == WR_CENTRAL_LOG_ERROR)
		fail_msg("%s", text);
}

static void on_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	(void)secret;
	((struct live *)context)->secrets++;
}

static void on_nodes(void *context, uint32_t nodes)
{
	((struct live *)context)->nodes = nodes;
}

static void on_message(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	struct live *live = context;

	assert_true(age_ns < PATIENCE_S * 1000000000ull);
	if (own)
		return;
	snprintf(live->message, sizeof live->message, "%.*s", (int)len, (const char *)bytes);
}

static const struct wr_central_host host = {on_open, on_close,  on_dirty, on_wake,
					    on_log,  on_secret, on_nodes, on_message};

static void run_step(struct live *live)
{
	struct rig *rig = &live->rig;

	rig->now_ns = clock_ns(CLOCK_REALTIME);
	rig->mono_ns = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < LINES_MAX; i++) {
		struct pollfd poller = {.fd = live->fds[i], .events = POLLIN};
		uint8_t in[4096];
		const uint8_t *bytes;
		size_t len;

		if (live->links[i] && !live->up[i]) {
			live->up[i] = true;
			wr_central_link_up(live->links[i], rig->now_ns, rig->mono_ns);
		}
		while (live->links[i] && wr_central_link_output(live->links[i], &bytes, &len)) {
			ssize_t n = write(live->fds[i], bytes, len);

			assert_true(n > 0);
			wr_central_link_sent(live->links[i], (size_t)n);
		}
		if (live->links[i] && poll(&poller, 1, 1) > 0) {
			ssize_t n = read(live->fds[i], in, sizeof in);

			assert_true(n > 0);
			wr_central_link_input(live->links[i], in, (size_t)n, rig->now_ns,
					      rig->mono_ns);
		}
	}
	wr_central_tick(rig->central, rig->now_ns, rig->mono_ns);
}

/* Runs the loop until the condition is true. */
#define until(live, condition)                                                                     \
	do {                                                                                       \
		uint64_t until_end = clock_ns(CLOCK_MONOTONIC) + PATIENCE_S * 1000000000ull;       \
		while (!(condition)) {                                                             \
			assert_true(clock_ns(CLOCK_MONOTONIC) < until_end);                        \
			run_step(live);                                                            \
		}                                                                                  \
	} while (0)

static void open_live(struct live *live, uint64_t holder)
{
	struct wr_central_opts opts = {.target = &live->rig.target,
				       .timeout_ns = PATIENCE_S * 1000000000ull,
				       .holder = {holder, 1},
				       .chief = true,
				       .seed = 1};
	char url[128];

	snprintf(url, sizeof url, "redis+unix://%s/redis.sock", live->server.dir);
	assert_int_equal(
		wr_redis_target_parse((struct weir_str){url, strlen(url)}, &live->rig.target, NULL),
		0);
	assert_int_equal(wr_central_new(&opts, &host, live, clock_ns(CLOCK_REALTIME),
					clock_ns(CLOCK_MONOTONIC), &live->rig.central, NULL),
			 0);
}

static struct live live;

static int start_server(void **state)
{
	(void)state;
	return redis_server_start(&live.server);
}

static int stop_server(void **state)
{
	(void)state;
	redis_server_stop(&live.server);
	return 0;
}

static int begin_live(void **state)
{
	(void)state;
	redis_run(&live.server, "FLUSHALL");
	open_live(&live, 0xa);
	return 0;
}

static int end_live(void **state)
{
	(void)state;
	wr_central_free(live.rig.central);
	live.nodes = 0;
	live.secrets = 0;
	return 0;
}

static bool all_done(const struct asker *askers, int count)
{
	for (int i = 0; i < count; i++)
		if (!askers[i].done)
			return false;
	return true;
}

static int admitted(const struct asker *askers, int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += flags_of(&askers[i], 0) == WR_ANSWER_ADMITTED;
	return sum;
}

/* With every algorithm 10 of 25 requests are admitted, in merged calls and in single calls. */
static void test_ten_pass(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	(void)state;
	for (size_t k = 0; k < sizeof algorithms; k++) {
		struct item item = {.key = 100 + k,
				    .cost = 1,
				    .algorithm = algorithms[k],
				    .period_ns = YEAR_NS};
		struct asker askers[25] = {{.done = 0}};

		for (int i = 0; i < 25; i++) {
			take(&live.rig, &askers[i], &item, 1);
			if (i % 5 == 4)
				until(&live, all_done(askers, i + 1));
		}
		assert_int_equal(admitted(askers, 25), 10);
		assert_int_equal(askers[0].answers[0].remaining, 9);
		assert_int_equal(askers[9].answers[0].remaining, 0);
		assert_true(askers[10].answers[0].retry_after_ns > 0);
	}
}

/* Units can be given back with every algorithm except the leaky bucket: requests without a wait
 * have already left its queue. */
static void test_give_back(void **state)
{
	static const uint8_t algorithms[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW,
					     WEIR_SLIDING_COUNTER, WEIR_SLIDING_LOG};

	(void)state;
	for (size_t k = 0; k < sizeof algorithms; k++) {
		struct item item = {.key = 200 + k,
				    .cost = 1,
				    .algorithm = algorithms[k],
				    .period_ns = YEAR_NS};
		uint64_t before = info(&live.rig)->counts.returned;
		struct asker asker = {.done = 0};

		take(&live.rig, &asker, &item, 1);
		until(&live, asker.done);
		assert_admitted(&asker);
		item.cost = -1;
		item.decided_us = asker.answers[0].decided_us;
		send_question(&live.rig, WR_QUESTION_RETURN, &item, 1);
		until(&live, info(&live.rig)->counts.returned > before);
		item.cost = 0;
		take(&live.rig, &asker, &item, 1);
		until(&live, asker.done);
		assert_int_equal(asker.answers[0].remaining, asker.answers[0].limit);
	}
}

/* Either all limits of one key admit a request, or none takes units. */
static void test_all_or_none(void **state)
{
	struct item items[] = {
		{.key = 300, .id = "wide", .cost = 1, .limit = 100, .period_ns = YEAR_NS},
		{.key = 300, .id = "tight", .cost = 1, .limit = 1, .period_ns = YEAR_NS}};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, items, 2);
	until(&live, asker.done);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED);
	assert_int_equal(flags_of(&asker, 1), WR_ANSWER_ADMITTED);
	take(&live.rig, &asker, items, 2);
	until(&live, asker.done);
	assert_int_equal(flags_of(&asker, 0), WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN);
	assert_int_equal(flags_of(&asker, 1), 0);
	assert_int_equal(asker.answers[0].remaining, 99);
}

/* A report counts once and is never refused. Afterwards only the rest of the limit is granted. */
static void test_report(void **state)
{
	struct item item = {
		.key = 400, .cost = 7, .algorithm = WEIR_SLIDING_COUNTER, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	until(&live, info(&live.rig)->any_up);
	item.decided_us = clock_ns(CLOCK_REALTIME) / 1000;
	send_question(&live.rig, WR_QUESTION_REPORT, &item, 1);
	until(&live, info(&live.rig)->counts.reported == 1);
	item.cost = 0;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_int_equal(asker.answers[0].remaining, 3);
	/* The report's sequence number is stored for a minute, in the slot of the counter. */
	assert_int_equal(redis_number(&live.server, "EVAL %s 0",
				      "local n = 0 for _, k in ipairs(redis.call('KEYS', '*:r:*')) "
				      "do n = n + redis.call('TTL', k) end return n") > 30,
			 1);
}

static void test_script_flush(void **state)
{
	struct item item = {.key = 500, .cost = 1, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	redis_run(&live.server, "SCRIPT FLUSH");
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_admitted(&asker);
	assert_int_equal(asker.answers[0].remaining, 8);
	assert_true(info(&live.rig)->counts.again >= 1);
}

static void test_reset(void **state)
{
	struct item item = {.key = 600, .cost = 10, .period_ns = YEAR_NS};
	struct asker asker = {.done = 0};

	(void)state;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_refused(&asker);
	item.cost = 0;
	send_question(&live.rig, WR_QUESTION_RESET, &item, 1);
	item.cost = 10;
	take(&live.rig, &asker, &item, 1);
	until(&live, asker.done);
	assert_admitted(&asker);
}

static void test_node(void **state)
{
	(void)state;
	until(&live, live.secrets == 1 && live.nodes == 1);
	assert_int_equal(redis_number(&live.server, "STRLEN weir:1:secret"), 384);
	redis_run(&live.server, "XADD weir:1:control * h somebody m hello");
	until(&live, strcmp(live.message, "hello") == 0);
	assert_int_equal(wr_central_publish(live.rig.central, "mine", 4, clock_ns(CLOCK_MONOTONIC)),
			 0);
	until(&live, redis_number(&live.server, "XLEN weir:1:control") == 2);
	assert_true(strlen(info(&live.rig)->shards[0].version) >= 5);
	assert_string_equal(info(&live.rig)->shards[0].policy, "noeviction");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ten_pass, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_give_back, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_all_or_none, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_report, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_script_flush, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_reset, begin_live, end_live),
		cmocka_unit_test_setup_teardown(test_node, begin_live, end_live),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
