/* Parses HTTP/1.1 requests. Called by serve/http/request.c. */
#include "wire/http/http1.h"

#include <string.h>

#include "base/assert.h"
#include "base/str.h"

/* The characters of methods and field names (RFC 9110, 5.6.2). */
static const bool token_chars[256] = {
	['!'] = true,         ['#'] = true,         ['$'] = true, ['%'] = true,
	['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true,
	['-'] = true,         ['.'] = true,         ['^'] = true, ['_'] = true,
	['`'] = true,         ['|'] = true,         ['~'] = true, ['0' ... '9'] = true,
	['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

/* ---- the head as a whole ---- */

size_t wr_http1_head_end(const char *bytes, size_t len, size_t *scanned)
{
	size_t at = *scanned > 3 ? *scanned - 3 : 0;

	wr_assert(*scanned <= len);
	while (at + 4 <= len) {
		const char *found = memchr(bytes + at, '\r', len - at - 3);

		if (!found)
			break;
		if (memcmp(found, "\r\n\r\n", 4) == 0)
			return (size_t)(found - bytes) + 4;
		at = (size_t)(found - bytes) + 1;
	}
	*scanned = len;
	return 0;
}

/* Every line must end with CR LF. A bare LF is refused at once: a head whose lines end with bare LF
 * never becomes complete, so the client would wait until the timeout. */
int wr_http1_part_check(const char *bytes, size_t len, size_t checked)
{
	const char *line_end =
		memchr(bytes, '\n', len < WR_HTTP1_LINE_MAX + 2 ? len : WR_HTTP1_LINE_MAX + 2);
	const char *at = bytes + checked;

	wr_assert(checked <= len);
	if (!line_end)
		return len >= WR_HTTP1_LINE_MAX + 2 ? 414 : 0;
	while ((at = memchr(at, '\n', (size_t)(bytes + len - at)))) {
		if (at == bytes || at[-1] != '\r')
			return 400;
		at++;
	}
	/* The header fields may be one byte longer than WR_HTTP1_FIELDS_MAX here, because the last
	 * byte may be the CR of the empty line, which is not part of a field. */
	return bytes + len - (line_end + 1) > (ptrdiff_t)WR_HTTP1_FIELDS_MAX + 1 ? 431 : 0;
}

/* ---- the request line ---- */

bool wr_http1_is_token(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!token_chars[(unsigned char)text.ptr[i]])
			return false;
	return text.len > 0;
}

size_t wr_http1_unescape(char *text, size_t len, bool plus)
{
	size_t out = 0;

	wr_assert(text || len == 0);
	for (size_t at = 0; at < len; at++) {
		char c = text[at];

		if (plus && c == '+') {
			c = ' ';
		} else if (c == '%') {
			int high = at + 2 < len ? wr_hex(text[at + 1]) : -1;
			int low = at + 2 < len ? wr_hex(text[at + 2]) : -1;

			if (high < 0 || low < 0)
				return SIZE_MAX;
			c = (char)(high * 16 + low);
			at += 2;
		}
		if (c == '\0')
			return SIZE_MAX;
		text[out++] = c;
	}
	return out;
}

/* Reads the method, which ends with a blank. Returns the length of the method, or 0 if the method
 * is invalid. */
static size_t read_method(struct wr_http1 *head, char *line, size_t len)
{
	size_t end = 0;

	while (end < len && token_chars[(unsigned char)line[end]])
		end++;
	if (end == 0 || end > WR_HTTP1_METHOD_MAX || end == len || line[end] != ' ')
		return 0;
	line[end] = '\0';
	head->method = (struct weir_str){line, end};
	return end;
}

/* Returns the path of a target with scheme and authority: "/path" of "http://host/path". Returns
 * NULL if the authority is empty or has a user name, which RFC 9110 (4.2) forbids, or if no path
 * follows. The host in the authority is ignored. */
static char *skip_authority(char *target, char *end)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(schemes[i]);
		char *at = target + len;

		if ((size_t)(end - target) <= len ||
		    !wr_str_equal_nocase((struct weir_str){target, len}, wr_str(schemes[i])))
			continue;
		while (at < end && *at != '/' && *at != '?' && *at != '@')
			at++;
		return at > target + len && at < end && *at == '/' ? at : NULL;
	}
	return NULL;
}

