/* Positions in the queue of a leaky bucket: four per second, ten may wait. */
#include "limiter/helper.h"

#include <string.h>

#define QUARTER_NS (SECOND_NS / 4)

static const char queue[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: q\n"
	"  rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket,\n"
	"    queue_size: 40}\n"
	"- key: slow\n"
	"  rate_limit: {period: 10s, requests_per_unit: 10, algorithm: leaky_bucket,\n"
	"    queue_size: 40}\n"
	"- key: day\n"
	"  rate_limit: {unit: day, requests_per_unit: 10}\n";

struct waiter {
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	struct weir_ask *ask;
};

/* Decides "q=1" or "q=1;day=7", and stores the ask in the waiter. */
static int join(struct rig *rig, struct waiter *waiter, const char *key, const char *value,
		int64_t cost)
{
	struct weir_entry entry = {.key = {key, strlen(key)}, .value = {value, strlen(value)}};
	struct weir_str domain = {"d", 1};

	weir_ask_done(waiter->ask);
	assert_int_equal(weir_ask_init(waiter->memory, sizeof waiter->memory, rig->engine, domain,
				       &waiter->ask),
			 0);
	assert_int_equal(weir_ask_add(waiter->ask, &entry, 1, NULL, cost), 0);
	return weir_ask_decide(waiter->ask, rig->now_ns);
}

static uint64_t due(const struct waiter *waiter)
{
	struct weir_queue_position position = {.size = sizeof position};

	assert_int_equal(weir_ask_queue_position(waiter->ask, &position), 0);
	return position.due_ns - NOW_NS;
}

static uint64_t queue_of(const struct waiter *waiter)
{
	struct weir_queue_position position = {.size = sizeof position};

	assert_int_equal(weir_ask_queue_position(waiter->ask, &position), 0);
	return position.queue;
}

/* Four requests: the first is admitted at once, three wait for 0.25, 0.5 and 0.75 s. */
static void open_queue(struct rig *rig, struct waiter *w)
{
	rig_open(rig, queue, "d");
	rig->now_ns = NOW_NS;
	assert_int_equal(join(rig, &w[0], "q", "1", 1), WEIR_ADMIT);
	for (uint64_t i = 1; i < 4; i++) {
		assert_int_equal(join(rig, &w[i], "q", "1", 1), WEIR_DELAY);
		assert_int_equal(due(&w[i]), i * QUARTER_NS);
	}
}

static void close_queue(struct rig *rig, struct waiter *w, size_t count)
{
	for (size_t i = 0; i < count; i++)
		weir_ask_done(w[i].ask);
	rig_close(rig);
}

static void later_requests_move_up(void **state)
{
	static struct waiter w[5];
	struct rig rig;

	open_queue(&rig, w);
	assert_int_equal(weir_ask_swap_positions(w[1].ask, w[2].ask), 0);
	assert_int_equal(weir_ask_swap_positions(w[1].ask, w[3].ask), 0);
	assert_int_equal(due(&w[2]), 1 * QUARTER_NS);
	assert_int_equal(due(&w[3]), 2 * QUARTER_NS);
	assert_int_equal(due(&w[1]), 3 * QUARTER_NS);
	rig.now_ns += SECOND_NS / 10;
	assert_int_equal(weir_ask_cancel(w[1].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[4], "q", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[4]), 3 * QUARTER_NS);
	close_queue(&rig, w, 5);
	(void)state;
}

/* A request of another process is behind: the position stays empty. */
static void positions_of_other_processes_stay(void **state)
{
	static struct waiter w[6];
	struct rig rig;

	open_queue(&rig, w);
	assert_int_equal(weir_ask_cancel(w[2].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[4], "q", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[4]), 4 * QUARTER_NS);
	/* The last two leave, the last one first. */
	assert_int_equal(weir_ask_cancel(w[4].ask, rig.now_ns), 0);
	assert_int_equal(weir_ask_cancel(w[3].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[5], "q", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[5]), 3 * QUARTER_NS);
	close_queue(&rig, w, 6);
	(void)state;
}

static void cancelled_from_the_end(void **state)
{
	static struct waiter w[5];
	struct rig rig;

	open_queue(&rig, w);
	rig.now_ns += 3 * QUARTER_NS + 1;
	assert_int_equal(weir_ask_cancel(w[3].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[4], "q", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[4]), 4 * QUARTER_NS);
	close_queue(&rig, w, 5);
	(void)state;
}

/* A wait of many periods: `since` of the bucket has advanced since the position was taken. */
static void waits_of_many_periods(void **state)
{
	static struct waiter w[32];
	struct rig rig;

	rig_open(&rig, queue, "d");
	rig.now_ns = NOW_NS;
	for (uint64_t i = 0; i < 30; i++)
		join(&rig, &w[i], "slow", "1", 1);
	rig.now_ns += 15 * SECOND_NS;
	assert_int_equal(join(&rig, &w[30], "slow", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[30]), 30 * SECOND_NS);
	rig.now_ns += 8 * SECOND_NS;
	for (int i = 30; i > 25; i--)
		assert_int_equal(weir_ask_cancel(w[i].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[31], "slow", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[31]), 26 * SECOND_NS);
	close_queue(&rig, w, 32);
	(void)state;
}

static void invalid_swaps(void **state)
{
	static struct waiter w[7];
	struct weir_queue_position position = {.size = sizeof position};
	struct rig rig;

	open_queue(&rig, w);
	assert_int_equal(weir_ask_queue_position(w[0].ask, &position), WEIR_EINVAL);
	assert_int_equal(weir_ask_swap_positions(w[0].ask, w[1].ask), WEIR_EINVAL);
	assert_int_equal(weir_ask_swap_positions(w[2].ask, w[1].ask),
			 WEIR_EINVAL); /* the wrong order */
	assert_int_equal(weir_ask_swap_positions(w[2].ask, w[2].ask), WEIR_EINVAL);
	assert_int_equal(join(&rig, &w[4], "q", "1", 2), WEIR_DELAY); /* a request of cost 2 */
	assert_int_equal(weir_ask_swap_positions(w[1].ask, w[4].ask), WEIR_EINVAL);
	assert_int_equal(join(&rig, &w[5], "q", "2", 1), WEIR_ADMIT);
	assert_int_equal(join(&rig, &w[6], "q", "2", 1), WEIR_DELAY);
	assert_int_equal(queue_of(&w[1]), queue_of(&w[2]));
	assert_true(queue_of(&w[1]) != queue_of(&w[6]));
	assert_int_equal(weir_ask_swap_positions(w[6].ask, w[2].ask), WEIR_EINVAL);
	assert_int_equal(weir_ask_cancel(w[1].ask, rig.now_ns), 0);
	assert_int_equal(weir_ask_queue_position(w[1].ask, &position), WEIR_EINVAL);
	close_queue(&rig, w, 7);
	(void)state;
}

/* In two queues the longer wait counts. After a swap the other queue may have the longer wait. */
static void requests_in_two_queues(void **state)
{
	static struct waiter w[3];
	struct weir_str domain = {"d", 1};
	struct weir_entry q = {.key = {"q", 1}, .value = {"1", 1}};
	struct weir_entry slow = {.key = {"slow", 4}, .value = {"1", 1}};
	struct rig rig;

	rig_open(&rig, queue, "d");
	rig.now_ns = NOW_NS;
	join(&rig, &w[0], "slow", "1", 1);
	join(&rig, &w[1], "slow", "1", 1);
	join(&rig, &w[0], "q", "1", 1);
	join(&rig, &w[0], "q", "1", 1);
	assert_int_equal(join(&rig, &w[0], "slow", "1", 1), WEIR_DELAY);
	assert_int_equal(due(&w[0]), 2 * SECOND_NS);
	for (int i = 0; i < 4; i++)
		join(&rig, &w[2], "q", "1", 1);
	weir_ask_done(w[2].ask);
	assert_int_equal(
		weir_ask_init(w[2].memory, sizeof w[2].memory, rig.engine, domain, &w[2].ask), 0);
	assert_int_equal(weir_ask_add(w[2].ask, &q, 1, NULL, 1), 0);
	assert_int_equal(weir_ask_add(w[2].ask, &slow, 1, NULL, 1), 0);
	assert_int_equal(weir_ask_decide(w[2].ask, rig.now_ns), WEIR_DELAY);
	assert_int_equal(due(&w[2]), 3 * SECOND_NS);
	assert_int_equal(weir_ask_swap_positions(w[1].ask, w[2].ask), 0);
	assert_int_equal(due(&w[2]), 6 * QUARTER_NS);
	assert_true(queue_of(&w[2]) != queue_of(&w[1]));
	close_queue(&rig, w, 3);
	(void)state;
}

/* Ten per day. A request of yesterday that is cancelled today gives nothing back. */
static void cancelled_in_the_next_window(void **state)
{
	static struct waiter w[2];
	struct rig rig;

	rig_open(&rig, queue, "d");
	rig.now_ns = NOW_NS;
	assert_int_equal(join(&rig, &w[0], "day", "7", 1), WEIR_ADMIT);
	rig.now_ns = NOW_NS + 86400 * SECOND_NS;
	for (int i = 0; i < 10; i++)
		assert_int_equal(join(&rig, &w[1], "day", "7", 1), WEIR_ADMIT);
	assert_int_equal(weir_ask_cancel(w[0].ask, rig.now_ns), 0);
	assert_int_equal(join(&rig, &w[1], "day", "7", 1), WEIR_REFUSE);
	close_queue(&rig, w, 2);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(later_requests_move_up),
		cmocka_unit_test(positions_of_other_processes_stay),
		cmocka_unit_test(cancelled_from_the_end),
		cmocka_unit_test(waits_of_many_periods),
		cmocka_unit_test(invalid_swaps),
		cmocka_unit_test(requests_in_two_queues),
		cmocka_unit_test(cancelled_in_the_next_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
