/* Encodes grpc-message. Called by serve/grpc/reply.c. */
#include "wire/grpc/grpc.h"

#include <string.h>

_Static_assert(WR_GRPC_TEXT_MAX >= 3 * sizeof(((struct weir_error *)0)->text),
	       "any text fits, even if each byte becomes three");

size_t wr_grpc_text_encode(const char *text, char encoded[WR_GRPC_TEXT_MAX])
{
	static const char digits[] = "0123456789ABCDEF";
	size_t len = strnlen(text, sizeof(((struct weir_error *)0)->text)), out = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text[i];

		if (c >= ' ' && c <= '~' && c != '%') {
			encoded[out++] = (char)c;
			continue;
		}
		encoded[out++] = '%';
		encoded[out++] = digits[c >> 4];
		encoded[out++] = digits[c & 15];
	}
	return out;
}