static int read_target(struct wr_http1 *head, char *target, char *end)
{
	char *query;
	size_t len;

	for (const char *c = target; c < end; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '#')
			return 400;
	if (end - target == 1 && *target == '*') {
		head->path = (struct weir_str){target, 1};
		*end = '\0';
		return 0;
	}
	if (target < end && *target != '/')
		target = skip_authority(target, end);
	if (!target || target == end)
		return 400;
	query = memchr(target, '?', (size_t)(end - target));
	len = (size_t)((query ? query : end) - target);
	if (query)
		head->query = (struct weir_str){query + 1, (size_t)(end - query) - 1};
	*end = '\0';
	len = wr_http1_unescape(target, len, false);
	if (len == SIZE_MAX)
		return 400;
	target[len] = '\0';
	head->path = (struct weir_str){target, len};
	return 0;
}

static int read_version(struct wr_http1 *head, const char *version, size_t len)
{
	if (len != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.' || version[5] < '0' ||
	    version[5] > '9' || version[7] < '0' || version[7] > '9')
		return 400;
	if (version[5] != '1')
		return 505;
	head->minor = version[7] == '0' ? 0 : 1;
	return 0;
}

static int read_line(struct wr_http1 *head, char *line, size_t len)
{
	size_t method;
	char *target, *blank;
	int status;

	if (len > WR_HTTP1_LINE_MAX)
		return 414;
	method = read_method(head, line, len);
	if (method == 0)
		return 400;
	target = line + method + 1;
	blank = memchr(target, ' ', len - method - 1);
	if (!blank)
		return 400;
	status = read_version(head, blank + 1, (size_t)(line + len - blank) - 1);
	return status ? status : read_target(head, target, blank);
}

/* ---- fields ---- */

/* Checks a line "name: value" and ends the value with a zero byte: the CR at `end` and the blanks
 * before the CR become zero bytes. Returns false if the line is invalid. */
static bool split_field(char *line, char *end)
{
	char *colon = line, *value;

	while (colon < end && token_chars[(unsigned char)*colon])
		colon++;
	if (colon == line || colon == end || *colon != ':')
		return false;
	value = colon + 1;
	for (const char *c = value; c < end; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return false;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	*end = '\0';
	return true;
}

const char *wr_http1_next(const struct wr_http1 *head, const char *at, struct wr_http1_field *field)
{
	const char *line_end, *colon, *value;

	wr_assert(at >= head->fields);
	if (at >= head->end)
		return NULL;
	line_end = memchr(at, '\n', (size_t)(head->end - at));
	colon = memchr(at, ':', (size_t)(line_end - at));
	value = colon + 1;
	while (*value == ' ' || *value == '\t')
		value++;
	field->name = (struct weir_str){at, (size_t)(colon - at)};
	field->value = (struct weir_str){value, strlen(value)};
	return line_end + 1;
}

struct weir_str wr_http1_field(const struct wr_http1 *head, struct weir_str name)
{
	struct wr_http1_field field;

	for (const char *at = head->fields; (at = wr_http1_next(head, at, &field));)
		if (wr_str_equal_nocase(field.name, name))
			return field.value;
	return (struct weir_str){NULL, 0};
}

/* Reads the value of Content-Length, which has only digits. A number that is too large becomes
 * UINT64_MAX / 10. Returns false if the value is not a number. */
static bool read_length(struct weir_str text, uint64_t *length)
{
	uint64_t number = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return false;
		number = number > UINT64_MAX / 10 - 9 ? UINT64_MAX / 10
						      : number * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	*length = number;
	return text.len > 0;
}

/* Returns whether a comma-separated list has this word. */
static bool has_word(struct weir_str list, struct weir_str word)
{
	while (list.len) {
		size_t comma = wr_str_find(list, ',');

		if (wr_str_equal_nocase(wr_str_trim(wr_str_first(list, comma)), word))
			return true;
		list = wr_str_from(list, comma < list.len ? comma + 1 : comma);
	}
	return false;
}

/* Returns whether the value of Host has only characters that RFC 3986 (3.2.2) allows in a host and
 * its port. An empty value is valid. */
static bool is_host(struct weir_str value)
{
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"#/<>?@\\^`{|}", c))
			return false;
	}
	return true;
}

