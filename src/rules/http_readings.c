/* Makes the readings of a path: the different paths that servers may see in one spelling. Called by
 * http.c.
 *
 *   /v1//../a;x%2f..%2fb
 *     ;x dropped before decoding:  /a        empty segments dropped first
 *                                  /v1/a     dots resolved first
 *                                  /v1/../a  dots kept
 *     ;x dropped or kept, %2f is a slash:   /b, /v1/b, …
 *     ;x kept, %2f is not a slash:          /a;x%2F..%2Fb, …
 *     raw:                                  /v1/../a;x%2f..%2fb
 *
 * Each reading is built in the caller's memory. If it equals an earlier reading, its memory is
 * freed. A path with several ambiguities has up to a few hundred readings, but most of them are
 * equal. The work for all readings of a path is bounded. */
#include "rules/http_target.h"

#define WORK_MAX 65536u /* maximum number of bytes decoded for all readings of a path */

enum path_reading {
	STRICT_SLASH = 1, /* %2F does not separate segments */
	/* Neither \, nor %5C, nor a slash in overlong UTF-8 separates segments. */
	STRICT_BACKSLASH = 2,
	CUT_RAW = 4,     /* a parameter such as ;x=1 is dropped up to the next /, before decoding */
	CUT_DECODED = 8, /* a parameter such as ;x=1 is dropped after decoding */
	TWICE = 16,
	KEEP_DOTS = 32,
	/* Empty segments are kept until dot segments are resolved, so that a .. segment can remove
	 * an empty segment, as in RFC 3986. */
	KEEP_EMPTY = 64,
	DOTS_RAW = 128,  /* dot segments are resolved before decoding, and again after it */
	MERGE_RAW = 256, /* with DOTS_RAW: empty segments are dropped before dots are resolved */
	CUT_LATE = 512,  /* with CUT_RAW: dot segments are resolved before parameters are dropped */
	TURN_RAW = 1024, /* each \ becomes a / before decoding */
	RAW = 2048,
	CUT_QUERY = 4096, /* a decoded ? or # ends the path */
	/* Like CUT_QUERY, but the path is cut after its dot segments were resolved. */
	CUT_QUERY_LATE = 8192,
};

/* Features that a path has and that servers treat in different ways. */
struct oddities {
	bool slashes;
	bool backslashes;
	bool parameters;
	/* True if the path may have dot segments, and has an escape, a backslash or a parameter. It
	 * then matters whether a server decodes first or resolves the dot segments first. */
	bool dots;
};

/* Returns the number of bytes at `at` that encode one ASCII character in overlong UTF-8, which is
 * UTF-8 with more bytes than necessary. Returns 0 if the bytes are not overlong UTF-8. */
static size_t overlong_length(const unsigned char *at, size_t len)
{
	if (len >= 2 && (at[0] == 0xc0 || at[0] == 0xc1) && at[1] >> 6 == 2)
		return 2;
	if (len >= 3 && at[0] == 0xe0 && (at[1] & 0xfe) == 0x80 && at[2] >> 6 == 2)
		return 3;
	if (len >= 4 && at[0] == 0xf0 && at[1] == 0x80 && (at[2] & 0xfe) == 0x80 && at[3] >> 6 == 2)
		return 4;
	return 0;
}

/* Decodes the text once. With STRICT_SLASH an encoded slash stays encoded. `again` is true if the
 * result will be decoded a second time. If `again` is false, each percent sign of the result is
 * written as %25, so that %2F, %252F and %%32F do not become equal. */
static size_t decode_once(struct weir_str raw, int reading, bool again, char *out)
{
	size_t len = 0;

	for (size_t i = 0; i < raw.len; i++) {
		int byte = wr_escaped_byte(raw, i);
		char c = byte < 0 ? raw.ptr[i] : (char)byte;

		if (byte >= 0)
			i += 2;
		if ((c == '%' && !again) || (c == '/' && byte >= 0 && reading & STRICT_SLASH)) {
			out[len++] = '%';
			out[len++] = '2';
			out[len++] = c == '/' ? 'F' : '5';
			continue;
		}
		out[len++] = c;
	}
	return len;
}

/* Turns each backslash into a slash. Replaces overlong UTF-8 by the character that it encodes. But
 * an overlong percent sign or zero byte stays as it is. Returns the new length. */
static size_t fold_slashes(char *path, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len;) {
		const unsigned char *at = (const unsigned char *)path + i;
		size_t size = overlong_length(at, len - i);
		char c = size ? (char)((at[size - 2] & 1) << 6 | (at[size - 1] & 0x3f)) : path[i];

		if (size && (c == '%' || c == '\0')) {
			size = 0;
			c = path[i];
		}
		path[out++] = c == '\\' ? '/' : c;
		i += size ? size : 1;
	}
	return out;
}

