#include "rules/http_target.h"

#include "base/str.h"

enum reading {
	STRICT_SLASH = 1, /* only / parts segments */
	NO_PARAMETERS = 2 /* ;x=1 is dropped */
};

/* Length of "http://" and the like, or 0. */
static size_t scheme_len(struct weir_str target)
{
	size_t i = 0;

	while (i < target.len &&
	       ((wr_lower(target.ptr[i]) >= 'a' && wr_lower(target.ptr[i]) <= 'z') ||
		(i && wr_str_has(WR_STR("+-.0123456789"), target.ptr[i]))))
		i++;
	return i && wr_str_begins(wr_str_from(target, i), WR_STR("://")) ? i + 3 : 0;
}

struct wr_target wr_target_split(struct weir_str target)
{
	struct wr_target split = {.authority = WR_STR(""), .query = WR_STR("")};
	size_t scheme = scheme_len(target);
	size_t mark;

	target = wr_str_first(target, wr_str_find(target, '#'));
	if (scheme && scheme <= target.len) {
		target = wr_str_from(target, scheme);
		mark = wr_str_find(wr_str_first(target, wr_str_find(target, '?')), '/');
		split.authority = wr_str_first(target, mark);
		target = wr_str_from(target, mark);
		while (wr_str_has(split.authority, '@'))
			split.authority =
				wr_str_from(split.authority, wr_str_find(split.authority, '@') + 1);
	}
	mark = wr_str_find(target, '?');
	split.path = wr_str_first(target, mark);
	if (mark < target.len)
		split.query = wr_str_from(target, mark + 1);
	return split;
}

/* No byte but means itself to every server, no segment is empty or begins with a dot, and the root
 * alone ends with a slash. Returns where the path ends, or 0. */
static size_t plain_path(struct weir_str target)
{
	size_t i = 1;

	if (target.len == 0 || target.ptr[0] != '/')
		return 0;
	for (; i < target.len && target.ptr[i] != '?'; i++) {
		char c = target.ptr[i];

		if (c == '%' || c == '\\' || c == ';' || c == '#' ||
		    ((c == '/' || c == '.') && target.ptr[i - 1] == '/'))
			return 0;
	}
	return i > 1 && target.ptr[i - 1] == '/' ? 0 : i;
}

bool wr_target_plain(struct weir_str target, struct wr_target *split)
{
	size_t end = plain_path(target);

	if (end == 0)
		return false;
	split->authority = split->query = WR_STR("");
	split->path = wr_str_first(target, end);
	if (end < target.len) {
		split->query = wr_str_from(target, end + 1);
		split->query = wr_str_first(split->query, wr_str_find(split->query, '#'));
	}
	split->readings[0] = split->path;
	split->reading_count = 1;
	return true;
}

