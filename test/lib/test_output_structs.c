/* Structs that a call fills in, with every size that an older or newer caller can pass. The struct
 * ends at a page that cannot be accessed, so a read or write behind the struct ends the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/stats.h>
#include <weir/weir.h>

#define SECOND_NS 1000000000ull
#define NOW_NS (1794787200ull * SECOND_NS)
#define SIZE_MAX_OK 4096u
#define UNTOUCHED 0xa5

static const char yaml[] =
	"domain: d\n"
	"descriptors:\n"
	"- key: user\n"
	"  rate_limit: {unit: minute, requests_per_unit: 6}\n"
	"- key: queue\n"
	"  rate_limit: {unit: second, requests_per_unit: 4, algorithm: leaky_bucket,\n"
	"               queue_size: 9}\n"
	"- key: later\n"
	"  rate_limit: {unit: minute, requests_per_unit: 1, on_limit: defer}\n";

/* ---- rig ---- */

struct request {
	_Alignas(16) char memory[WEIR_ASK_BYTES];
	char record[1024];
	struct weir_ask *ask;
};

static struct {
	struct weir_table *table;
	struct weir_engine *engine;
	struct weir_rules *rules; /* the same rules as those of the engine */
	uint32_t slot;            /* slot of "d/user/1m" in the statistics */
	struct request admitted, delayed, deferred;
	uint8_t *end; /* the page that cannot be accessed */
} rig;

/* Loads rules from a file with the given text. Returns the result of weir_rules_load. */
static int load(const char *text, struct weir_rules **rules, struct weir_errors *errors)
{
	char path[64];
	int fd = memfd_create("rules", 0), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rc = weir_rules_load(path, rules, errors);
	close(fd);
	return rc;
}

/* Decides a request with the descriptor KEY=1, as a host that queues requests. */
static int decide(struct request *request, const char *key)
{
	struct weir_entry entry = {.key = {key, strlen(key)}, .value = {"1", 1}};
	struct weir_str domain = {"d", 1};

	weir_ask_done(request->ask);
	assert_int_equal(weir_ask_init(request->memory, sizeof request->memory, rig.engine, domain,
				       &request->ask),
			 0);
	assert_int_equal(weir_ask_record(request->ask, request->record, sizeof request->record), 0);
	assert_int_equal(weir_ask_add(request->ask, &entry, 1, NULL, WEIR_HITS_UNSET), 0);
	return weir_ask_decide(request->ask, NOW_NS);
}

static int find_slot(void *context, const struct weir_stat *stat)
{
	assert_int_equal(stat->size, sizeof *stat); /* the size in the library's version */
	if (stat->rule.len == 9 && memcmp(stat->rule.ptr, "d/user/1m", 9) == 0)
		*(uint32_t *)context = stat->slot;
	return 0;
}

static void open_engine(void)
{
	struct weir_opts opts = {.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = 2 << 20};
	struct weir_rules *rules;
	char name[64];

	snprintf(name, sizeof name, "test-lib-output-%d", (int)getpid());
	opts.name = name;
	assert_int_equal(weir_open(&opts, &rig.table, NULL), 0);
	weir_remove(name, opts.dir, NULL);
	assert_int_equal(load(yaml, &rules, NULL), 0);
	assert_int_equal(load(yaml, &rig.rules, NULL), 0);
	assert_int_equal(weir_engine_new(rig.table, rules, NULL, &rig.engine), 0);
}

/* Counts in every field that the tests read: the rule of a user gets history and top keys, and the
 * latency of one request is reported. */
