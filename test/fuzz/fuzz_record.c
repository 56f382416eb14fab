/* Fuzzes the stored descriptors of a deferred request. Descriptors that are accepted give the same
 * bytes when they are recorded again, and are decided. */
#include "fuzz.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(16) char memory[WEIR_ASK_BYTES];
	static char record[WEIR_RECORD_MAX];
	struct weir_ask *ask;
	struct weir_str again;
	int rc, verdict;

	if (!engine)
		open_engine();
	require(weir_ask_init(memory, sizeof memory, engine, (struct weir_str){"d", 1}, &ask) == 0);
	require(weir_ask_record(ask, record, sizeof record) == 0);
	rc = weir_ask_replay(ask, data, size);
	require(rc == 0 || rc == WEIR_EFORMAT || rc == WEIR_EMANY || rc == WEIR_EINVAL);
	again = weir_ask_recorded(ask);
	require(rc != 0 || again.len == 0 ||
		(again.len == size && memcmp(again.ptr, data, size) == 0));
	verdict = weir_ask_decide(ask, NOW_NS);
	require(verdict == WEIR_ADMIT || verdict == WEIR_REFUSE || verdict == WEIR_DEFER);
	if (verdict == WEIR_DEFER)
		require(weir_ask_report_deferral(ask, NULL) == WEIR_DEFER);
	weir_ask_done(ask);
	return 0;
}
