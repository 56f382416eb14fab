/* Encodes grpc-message. Called by serve/grpc/reply.c. */
#include "wire/grpc/grpc.h"

#include <string.h>

#include "base/utf8.h"

size_t wr_grpc_text_encode(const char *text, char encoded[WR_GRPC_TEXT_MAX])
{
	static const char digits[] = "0123456789ABCDEF";
	size_t out = 0, len;

	for (; *text; text += len) {
		bool plain = *text >= ' ' && *text <= '~' && *text != '%';

		len = wr_utf8_len(text, strnlen(text, 4));
		len = len ? len : 1; /* a byte that is not part of a character is encoded alone */
		if (out + (plain ? 1 : 3 * len) > WR_GRPC_TEXT_MAX)
			break;
		if (plain)
			encoded[out++] = *text;
		for (size_t i = 0; !plain && i < len; i++) {
			encoded[out++] = '%';
			encoded[out++] = digits[(uint8_t)text[i] >> 4];
			encoded[out++] = digits[(uint8_t)text[i] & 15];
		}
	}
	return out;
}