static void count_requests(void)
{
	assert_int_equal(decide(&rig.admitted, "user"), WEIR_ADMIT);
	assert_int_equal(weir_stats_each(rig.table, find_slot, &rig.slot), 0);
	assert_int_equal(weir_tick(rig.table, NOW_NS), 1);
	assert_int_equal(decide(&rig.admitted, "user"), WEIR_ADMIT);
	assert_int_equal(weir_tick(rig.table, NOW_NS + SECOND_NS), 1);
	assert_int_equal(decide(&rig.admitted, "user"), WEIR_ADMIT);
	for (int i = 0; i < 64; i++) {
		decide(&rig.deferred, "other");
		if (weir_ask_wants_latency(rig.deferred.ask) == 1)
			assert_int_equal(weir_ask_report_latency(rig.deferred.ask, 70), 0);
	}
	assert_int_equal(decide(&rig.delayed, "queue"), WEIR_ADMIT);
	assert_int_equal(decide(&rig.delayed, "queue"), WEIR_DELAY);
	assert_int_equal(decide(&rig.deferred, "later"), WEIR_ADMIT);
	assert_int_equal(decide(&rig.deferred, "later"), WEIR_DEFER);
}

static int open_rig(void **unused)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)unused;
	assert_true(pages != MAP_FAILED && page >= SIZE_MAX_OK);
	rig.end = pages + page;
	assert_int_equal(mprotect(rig.end, page, PROT_NONE), 0);
	open_engine();
	count_requests();
	return 0;
}

static int close_rig(void **unused)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	(void)unused;
	weir_ask_done(rig.admitted.ask);
	weir_ask_done(rig.delayed.ask);
	weir_ask_done(rig.deferred.ask);
	weir_engine_free(rig.engine);
	weir_rules_free(rig.rules);
	weir_close(rig.table);
	return munmap(rig.end - page, 2 * page);
}

/* ---- calls ---- */

static int read_info(void *out)
{
	return weir_info(rig.table, NOW_NS, out);
}

static int read_engine_info(void *out)
{
	return weir_engine_info(rig.engine, out);
}

static int read_result(void *out)
{
	return weir_ask_result(rig.delayed.ask, out);
}

static int read_status(void *out)
{
	return weir_ask_status(rig.admitted.ask, 0, out);
}

static int read_tightest(void *out)
{
	return weir_ask_tightest(rig.admitted.ask, out);
}

static int read_deferral(void *out)
{
	return weir_ask_deferral(rig.deferred.ask, out);
}

static int read_position(void *out)
{
	return weir_ask_queue_position(rig.delayed.ask, out);
}

static int read_rules_info(void *out)
{
	return weir_rules_info(rig.rules, out);
}

static int read_domain_info(void *out)
{
	return weir_rules_domain(rig.rules, 0, out);
}

static int read_stat(void *out)
{
	static char name[WEIR_STAT_NAME_BYTES]; /* out->rule points here */

	return weir_stats_slot(rig.table, rig.slot, name, out);
}

static int read_top_info(void *out)
{
	struct weir_top_key keys[2];
	int rc = weir_top(rig.table, rig.slot, WEIR_TOP_HOT, keys, 2, out);

	return rc == 1 ? 0 : rc; /* the list has one key */
}

static int read_latency(void *out)
{
	return weir_latency(rig.table, WEIR_LATENCY_LOCAL, out);
}

static int read_stats_info(void *out)
{
	return weir_stats_info(rig.table, out);
}

/* `least` is the smallest size that the call accepts. It is a number and not an offsetof, so that
 * a field that moves makes a test fail. */
static const struct output {
	const char *name;
	uint32_t least;
	uint32_t known;
	int (*call)(void *out);
} outputs[] = {
	{"weir_info", 40, sizeof(struct weir_info), read_info},
	{"weir_engine_info", 16, sizeof(struct weir_engine_info), read_engine_info},
	{"weir_ask_result", 8, sizeof(struct weir_result), read_result},
	{"weir_ask_status", 16, sizeof(struct weir_status), read_status},
	{"weir_ask_tightest", 16, sizeof(struct weir_status), read_tightest},
	{"weir_ask_deferral", 72, sizeof(struct weir_deferral), read_deferral},
	{"weir_ask_queue_position", 24, sizeof(struct weir_queue_position), read_position},
	{"weir_rules_info", 24, sizeof(struct weir_rules_info), read_rules_info},
	{"weir_rules_domain", 24, sizeof(struct weir_domain_info), read_domain_info},
	{"weir_stats_slot", 88, sizeof(struct weir_stat), read_stat},
	{"weir_top", 8, sizeof(struct weir_top_info), read_top_info},
	{"weir_latency", 24, sizeof(struct weir_latency), read_latency},
	{"weir_stats_info", 16, sizeof(struct weir_stats_info), read_stats_info},
};

