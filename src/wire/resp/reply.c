/* Writes replies that are not a single number. Called by the commands. */
#include "wire/resp/reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/str.h"

#define ERROR_BYTES_MAX 512

void wr_reply_raw(struct wr_resp_out *out, const char *bytes, size_t len)
{
	wr_assert(bytes || len == 0);
	if (!wr_reply_room(out, len))
		return;
	memcpy(out->at, bytes, len);
	out->at += len;
}

void wr_reply_null(struct wr_resp_out *out)
{
	if (out->protocol == 3)
		wr_reply_raw(out, "_\r\n", 3);
	else
		wr_reply_raw(out, "$-1\r\n", 5);
}

void wr_reply_bulk(struct wr_resp_out *out, struct weir_str bytes)
{
	wr_assert(bytes.ptr || bytes.len == 0);
	if (!wr_reply_room(out, WR_REPLY_NUMBER_BYTES + bytes.len + 2))
		return;
	out->at = wr_reply_put_line(out->at, '$', (int64_t)bytes.len);
	if (bytes.len)
		memcpy(out->at, bytes.ptr, bytes.len);
	out->at += bytes.len;
	*out->at++ = '\r';
	*out->at++ = '\n';
}

void wr_reply_cstr(struct wr_resp_out *out, const char *text)
{
	wr_reply_bulk(out, wr_str(text));
}

static void write_text_line(struct wr_resp_out *out, char mark, const char *text)
{
	size_t len = strlen(text);

	if (!wr_reply_room(out, len + 3))
		return;
	*out->at++ = (uint8_t)mark;
	memcpy(out->at, text, len);
	out->at += len;
	*out->at++ = '\r';
	*out->at++ = '\n';
}

void wr_reply_simple(struct wr_resp_out *out, const char *text)
{
	write_text_line(out, '+', text);
}

void wr_reply_verbatim(struct wr_resp_out *out, struct weir_str text)
{
	if (out->protocol != 3) {
		wr_reply_bulk(out, text);
		return;
	}
	wr_reply_line(out, '=', (int64_t)text.len + 4);
	wr_reply_raw(out, "txt:", 4);
	wr_reply_raw(out, text.ptr, text.len);
	wr_reply_raw(out, "\r\n", 2);
}

void wr_reply_error(struct wr_resp_out *out, const char *format, ...)
{
	char text[ERROR_BYTES_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *at = text; *at; at++)
		if (*at == '\r' || *at == '\n')
			*at = ' ';
	write_text_line(out, '-', text);
}
