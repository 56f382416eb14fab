#include "helper.h"

#include "limiter/ask.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"

struct weir_table *rig_table(void)
{
	static int number;
	struct weir_opts opts = {.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = 1 << 20};
	struct weir_error error = {0};
	struct weir_table *table;
	char name[64];

	snprintf(name, sizeof name, "test-limiter-%d-%d", (int)getpid(), number++);
	opts.name = name;
	if (weir_open(&opts, &table, &error) != 0)
		fail_msg("%s", error.text);
	weir_remove(name, opts.dir, NULL);
	return table;
}

struct weir_rules *rig_load(const char *path)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	char text[2048];
	int rc = weir_rules_load(path, &rules, &errors);

	for (size_t i = 0; rc && i < errors.count; i++) {
		weir_diagnostic_text(&errors.items[i], text, sizeof text);
		print_message("%s", text);
	}
	weir_errors_free(&errors);
	assert_int_equal(rc, 0);
	return rules;
}

struct weir_rules *rig_rules(const char *yaml)
{
	struct weir_rules *rules;
	char path[64];
	int fd = memfd_create("rules", 0);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, strlen(yaml)), strlen(yaml));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rules = rig_load(path);
	close(fd);
	return rules;
}

void rig_open_with(struct rig *rig, struct weir_rules *rules, const char *domain, uint32_t flags)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = "the fleet's";
	struct weir_engine_opts opts = {
		.size = sizeof opts, .flags = flags, .fleet_secret = secret, .now_ns = NOW_NS};

	*rig = (struct rig){.table = rig_table(), .domain = domain, .now_ns = NOW_NS};
	assert_int_equal(weir_engine_new(rig->table, rules, &opts, &rig->engine), 0);
}

void rig_open(struct rig *rig, const char *yaml, const char *domain)
{
	rig_open_with(rig, rig_rules(yaml), domain, 0);
}

void rig_close(struct rig *rig)
{
	weir_ask_done(rig->ask);
	weir_engine_free(rig->engine);
	weir_close(rig->table);
}

struct weir_ask *rig_begin(struct rig *rig)
{
	weir_ask_done(rig->ask);
	assert_int_equal(weir_ask_init(rig->memory, sizeof rig->memory, rig->engine,
				       wr_str(rig->domain), &rig->ask),
			 0);
	return rig->ask;
}

static size_t entries_of(struct weir_str rest, struct weir_entry *entries)
{
	size_t count = 0;

	while (rest.len) {
		struct weir_str entry = wr_str_first(rest, wr_str_find(rest, '|'));
		size_t equals = wr_str_find(entry, '=');

		entries[count++] = (struct weir_entry){
			.key = wr_str_first(entry, equals),
			.value = equals < entry.len ? wr_str_from(entry, equals + 1) : WR_STR("")};
		rest = wr_str_from(rest, entry.len + (entry.len < rest.len));
	}
	return count;
}

static int add(struct rig *rig, struct weir_str descriptor, const struct weir_limit *override,
	       int64_t hits)
{
	struct weir_entry entries[40];
	size_t count = entries_of(descriptor, entries);

	return weir_ask_add(rig->ask, entries, count, override, hits);
}

/* Negative hits give units back to the present window, unless the test has set a time. */
int rig_add(struct rig *rig, const char *descriptor, int64_t hits)
{
	if (hits < 0 && rig->ask->taken_ns == 0)
		weir_ask_taken_at(rig->ask, WEIR_TAKEN_UNKNOWN);
	return add(rig, wr_str(descriptor), NULL, hits);
}

int rig_add_override(struct rig *rig, const char *descriptor, uint32_t requests, int unit,
		     int64_t hits)
{
	struct weir_limit limit;
	int rc = weir_limit_per_unit(requests, unit, &limit, NULL);

	return rc ? rc : add(rig, wr_str(descriptor), &limit, hits);
}

int rig_decide(struct rig *rig)
{
	return weir_ask_decide(rig->ask, rig->now_ns);
}

