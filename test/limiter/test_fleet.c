/* A fleet's secret that is set late and changes; grants, positions and resets of counters in the
 * central store. */
#include "standin.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/control.h>

#include "base/str.h"

static const char rules[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: a\n"
	"  rate_limit: {unit: day, requests_per_unit: 5}\n"
	"- key: deny\n"
	"  rate_limit: {unit: day, requests_per_unit: 5, on_store_failure: deny}\n"
	"- key: here\n"
	"  rate_limit: {unit: day, requests_per_unit: 5, consistency: local}\n"
	"- key: some\n"
	"  rate_limit: {unit: day, requests_per_unit: 5, consistency: local, enforce: 50%}\n"
	"- key: two\n"
	"  rate_limits:\n"
	"  - {unit: day, requests_per_unit: 5}\n"
	"  - {unit: hour, requests_per_unit: 2, name: hourly}\n"
	"- key: leaky\n"
	"  rate_limit: {unit: second, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: "
	"3}\n";

/* The length of a key determines which bytes of the secret its hash uses. */
static uint8_t red[WEIR_SECRET_BYTES], blue[WEIR_SECRET_BYTES];

static void open_rig(struct rig *rig, struct store *store, const uint8_t *secret)
{
	struct weir_engine_opts opts = {
		.size = sizeof opts, .flags = WEIR_ENGINE_CENTRAL, .fleet_secret = secret};

	memset(store, 0, sizeof *store);
	*rig = (struct rig){.table = rig_table(), .domain = "d", .now_ns = NOW_NS};
	assert_int_equal(weir_engine_new(rig->table, rig_rules(rules), &opts, &rig->engine), 0);
}

/* Returns the first item of the next question. */
static struct wr_question_item first_item(struct rig *rig, struct store *store)
{
	struct wr_question_item item;

	assert_true(store_fetch(rig, store) > 0);
	memcpy(&item, store->bytes + sizeof(struct wr_question_head), sizeof item);
	return item;
}

/* Before the secret is known there are no questions and no messages. */
static void secret_set_late(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, NULL);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_FAILED);
	assert_int_equal(store_fetch(&rig, &store), 0);
	assert_int_equal(rig_admitted(&rig, "a=1", 9), 4);
	assert_int_equal(rig_ask(&rig, "deny=1"), WEIR_REFUSE);
	assert_int_equal(rig_ask(&rig, "here=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED);
	assert_int_equal(weir_ask_central(NULL), WEIR_EINVAL);
	rig_begin(&rig);
	rig_add(&rig, "here=1", 1);
	assert_int_equal(weir_ask_central(rig.ask), 0);
	rig_add(&rig, "a=1", 1);
	assert_int_equal(weir_ask_central(rig.ask), 1);
	rig_begin(&rig);
	rig_add(&rig, "a=1", -1);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	assert_int_equal(store_fetch(&rig, &store), 0);

	assert_int_equal(weir_engine_fleet(NULL, red), WEIR_EINVAL);
	assert_int_equal(weir_engine_fleet(rig.engine, NULL), WEIR_EINVAL);
	/* A request uses the secret that was known when its descriptors were added. */
	rig_begin(&rig);
	rig_add(&rig, "deny=1", 1);
	assert_int_equal(weir_engine_fleet(rig.engine, red), 0);
	assert_int_equal(rig_decide(&rig), WEIR_REFUSE);
	assert_int_equal(store_ask(&rig, &store, "deny=1"), WEIR_ADMIT);
	assert_int_equal(rig_status(&rig, 0).remaining, 4);
	rig_close(&rig);
	(void)state;
}

/* Another secret means other counters. The same secret means the same counters, even on another
 * node. */
static void secret_changed(void **state)
{
	static struct store store;
	struct wr_question_item first, changed, again, elsewhere;
	struct rig rig, other;

	open_rig(&rig, &store, red);
	open_rig(&other, &store, red);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	first = first_item(&rig, &store);
	assert_int_equal(weir_engine_fleet(rig.engine, blue), 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	changed = first_item(&rig, &store);
	assert_int_equal(weir_engine_fleet(rig.engine, red), 0);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_WAIT);
	again = first_item(&rig, &store);
	assert_int_equal(rig_ask(&other, "a=1"), WEIR_WAIT);
	elsewhere = first_item(&other, &store);
	assert_memory_not_equal(first.key, changed.key, sizeof first.key);
	assert_memory_equal(first.key, again.key, sizeof first.key);
	assert_memory_equal(first.key, elsewhere.key, sizeof first.key);
	rig_close(&rig);
	rig_close(&other);
	(void)state;
}

/* A key of more than 1,024 bytes has one counter in the table, with and without the secret, one
 * counter in the central store, and the same `enforce` share on every node. */
static void keys_above_1024_bytes(void **state)
{
	static struct store store;
	struct wr_question_item here, there;
	char descriptor[2100] = "a=";
	struct rig rig, other;

	memset(descriptor + 2, 'x', sizeof descriptor - 3);
	open_rig(&rig, &store, NULL);
	open_rig(&other, &store, red);
	assert_int_equal(rig_admitted(&rig, descriptor, 2), 2);
	assert_int_equal(weir_engine_fleet(rig.engine, red), 0);
	assert_int_equal(store_fails_admitted(&rig, descriptor, 9), 3);
	here = first_item(&other, (rig_ask(&other, descriptor), &store));
	there = first_item(&rig, (rig_ask(&rig, descriptor), &store));
	assert_memory_equal(here.key, there.key, sizeof here.key);
	snprintf(descriptor, sizeof descriptor, "some=%02000d", 0);
	for (int c = 'a'; c <= 'z'; c++) {
		descriptor[8] = (char)c;
		rig_ask(&rig, descriptor);
		rig_ask(&other, descriptor);
		assert_int_equal(rig_status(&rig, 0).flags, rig_status(&other, 0).flags);
	}
	rig_close(&rig);
	rig_close(&other);
	(void)state;
}

/* If one limit of a key refuses, no units are taken from the other limits, so none are given
 * back. */
static void refused_groups_take_nothing(void **state)
{
	static struct store store;
	struct rig rig;

	open_rig(&rig, &store, red);
	store.all_or_none = true;
	assert_int_equal(store_admitted(&rig, &store, "two=1", 9), 2);
	assert_int_equal(store.questions, 9);
	assert_int_equal(store.returns, 0);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 1), 1);
	/* Units of another key are given back once. */
	assert_int_equal(store_ask(&rig, &store, "a=2;two=1"), WEIR_REFUSE);
	rig.now_ns += HOUR_NS;
	assert_int_equal(store_admitted(&rig, &store, "two=1", 9), 2);
	rig_close(&rig);
	(void)state;
}

