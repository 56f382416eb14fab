/* Strings and the life of keys. */
#include <string.h>

#include "base/str.h"
#include "sim/mini.h"

static void not_a_number(const struct wr_mini_call *call)
{
	wr_mini_fault(call->mini, "not a number in %.*s", (int)call->argv[0].len,
		      call->argv[0].ptr);
	wr_mini_error(call->out, "ERR value is not an integer or out of range");
}

/* The string of a key; NULL: none, or another type, which was answered then. */
static struct wr_mini_value *string_of(const struct wr_mini_call *call, bool *wrong)
{
	struct wr_mini_value *value = wr_mini_find(call->mini, call->argv[1]);

	*wrong = value && value->type != WR_MINI_STRING;
	if (!*wrong)
		return value;
	wr_mini_fault(call->mini, "%.*s is no string", (int)call->argv[1].len, call->argv[1].ptr);
	wr_mini_error(call->out,
		      "WRONGTYPE Operation against a key holding the wrong kind of value");
	return NULL;
}

static void get(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *value = string_of(call, &wrong);

	if (value)
		wr_mini_bulk(call->out, wr_bytes_str(&value->string));
	else if (!wrong)
		wr_mini_nil(call->out);
}

struct set_words {
	bool nx, xx, keep;
	int64_t life_ms;
};

static bool read_words(const struct wr_mini_call *call, struct set_words *words)
{
	for (size_t i = 3; i < call->argc; i++) {
		struct weir_str word = call->argv[i];

		if (wr_mini_is(word, "NX")) {
			words->nx = true;
		} else if (wr_mini_is(word, "XX")) {
			words->xx = true;
		} else if (wr_mini_is(word, "KEEPTTL")) {
			words->keep = true;
		} else if ((wr_mini_is(word, "PX") || wr_mini_is(word, "EX")) &&
			   i + 1 < call->argc &&
			   wr_mini_number(call->argv[i + 1], &words->life_ms) &&
			   words->life_ms > 0) {
			words->life_ms *= wr_mini_is(word, "EX") ? 1000 : 1;
			i++;
		} else {
			return false;
		}
	}
	return true;
}

static void set(const struct wr_mini_call *call)
{
	struct set_words words = {0};
	struct wr_mini_value *value = wr_mini_find(call->mini, call->argv[1]);
	uint64_t keeps;

	if (!read_words(call, &words)) {
		wr_mini_fault(call->mini, "SET with words the simulated Redis does not know");
		wr_mini_error(call->out, "ERR syntax error");
		return;
	}
	if ((words.nx && value) || (words.xx && !value)) {
		wr_mini_nil(call->out);
		return;
	}
	keeps = value && words.keep ? value->expires_ms : 0;
	wr_mini_remove(call->mini, call->argv[1]);
	value = wr_mini_make(call->mini, call->argv[1], WR_MINI_STRING);
	wr_bytes_set(&value->string, call->argv[2].ptr, call->argv[2].len);
	value->expires_ms =
		words.life_ms ? call->mini->now_us / 1000 + (uint64_t)words.life_ms : keeps;
	wr_mini_status(call->out, "OK");
}

static void get_range(const struct wr_mini_call *call)
{
	bool wrong;
	const struct wr_mini_value *value = string_of(call, &wrong);
	int64_t from, to, len = value ? (int64_t)value->string.len : 0;

	if (wrong)
		return;
	if (!wr_mini_number(call->argv[2], &from) || !wr_mini_number(call->argv[3], &to)) {
		not_a_number(call);
		return;
	}
	if (from < 0 && to < 0 && from > to) /* else the next lines would make it the first byte */
		len = 0;
	from = from < 0 ? from + len : from;
	to = to < 0 ? to + len : to;
	from = from < 0 ? 0 : from;
	to = to < 0 ? 0 : to;
	to = to >= len ? len - 1 : to;
	if (!value || from > to) {
		wr_mini_bulk(call->out, WR_STR(""));
		return;
	}
	wr_mini_bulk(call->out, (struct weir_str){(const char *)value->string.at + from,
						  (size_t)(to - from + 1)});
}