static size_t cut_query(const char *path, size_t len)
{
	size_t at = 0;

	while (at < len && path[at] != '?' && path[at] != '#')
		at++;
	return at;
}

static size_t cut_parameters(char *path, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len; i++) {
		if (path[i] != ';') {
			path[out++] = path[i];
			continue;
		}
		while (i + 1 < len && path[i + 1] != '/')
			i++;
	}
	return out;
}

/* Drops empty and dot segments in place, as the reading requires. The result starts with a slash
 * and, except for the root, does not end with a slash. Writing in place is safe, because the result
 * is never longer than the part of the path that was already read. Returns the new length. */
static size_t tidy_segments(char *path, size_t len, int reading)
{
	size_t out = 0, at = 1, kept = 0;

	while (at <= len) {
		size_t start = at, size;

		while (at < len && path[at] != '/')
			at++;
		size = at++ - start;
		if ((size == 0 && !(reading & KEEP_EMPTY)) ||
		    (!(reading & KEEP_DOTS) && size == 1 && path[start] == '.'))
			continue;
		if (!(reading & KEEP_DOTS) && size == 2 && path[start] == '.' &&
		    path[start + 1] == '.') {
			while (out && path[--out] != '/')
				;
			continue;
		}
		memmove(path + out + 1, path + start, size);
		path[out] = '/';
		out += size + 1;
	}
	for (at = 0; at < out; at++) /* drops the remaining empty segments */
		if (path[at] != '/' || (at + 1 < out && path[at + 1] != '/'))
			path[kept++] = path[at];
	if (kept == 0)
		path[kept++] = '/';
	return kept;
}

static bool is_blank(char c)
{
	return (unsigned char)c <= ' ' || c == 0x7f;
}

/* Returns whether a path has dot segments. Sets *unsure if the path has segments that only few
 * servers treat as dot segments: segments with more than two dots, or with dots and blanks. */
static bool has_dots(struct weir_str path, bool *unsure)
{
	bool found = false;

	for (size_t at = 0; at < path.len;) {
		struct weir_str rest = wr_str_from(path, at);
		struct weir_str segment = wr_str_first(rest, wr_str_find(rest, '/'));
		size_t i = 0;

		while (i < segment.len && (segment.ptr[i] == '.' || is_blank(segment.ptr[i])))
			i++;
		if (i && i == segment.len && wr_str_has(segment, '.')) {
			bool usual = i == 1 || (i == 2 && segment.ptr[0] == segment.ptr[1]);

			found |= usual;
			*unsure |= !usual;
		}
		at += segment.len + 1;
	}
	return found;
}

/* Returns a size that suffices for every reading of the path. Each percent sign may become %25,
 * which is two bytes longer. The size includes a slash in front and a
 * spare byte. */
static size_t most_bytes(struct weir_str path)
{
	size_t most = path.len + 2;

	for (size_t i = 0; i < path.len; i++)
		most += path.ptr[i] == '%' ? 2 : 0;
	return most;
}

/* Applies the steps that come before decoding. Returns the length of the path. */
static size_t write_raw(struct weir_str raw, int reading, char *path)
{
	int how = reading & MERGE_RAW ? 0 : KEEP_EMPTY;
	size_t len = raw.len + 1;

	path[0] = '/';
	for (size_t i = 0; i < raw.len; i++)
		path[i + 1] = raw.ptr[i] == '\\' && reading & TURN_RAW ? '/' : raw.ptr[i];
	if (reading & CUT_RAW && !(reading & CUT_LATE))
		len = cut_parameters(path, len);
	if (reading & DOTS_RAW)
		len = tidy_segments(path, len, how);
	if (reading & CUT_RAW && reading & CUT_LATE)
		len = cut_parameters(path, len);
	return len;
}

/* Applies the steps of a reading up to decoding. Then cuts off the query and the parameters, if the
 * reading requires this. The caller applies tidy_segments() to the result. The result starts with a
 * slash. `between` has room for two copies of the raw path, each with a slash in front. Returns the
 * length of the path. */
static size_t write_path(struct weir_str raw, int reading, char *path, char *between)
{
	size_t len = write_raw(raw, reading, between);

	if (reading & RAW) {
		memcpy(path, between, len);
		return len;
	}
	raw = (struct weir_str){between, len};
	if (reading & TWICE) {
		between += len;
		raw = (struct weir_str){between, decode_once(raw, reading, true, between)};
	}
	len = decode_once(raw, reading, false, path);
	if (!(reading & STRICT_BACKSLASH))
		len = fold_slashes(path, len);
	if (reading & CUT_QUERY)
		len = cut_query(path, len);
	return reading & CUT_DECODED ? cut_parameters(path, len) : len;
}

