/* Pushes to other regions: checks their content and their times. The test plays Redis in both
 * regions. */
#include "exchange_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "redis/url.h"

static struct rig *add_far_region(struct rig *home)
{
	struct rig *far = rig_new(FAR, NULL);

	wr_central_add_region(home->central, far->central);
	return far;
}

/* Advances the time in both regions. */
static void pass_both(struct rig *home, struct rig *far, uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += 10 * MS) {
		pass_time(home, 10 * MS);
		pass_time(far, 10 * MS);
	}
}

/* Advances the time in both regions until the home region gets a command. */
static void pass_until_asked(struct rig *home, struct rig *far)
{
	for (int i = 0; i < 1000; i++) {
		const struct peer *here = peer_at(home, 6379);

		if (here && here->waiting > here->taken)
			return;
		pass_both(home, far, 10 * MS);
	}
	fail_msg("nothing is asked");
}

static void free_both(struct rig *home, struct rig *far)
{
	rig_free(far);
	free_slots(home);
}

/* Checks the arguments of a push: the life, this node's state, then name and state of each relayed
 * entry. */
static void assert_pushed(struct peer *peer, int plus, const char *relayed)
{
	const char *args = args_after_key(peer, &wr_redis_script_push),
		   *state = strchr(args + 7, ' ');
	char text[256];

	assert_memory_equal(args, "121000 eu/a1b2c3d4.", 19);
	assert_non_null(state);
	snprintf(text, sizeof text, " %llu %d 0 0 0%s", (unsigned long long)WINDOW, plus, relayed);
	if (strcmp(state, text) != 0)
		fail_msg("pushed %s, not %s", state, text);
}

/* Returns the arguments of the exchange call that concern the other region: whether it lacks data,
 * whether it can be reached, since when it is relayed to, and the last name that has arrived. */
static const char *of_far(bool lacking, bool reached, uint64_t since, const char *last)
{
	static char text[128];
	char tag[WR_EXCHANGE_TAG + 1];
	struct wr_redis_target target;

	assert_int_equal(wr_redis_target_parse(wr_str(FAR), &target, NULL), 0);
	wr_central_region_tag(&target, tag);
	snprintf(text, sizeof text, "%s %s %s %llu %s", lacking ? tag : "", reached ? tag : "",
		 since ? tag : "", (unsigned long long)since, last);
	return text;
}

/* Returns a reply that makes the node relay this state to the other region. */
static const char *page_reply(uint64_t since, bool more, const char *name, const char *state)
{
	static char bytes[256];
	char tag[WR_EXCHANGE_TAG + 1];
	struct wr_redis_target target;

	assert_int_equal(wr_redis_target_parse(wr_str(FAR), &target, NULL), 0);
	wr_central_region_tag(&target, tag);
	snprintf(bytes, sizeof bytes,
		 "*10\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1\r\n$8\r\n%s\r\n:%llu\r\n:%d\r\n$%zu\r\n%s\r\n"
		 "$%zu\r\n%s\r\n",
		 tag, (unsigned long long)since, more, strlen(name), name, strlen(state), state);
	return bytes;
}

static void test_use_is_pushed(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = add_far_region(home);
	struct peer *here = peer_at(home, 6379), *there = peer_at(far, 6380);

	(void)state;
	use_counter(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(false, true, 0, "")));
	assert_null(next_command(there)); /* the push waits until the home Redis has the numbers */
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, 5, "");
	/* Units that are used while a push is in flight are pushed in the next round. */
	use_counter(home, 1, 1);
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 6, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, SYNC);
	assert_null(next_command(here));
	assert_null(next_command(there));
	reply(there, ":1\r\n");
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 6, 0, 0, of_far(false, true, 0, "")));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, 6, "");
	reply(there, ":1\r\n");
	pass_both(home, far, 3 * SYNC);
	assert_null(next_command(here));
	assert_null(next_command(there));
	assert_int_equal(info(home)->counts.pushes, 2);
	assert_int_equal(info(home)->regions, 1);
	assert_int_equal(info(home)->regions_up, 1);
	free_both(home, far);
}

/* Makes a region unavailable while 5 units are used, and then available again. */
static struct rig *region_back(struct rig *home)
{
	struct rig *far = add_far_region(home);
	struct peer *here = peer_at(home, 6379);

	rig_trouble(far, 6380)->refuses = true;
	cut_peer(peer_at(far, 6380), "gone");
	use_counter(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(true, false, 0, "")));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, SECOND);
	assert_null(next_command(here));
	assert_int_equal(info(home)->regions_up, 0);
	rig_trouble(far, 6380)->refuses = false;
	pass_until_asked(home, far);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(false, true, 0, "")));
	return far;
}