/* A RETURN contains the time at which the units were taken, by the central store's clock, and the
 * position in the queue. */
static void returns_have_time_and_position(void **state)
{
	static struct store store;
	struct wr_question_item item;
	struct rig rig;

	open_rig(&rig, &store, red);
	assert_int_equal(store_ask(&rig, &store, "leaky=1"), WEIR_ADMIT);
	assert_int_equal(store_ask(&rig, &store, "leaky=1"), WEIR_DELAY);
	assert_int_equal(weir_ask_cancel(rig.ask, rig.now_ns + 5000), 0);
	item = first_item(&rig, &store);
	assert_int_equal(item.cost, -1);
	assert_int_equal(item.decided_us, NOW_NS / 1000 + STORE_CLOCK_US);
	assert_int_equal(item.delay_ns, SECOND_NS);
	/* The RETURN of a request with a negative cost contains no time. */
	rig_begin(&rig);
	rig_add(&rig, "a=1", -3);
	assert_int_equal(rig_decide(&rig), WEIR_ADMIT);
	item = first_item(&rig, &store);
	assert_int_equal(item.cost, -3);
	assert_int_equal(item.decided_us, 0);
	/* An answer with an unbounded wait is rejected. */
	assert_int_equal(rig_ask(&rig, "leaky=2"), WEIR_WAIT);
	store_fetch(&rig, &store);
	store_serve(&store, rig.now_ns);
	memset(store.answer + 8 + 32, 0xff, 8);
	assert_int_equal(weir_ask_answer(rig.ask, store.answer, store.answer_len, rig.now_ns),
			 WEIR_EFORMAT);
	rig_close(&rig);
	(void)state;
}