int wr_path_bare(struct weir_str path, struct wr_rules_http_memory *memory, struct weir_str *bare)
{
	char *text;

	*bare = path;
	if (!wr_str_has(path, ';'))
		return 0;
	text = wr_rules_http_memory_take(memory, path.len, 1);
	if (!text)
		return WEIR_EROOM;
	memcpy(text, path.ptr, path.len);
	*bare = (struct weir_str){text, tidy_segments(text, cut_parameters(text, path.len), 0)};
	memory->at = text + bare->len;
	return 0;
}

static bool is_new(const struct wr_target *target, struct weir_str path)
{
	for (uint32_t i = 0; i < target->reading_count; i++)
		if (wr_str_equal(target->readings[i], path))
			return false;
	return true;
}

/* The state while the readings of a path are made. */
struct making {
	struct wr_target *target;
	struct wr_rules_http_memory *memory;
	size_t work;
	bool dots;  /* the reading that was made most recently has dot segments */
	bool query; /* the reading that was made most recently has a decoded ? or # */
};

static int add_reading(struct making *making, int reading)
{
	struct wr_target *target = making->target;
	struct wr_rules_http_memory *memory = making->memory;
	size_t most = most_bytes(target->path);
	char *mark = memory->at;
	char *path = wr_rules_http_memory_take(memory, most + 2 * (target->path.len + 1), 1);
	struct weir_str made;

	making->work += target->path.len;
	if (!path || making->work > WORK_MAX)
		return WEIR_EROOM;
	made = (struct weir_str){path, write_path(target->path, reading, path, path + most)};
	if (memchr(path, '\0', made.len))
		return WEIR_EFORMAT;
	making->dots = has_dots(made, &target->unsure);
	making->query = cut_query(path, made.len) < made.len;
	made.len = tidy_segments(path, made.len, reading);
	if (reading & CUT_QUERY_LATE)
		made.len = tidy_segments(path, cut_query(path, made.len), reading);
	memory->at = mark;
	if (!is_new(target, made))
		return 0;
	if (target->reading_count == WR_READINGS_MAX)
		return WEIR_EROOM;
	memory->at = path + made.len;
	target->readings[target->reading_count++] = made;
	return 0;
}

/* Adds the reading. If the reading has a decoded ? or #, also adds the readings of servers that
 * decode a target before they split off the query: for them the path ends at the ? or #. The
 * same happens to any API behind an nginx with "proxy_pass http://api$uri", because this nginx
 * decodes the target and sends it to the API. */
static int add_ended(struct making *making, int reading)
{
	int rc = add_reading(making, reading);
	bool dots = making->dots;

	if (rc != 0 || !making->query)
		return rc;
	rc = add_reading(making, reading | CUT_QUERY);
	if (rc == 0 && dots)
		rc = add_reading(making, reading | CUT_QUERY_LATE);
	making->dots = dots;
	return rc;
}

/* Adds the reading. If the reading has dot segments, also adds the readings that treat dot segments
 * in other ways. */
static int add_dotted(struct making *making, int reading)
{
	int rc = add_ended(making, reading);

	if (rc == 0 && making->dots)
		rc = add_ended(making, reading | KEEP_EMPTY);
	if (rc == 0 && making->dots)
		rc = add_ended(making, reading | KEEP_DOTS);
	return rc;
}

/* Calls add_dotted() for each way to separate segments. */
static int add_parted(struct making *making, const struct oddities *odd, int reading)
{
	static const int ways[] = {0, STRICT_BACKSLASH, STRICT_BACKSLASH | TURN_RAW};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < (odd->backslashes ? 3 : 1); i++) {
		rc = add_dotted(making, reading | ways[i]);
		if (rc == 0 && odd->slashes)
			rc = add_dotted(making, reading | ways[i] | STRICT_SLASH);
	}
	return rc;
}

/* Calls add_parted() for each way to treat parameters. Readings without parameters are added first,
 * so that their descriptors come first in the list of descriptors. */
static int add_cut(struct making *making, const struct oddities *odd, int reading)
{
	static const int cuts[] = {CUT_RAW, CUT_RAW | CUT_LATE, CUT_DECODED, 0};
	int rc = 0;

	for (size_t i = odd->parameters ? 0 : 3; rc == 0 && i < sizeof cuts / sizeof *cuts; i++)
		if (!(cuts[i] & CUT_LATE) || reading & DOTS_RAW)
			rc = add_parted(making, odd, reading | cuts[i]);
	return rc;
}