int rig_ask(struct rig *rig, const char *descriptors)
{
	struct weir_str rest = wr_str(descriptors);

	rig_begin(rig);
	while (rest.len) {
		struct weir_str one = wr_str_first(rest, wr_str_find(rest, ';'));

		assert_int_equal(add(rig, one, NULL, WEIR_HITS_UNSET), 0);
		rest = wr_str_from(rest, one.len + (one.len < rest.len));
	}
	return rig_decide(rig);
}

int rig_http(struct rig *rig, const char *line, const char *headers, const char *peer)
{
	struct weir_str rest = wr_str(headers ? headers : "");
	size_t blank = wr_str_find(wr_str(line), ' ');
	struct weir_header list[16];
	struct weir_http_view view = {.size = sizeof view,
				      .method = wr_str_first(wr_str(line), blank),
				      .target = wr_str(line + blank + 1),
				      .host = WR_STR("api.example"),
				      .headers = list};
	int rc;

	if (peer && inet_pton(AF_INET, peer, view.peer) == 1)
		view.peer_len = 4;
	else if (peer && inet_pton(AF_INET6, peer, view.peer) == 1)
		view.peer_len = 16;
	while (rest.len) {
		struct weir_str one = wr_str_first(rest, wr_str_find(rest, '\n'));
		size_t colon = wr_str_find(one, ':');

		list[view.header_count++] = (struct weir_header){
			wr_str_first(one, colon), wr_str_trim(wr_str_from(one, colon + 1))};
		rest = wr_str_from(rest, one.len + (one.len < rest.len));
	}
	rig_begin(rig);
	rc = weir_ask_http(rig->ask, &view);
	return rc ? rc : rig_decide(rig);
}

struct weir_status rig_status(struct rig *rig, size_t at)
{
	struct weir_status status = {.size = sizeof status};

	assert_int_equal(weir_ask_status(rig->ask, at, &status), 0);
	return status;
}

struct weir_result rig_result(struct rig *rig)
{
	struct weir_result result = {.size = sizeof result};

	assert_int_equal(weir_ask_result(rig->ask, &result), 0);
	return result;
}

int rig_admitted(struct rig *rig, const char *descriptors, int crowd)
{
	int admitted = 0;

	while (crowd--) {
		int verdict = rig_ask(rig, descriptors);

		admitted += verdict == WEIR_ADMIT || verdict == WEIR_DELAY;
	}
	return admitted;
}

const char *rig_header(struct rig *rig, int profile, const char *wanted)
{
	static char text[4096];
	int count = weir_ask_headers(rig->ask, profile);

	assert_true(count >= 0);
	for (int i = 0; i < count; i++) {
		struct weir_str name, value;

		assert_int_equal(weir_ask_header(rig->ask, (size_t)i, &name, &value), 0);
		if (!wr_str_equal_nocase(name, wr_str(wanted)))
			continue;
		assert_true(value.len < sizeof text);
		memcpy(text, value.ptr, value.len);
		text[value.len] = '\0';
		return text;
	}
	return NULL;
}

struct wanted {
	const char *rule;
	struct weir_stat stat;
};

static int find_stat(void *context, const struct weir_stat *stat)
{
	struct wanted *wanted = context;

	if (!wr_str_equal(stat->rule, wr_str(wanted->rule)))
		return 0;
	wanted->stat = *stat;
	wanted->stat.rule = WR_STR("");
	return 1;
}

struct weir_stat rig_stat(struct rig *rig, const char *rule)
{
	struct wanted wanted = {.rule = rule};

	weir_stats_each(rig->table, find_stat, &wanted);
	return wanted.stat;
}

void rig_evict(struct rig *rig)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_FIXED_WINDOW,
				   .limit = 1000000,
				   .period_ns = HOUR_NS};
	struct weir_decision decision;

	assert_int_equal(weir_limit_check(&limit, NULL), 0);
	for (uint32_t key = 0; key < 60000; key++)
		for (int i = 0; i < 8; i++)
			assert_int_equal(weir_take(rig->table, &limit, &key, sizeof key, 2,
						   rig->now_ns, &decision),
					 0);
}