/* The contents of the header fields for the host, the end of the body, and whether the connection
 * stays open. `hosts`, `lengths` and `codings` are the numbers of Host, Content-Length and
 * Transfer-Encoding fields. */
struct framing {
	unsigned hosts, lengths, codings;
	bool close, keep_alive;
};

static int note_field(struct wr_http1 *head, const struct wr_http1_field *field,
		      struct framing *framing)
{
	struct weir_str value = field->value;

	switch (field->name.len) {
	case 4:
		if (!wr_str_equal_nocase(field->name, WR_STR("host")))
			break;
		framing->hosts++;
		return is_host(value) ? 0 : 400;
	case 6:
		if (wr_str_equal_nocase(field->name, WR_STR("expect")) && head->minor > 0)
			head->expects_continue = wr_str_equal_nocase(value, WR_STR("100-continue"));
		break;
	case 10:
		if (wr_str_equal_nocase(field->name, WR_STR("connection"))) {
			framing->close |= has_word(value, WR_STR("close"));
			framing->keep_alive |= has_word(value, WR_STR("keep-alive"));
		}
		break;
	case 14:
		if (!wr_str_equal_nocase(field->name, WR_STR("content-length")))
			break;
		framing->lengths++;
		return read_length(value, &head->content_length) ? 0 : 400;
	case 17:
		if (!wr_str_equal_nocase(field->name, WR_STR("transfer-encoding")))
			break;
		framing->codings++;
		head->chunked = true;
		return wr_str_equal_nocase(value, WR_STR("chunked")) ? 0 : 501;
	default:
		break;
	}
	return 0;
}

static int check_framing(struct wr_http1 *head, const struct framing *framing)
{
	if (framing->hosts > 1 || (framing->hosts == 0 && head->minor > 0))
		return 400;
	if (framing->lengths + framing->codings > 1 || (framing->codings && head->minor == 0))
		return 400;
	head->keep_alive =
		head->minor > 0 ? !framing->close : framing->keep_alive && !framing->close;
	return 0;
}

/* Reads all header fields. Each line ends with CR LF. `end` is the beginning of the empty line. */
static int read_fields(struct wr_http1 *head, char *at, char *end)
{
	struct framing framing = {0};
	struct wr_http1_field field;
	int status = 0;

	head->fields = at;
	head->end = end;
	while (at < end && status == 0) {
		char *line_end = memchr(at, '\n', (size_t)(end - at));

		if (!line_end || line_end == at || line_end[-1] != '\r' ||
		    !split_field(at, line_end - 1))
			return 400;
		wr_http1_next(head, at, &field);
		status = note_field(head, &field, &framing);
		at = line_end + 1;
	}
	return status ? status : check_framing(head, &framing);
}

int wr_http1_read(struct wr_http1 *head, char *bytes, size_t len)
{
	char *line_end = memchr(bytes, '\n', len);
	char *end = bytes + len - 2; /* beginning of the empty line */
	int status;

	wr_assert(head && bytes);
	*head = (struct wr_http1){0};
	if (!line_end || line_end == bytes || line_end[-1] != '\r')
		return 400;
	status = read_line(head, bytes, (size_t)(line_end - bytes) - 1);
	if (status)
		return status;
	if (end - (line_end + 1) > (ptrdiff_t)WR_HTTP1_FIELDS_MAX)
		return 431;
	status = read_fields(head, line_end + 1, end);
	if (status)
		head->fields = head->end = NULL;
	return status;
}

