/* Writes the path of a node in the tree of rules as text. */
#include "rules/path_text.h"

#include "base/assert.h"
#include "base/str.h"

struct path_out {
	char *text;
	size_t cap;
	size_t len;
};

static void put_char(struct path_out *out, char c)
{
	if (out->len + 1 < out->cap)
		out->text[out->len] = c;
	out->len++;
}

static void put_escaped(struct path_out *out, struct weir_str text)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c <= ' ' || c == 0x7f || c == '/' || c == '=' || c == '%') {
			put_char(out, '%');
			put_char(out, digits[c >> 4]);
			put_char(out, digits[c & 15]);
		} else {
			put_char(out, (char)c);
		}
	}
}

static void put_node(struct path_out *out, const struct wr_node *node)
{
	if (node->parent) {
		put_node(out, node->parent);
		put_char(out, '/');
	}
	put_escaped(out, node->key);
	if (node->kind == WR_NODE_CIDR)
		/* As in "ip==10.0.0.0%2F8": the second = shows that the value is a list of
		 * addresses. */
		put_char(out, '=');
	if (node->value.len) {
		put_char(out, '=');
		put_escaped(out, node->value);
	}
}

size_t wr_path_text(const struct wr_node *node, char *text, size_t cap)
{
	struct path_out out = {text, cap, 0};

	wr_assert(text || cap == 0);
	put_node(&out, node);
	if (cap)
		text[out.len < cap ? out.len : cap - 1] = '\0';
	return out.len;
}
