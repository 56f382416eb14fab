/* Fuzzes the central store's answer to a question. The first byte selects the descriptors. The
 * second selects whether the ask is cancelled and whether the rest of the input is the whole answer
 * or the verdicts behind a valid head. For any input there is one verdict, and messages are within
 * bounds and sent once. */
#include "fuzz.h"

#include <weir/host.h>

#include "base/str.h"
#include "limiter/question.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS (1794787200ull * 1000000000)
#define ITEMS_MAX 8u

static const char yaml[] =
	"domain: d\n"
	"descriptors:\n"
	"- {key: a, rate_limit: {unit: day, requests_per_unit: 5}}\n"
	"- {key: b, rate_limit: {unit: second, requests_per_unit: 2, algorithm: leaky_bucket, "
	"queue_size: 3}}\n"
	"- {key: c, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 5, "
	"on_store_failure: deny}}\n"
	"- {key: d, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 5, "
	"on_store_failure: allow}}\n"
	"- {key: e, rate_limit: {calendar: month, requests_per_unit: 5, count_rejected: true}}\n"
	"- {key: f, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: token_bucket, "
	"mode: soft,\n"
	"    soft: {overshoot: 20%, for: 30s}}}\n"
	"- {key: g, rate_limit: {unit: day, requests_per_unit: 5, consistency: local}}\n"
	"- {key: h, rate_limit: {unit: minute, requests_per_unit: 5, algorithm: "
	"sliding_window_log}}\n";

static struct weir_engine *engine;

static void open_engine(void)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = "the fleet's";
	struct weir_engine_opts opts = {
		.size = sizeof opts, .flags = WEIR_ENGINE_CENTRAL, .fleet_secret = secret};
	struct weir_table *table = make_table(1 << 20);

	weir_fleet_note(table, 2, NOW_NS);
	require(weir_engine_new(table, load_rules(yaml), &opts, &engine) == 0);
}

/* Adds a descriptor for each bit. Returns the number of items in the question to the central
 * store. */
static unsigned add_descriptors(struct weir_ask *ask, uint8_t which)
{
	unsigned asked = 0;

	for (unsigned i = 0; i < 8; i++) {
		char key = (char)('a' + i);
		struct weir_entry entry = {.key = {&key, 1}, .value = WR_STR("1")};

		if (!(which >> i & 1))
			continue;
		require(weir_ask_add(ask, &entry, 1, NULL, WEIR_HITS_UNSET) == 0);
		asked += key != 'g';
	}
	return asked;
}

static size_t write_valid_head(uint8_t *to, unsigned count, const uint8_t *data, size_t size)
{
	size_t len = sizeof(struct wr_question_head) + count * sizeof(struct wr_answer);
	struct wr_question_head head = {.version = WR_QUESTION_VERSION,
					.kind = WR_QUESTION_ANSWER,
					.count = (uint16_t)count,
					.bytes = (uint32_t)len};
	size_t room = len - sizeof head;

	memset(to, 0, len);
	memcpy(to, &head, sizeof head);
	if (size)
		memcpy(to + sizeof head, data, size < room ? size : room);
	return len;
}

/* Reads the messages after the verdict. There are at most two. */
static void read_messages(struct weir_ask *ask)
{
	static uint8_t bytes[WEIR_QUESTION_MAX];
	int messages = 0, len;

	while ((len = weir_ask_question(ask, bytes, sizeof bytes)) != 0)
		require(len > 0 && ++messages <= 2);
}

static void check_result(struct weir_ask *ask, bool cancel)
{
	struct weir_result result = {.size = sizeof result};
	struct weir_queue_position position = {.size = sizeof position};

	require(weir_ask_result(ask, &result) == 0);
	require(result.verdict >= WEIR_ADMIT && result.verdict <= WEIR_DEFER);
	if (weir_ask_queue_position(ask, &position) == 0)
		require(position.due_ns >= NOW_NS);
	weir_ask_headers(ask, WEIR_PROFILE_X);
	if (cancel)
		weir_ask_cancel(ask, NOW_NS + 5);
	read_messages(ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(64) char memory[WEIR_ASK_BYTES];
	static uint8_t
		answer[sizeof(struct wr_question_head) + ITEMS_MAX * sizeof(struct wr_answer)];
	struct weir_ask *ask;
	unsigned asked;
	int verdict;

	if (!engine)
		open_engine();
	if (size < 2)
		return 0;
	require(weir_ask_init(memory, sizeof memory, engine, WR_STR("d"), &ask) == 0);
	asked = add_descriptors(ask, data[0]);
	verdict = weir_ask_decide(ask, NOW_NS);
	if (verdict == WEIR_WAIT) {
		const uint8_t *bytes = data + 2;
		size_t len = size - 2;

		if (data[1] & 2)
			weir_ask_cancel(ask, NOW_NS + 1);
		if (data[1] & 1) {
			len = write_valid_head(answer, asked, bytes, len);
			bytes = answer;
		}
		verdict = weir_ask_answer(ask, bytes, len, NOW_NS + 2);
		if (verdict == WEIR_EFORMAT)
			verdict = weir_ask_store_failed(ask, NOW_NS + 3);
	}
	require(verdict > 0 && verdict != WEIR_WAIT);
	check_result(ask, data[1] & 4);
	weir_ask_done(ask);
	return 0;
}
