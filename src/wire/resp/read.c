/* Parses commands: arrays of bulk strings, or lines. Called by session.c. */
#include "wire/resp/resp.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"

#define COUNT_BYTES_MAX 24 /* maximum length of a line with a type mark (`*` or `$`) and a number */

bool wr_resp_integer(struct weir_str text, int64_t *value)
{
	bool below = text.len && text.ptr[0] == '-';
	size_t at = below;
	uint64_t most = (uint64_t)INT64_MAX + below;
	uint64_t sum = 0;

	if (at == text.len || (text.ptr[at] == '0' && text.len > 1))
		return false;
	for (; at < text.len; at++) {
		unsigned digit = (unsigned char)text.ptr[at] - (unsigned)'0';

		if (digit > 9 || sum > (most - digit) / 10)
			return false;
		sum = sum * 10 + digit;
	}
	*value = (int64_t)(below ? -sum : sum);
	return true;
}

static int protocol_error(struct wr_resp_reader *reader, const char *text)
{
	wr_error(&reader->error, WEIR_EFORMAT, "Protocol error: %s", text);
	return WR_RESP_BAD;
}

static int partial(struct wr_resp_reader *reader, size_t wanted)
{
	reader->wanted = wanted;
	return WR_RESP_PARTIAL;
}

/* Reads the number after the type mark (`*` or `$`) at `at`. Sets *next to the position after the
 * line. Returns WR_RESP_COMMAND on success, or WR_RESP_PARTIAL if the line is not complete. Returns
 * WR_RESP_BAD with the error text `too_long` if the line is too long, or with the error text
 * `invalid` if it has no number. */
static int read_count(const uint8_t *bytes, size_t at, size_t len, struct wr_resp_reader *reader,
		      const char *too_long, const char *invalid, int64_t *count, size_t *next)
{
	size_t first = at + 1, end = first;
	size_t most = len - at < COUNT_BYTES_MAX ? len : at + COUNT_BYTES_MAX;

	while (end < most && bytes[end] != '\r')
		end++;
	if (end == most && most < len)
		return protocol_error(reader, too_long);
	if (end == most || end + 1 == len)
		return partial(reader, 1);
	if (bytes[end + 1] != '\n' ||
	    !wr_resp_integer((struct weir_str){(const char *)bytes + first, end - first}, count))
		return protocol_error(reader, invalid);
	*next = end + 2;
	return WR_RESP_COMMAND;
}

static int read_header(struct wr_resp_parser *parser, enum wr_resp_trust trust,
		       const uint8_t *bytes, size_t len, struct wr_resp_reader *reader)
{
	int64_t count;
	size_t next;
	int rc = read_count(bytes, 0, len, reader, "too big mbulk count string",
			    "invalid multibulk length", &count, &next);

	if (rc != WR_RESP_COMMAND)
		return rc;
	if (count > (int64_t)WR_RESP_ARGS_MAX)
		return protocol_error(reader, "invalid multibulk length");
	if (trust == WR_RESP_STRANGER && count > (int64_t)WR_RESP_STRANGER_ARGS_MAX)
		return protocol_error(reader, "unauthenticated multibulk length");
	parser->args = count > 0 ? (uint32_t)count : 0;
	parser->at = (uint32_t)next;
	return WR_RESP_COMMAND;
}

/* Reads the bulk string at `at` and sets *arg to it. Sets *next to the position after the bulk
 * string. Returns WR_RESP_COMMAND on success, otherwise WR_RESP_PARTIAL or WR_RESP_BAD. */