/* A swap of positions applies to both clocks: the central store gets back the last position by its
 * own clock. */
static void swapped_positions(void **state)
{
	static struct store store;
	struct wr_question_item item;
	struct rig first, second;

	open_rig(&first, &store, red);
	second = (struct rig){
		.table = first.table, .engine = first.engine, .domain = "d", .now_ns = NOW_NS};
	assert_int_equal(store_ask(&first, &store, "leaky=1"), WEIR_ADMIT);
	assert_int_equal(store_ask(&first, &store, "leaky=1"), WEIR_DELAY);
	/* The answer arrived after 3 ms, by this node's clock. */
	second.now_ns += 500000;
	assert_int_equal(rig_ask(&second, "leaky=1"), WEIR_WAIT);
	store_fetch(&second, &store);
	store_serve(&store, second.now_ns);
	second.now_ns += 3000000;
	assert_int_equal(weir_ask_answer(second.ask, store.answer, store.answer_len, second.now_ns),
			 WEIR_DELAY);
	assert_int_equal(weir_ask_swap_positions(first.ask, second.ask), 0);
	assert_int_equal(weir_ask_cancel(first.ask, NOW_NS + 4000000), 0);
	item = first_item(&first, &store);
	assert_int_equal(item.decided_us + item.delay_ns / 1000,
			 NOW_NS / 1000 + STORE_CLOCK_US + 2000000);
	weir_ask_done(second.ask);
	rig_close(&first);
	(void)state;
}

static struct weir_target target(struct weir_entry *entry, const char *key, const char *limit)
{
	*entry = (struct weir_entry){.key = wr_str(key), .value = WR_STR("1")};
	return (struct weir_target){.size = sizeof(struct weir_target),
				    .domain = WR_STR("d"),
				    .entries = entry,
				    .count = 1,
				    .limit = wr_str(limit)};
}

/* The question contains a grant. With a ban there is no question. */
static void grants_and_bans_of_central_limits(void **state)
{
	static struct store store;
	struct weir_entry entry;
	struct weir_target who = target(&entry, "a", "");
	struct rig rig;

	open_rig(&rig, &store, red);
	assert_int_equal(weir_control_grant(rig.engine, &who, 3, NOW_NS + HOUR_NS, NOW_NS, NULL),
			 1);
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_ADMIT);
	assert_int_equal(store.items[0].granted, 3);
	assert_int_equal(store.items[0].limit, 5);
	assert_int_equal(rig_status(&rig, 0).limit, 8);
	assert_int_equal(rig_status(&rig, 0).decision.granted, 3);
	assert_int_equal(store_admitted(&rig, &store, "a=1", 9), 7);
	rig.now_ns += HOUR_NS;
	assert_int_equal(store_ask(&rig, &store, "a=1"), WEIR_REFUSE);
	assert_int_equal(store.items[0].granted, 0);
	store.questions = 0;
	assert_int_equal(weir_control_ban(rig.engine, &who, WEIR_NEVER, rig.now_ns, NULL), 1);
	assert_int_equal(rig_ask(&rig, "a=1"), WEIR_REFUSE);
	assert_int_equal(rig_status(&rig, 0).flags, WEIR_STATUS_LIMITED | WEIR_STATUS_BANNED);
	assert_int_equal(store.questions, 0);
	rig_close(&rig);
	(void)state;
}

