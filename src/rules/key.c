/* Writes the bytes that name a counter. The limiter hashes these bytes for the table and for
 * Redis. */
#include "rules/key.h"

#include "base/assert.h"
#include "base/str.h"
#include "base/address.h"

/* The function that receives the bytes of a key, and its context. */
struct key_writer {
	wr_feed_fn feed;
	void *context;
};

static void put_text(const struct key_writer *out, struct weir_str text)
{
	uint8_t len[4] = {(uint8_t)text.len, (uint8_t)(text.len >> 8), (uint8_t)(text.len >> 16),
			  (uint8_t)(text.len >> 24)};

	out->feed(out->context, len, sizeof len);
	if (text.len)
		out->feed(out->context, text.ptr, text.len);
}

/* The texts that an entry of a descriptor adds to the bytes of a key. */
struct piece {
	struct weir_str key, value, source;
	char tag;
	char address[WR_ADDRESS_TEXT];
};

/* Fills in *piece for an entry of a descriptor. `node` is the tree node that matched the entry, or
 * NULL. */
static inline void piece_of(const struct wr_node *node, const struct weir_entry *entry,
			    struct piece *piece)
{
	struct wr_address address;

	piece->key = entry->key;
	piece->value = entry->value;
	piece->source = entry->source;
	piece->tag = (char)(entry->source.len ? 'V' : 'v');
	if (!node)
		return;
	if (node->flags & WR_SHARE) {
		if (node->flags & WR_KEY_GLOB)
			piece->key = node->key;
		piece->value = node->value;
		piece->source = WR_STR("");
		piece->tag = 'p';
	} else if (wr_str_equal(entry->source, WR_AMBIGUOUS_SOURCE)) {
		if (node->flags & WR_KEY_GLOB)
			piece->key = node->key;
		piece->value = node->value;
	} else if (node->kind == WR_NODE_CIDR && wr_address_parse(entry->value, &address) == 0) {
		piece->value = (struct weir_str){
			piece->address,
			wr_address_text(&address, WR_ADDRESS_WHOLE, piece->address)};
	}
}

/* Stores `node` and each tree node above it, except the domain, in path[depth - 1], where depth is
 * the depth of the stored node. The other elements of `path` are not set. */
static inline void path_to(const struct wr_node *node, const struct wr_node *path[WR_DEPTH_MAX])
{
	for (; node && node->depth; node = node->parent)
		path[node->depth - 1] = node;
}

void wr_rules_key_feed(const struct wr_node *domain, const struct wr_node *node,
		       const struct weir_entry *entries, size_t count, wr_feed_fn feed,
		       void *context)
{
	const struct wr_node *path[WR_DEPTH_MAX] = {NULL};
	struct key_writer out = {feed, context};
	struct piece piece;

	wr_assert(!node || node->depth == count);
	path_to(node, path);
	put_text(&out, domain->key);
	for (size_t i = 0; i < count; i++) {
		piece_of(i < WR_DEPTH_MAX ? path[i] : NULL, &entries[i], &piece);
		put_text(&out, piece.key);
		feed(context, &piece.tag, 1);
		put_text(&out, piece.value);
		if (piece.source.len)
			put_text(&out, piece.source);
	}
}

struct buffer {
	char *at;
	size_t cap;
	size_t len;
};

static void append_to_buffer(void *context, const void *bytes, size_t len)
{
	struct buffer *buffer = context;

	if (buffer->len < buffer->cap) {
		size_t room = buffer->cap - buffer->len;

		memcpy(buffer->at + buffer->len, bytes, len < room ? len : room);
	}
	buffer->len += len;
}

static inline char *write_key_text(char *at, struct weir_str text)
{
	uint8_t len[4] = {(uint8_t)text.len, (uint8_t)(text.len >> 8), (uint8_t)(text.len >> 16),
			  (uint8_t)(text.len >> 24)};

	memcpy(at, len, sizeof len);
	if (text.len)
		memcpy(at + sizeof len, text.ptr, text.len);
	return at + sizeof len + text.len;
}

/* Writes the same bytes as wr_rules_key_feed(), but without a call for each piece, because most
 * keys are short. Returns the number of bytes, or 0 if `buf` may be too small. */
static size_t write_short(const struct wr_node *domain, const struct wr_node *const *path,
			  const struct weir_entry *entries, size_t count, char *buf, size_t cap)
{
	char *at = buf, *end = buf + cap;
	struct piece piece;

	if (domain->key.len + 4 > cap)
		return 0;
	at = write_key_text(at, domain->key);
	for (size_t i = 0; i < count; i++) {
		piece_of(path[i], &entries[i], &piece);
		if (piece.key.len > cap || piece.value.len > cap || piece.source.len > cap ||
		    piece.key.len + piece.value.len + piece.source.len + 13 > (size_t)(end - at))
			return 0;
		at = write_key_text(at, piece.key);
		*at++ = piece.tag;
		at = write_key_text(at, piece.value);
		if (piece.source.len)
			at = write_key_text(at, piece.source);
	}
	return (size_t)(at - buf);
}

size_t wr_rules_key_write(const struct wr_node *domain, const struct wr_node *node,
			  const struct weir_entry *entries, size_t count, void *buf, size_t cap)
{
	const struct wr_node *path[WR_DEPTH_MAX];
	struct buffer buffer = {buf, cap, 0};
	size_t len = 0;

	wr_assert(!node || node->depth == count);
	/* `node` has depth `count`, so path_to() sets the first `count` elements of `path`. */
	if (node) {
		path_to(node, path);
		len = write_short(domain, path, entries, count, buf, cap);
	}
	if (len == 0) {
		wr_rules_key_feed(domain, node, entries, count, append_to_buffer, &buffer);
		len = buffer.len;
	}
	return len;
}