#define OUTPUTS (sizeof outputs / sizeof *outputs)

/* ---- checks ---- */

static bool is_valid(uint32_t size, uint32_t least)
{
	return size >= least && size <= SIZE_MAX_OK && size % 8 == 0;
}

/* Returns a struct that ends at the page that cannot be accessed. A struct with an invalid size may
 * have only the field `size` and four bytes behind it. */
static uint8_t *make_struct(uint32_t size, uint32_t least, size_t *room)
{
	uint8_t *made;

	*room = is_valid(size, least) ? size : 8;
	made = rig.end - *room;
	memset(made, UNTOUCHED, *room);
	memcpy(made, &size, sizeof size);
	return made;
}

static bool all_bytes_are(const uint8_t *bytes, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != value)
			return false;
	return true;
}

/* Calls with a struct of `size` bytes. `full` is the result of a call with the current size. */
static void check_size(const struct output *output, const uint8_t *full, uint32_t size)
{
	bool valid = is_valid(size, output->least);
	size_t room;
	uint8_t *given = make_struct(size, output->least, &room);
	size_t filled = !valid ? sizeof size : size < output->known ? size : output->known;
	int rc = output->call(given);

	if (rc != (valid ? 0 : WEIR_EINVAL))
		fail_msg("%s with %u bytes returns %d", output->name, size, rc);
	if (memcmp(given, &size, sizeof size) != 0)
		fail_msg("%s with %u bytes changes `size`", output->name, size);
	if (memcmp(given + sizeof size, full + sizeof size, filled - sizeof size) != 0)
		fail_msg("%s with %u bytes does not fill in the fields", output->name, size);
	if (!all_bytes_are(given + filled, room - filled, valid ? 0 : UNTOUCHED))
		fail_msg("%s with %u bytes: the bytes behind the fields are not %s", output->name,
			 size, valid ? "zero" : "unchanged");
}

static void test_every_size_of_every_output_struct(void **unused)
{
	static const uint32_t large[] = {SIZE_MAX_OK - 8, SIZE_MAX_OK, SIZE_MAX_OK + 4,
					 SIZE_MAX_OK + 8, 1u << 20,    UINT32_MAX};

	(void)unused;
	for (size_t i = 0; i < OUTPUTS; i++) {
		const struct output *output = &outputs[i];
		_Alignas(8) uint8_t full[SIZE_MAX_OK];

		memset(full, UNTOUCHED, sizeof full);
		memcpy(full, &output->known, sizeof output->known);
		assert_int_equal(output->call(full), 0);
		assert_true(all_bytes_are(full + output->known, sizeof full - output->known,
					  UNTOUCHED));
		for (uint32_t size = 0; size <= output->known + 64; size++)
			check_size(output, full, size);
		for (size_t j = 0; j < sizeof large / sizeof *large; j++)
			check_size(output, full, large[j]);
	}
}

/* The test of all sizes compares with the current size, so the values of that size are checked
 * here. */
static void test_the_current_size_has_the_values(void **unused)
{
	struct weir_info info = {.size = sizeof info};
	struct weir_engine_info engine_info = {.size = sizeof engine_info};
	struct weir_result result = {.size = sizeof result};
	struct weir_status status = {.size = sizeof status};
	struct weir_deferral deferral = {.size = sizeof deferral};
	struct weir_queue_position position = {.size = sizeof position, .reserved = 1};

	(void)unused;
	assert_int_equal(read_info(&info), 0);
	assert_int_equal(info.keys, 3);
	assert_string_not_equal(info.path, "");
	assert_int_equal(read_engine_info(&engine_info), 0);
	assert_int_equal(engine_info.generation, 1);
	assert_int_equal(engine_info.loads_good, 1);
	assert_int_equal(read_result(&result), 0);
	assert_int_equal(result.verdict, WEIR_DELAY);
	assert_int_equal(result.delay_ns, SECOND_NS / 4);
	assert_int_equal(result.generation, 1);
	assert_int_equal(read_status(&status), 0);
	assert_int_equal(status.code, WEIR_STATUS_OK);
	assert_int_equal(status.decision.remaining, 3);
	assert_int_equal(read_tightest(&status), 0);
	assert_int_equal(status.decision.limit, 6);
	assert_int_equal(read_deferral(&deferral), 0);
	assert_int_equal(deferral.max_tries, 20);
	assert_int_equal(deferral.in_time, 1440 + 2 + 1);
	assert_int_equal(read_position(&position), 0);
	assert_int_equal(position.due_ns, NOW_NS + SECOND_NS / 4);
	assert_int_equal(position.reserved, 0);
}

