/* Writes the keys of limits as text, for the lists of refused keys. Called by replay.c when a key is
 * refused for the first time. */
#include <weir/stats.h>

#include "base/str.h"
#include "lab/replay/inner.h"
#include "limiter/text.h"

/* Returns whether the value is the stand-in address of the record's client, or a prefix of it. The
 * first 64 bits of a stand-in identify the client. */
static bool is_stand_in(const struct wr_lab_record *record, struct weir_str value)
{
	struct wr_address address;

	return record->stand_in && value.len > 2 && wr_str_begins(value, WR_STR("fd")) &&
	       wr_address_parse(wr_str_first(value, wr_str_find(value, '/')), &address) == 0 &&
	       memcmp(address.bytes, record->address.bytes, 8) == 0;
}

/* Writes the values that belong to the key and are not part of the rule. */
static void write_values(const struct wr_lab_record *record, const struct wr_node *node,
			 const struct weir_entry *entries, size_t count,
			 struct wr_limiter_text *text)
{
	const struct wr_node *path[WR_DEPTH_MAX] = {NULL};
	bool any = false;

	for (; node && node->depth; node = node->parent)
		path[node->depth - 1] = node;
	for (size_t i = 0; i < count; i++) {
		const struct wr_node *level = i < WR_DEPTH_MAX ? path[i] : NULL;

		if (level && (level->kind == WR_NODE_EXACT || level->flags & WR_SHARE))
			continue;
		if (any)
			wr_limiter_text_char(text, WEIR_TOP_BETWEEN);
		wr_limiter_text_put(text, is_stand_in(record, entries[i].value) ? record->client
										: entries[i].value);
		any = true;
	}
}

/* The ask has no texts of its descriptors, so they are made again. */
size_t wr_lab_replay_key_text(struct wr_lab_replay *replay, const struct weir_ask *ask,
			      const struct wr_ask_need *need, char *text, size_t cap)
{
	const struct wr_node *node = ask->descriptors[need->descriptor].node;
	struct wr_limiter_text out = {text, cap, 0};

	if (replay->descriptor_count == 0) {
		struct wr_rules_http http;

		wr_lab_replay_fill_view(replay, replay->record);
		if (wr_rules_http_read(replay->domain, &replay->view, replay->http_memory,
				       sizeof replay->http_memory, &http) == 0 &&
		    need->descriptor < http.count)
			write_values(replay->record, node,
				     http.descriptors[need->descriptor].entries,
				     http.descriptors[need->descriptor].count, &out);
	} else {
		struct weir_entry entries[WR_LAB_ENTRIES_MAX];
		char status[16];
		size_t at = 0, count = 0;

		/* The ask has only the descriptors whose fields are in the record. */
		for (size_t made = 0; at < replay->descriptor_count; at++) {
			count = wr_lab_descriptor_make(&replay->descriptors[at], replay->record,
						       entries, status);
			if (count && made++ == need->descriptor)
				break;
		}
		write_values(replay->record, node, entries, count, &out);
	}
	return out.len < cap ? out.len : cap;
}
