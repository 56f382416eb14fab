#include "rules/key.h"

#include <assert.h>

#include "base/str.h"
#include "rules/address.h"

/* Bytes go out in pieces of at least a few words: a hash is fed best that way. */
struct writer {
	wr_feed_fn feed;
	void *context;
};

static void put_len(const struct writer *out, size_t len)
{
	uint8_t bytes[4] = {(uint8_t)len, (uint8_t)(len >> 8), (uint8_t)(len >> 16),
			    (uint8_t)(len >> 24)};

	out->feed(out->context, bytes, sizeof bytes);
}

static void put_text(const struct writer *out, struct weir_str text)
{
	put_len(out, text.len);
	if (text.len)
		out->feed(out->context, text.ptr, text.len);
}

static void put_value(const struct writer *out, char tag, struct weir_str value,
		      struct weir_str source)
{
	char byte = (char)(source.len ? tag - ('a' - 'A') : tag);

	out->feed(out->context, &byte, 1);
	put_text(out, value);
	if (source.len)
		put_text(out, source);
}

/* What stands for an entry in the key depends on the node that matched it. */
static void put_entry(const struct writer *out, const struct wr_node *node,
		      const struct weir_entry *entry)
{
	char text[WR_ADDRESS_TEXT];
	struct wr_address address;

	if (node && node->flags & WR_SHARE) {
		put_text(out, node->flags & WR_KEY_GLOB ? node->key : entry->key);
		put_value(out, 'p', node->value, WR_STR(""));
		return;
	}
	put_text(out, entry->key);
	if (node && node->kind == WR_NODE_CIDR && wr_address_parse(entry->value, &address) == 0) {
		size_t len = wr_address_text(&address, WR_ADDRESS_WHOLE, text);

		put_value(out, 'v', (struct weir_str){text, len}, entry->source);
		return;
	}
	put_value(out, 'v', entry->value, entry->source);
}

void wr_key_feed(const struct wr_node *domain, const struct wr_node *node,
		 const struct weir_entry *entries, size_t count, wr_feed_fn feed, void *context)
{
	const struct wr_node *path[WR_DEPTH_MAX] = {NULL};
	struct writer out = {feed, context};

	assert(!node || node->depth == count);
	for (; node && node->depth; node = node->parent)
		path[node->depth - 1] = node;
	put_text(&out, domain->key);
	for (size_t i = 0; i < count; i++)
		put_entry(&out, i < WR_DEPTH_MAX ? path[i] : NULL, &entries[i]);
}

struct buffer {
	char *at;
	size_t cap;
	size_t len;
};

static void append(void *context, const void *bytes, size_t len)
{
	struct buffer *buffer = context;

	if (buffer->len < buffer->cap) {
		size_t room = buffer->cap - buffer->len;

		memcpy(buffer->at + buffer->len, bytes, len < room ? len : room);
	}
	buffer->len += len;
}

size_t wr_key_write(const struct wr_node *domain, const struct wr_node *node,
		    const struct weir_entry *entries, size_t count, void *buf, size_t cap)
{
	struct buffer buffer = {buf, cap, 0};

	wr_key_feed(domain, node, entries, count, append, &buffer);
	return buffer.len;
}
