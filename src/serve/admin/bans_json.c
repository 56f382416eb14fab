/* Writes the list of bans in force, and the state of weir shield. Called by bans.c, in threads of
 * libuv's pool. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "limiter/scope.h"
#include "serve/admin/bans.h"
#include "table/note.h"

/* weir shield writes its state every second. A state that is older belongs to a shield that has
 * ended without a clean exit. */
#define SHIELD_SILENT_S 30u

/* ---- reading ---- */

struct listed_ban {
	struct wr_ban ban;
	char rule[WEIR_STAT_NAME_BYTES];
	uint8_t rule_len;
};

struct ban_reading {
	const struct wr_admin_bans_query *query;
	struct listed_ban *items;
	size_t count, room;
	uint64_t matched; /* number of bans that the query selects, on all pages */
};

/* Compares in the order of the list: the newest ban first, then the key with the lower tag. */
static int compare(uint32_t a_s, uint64_t a_tag, uint32_t b_s, uint64_t b_tag)
{
	if (a_s != b_s)
		return a_s > b_s ? -1 : 1;
	return a_tag < b_tag ? -1 : a_tag > b_tag;
}

static int compare_items(const void *a, const void *b)
{
	const struct wr_ban *left = &((const struct listed_ban *)a)->ban;
	const struct wr_ban *right = &((const struct listed_ban *)b)->ban;

	return compare(left->since_s, left->key.tag, right->since_s, right->key.tag);
}

/* Sorts the collected bans, and keeps as many as the page has. */
static void trim(struct ban_reading *reading)
{
	qsort(reading->items, reading->count, sizeof *reading->items, compare_items);
	if (reading->count > reading->query->count)
		reading->count = reading->query->count;
}

static int collect(void *context, const struct wr_ban *ban)
{
	struct ban_reading *reading = context;
	const struct wr_admin_bans_query *query = reading->query;

	if (!wr_release_means(&query->which, ban))
		return 0;
	reading->matched++;
	if (query->has_after &&
	    compare(ban->since_s, ban->key.tag, query->after_s, query->after_tag) <= 0)
		return 0;
	if (reading->count == reading->room)
		trim(reading);
	reading->items[reading->count++] = (struct listed_ban){.ban = *ban};
	return 0;
}

static int name_rules(void *context, const struct weir_stat *stat)
{
	struct ban_reading *reading = context;
	uint64_t hash = wr_ban_rule_hash(stat->rule);

	for (size_t i = 0; i < reading->count; i++) {
		struct listed_ban *item = &reading->items[i];

		if (item->ban.rule != hash || stat->rule.len > sizeof item->rule)
			continue;
		memcpy(item->rule, stat->rule.ptr, stat->rule.len);
		item->rule_len = (uint8_t)stat->rule.len;
	}
	return 0;
}

/* ---- writing ---- */

static void write_key(struct wr_json_out *json, const struct weir_table *table,
		      const struct wr_ban *ban, bool hidden)
{
	struct wr_table_text_note text = {0};
	bool noted = !hidden && wr_note_read(table, ban->key, &text);

	/* A long key is cut, perhaps in the middle of a character. wr_json_member_bytes() accepts
	 * any bytes. */
	if (noted && text.key_len)
		wr_json_member_bytes(json, "key", (struct weir_str){text.key, text.key_len});
	else
		wr_json_member_null(json, "key");
}

static void write_address(struct wr_json_out *json, const struct wr_ban *ban, bool hidden)
{
	char text[WR_ADDRESS_TEXT];
	size_t len = hidden ? 0 : wr_ban_address_text(ban, text);

	wr_json_member_string_or_null(json, "address", (struct weir_str){text, len});
}

