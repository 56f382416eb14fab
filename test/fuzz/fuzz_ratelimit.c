/* Fuzzes weir_ratelimit_parse. The input is the status's last digits in one byte, then lines of
 * "Name: value". Also checks what every result has to fulfil, and feeds it to a pace. */
#include "fuzz.h"

#include <weir/ratelimit.h>

#include "client/pace.h"

#define NOW_NS 1800000000000000000ull
#define FIELDS_MAX 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Splits the lines. A line without a colon is a name with an empty value. */
static size_t split(const char *text, size_t size, struct weir_header *fields)
{
	size_t count = 0;

	for (const char *end = text + size; text < end && count < FIELDS_MAX; count++) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));
		const char *colon;

		line_end = line_end ? line_end : end;
		colon = memchr(text, ':', (size_t)(line_end - text));
		colon = colon ? colon : line_end;
		fields[count].name = (struct weir_str){text, (size_t)(colon - text)};
		colon += colon < line_end;
		fields[count].value = (struct weir_str){colon, (size_t)(line_end - colon)};
		text = line_end + (line_end < end);
	}
	return count;
}

static int is_within(struct weir_str name, const uint8_t *data, size_t size)
{
	const char *begin = (const char *)data;

	return name.len == 0 || (name.ptr >= begin && name.ptr + name.len <= begin + size);
}

static void check(const struct weir_ratelimit *told, const uint8_t *data, size_t size)
{
	require(told->size == sizeof *told);
	require(told->wait_ns <= WEIR_RATELIMIT_TIME_MAX_NS);
	require(told->count <= WEIR_RATELIMIT_POLICIES_MAX);
	require(!told->cached || told->count == 0);
	for (uint32_t i = 0; i < told->count; i++) {
		const struct weir_ratelimit_policy *policy = &told->policies[i];

		require(is_within(policy->name, data, size));
		require(policy->window_ns <= WEIR_RATELIMIT_TIME_MAX_NS);
		require(policy->reset_ns <= WEIR_RATELIMIT_TIME_MAX_NS);
		require(policy->form >= WEIR_RATELIMIT_IETF &&
			policy->form <= WEIR_RATELIMIT_VENDOR);
		require((policy->has & WEIR_RATELIMIT_HAS_LIMIT) ||
			(policy->has & WEIR_RATELIMIT_HAS_REMAINING));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_ratelimit told = {.size = sizeof told};
	struct weir_header fields[FIELDS_MAX];
	struct wr_pace pace;
	size_t count;

	if (size == 0)
		return 0;
	count = split((const char *)data + 1, size - 1, fields);
	require(weir_ratelimit_parse(fields, count, 400 + data[0] % 120, NOW_NS, &told) == 0);
	check(&told, data, size);
	wr_pace_init(&pace, 0);
	for (uint64_t i = 1; i < 8; i++) {
		wr_pace_learn(&pace, &told, NOW_NS + i, UINT64_MAX / i);
		require(wr_pace_reserve(&pace, NOW_NS + i, UINT64_MAX / i) >= NOW_NS + i);
	}
	return 0;
}
