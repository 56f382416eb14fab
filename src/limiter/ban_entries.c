/* Keeps the entries of descriptors that a limit with `ban` applies to until the verdict, and makes the
 * target of a ban of them. */
#include "limiter/ban.h"

#include <string.h>

#include "base/assert.h"
#include "base/str.h"

#define ENTRIES_BYTES (WR_ASK_TEXT - WR_ASK_ENTRIES_AT)

/* In ask->text, from WR_ASK_ENTRIES_AT: the entries of a descriptor with `ban`. After this struct
 * follow, for each entry, its key, value and source, each as its length (16 bits) and its bytes. If
 * there was no room for the entries, `count` is 0, and only the value with the address follows. */
struct kept {
	uint8_t descriptor;
	uint8_t count;
	uint16_t len; /* of what follows */
};

struct keeper {
	char *at;
	size_t cap, len; /* as in struct wr_limiter_text */
};

static void keep_text(struct keeper *out, struct weir_str text)
{
	uint16_t len = (uint16_t)text.len;

	if (text.len > UINT16_MAX || out->len + sizeof len + text.len > out->cap) {
		out->len = out->cap + 1;
		return;
	}
	memcpy(out->at + out->len, &len, sizeof len);
	if (len)
		memcpy(out->at + out->len + sizeof len, text.ptr, len);
	out->len += sizeof len + len;
}

void wr_ask_keep_entries(struct weir_ask *ask, const struct wr_rules_ban *ban,
			 const struct weir_entry *entries, size_t count)
{
	char *start = ask->text + WR_ASK_ENTRIES_AT + ask->entries_len;
	size_t room = ENTRIES_BYTES - ask->entries_len;
	struct kept kept = {.descriptor = ask->descriptor_count, .count = (uint8_t)count};
	struct keeper out = {start + sizeof kept, 0, 0};

	wr_assert(ask->entries_len <= ENTRIES_BYTES);
	if (room <= sizeof kept)
		return;
	out.cap = room - sizeof kept;
	for (size_t i = 0; i < count && count <= WR_ORDER_ENTRIES; i++) {
		keep_text(&out, entries[i].key);
		keep_text(&out, entries[i].value);
		keep_text(&out, entries[i].source);
	}
	if (out.len > out.cap || count > WR_ORDER_ENTRIES) {
		kept.count = 0;
		out.len = 0;
		if (ban->address_depth && ban->address_depth <= count)
			keep_text(&out, entries[ban->address_depth - 1].value);
		if (out.len > out.cap)
			return;
	}
	kept.len = (uint16_t)out.len;
	memcpy(start, &kept, sizeof kept);
	ask->entries_len = (uint16_t)(ask->entries_len + sizeof kept + out.len);
}

static struct weir_str read_kept(const char **at)
{
	struct weir_str text;
	uint16_t len;

	memcpy(&len, *at, sizeof len);
	text = (struct weir_str){*at + sizeof len, len};
	*at += sizeof len + len;
	return text;
}

void wr_ask_find_banned(const struct weir_ask *ask, const struct wr_ask_need *need,
			struct wr_ask_banned *banned)
{
	const char *at = ask->text + WR_ASK_ENTRIES_AT, *end = at + ask->entries_len;
	uint8_t depth = need->rule->ban->address_depth;
	struct kept kept;

	banned->target = (struct weir_target){.size = sizeof banned->target,
					      .domain = ask->domain->key,
					      .limit = need->rule->stat,
					      .entries = banned->entries};
	banned->address = WR_STR("");
	for (; at < end; at += kept.len) {
		memcpy(&kept, at, sizeof kept);
		at += sizeof kept;
		if (kept.descriptor == need->descriptor)
			break;
	}
	if (at >= end)
		return;
	if (kept.count == 0) {
		banned->address = kept.len ? read_kept(&at) : WR_STR("");
		return;
	}
	for (uint8_t i = 0; i < kept.count; i++) {
		banned->entries[i].key = read_kept(&at);
		banned->entries[i].value = read_kept(&at);
		banned->entries[i].source = read_kept(&at);
	}
	banned->target.count = kept.count;
	if (depth && depth <= kept.count)
		banned->address = banned->entries[depth - 1].value;
}