/* The message of a reset names the same counters as questions. */
static void reset_messages(void **state)
{
	static struct store store;
	struct weir_entry entry;
	struct weir_target who = target(&entry, "two", "");
	struct weir_error error;
	struct wr_question_head head;
	struct rig rig;

	open_rig(&rig, &store, red);
	assert_int_equal(store_ask(&rig, &store, "two=1"), WEIR_ADMIT);
	assert_int_equal(store.count, 2);
	store.len = weir_control_question(rig.engine, &who, store.bytes, sizeof store.bytes, NOW_NS,
					  &error);
	memcpy(&head, store.bytes, sizeof head);
	assert_int_equal(head.kind, WR_QUESTION_RESET);
	store_serve(&store, rig.now_ns);
	assert_int_equal(store.item_count, 2);
	assert_int_equal(store.count, 2);
	assert_int_equal(store.items[1].cost, 0);
	who = target(&entry, "two", "hourly");
	assert_int_equal(weir_control_question(rig.engine, &who, store.bytes, sizeof store.bytes,
					       NOW_NS, &error),
			 8 + 152 + (int)strlen("fixed_window/1h"));
	assert_int_equal(weir_control_question(rig.engine, &who, store.bytes, 100, NOW_NS, &error),
			 WEIR_EROOM);
	/* The message does not contain counters of the table. */
	who = target(&entry, "here", "");
	assert_int_equal(weir_control_question(rig.engine, &who, store.bytes, sizeof store.bytes,
					       NOW_NS, &error),
			 0);
	who = target(&entry, "nobody", "");
	assert_int_equal(weir_control_question(rig.engine, &who, store.bytes, sizeof store.bytes,
					       NOW_NS, &error),
			 WEIR_ENOENT);
	assert_int_equal(weir_control_question(rig.engine, &who, NULL, 0, NOW_NS, &error),
			 WEIR_EINVAL);
	rig_close(&rig);
	(void)state;
}

/* The number of nodes survives a resize. */
static void fleet_size_survives_a_resize(void **state)
{
	char name[64];
	struct weir_opts opts = {
		.size = sizeof opts, .dir = "/dev/shm", .name = name, .memory_bytes = 1 << 20};
	struct weir_table *table;

	snprintf(name, sizeof name, "test-fleet-%d", (int)getpid());
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	weir_fleet_note(table, 7, NOW_NS);
	weir_close(table);
	opts.memory_bytes = 2 << 20;
	assert_int_equal(weir_resize(&opts, NOW_NS, NULL), 0);
	assert_int_equal(weir_open(&opts, &table, NULL), 0);
	weir_remove(name, opts.dir, NULL);
	assert_int_equal(weir_fleet_nodes(table, NULL), 7);
	weir_close(table);
	(void)state;
}

static void *change_secrets(void *engine)
{
	for (int i = 0; i < 2000; i++)
		weir_engine_fleet(engine, i % 2 ? blue : red);
	return NULL;
}

/* Concurrent requests see the old or the new secret, never a mixture. */
static void secret_changed_under_load(void **state)
{
	static struct store store;
	struct wr_question_item as_red, as_blue, item;
	struct rig rig;
	pthread_t thread;

	open_rig(&rig, &store, blue);
	as_blue = first_item(&rig, (rig_ask(&rig, "a=1"), &store));
	weir_engine_fleet(rig.engine, red);
	as_red = first_item(&rig, (rig_ask(&rig, "a=1"), &store));
	assert_int_equal(pthread_create(&thread, NULL, change_secrets, rig.engine), 0);
	for (int i = 0; i < 2000; i++) {
		item = first_item(&rig, (rig_ask(&rig, "a=1"), &store));
		assert_true(memcmp(item.key, as_red.key, sizeof item.key) == 0 ||
			    memcmp(item.key, as_blue.key, sizeof item.key) == 0);
	}
	pthread_join(thread, NULL);
	rig_close(&rig);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secret_set_late),
		cmocka_unit_test(secret_changed),
		cmocka_unit_test(keys_above_1024_bytes),
		cmocka_unit_test(refused_groups_take_nothing),
		cmocka_unit_test(returns_have_time_and_position),
		cmocka_unit_test(swapped_positions),
		cmocka_unit_test(grants_and_bans_of_central_limits),
		cmocka_unit_test(reset_messages),
		cmocka_unit_test(fleet_size_survives_a_resize),
		cmocka_unit_test(secret_changed_under_load),
	};

	for (unsigned i = 0; i < WEIR_SECRET_BYTES; i++) {
		red[i] = (uint8_t)(i * 37 + i / 8);
		blue[i] = (uint8_t)(i * 53 + i / 16 + 1);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
