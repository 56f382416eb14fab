/* The rules of a private cache, by RFC 9111. */
#include "client/freshness.h"

#include "client/moment.h"

#define SECONDS_MAX (UINT64_C(1) << 31) /* the largest delta-seconds that RFC 9111 requires */

/* ---- Cache-Control ---- */

/* Returns the length of the first item of a list. A comma within quotes does not end the item. */
static size_t item_length(struct weir_str list)
{
	bool quoted = false;

	for (size_t i = 0; i < list.len; i++) {
		if (quoted && list.ptr[i] == '\\')
			i++;
		else if (list.ptr[i] == '"')
			quoted = !quoted;
		else if (list.ptr[i] == ',' && !quoted)
			return i;
	}
	return list.len;
}

/* Reads delta-seconds, also in quotes. Returns 0 if the text is no number. */
static uint64_t read_seconds(struct weir_str text)
{
	uint64_t seconds = 0;

	text = wr_str_trim(text);
	if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
		text = (struct weir_str){text.ptr + 1, text.len - 2};
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return 0;
		seconds = seconds * 10 + (uint64_t)(text.ptr[i] - '0');
		if (seconds > SECONDS_MAX)
			seconds = SECONDS_MAX;
	}
	return seconds;
}

static void lower_to(uint64_t *seconds, uint64_t other)
{
	if (other < *seconds)
		*seconds = other;
}

static void read_directive(struct weir_str item, struct wr_fetch_directives *directives)
{
	size_t equals = wr_str_find(item, '=');
	struct weir_str name = wr_str_trim(wr_str_first(item, equals));
	uint64_t seconds = equals < item.len ? read_seconds(wr_str_from(item, equals + 1)) : 0;

	if (wr_str_equal_nocase(name, WR_STR("no-store")))
		directives->no_store = true;
	else if (wr_str_equal_nocase(name, WR_STR("no-cache")))
		directives->no_cache = true;
	else if (wr_str_equal_nocase(name, WR_STR("only-if-cached")))
		directives->only_if_cached = true;
	else if (wr_str_equal_nocase(name, WR_STR("max-age")))
		lower_to(&directives->max_age_s, seconds);
	else if (wr_str_equal_nocase(name, WR_STR("min-fresh")))
		lower_to(&directives->min_fresh_s, seconds);
}

void wr_fetch_directives_read(struct weir_str block, struct wr_fetch_directives *directives)
{
	struct weir_str name, value;

	*directives = (struct wr_fetch_directives){.max_age_s = WR_FETCH_AGE_NONE,
						   .min_fresh_s = WR_FETCH_AGE_NONE};
	while (wr_fetch_fields_next(&block, &name, &value)) {
		if (!wr_str_equal_nocase(name, WR_STR("cache-control")))
			continue;
		while (value.len) {
			size_t end = item_length(value);

			read_directive(wr_str_first(value, end), directives);
			value = wr_str_from(value, end < value.len ? end + 1 : end);
		}
	}
}

/* ---- what can be stored ---- */

/* Statuses of final responses whose meaning does not depend on the moment. */
static bool is_storable_status(unsigned status)
{
	switch (status) {
	case 200:
	case 203:
	case 300:
	case 301:
	case 308:
	case 404:
	case 410:
		return true;
	default:
		return false;
	}
}

static bool has(struct weir_str block, const char *name)
{
	struct weir_str value;

	return wr_fetch_fields_get(block, wr_str(name), &value);
}

bool wr_fetch_can_store(struct weir_str request, unsigned status, struct weir_str response)
{
	struct wr_fetch_directives asked, said;

	wr_fetch_directives_read(request, &asked);
	wr_fetch_directives_read(response, &said);
	if (asked.no_store || said.no_store || !is_storable_status(status) ||
	    wr_fetch_fields_list_has(response, WR_STR("vary"), WR_STR("*")))
		return false;
	return has(response, "etag") || has(response, "last-modified") ||
	       said.max_age_s != WR_FETCH_AGE_NONE || has(response, "expires");
}

/* ---- what a 304 is about ---- */