/* ---- chunked bodies ---- */

enum {
	SIZE,   /* reading the digits of a chunk's size */
	BLANKS, /* reading blanks after the digits */
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER, /* at the beginning of a line after the last chunk */
	TRAILER_NAME,
	TRAILER_TEXT,
	TRAILER_LF,
	LAST_LF,
	DONE,
};

static bool is_text(char c)
{
	return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

/* Reads a byte after the digits of a size: the end of the line, an extension, or a blank. */
static bool take_blank(struct wr_http1_chunks *chunks, char c)
{
	chunks->state = c == '\r' ? SIZE_LF : c == ';' ? EXTENSION : BLANKS;
	return c == '\r' || c == ';' || c == ' ' || c == '\t';
}

static bool take_size(struct wr_http1_chunks *chunks, char c)
{
	int digit = wr_hex(c);

	if (digit >= 0) {
		chunks->left = chunks->left * 16 + (uint64_t)digit;
		chunks->digits = true;
		return chunks->left <= UINT32_MAX;
	}
	return chunks->digits && take_blank(chunks, c);
}

/* Reads one byte that is not part of a chunk's data. Returns false if the byte is not allowed in
 * chunks->state, or if the line or the trailers are too long. */
static bool take_byte(struct wr_http1_chunks *chunks, char c)
{
	bool ends_line = c == '\n';

	if (++chunks->line >
	    (chunks->state >= TRAILER ? WR_HTTP1_TRAILERS_MAX : WR_HTTP1_CHUNK_LINE_MAX))
		return false;
	switch (chunks->state) {
	case SIZE:
		return take_size(chunks, c);
	case BLANKS:
		return take_blank(chunks, c);
	case EXTENSION:
		if (c == '\r')
			chunks->state = SIZE_LF;
		return c == '\r' || is_text(c);
	case SIZE_LF:
		chunks->state = chunks->left ? DATA : TRAILER;
		chunks->line = 0;
		return ends_line;
	case DATA_CR:
		chunks->state = DATA_LF;
		return c == '\r';
	case DATA_LF:
		*chunks = (struct wr_http1_chunks){.state = SIZE};
		return ends_line;
	case TRAILER:
		chunks->state = c == '\r' ? LAST_LF : TRAILER_NAME;
		return c == '\r' || token_chars[(unsigned char)c];
	case TRAILER_NAME:
		if (c == ':')
			chunks->state = TRAILER_TEXT;
		return c == ':' || token_chars[(unsigned char)c];
	case TRAILER_TEXT:
		if (c == '\r')
			chunks->state = TRAILER_LF;
		return c == '\r' || is_text(c);
	case TRAILER_LF:
		chunks->state = TRAILER;
		return ends_line;
	case LAST_LF:
		chunks->state = DONE;
		return ends_line;
	default:
		return false;
	}
}

enum wr_http1_chunk wr_http1_dechunk(struct wr_http1_chunks *chunks, const char *bytes, size_t len,
				     size_t *used, const char **data, size_t *data_len)
{
	wr_assert(bytes || len == 0);
	for (*used = 0; *used < len;) {
		if (chunks->state == DATA) {
			size_t rest = len - *used;

			*data = bytes + *used;
			*data_len = rest < chunks->left ? rest : (size_t)chunks->left;
			*used += *data_len;
			chunks->left -= *data_len;
			if (chunks->left == 0)
				chunks->state = DATA_CR;
			return WR_CHUNK_DATA;
		}
		if (!take_byte(chunks, bytes[(*used)++]))
			return WR_CHUNK_BAD;
		if (chunks->state == DONE)
			return WR_CHUNK_END;
	}
	return WR_CHUNK_MORE;
}
