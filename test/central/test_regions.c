/* What other regions are told, and when. The test is Redis, here and there. */
#include "exchange_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig *region(struct rig *home)
{
	struct rig *far = rig_new(FAR, NULL);

	wr_central_peer(home->central, far->central);
	return far;
}

/* Time passes in both places. */
static void pass_both(struct rig *home, struct rig *far, uint64_t ns)
{
	for (uint64_t at = 0; at < ns; at += 10 * MS) {
		pass(home, 10 * MS);
		pass(far, 10 * MS);
	}
}

/* … until the one at home is asked something. */
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

/* "life", then name and state of each that is told. */
static void assert_pushed(struct peer *peer, const char *told)
{
	const char *said = behind_key(peer, &wr_script_push);
	char text[256];

	snprintf(text, sizeof text, "121000 %s", told);
	if (strncmp(said, text, strlen(text)) != 0)
		fail_msg("told %s, not %s", said, text);
}

static void test_regions_are_told(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);
	struct peer *here = peer_at(home, 6379), *there = peer_at(far, 6380);

	(void)state;
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, ""));
	assert_null(next_command(there)); /* not before the own Redis has it */
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(there, "eu/a1b2c3d4.");
	/* More of it while that is under way: told when it is done, at once. */
	use(home, 1, 1);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 6, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_null(next_command(there));
	reply(there, ":1\r\n");
	pass_both(home, far, SYNC);
	/* It is owed something: all that its region knows of it is asked for. */
	assert_said(here, "eu", state_text(WINDOW, 6, 0, 0, "eu/"));
	reply(here, "*9\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1\r\n$4\r\neu/x\r\n$9\r\n1 2 3 4 5\r\n"
		    "$4\r\neu/y\r\n$9\r\n6 7 8 9 0\r\n");
	pass_both(home, far, 10 * MS);
	assert_pushed(there, "eu/x 1 2 3 4 5 eu/y 6 7 8 9 0");
	reply(there, ":1\r\n");
	pass_both(home, far, 3 * SYNC);
	assert_null(next_command(here));
	assert_null(next_command(there));
	assert_int_equal(info(home)->counts.pushes, 2);
	assert_int_equal(info(home)->regions, 1);
	assert_int_equal(info(home)->regions_up, 1);
	free_both(home, far);
}

/* A region that is away is told when it is back, though nothing was used since. */
static void test_a_region_comes_back(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);
	struct peer *here = peer_at(home, 6379);

	(void)state;
	rig_trouble(far, 6380)->refuses = true;
	cut(peer_at(far, 6380), "gone");
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, ""));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, SECOND);
	assert_null(next_command(here));
	assert_int_equal(info(home)->regions_up, 0);
	rig_trouble(far, 6380)->refuses = false;
	pass_until_asked(home, far);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, "eu/"));
	reply(here, sums(0, 0, 0, 0));
	pass_both(home, far, 10 * MS);
	assert_pushed(peer_at(far, 6380), "eu/a1b2c3d4.");
	/* It goes again before it has answered: still owed. */
	cut(peer_at(far, 6380), "gone again");
	pass_until_asked(home, far);
	assert_said(here, "eu", state_text(WINDOW, 5, 0, 0, "eu/"));
	assert_int_equal(info(home)->counts.pushes_failed, 1);
	free_both(home, far);
}

/* The other way round, with calls under way in both. */
static void test_the_home_goes_first(void **state)
{
	struct rig *home = rig_new(URL, node_opts("eu")), *far = region(home);

	(void)state;
	use(home, 1, 5);
	pass_both(home, far, SYNC);
	assert_non_null(next_command(peer_at(home, 6379)));
	reply(peer_at(home, 6379), sums(0, 0, 0, 0));
	use(home, 2, 5);
	pass_both(home, far, SYNC);
	free_slots(home);
	rig_free(far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions_are_told),
		cmocka_unit_test(test_a_region_comes_back),
		cmocka_unit_test(test_the_home_goes_first),
	};

	return cmocka_run_group_tests(tests, open_table, close_table);
}