/* Calls add_cut() for each way to resolve dot segments before decoding. */
static int add_all(struct making *making, const struct oddities *odd, int reading)
{
	int rc = add_cut(making, odd, reading);

	if (rc == 0 && odd->dots)
		rc = add_cut(making, odd, reading | DOTS_RAW);
	if (rc == 0 && odd->dots)
		rc = add_cut(making, odd, reading | DOTS_RAW | MERGE_RAW);
	return rc;
}

static bool has_overlong(struct weir_str path)
{
	unsigned char bytes[4];

	for (size_t i = 0; i < path.len; i++) {
		struct weir_str rest = wr_str_from(path, i);
		size_t count = 0;

		for (size_t at = 0; count < sizeof bytes && at < rest.len; at++) {
			int byte = wr_escaped_byte(rest, at);

			bytes[count++] =
				byte < 0 ? (unsigned char)rest.ptr[at] : (unsigned char)byte;
			at += byte < 0 ? 0 : 2;
		}
		if (overlong_length(bytes, count))
			return true;
	}
	return false;
}

/* Returns whether the path has a percent sign that does not start an escape. Servers read it in
 * different ways: for some, %u002e is a dot. */
static bool has_stray_percent(struct weir_str path)
{
	for (size_t i = 0; i < path.len; i++)
		if (path.ptr[i] == '%' && wr_escaped_byte(path, i) < 0)
			return true;
	return false;
}

/* Returns whether a decoded reading still has an escape: "%25" followed by two hexadecimal
 * digits. */
static bool has_escape(struct weir_str reading)
{
	for (size_t i = 0; reading.len >= 5 && i <= reading.len - 5; i++)
		if (reading.ptr[i] == '%' && reading.ptr[i + 2] == '5' &&
		    wr_hex(reading.ptr[i + 3]) >= 0 && wr_hex(reading.ptr[i + 4]) >= 0)
			return true;
	return false;
}

static struct oddities find_oddities(struct weir_str path)
{
	struct oddities odd = {.backslashes = has_overlong(path)};
	bool escapes = false, dots = false;

	for (size_t i = 0; i < path.len; i++) {
		int byte = wr_escaped_byte(path, i);
		char c = byte < 0 ? path.ptr[i] : (char)byte;

		escapes |= byte >= 0;
		dots |= c == '.' && (i == 0 || path.ptr[i - 1] == '/' || path.ptr[i - 1] == '\\');
		odd.slashes |= byte >= 0 && c == '/';
		odd.backslashes |= c == '\\';
		odd.parameters |= c == ';';
	}
	odd.dots = dots && (escapes || odd.backslashes || odd.parameters);
	return odd;
}

static bool is_encoded_twice(const struct wr_target *target)
{
	for (uint32_t i = 0; i < target->reading_count; i++)
		if (has_escape(target->readings[i]))
			return true;
	return false;
}

static int read_path(struct making *making)
{
	struct oddities odd = find_oddities(making->target->path);
	int rc = add_all(making, &odd, 0);

	if (rc == 0 && is_encoded_twice(making->target)) {
		/* The second decoding can produce slashes, backslashes and parameters, so the path
		 * is treated as if it had all of them. */
		odd.slashes = odd.backslashes = odd.parameters = true;
		rc = add_all(making, &odd, TWICE);
	}
	return rc;
}

static bool is_slash(char c, bool backslash)
{
	return c == '/' || (backslash && c == '\\');
}

/* If the path looks like //host/path, returns the part behind the host. Returns the root for
 * //host. Returns an empty text for any other path. Servers that resolve the target against a base,
 * as in RFC 3986, read //host/path as an address without a scheme. JavaScript's URL does so too,
 * and treats \ as a slash. */
static struct weir_str behind_host(struct weir_str path, bool backslash)
{
	size_t at = 0;

	while (at < path.len && is_slash(path.ptr[at], backslash))
		at++;
	if (at < 2)
		return WR_STR("");
	while (at < path.len && !is_slash(path.ptr[at], backslash))
		at++;
	return at < path.len ? wr_str_from(path, at) : WR_STR("/");
}

static int read_behind_host(struct making *making, bool backslash)
{
	struct weir_str whole = making->target->path;
	int rc = 0;

	making->target->path = behind_host(whole, backslash);
	if (making->target->path.len)
		rc = read_path(making);
	making->target->path = whole;
	return rc;
}

int wr_target_read(struct wr_target *target, struct wr_rules_http_memory *memory)
{
	struct making making = {.target = target, .memory = memory};
	int rc = read_path(&making);

	target->unsure |= has_stray_percent(target->path);
	if (rc == 0)
		rc = read_behind_host(&making, false);
	if (rc == 0 && wr_str_has(target->path, '\\'))
		rc = read_behind_host(&making, true);
	target->value_count = target->reading_count;
	return rc ? rc : add_reading(&making, RAW | KEEP_DOTS);
}