static void test_the_current_size_has_the_values_of_rules_and_statistics(void **unused)
{
	struct weir_rules_info rules_info = {.size = sizeof rules_info};
	struct weir_domain_info domain = {.size = sizeof domain};
	struct weir_stat stat = {.size = sizeof stat};
	struct weir_top_info top = {.size = sizeof top};
	struct weir_latency latency = {.size = sizeof latency};
	struct weir_stats_info stats_info = {.size = sizeof stats_info};

	(void)unused;
	assert_int_equal(read_rules_info(&rules_info), 0);
	assert_int_equal(rules_info.limits, 3);
	assert_int_not_equal(rules_info.hash, 0);
	assert_int_equal(read_domain_info(&domain), 0);
	assert_int_equal(domain.name.len, 1);
	assert_int_equal(read_stat(&stat), 0);
	assert_int_equal(stat.admitted, 3);
	assert_int_equal(stat.limit, 6);
	assert_int_equal(read_top_info(&top), 0);
	assert_int_equal(top.every, 1);
	assert_int_equal(top.total, 1); /* the rule gets top keys at the second tick */
	assert_int_equal(read_latency(&latency), 0);
	assert_int_equal(latency.count, 1);
	assert_int_equal(latency.sum_ns, 70);
	assert_int_equal(read_stats_info(&stats_info), 0);
	assert_int_equal(stats_info.history_used, 1);
	assert_int_equal(stats_info.ticked_ns, NOW_NS + SECOND_NS);
}

/* ---- struct weir_errors, which owns memory ---- */

static void check_errors(uint32_t size)
{
	bool valid = is_valid(size, sizeof(struct weir_errors));
	size_t room;
	uint8_t *given = make_struct(size, sizeof(struct weir_errors), &room);
	struct weir_errors *errors = (struct weir_errors *)given;
	struct weir_rules *rules = NULL;
	int rc = load("domain: [", &rules, errors);

	assert_int_equal(rc, valid ? WEIR_ERULES : WEIR_EINVAL);
	assert_null(rules);
	assert_int_equal(errors->size, size);
	if (valid) {
		assert_int_equal(errors->errors, 1);
		assert_int_equal(errors->count, 1);
		assert_string_not_equal(errors->items[0].text, "");
		assert_true(all_bytes_are(given + sizeof *errors, room - sizeof *errors, 0));
	}
	weir_errors_free(errors);
	assert_int_equal(errors->size, size);
	assert_true(all_bytes_are(given + sizeof size, room - sizeof size, valid ? 0 : UNTOUCHED));
}

static void test_every_size_of_the_errors_of_a_load(void **unused)
{
	(void)unused;
	assert_int_equal(sizeof(struct weir_errors), 40);
	for (uint32_t size = 0; size <= 104; size++)
		check_errors(size);
	check_errors(SIZE_MAX_OK);
	check_errors(SIZE_MAX_OK + 8);
	check_errors(UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_size_of_every_output_struct),
		cmocka_unit_test(test_the_current_size_has_the_values),
		cmocka_unit_test(test_the_current_size_has_the_values_of_rules_and_statistics),
		cmocka_unit_test(test_every_size_of_the_errors_of_a_load),
	};

	return cmocka_run_group_tests(tests, open_rig, close_rig);
}