static inline int read_bulk(enum wr_resp_trust trust, bool large, const uint8_t *bytes, size_t at,
			    size_t len, struct wr_resp_reader *reader, struct weir_str *arg,
			    size_t *next)
{
	int64_t count;
	size_t start;
	int rc;

	if (at == len)
		return partial(reader, 1);
	if (bytes[at] != '$') {
		wr_error(&reader->error, WEIR_EFORMAT, "Protocol error: expected '$', got '%c'",
			 bytes[at] >= ' ' && bytes[at] < 0x7f ? bytes[at] : '?');
		return WR_RESP_BAD;
	}
	rc = read_count(bytes, at, len, reader, "too big bulk count string", "invalid bulk length",
			&count, &start);
	if (rc != WR_RESP_COMMAND)
		return rc;
	if (count < 0 ||
	    count > (int64_t)(large ? WR_RESP_LARGE_ARG_BYTES_MAX : WR_RESP_ARG_BYTES_MAX) ||
	    start + (size_t)count + 2 >
		    (large ? WR_RESP_LARGE_BYTES_MAX : WR_RESP_COMMAND_BYTES_MAX))
		return protocol_error(reader, "invalid bulk length");
	if (trust == WR_RESP_STRANGER && count > (int64_t)WR_RESP_STRANGER_ARG_BYTES_MAX)
		return protocol_error(reader, "unauthenticated bulk length");
	if (len - start < (size_t)count + 2)
		return partial(reader, start + (size_t)count + 2 - len);
	if (bytes[start + (size_t)count] != '\r' || bytes[start + (size_t)count + 1] != '\n')
		return protocol_error(reader, "expected CRLF after bulk string");
	*arg = (struct weir_str){(const char *)bytes + start, (size_t)count};
	*next = start + (size_t)count + 2;
	return WR_RESP_COMMAND;
}

static int read_args(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		     size_t len, struct wr_resp_reader *reader)
{
	while (parser->done < parser->args) {
		size_t next;
		struct weir_str *arg = &reader->args[reader->used + parser->done];
		int rc =
			read_bulk(trust, parser->large, bytes, parser->at, len, reader, arg, &next);

		if (rc != WR_RESP_COMMAND)
			return rc;
		if (trust == WR_RESP_PEER && parser->done == 0)
			parser->large = wr_str_equal_nocase(*arg, WR_STR("weir.defer"));
		parser->at = (uint32_t)next;
		parser->done++;
	}
	return WR_RESP_COMMAND;
}

static int read_array(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		      size_t len, struct wr_resp_reader *reader, struct wr_resp_command *command)
{
	bool resumed = parser->done > 0;
	int rc = WR_RESP_COMMAND;

	if (parser->args == 0)
		rc = read_header(parser, trust, bytes, len, reader);
	if (rc == WR_RESP_COMMAND && parser->args > WR_RESP_ARGS_MAX - reader->used)
		return WR_RESP_FULL;
	if (rc == WR_RESP_COMMAND)
		rc = read_args(parser, trust, bytes, len, reader);
	if (rc != WR_RESP_COMMAND)
		return rc;
	if (resumed) {
		/* Read the command again from its beginning. The input may be at another address
		 * now, so arguments that an earlier call has read may be invalid. */
		*parser = (struct wr_resp_parser){0};
		read_header(parser, trust, bytes, len, reader);
		read_args(parser, trust, bytes, len, reader);
	}
	*command = (struct wr_resp_command){parser->at, parser->args, reader->args + reader->used};
	reader->used += parser->args;
	return WR_RESP_COMMAND;
}

/* Reads a command typed as a line, which ends with LF or CR LF. A line is read only if no other
 * command has been read, because reader->words has room for the words of one line. */
static int read_line(struct wr_resp_parser *parser, const uint8_t *bytes, size_t len,
		     struct wr_resp_reader *reader, struct wr_resp_command *command)
{
	size_t most = len < WR_RESP_LINE_BYTES_MAX ? len : WR_RESP_LINE_BYTES_MAX;
	const uint8_t *end = memchr(bytes + parser->at, '\n', most - parser->at);
	size_t chars;

	if (!end) {
		if (most == WR_RESP_LINE_BYTES_MAX)
			return protocol_error(reader, "too big inline request");
		parser->at = (uint32_t)most;
		return partial(reader, 1);
	}
	if (reader->used)
		return WR_RESP_FULL;
	chars = (size_t)(end - bytes);
	if (chars && bytes[chars - 1] == '\r')
		chars--;
	if (!wr_resp_split((const char *)bytes, chars, reader))
		return protocol_error(reader, "unbalanced quotes in request");
	*command = (struct wr_resp_command){(size_t)(end - bytes) + 1, reader->used, reader->args};
	return WR_RESP_COMMAND;
}

int wr_resp_read(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		 size_t len, struct wr_resp_reader *reader, struct wr_resp_command *command)
{
	int rc;

	wr_assert(bytes || len == 0);
	if (len == 0)
		return partial(reader, 1);
	if (bytes[0] == '*')
		rc = read_array(parser, trust, bytes, len, reader, command);
	else
		rc = read_line(parser, bytes, len, reader, command);
	if (rc == WR_RESP_COMMAND)
		*parser = (struct wr_resp_parser){0};
	return rc;
}
