/* Fuzzes the stored descriptors of a deferred request. Descriptors that are accepted give the same
 * bytes when they are recorded again, except for the version and for the numbers of entries of
 * `requests:`, which do not exist. */
#include "fuzz.h"

#include <stdbool.h>

#include <weir/host.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS (1794787200ull * 1000000000)

static const char yaml[] =
	"domain: d\n"
	"descriptors:\n"
	"- {key: a, rate_limit: {unit: day, requests_per_unit: 5, on_limit: defer}}\n"
	"- {key: \"*\", rate_limit: {unit: day, requests_per_unit: 5, on_limit: defer}}\n";

static struct weir_engine *engine;

static void open_engine(void)
{
	require(weir_engine_new(make_table(1 << 20), load_rules(yaml), NULL, &engine) == 0);
}

/* Adds the descriptors of a record to a new ask, which is recorded in `record`. */
static int replay(void *memory, char *record, const void *bytes, size_t size, struct weir_ask **ask)
{
	require(weir_ask_init(memory, WEIR_ASK_BYTES, engine, (struct weir_str){"d", 1}, ask) == 0);
	require(weir_ask_record(*ask, record, WEIR_RECORD_MAX) == 0);
	return weir_ask_replay(*ask, bytes, size);
}

static bool has_bytes(struct weir_str text, const void *bytes, size_t size)
{
	return text.len == size && memcmp(text.ptr, bytes, size) == 0;
}

/* Sets the numbers of entries of `requests:` to 0. The format is in limiter/defer_record.c. */
static void clear_requests(uint8_t *record, size_t size)
{
	for (size_t at = 1; at < size;) {
		uint8_t texts = (uint8_t)(3 * record[at + 16]);

		memset(record + at + 8, 0, 8);
		for (at += 17; texts > 0; texts--) {
			uint32_t len;

			memcpy(&len, record + at, sizeof len);
			at += sizeof len + len;
		}
	}
}

/* A record of this version is recorded again with the same bytes. A record of the earlier version
 * becomes one of this version. */
static void check_record(struct weir_str again, const uint8_t *data, size_t size)
{
	static _Alignas(16) char memory[WEIR_ASK_BYTES];
	static char record[WEIR_RECORD_MAX];
	static uint8_t expected[WEIR_RECORD_MAX];
	struct weir_ask *ask;

	if ((uint8_t)again.ptr[0] == data[0]) {
		require(size <= sizeof expected);
		memcpy(expected, data, size);
		clear_requests(expected, size);
		require(has_bytes(again, expected, size));
	}
	require(replay(memory, record, again.ptr, again.len, &ask) == 0);
	require(has_bytes(weir_ask_recorded(ask), again.ptr, again.len));
	weir_ask_done(ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(16) char memory[WEIR_ASK_BYTES];
	static char record[WEIR_RECORD_MAX];
	struct weir_ask *ask;
	int rc, verdict;

	if (!engine)
		open_engine();
	rc = replay(memory, record, data, size, &ask);
	require(rc == 0 || rc == WEIR_EFORMAT || rc == WEIR_EMANY || rc == WEIR_EINVAL);
	if (rc == 0 && weir_ask_recorded(ask).len)
		check_record(weir_ask_recorded(ask), data, size);
	verdict = decide_ask(ask, NOW_NS);
	require(verdict == WEIR_ADMIT || verdict == WEIR_REFUSE || verdict == WEIR_DEFER);
	if (verdict == WEIR_DEFER)
		require(weir_ask_report_deferral(ask, NULL) == WEIR_DEFER);
	weir_ask_done(ask);
	return 0;
}
