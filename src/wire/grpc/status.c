/* Encodes grpc-message. Called by serve/grpc/reply.c. */
#include "wire/grpc/grpc.h"

#include <string.h>

#include "base/utf8.h"

static bool is_plain(uint8_t c)
{
	return c >= ' ' && c <= '~' && c != '%';
}

/* Returns the length of the percent-encoded UTF-8 character at `text`. A byte that is not part of
 * a character counts as a character of its own. */
static size_t encoded_len(const char *text, size_t *len)
{
	*len = wr_utf8_len(text, strnlen(text, 4));
	*len = *len ? *len : 1;
	return is_plain((uint8_t)*text) ? 1 : 3 * *len;
}

size_t wr_grpc_text_encode(const char *text, char encoded[WR_GRPC_TEXT_MAX])
{
	static const char digits[] = "0123456789ABCDEF";
	size_t out = 0, len;

	for (; *text && out + encoded_len(text, &len) <= WR_GRPC_TEXT_MAX; text += len) {
		if (is_plain((uint8_t)*text)) {
			encoded[out++] = *text;
			continue;
		}
		for (size_t i = 0; i < len; i++) {
			encoded[out++] = '%';
			encoded[out++] = digits[(uint8_t)text[i] >> 4];
			encoded[out++] = digits[(uint8_t)text[i] & 15];
		}
	}
	return out;
}