static int escaped_byte(struct weir_str raw, size_t i)
{
	int high, low;

	if (raw.ptr[i] != '%' || raw.len - i < 3)
		return -1;
	high = wr_hex(raw.ptr[i + 1]);
	low = wr_hex(raw.ptr[i + 2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Decodes once. With STRICT_SLASH an encoded slash stays encoded, otherwise all that some server
 * takes for a slash is one. A percent sign is always %25 then, whichever way it was written: %2F
 * and %252F, and %%32F, must not become one. */
static size_t decode(struct weir_str raw, int reading, char *out)
{
	size_t len = 0;

	for (size_t i = 0; i < raw.len; i++) {
		int byte = escaped_byte(raw, i);
		char c = byte < 0 ? raw.ptr[i] : (char)byte;

		if (reading & NO_PARAMETERS && raw.ptr[i] == ';') {
			while (i + 1 < raw.len && raw.ptr[i + 1] != '/')
				i++;
			continue;
		}
		if (byte >= 0)
			i += 2;
		if (c == '%' || (reading & STRICT_SLASH && byte >= 0 && c == '/')) {
			out[len++] = '%';
			out[len++] = '2';
			out[len++] = c == '/' ? 'F' : '5';
			continue;
		}
		if (!(reading & STRICT_SLASH) && c == '\\')
			c = '/';
		out[len++] = c;
	}
	return len;
}

/* Drops empty and dot segments in place; the result begins with a slash and, but for the root,
 * does not end with one. Writes never overtake reads: each segment goes out behind a slash that
 * was read, the first one behind the slash this puts there. */
static size_t tidy(char *path, size_t len)
{
	size_t out = 0, at = 0;

	while (at < len) {
		size_t start = at;

		while (at < len && path[at] != '/')
			at++;
		size_t size = at - start;

		at++;
		if (size == 0 || (size == 1 && path[start] == '.'))
			continue;
		if (size == 2 && path[start] == '.' && path[start + 1] == '.') {
			while (out && path[--out] != '/')
				;
			continue;
		}
		memmove(path + out + 1, path + start, size);
		path[out] = '/';
		out += size + 1;
	}
	if (out == 0)
		path[out++] = '/';
	return out;
}

/* A path as long as it can get: each percent sign may take two bytes more, the path may want a
 * slash before it, and there is always the root. */
static size_t most_bytes(struct weir_str path)
{
	size_t most = path.len + 2;

	for (size_t i = 0; i < path.len; i++)
		most += path.ptr[i] == '%' ? 2 : 0;
	return most;
}

static int add_reading(struct wr_target *target, struct wr_memory *memory, int reading)
{
	char *path = wr_memory_take(memory, most_bytes(target->path), 1);
	size_t len;

	if (!path)
		return WEIR_EROOM;
	path[0] = '/';
	len = tidy(path, 1 + decode(target->path, reading, path + 1));
	memory->at = path + len;
	target->readings[target->reading_count++] = (struct weir_str){path, len};
	return 0;
}

static bool has_odd_slash(struct weir_str path)
{
	for (size_t i = 0; i < path.len; i++) {
		int byte = escaped_byte(path, i);

		if (path.ptr[i] == '\\' || byte == '/' || byte == '\\')
			return true;
	}
	return false;
}

int wr_target_read(struct wr_target *target, struct wr_memory *memory)
{
	bool slashes = has_odd_slash(target->path);
	bool parameters = wr_str_has(target->path, ';');
	int first = parameters ? NO_PARAMETERS : 0;
	int rc = add_reading(target, memory, first);

	/* The first reading that matches gives the captured parts. That is the one without
	 * parameters, or /users/7;a and /users/7;b would have counters of their own. */
	if (rc == 0 && slashes)
		rc = add_reading(target, memory, STRICT_SLASH | first);
	if (rc == 0 && parameters)
		rc = add_reading(target, memory, 0);
	if (rc == 0 && slashes && parameters)
		rc = add_reading(target, memory, STRICT_SLASH);
	return rc;
}

bool wr_path_match(const struct wr_path *pattern, struct weir_str path,
		   struct weir_str captures[WR_CAPTURES_MAX])
{
	size_t captured = 0;

	if (path.len == 1)
		path.len = 0; /* the root has no segments */
	for (uint16_t i = 0; i < pattern->count; i++) {
		struct weir_str segment;

		if (path.len == 0)
			return false;
		path = wr_str_from(path, 1);
		segment = wr_str_first(path, wr_str_find(path, '/'));
		path = wr_str_from(path, segment.len);
		if (pattern->segments[i].capture)
			captures[captured++] = segment;
		else if (!wr_str_equal(segment, pattern->segments[i].text))
			return false;
	}
	return path.len == 0 || pattern->rest;
}

/* "[::1]:8080", "Example.COM.:80". */
static struct weir_str without_port(struct weir_str host)
{
	if (host.len && host.ptr[0] == '[')
		return wr_str_first(host, wr_str_find(host, ']') + 1);
	return wr_str_first(host, wr_str_find(host, ':'));
}

static size_t canonical_address(struct weir_str host, char text[WR_ADDRESS_TEXT])
{
	struct wr_address address;
	bool bracketed = host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';

	if (bracketed)
		host = wr_str_first(wr_str_from(host, 1), host.len - 2);
	if (wr_address_parse(host, &address) != 0)
		return 0;
	return wr_address_text(&address, WR_ADDRESS_WHOLE, text);
}

int wr_host_read(struct weir_str host, struct wr_memory *memory, struct weir_str *canonical)
{
	char address[WR_ADDRESS_TEXT];
	size_t len = 0, found;
	char *text;

	host = without_port(wr_str_trim(host));
	found = canonical_address(host, address);
	text = wr_memory_take(memory, found > host.len ? found : host.len, 1);
	if (!text)
		return WEIR_EROOM;
	if (found)
		memcpy(text, address, len = found);
	for (size_t i = 0; !found && i < host.len; i++) {
		int byte = escaped_byte(host, i);

		text[len++] = wr_lower(byte < 0 ? host.ptr[i] : (char)byte);
		i += byte < 0 ? 0 : 2;
	}
	while (!found && len && text[len - 1] == '.')
		len--;
	*canonical = (struct weir_str){text, len};
	return 0;
}