/* The units are pushed when the region is back, although no units were used since. */
static void test_region_recovers(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region_back(home);
	struct peer *here = peer_at(home, 6379);

	(void)state;
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), 5, "");
	/* The region fails again before it has replied. The push stays due, and the home Redis is
	 * notified. */
	cut_peer(peer_at(far, 6380), "gone again");
	pass_until_asked(home, far);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(true, false, 0, "")));
	reply(here, sums(0, 0, 0, 0));
	pass_until_asked(home, far);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(false, true, 0, "")));
	assert_int_equal(info(home)->counts.pushes_failed, 1);
	free_both(home, far);
}

/* All data of the home region is relayed page by page, after this node's own state. The push stays
 * due until the home Redis knows that all data has arrived. */
static void test_all_data_is_relayed(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region_back(home);
	struct peer *here = peer_at(home, 6379), *there = peer_at(far, 6380);

	(void)state;
	reply(here, page_reply(77, true, "eu/x", "1 2 3 4 5"));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, 5, " eu/x 1 2 3 4 5");
	pass_both(home, far, 3 * SYNC);
	assert_null(next_command(here)); /* only one page is in flight */
	reply(there, ":1\r\n");
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu",
			     state_text(WINDOW, 5, 0, 0, of_far(false, false, 77, "eu/x")));
	reply(here, page_reply(77, false, "eu/y", "6 7 8 9 0"));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, 5, " eu/y 6 7 8 9 0");
	reply(there, ":1\r\n");
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(false, false, 77, "")));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, 5, "");
	reply(there, ":1\r\n");
	pass_both(home, far, 3 * SYNC);
	assert_null(next_command(here));
	assert_null(next_command(there));
	free_both(home, far);
}

/* A page is lost, so relaying starts again with the first page. */
static void test_lost_page_restarts_relay(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region_back(home);
	struct peer *here = peer_at(home, 6379);

	(void)state;
	reply(here, page_reply(77, true, "eu/x", "1 2 3 4 5"));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), 5, " eu/x 1 2 3 4 5");
	reply(peer_at(far, 6380), ":1\r\n");
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu",
			     state_text(WINDOW, 5, 0, 0, of_far(false, false, 77, "eu/x")));
	reply(here, page_reply(77, true, "eu/y", "6 7 8 9 0"));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), 5, " eu/y 6 7 8 9 0");
	cut_peer(peer_at(far, 6380), "gone for a moment");
	pass_until_asked(home, far);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(true, true, 0, "")));
	reply(here, page_reply(88, true, "eu/x", "1 2 3 4 5"));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), 5, " eu/x 1 2 3 4 5");
	free_both(home, far);
}

/* The node shuts down while a call is in flight. Units that are used later are sent as well. */
static void test_last_use_sent_at_shutdown(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu"));
	struct peer *here = peer_at(home, 6379);

	(void)state;
	use_counter(home, 1, 5);
	pass_time(home, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, ""));
	use_counter(home, 1, 1);
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 2);
	reply(here, sums(0, 0, 0, 0));
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 1);
	pass_time(home, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 6, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 0);
	free_slots(home);
}

/* A push does not arrive during the shutdown. The home Redis is notified within half a second. */
static void test_undelivered_push_at_shutdown(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = add_far_region(home);
	struct peer *here = peer_at(home, 6379);

	(void)state;
	rig_trouble(far, 6380)->refuses = true;
	use_counter(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(false, true, 0, "")));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 1);
	cut_peer(peer_at(far, 6380), "gone");
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 1);
	pass_time(home, SYNC);
	assert_exchange_args(here, "eu", state_text(WINDOW, 5, 0, 0, of_far(true, false, 0, "")));
	reply(here, sums(0, 0, 0, 0));
	assert_int_equal(wr_central_shut_down(home->central, home->now_ns, home->mono_ns), 0);
	free_both(home, far);
}

/* The home is freed before the region, while both have calls in flight. */
static void test_home_freed_before_region(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = add_far_region(home);

	(void)state;
	use_counter(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_non_null(next_command(peer_at(home, 6379)));
	reply(peer_at(home, 6379), sums(0, 0, 0, 0));
	use_counter(home, 2, 5);
	pass_both(home, far, SYNC);
	free_slots(home);
	rig_free(far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_use_is_pushed),
		cmocka_unit_test(test_region_recovers),
		cmocka_unit_test(test_all_data_is_relayed),
		cmocka_unit_test(test_lost_page_restarts_relay),
		cmocka_unit_test(test_last_use_sent_at_shutdown),
		cmocka_unit_test(test_undelivered_push_at_shutdown),
		cmocka_unit_test(test_home_freed_before_region),
	};

	return cmocka_run_group_tests(tests, open_table, close_table);
}