static void set_range(const struct wr_mini_call *call)
{
	bool wrong;
	struct wr_mini_value *value = string_of(call, &wrong);
	struct weir_str text = call->argv[3];
	int64_t at;

	if (wrong)
		return;
	if (!wr_mini_number(call->argv[2], &at) || at < 0 || at > 1 << 20) {
		not_a_number(call);
		return;
	}
	if (text.len) {
		value = wr_mini_make(call->mini, call->argv[1], WR_MINI_STRING);
		if (value->string.len < (size_t)at + text.len) {
			size_t more = (size_t)at + text.len - value->string.len;

			memset(wr_bytes_more(&value->string, more), 0, more);
		}
		memcpy(value->string.at + at, text.ptr, text.len);
	}
	wr_mini_int(call->out, value ? (int64_t)value->string.len : 0);
}

static void add(const struct wr_mini_call *call, int64_t by)
{
	bool wrong;
	struct wr_mini_value *value = string_of(call, &wrong);
	int64_t number = 0;

	if (wrong)
		return;
	if (value && !wr_mini_number(wr_bytes_str(&value->string), &number)) {
		not_a_number(call);
		return;
	}
	value = wr_mini_make(call->mini, call->argv[1], WR_MINI_STRING);
	number += by;
	value->string.len = 0;
	wr_bytes_print(&value->string, "%lld", (long long)number);
	wr_mini_int(call->out, number);
}

static void incr(const struct wr_mini_call *call)
{
	add(call, 1);
}

static void incr_by(const struct wr_mini_call *call)
{
	int64_t by;

	if (wr_mini_number(call->argv[2], &by))
		add(call, by);
	else
		not_a_number(call);
}

/* ---- the life of keys ---- */

static void del(const struct wr_mini_call *call)
{
	int64_t gone = 0;

	for (size_t i = 1; i < call->argc; i++)
		gone += wr_mini_remove(call->mini, call->argv[i]);
	wr_mini_int(call->out, gone);
}

static void exists(const struct wr_mini_call *call)
{
	wr_mini_int(call->out, wr_mini_find(call->mini, call->argv[1]) != NULL);
}

static void pttl(const struct wr_mini_call *call)
{
	const struct wr_mini_value *value = wr_mini_find(call->mini, call->argv[1]);

	if (!value)
		wr_mini_int(call->out, -2);
	else if (!value->expires_ms)
		wr_mini_int(call->out, -1);
	else
		wr_mini_int(call->out, (int64_t)(value->expires_ms - call->mini->now_us / 1000));
}

static void expire_at(const struct wr_mini_call *call, int64_t ms)
{
	struct wr_mini_value *value = wr_mini_find(call->mini, call->argv[1]);

	wr_mini_int(call->out, value != NULL);
	if (!value)
		return;
	if (ms <= (int64_t)(call->mini->now_us / 1000))
		wr_mini_remove(call->mini, call->argv[1]);
	else
		value->expires_ms = (uint64_t)ms;
}

static void pexpire(const struct wr_mini_call *call)
{
	int64_t ms;

	if (wr_mini_number(call->argv[2], &ms))
		expire_at(call, (int64_t)(call->mini->now_us / 1000) + ms);
	else
		not_a_number(call);
}

static void pexpire_at(const struct wr_mini_call *call)
{
	int64_t ms;

	if (wr_mini_number(call->argv[2], &ms))
		expire_at(call, ms);
	else
		not_a_number(call);
}

const struct wr_mini_op wr_mini_strings[] = {{"GET", get, 2, true, false},
					     {"SET", set, -3, true, true},
					     {"GETRANGE", get_range, 4, true, false},
					     {"SETRANGE", set_range, 4, true, true},
					     {"INCR", incr, 2, true, true},
					     {"INCRBY", incr_by, 3, true, true},
					     {"DEL", del, -2, true, true},
					     {"EXISTS", exists, 2, true, false},
					     {"PTTL", pttl, 2, true, false},
					     {"PEXPIRE", pexpire, 3, true, true},
					     {"PEXPIREAT", pexpire_at, 3, true, true},
					     {0}};