static struct weir_str without_weakness(struct weir_str etag)
{
	return wr_str_begins(etag, WR_STR("W/")) ? wr_str_from(etag, 2) : etag;
}

bool wr_fetch_can_confirm(struct weir_str stored, struct weir_str confirmed)
{
	struct weir_str sent, known;

	if (!wr_fetch_fields_get(confirmed, WR_STR("etag"), &sent))
		return true;
	if (wr_fetch_fields_get(stored, WR_STR("etag"), &known))
		return wr_str_equal(without_weakness(sent), without_weakness(known));
	return wr_fetch_fields_get(confirmed, WR_STR("last-modified"), &sent) &&
	       wr_fetch_fields_get(stored, WR_STR("last-modified"), &known) &&
	       wr_str_equal(sent, known);
}

/* ---- how long it can be used ---- */

/* Reads a date of HTTP. Returns false if the text is no date. */
static bool read_date(const struct wr_fetch_stored *stored, const char *name, uint64_t *seconds)
{
	struct weir_str value;
	uint64_t at_ns;

	if (!wr_fetch_fields_get(stored->fields, wr_str(name), &value) ||
	    !wr_moment_date(value, stored->received_s * 1000000000u, &at_ns))
		return false;
	*seconds = at_ns / 1000000000u;
	return true;
}

/* Returns the Date of the response, or when it was received if the server sent no valid Date. */
static uint64_t date_s(const struct wr_fetch_stored *stored)
{
	uint64_t seconds;

	return read_date(stored, "date", &seconds) ? seconds : stored->received_s;
}

uint64_t wr_fetch_lifetime_s(const struct wr_fetch_stored *stored)
{
	struct wr_fetch_directives said;
	uint64_t expires_s, begin_s;

	wr_fetch_directives_read(stored->fields, &said);
	if (said.max_age_s != WR_FETCH_AGE_NONE)
		return said.max_age_s;
	if (!read_date(stored, "expires", &expires_s))
		return 0;
	begin_s = date_s(stored);
	return expires_s > begin_s ? expires_s - begin_s : 0;
}

uint64_t wr_fetch_age_s(const struct wr_fetch_stored *stored, uint64_t now_s)
{
	uint64_t sent_s = date_s(stored), apparent_s, corrected_s = 0;
	struct weir_str value;

	apparent_s = stored->received_s > sent_s ? stored->received_s - sent_s : 0;
	if (wr_fetch_fields_get(stored->fields, WR_STR("age"), &value))
		corrected_s = read_seconds(value);
	if (stored->received_s > stored->requested_s)
		corrected_s += stored->received_s - stored->requested_s;
	if (apparent_s > corrected_s)
		corrected_s = apparent_s;
	return corrected_s + (now_s > stored->received_s ? now_s - stored->received_s : 0);
}

/* Returns whether the request must not be answered without the server. */
static bool asks_for_reload(struct weir_str request, const struct wr_fetch_directives *asked)
{
	struct weir_str value;

	if (asked->no_cache || asked->max_age_s == 0)
		return true;
	return !wr_fetch_fields_get(request, WR_STR("cache-control"), &value) &&
	       wr_fetch_fields_list_has(request, WR_STR("pragma"), WR_STR("no-cache"));
}

bool wr_fetch_is_fresh(const struct wr_fetch_stored *stored, struct weir_str request,
		       uint64_t now_s)
{
	struct wr_fetch_directives asked, said;
	uint64_t age_s = wr_fetch_age_s(stored, now_s), lifetime_s = wr_fetch_lifetime_s(stored);

	wr_fetch_directives_read(request, &asked);
	wr_fetch_directives_read(stored->fields, &said);
	if (asks_for_reload(request, &asked) || said.no_cache || now_s < stored->requested_s)
		return false;
	if (asked.max_age_s != WR_FETCH_AGE_NONE && age_s > asked.max_age_s)
		return false;
	if (asked.min_fresh_s != WR_FETCH_AGE_NONE && lifetime_s < age_s + asked.min_fresh_s)
		return false;
	return lifetime_s > age_s;
}