static void write_ban(struct wr_json_out *json, const struct weir_table *table,
		      const struct listed_ban *item, bool keys_hidden)
{
	const struct wr_ban *ban = &item->ban;
	bool hidden = keys_hidden && ban->flags & WR_BAN_AUTOMATIC;

	wr_json_object(json);
	write_key(json, table, ban, hidden);
	/* The kernel's sets show the addresses of bans with `shield` anyway. */
	write_address(json, ban, hidden && !(ban->flags & WR_BAN_SHIELD));
	wr_json_member_string_or_null(json, "rule", (struct weir_str){item->rule, item->rule_len});
	wr_json_member_uint(json, "since", ban->since_s);
	wr_admin_json_time(json, "until", wr_limiter_override_end_ns(ban->until_s));
	wr_json_member_bool(json, "automatic", ban->flags & WR_BAN_AUTOMATIC);
	wr_json_member_uint(json, "level", ban->level);
	wr_json_member_bool(json, "shield", ban->flags & WR_BAN_SHIELD);
	wr_json_member_bool(json, "shadow", ban->flags & WR_BAN_SHADOW);
	wr_json_member_bool(json, "only_shield", ban->flags & WR_BAN_BARE);
	wr_json_end_object(json);
}

static void write_page(struct wr_json_out *json, const struct wr_admin_work *work,
		       struct ban_reading *reading)
{
	wr_json_key(json, "bans");
	wr_json_array(json);
	for (size_t i = 0; i < reading->count; i++)
		write_ban(json, work->core->table, &reading->items[i], reading->query->hidden);
	wr_json_end_array(json);
	wr_json_member_uint(json, "matched", reading->matched);
}

/* Writes the position behind the last ban of the page, if the page is full. */
static void write_next(struct wr_json_out *json, const struct ban_reading *reading)
{
	const struct wr_ban *last = reading->count ? &reading->items[reading->count - 1].ban : NULL;
	char text[WR_ADMIN_BANS_AFTER];

	if (!last || reading->count < reading->query->count) {
		wr_json_member_null(json, "next");
		return;
	}
	snprintf(text, sizeof text, "%" PRIu32 "-%016" PRIx64, last->since_s, last->key.tag);
	wr_json_member_string(json, "next", wr_str(text));
}

bool wr_admin_bans_after_read(const char *text, struct wr_admin_bans_query *query)
{
	size_t digits = strspn(text, "0123456789");
	size_t hex = text[digits] == '-' ? strspn(text + digits + 1, "0123456789abcdef") : 0;
	unsigned long since;

	if (digits == 0 || digits > 10 || hex == 0 || hex > 16 || text[digits + 1 + hex])
		return false;
	since = strtoul(text, NULL, 10);
	if (since > UINT32_MAX)
		return false;
	query->has_after = true;
	query->after_s = (uint32_t)since;
	query->after_tag = strtoull(text + digits + 1, NULL, 16);
	return true;
}

int wr_admin_bans_write(struct wr_json_out *json, const struct wr_admin_work *work)
{
	const struct wr_admin_bans_query *query = work->context;
	struct ban_reading reading = {.query = query, .room = (size_t)2 * query->count};

	reading.items = malloc(reading.room * sizeof *reading.items);
	if (!reading.items)
		return WEIR_EMEMORY;
	wr_bans_each(work->core->table, wr_seconds(work->now_ns), collect, &reading);
	trim(&reading);
	weir_stats_each(work->core->table, name_rules, &reading);
	wr_json_object(json);
	wr_json_member_seconds(json, "now", work->now_ns);
	write_page(json, work, &reading);
	write_next(json, &reading);
	wr_json_member_uint(json, "unlisted",
			    wr_release_unlisted(work->core->table, wr_seconds(work->now_ns)));
	wr_json_key(json, "shield");
	wr_admin_json_shield(json, work->core->table, work->now_ns);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
	free(reading.items);
	return 0;
}

/* ---- weir shield ---- */

void wr_admin_json_shield(struct wr_json_out *json, struct weir_table *table, uint64_t now_ns)
{
	struct wr_shield_state state;

	wr_shield_state_read(table, &state);
	if (state.pid == 0 || state.updated_s + SHIELD_SILENT_S < now_ns / WR_SECOND_NS) {
		wr_json_null(json);
		return;
	}
	wr_json_object(json);
#define WRITE_FIELD(field, meaning) wr_json_member_uint(json, #field, state.field);
	WR_SHIELD_FIELDS(WRITE_FIELD)
#undef WRITE_FIELD
	wr_json_end_object(json);
}
