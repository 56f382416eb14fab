/* Splits request targets, recognizes plain targets, which need no other readings, and reads
 * hosts. */
#include "rules/http_target.h"

#include "base/str.h"

/* Returns the length of a scheme such as "http://" at the start of the target, or 0. */
static size_t scheme_len(struct weir_str target)
{
	size_t i = 0;

	while (i < target.len &&
	       ((wr_lower(target.ptr[i]) >= 'a' && wr_lower(target.ptr[i]) <= 'z') ||
		(i && wr_str_has(WR_STR("+-.0123456789"), target.ptr[i]))))
		i++;
	return i && wr_str_begins(wr_str_from(target, i), WR_STR("://")) ? i + 3 : 0;
}

/* Returns whether a target must not contain this byte: a control character or '#'. */
static bool is_forbidden(unsigned char c)
{
	return c < ' ' || c == 0x7f || c == '#';
}

static bool has_forbidden(struct weir_str target)
{
	for (size_t i = 0; i < target.len; i++)
		if (is_forbidden((unsigned char)target.ptr[i]))
			return true;
	return false;
}

/* Cuts the authority off an absolute target and returns it. Sets *odd if the scheme is not HTTP, or
 * if the authority is more than a host and a port: servers split such an authority in different
 * ways. */
static struct weir_str cut_authority(struct weir_str *target, size_t scheme, bool *odd)
{
	struct weir_str name = wr_str_first(*target, scheme), rest = wr_str_from(*target, scheme);
	struct weir_str authority = wr_str_first(rest, wr_str_find(rest, '?'));

	authority = wr_str_first(authority, wr_str_find(authority, '/'));
	*odd = (!wr_str_equal_nocase(name, WR_STR("http://")) &&
		!wr_str_equal_nocase(name, WR_STR("https://"))) ||
	       wr_str_has(authority, '@') || wr_str_has(authority, '\\') ||
	       wr_str_has(authority, '%');
	*target = wr_str_from(rest, authority.len);
	while (wr_str_has(authority, '@'))
		authority = wr_str_from(authority, wr_str_find(authority, '@') + 1);
	return authority;
}

int wr_target_split(struct weir_str target, struct wr_target *split)
{
	size_t scheme = scheme_len(target);
	size_t mark;

	split->authority = split->query = WR_STR("");
	split->unsure = !scheme && (target.len == 0 || target.ptr[0] != '/');
	split->reading_count = split->value_count = 0;
	if (has_forbidden(target))
		return WEIR_EFORMAT;
	if (scheme)
		split->authority = cut_authority(&target, scheme, &split->unsure);
	mark = wr_str_find(target, '?');
	split->path = wr_str_first(target, mark);
	if (mark < target.len)
		split->query = wr_str_from(target, mark + 1);
	return 0;
}

/* Returns whether some servers do not take this byte of a path literally. Servers differ about %,
 * backslash, semicolon, blank, and the first bytes of overlong UTF-8. */
static bool is_odd(unsigned char c)
{
	return c == '%' || c == '\\' || c == ';' || c == ' ' || c == 0xc0 || c == 0xc1 ||
	       c == 0xe0 || c == 0xf0;
}

/* Returns the length of the path if it is plain: all servers take every byte literally, no segment
 * is empty or starts with a dot, and only the root ends with a slash. Returns 0 if the path is not
 * plain. */
static size_t plain_path(struct weir_str target)
{
	size_t i = 1;

	if (target.len == 0 || target.ptr[0] != '/')
		return 0;
	for (; i < target.len && target.ptr[i] != '?'; i++) {
		char c = target.ptr[i];

		if (is_odd((unsigned char)c) || is_forbidden((unsigned char)c) ||
		    ((c == '/' || c == '.') && target.ptr[i - 1] == '/'))
			return 0;
	}
	return i > 1 && target.ptr[i - 1] == '/' ? 0 : i;
}

bool wr_target_plain(struct weir_str target, struct wr_target *split)
{
	size_t end = plain_path(target);

	if (end == 0 || has_forbidden(wr_str_from(target, end)))
		return false;
	split->authority = split->query = WR_STR("");
	split->path = wr_str_first(target, end);
	if (end < target.len)
		split->query = wr_str_from(target, end + 1);
	split->readings[0] = split->path;
	split->reading_count = split->value_count = 1;
	split->unsure = false;
	return true;
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

/* Returns the host without the port: "[::1]" for "[::1]:8080", "Example.COM." for
 * "Example.COM.:80". */
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

/* Returns true if every server reads the host in the same way. This is so if the host consists of
 * letters, digits, hyphens, underscores and single dots, or is an address in brackets. The port, if
 * the host has one, must consist of digits. */
static bool is_sure_host(struct weir_str host)
{
	struct weir_str name = without_port(host);
	struct weir_str port = {0};
	bool bracketed = name.len && name.ptr[0] == '[';

	if (host.len)
		port = wr_str_from(host, name.len);
	for (size_t i = 0; i < name.len; i++) {
		char c = wr_lower(name.ptr[i]);
		bool usual = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
			     c == '_' || (c == '.' && i && name.ptr[i - 1] != '.');

		if (!usual && !(bracketed && wr_str_has(WR_STR("[:]"), c)))
			return false;
	}
	for (size_t i = 1; i < port.len; i++)
		if (port.ptr[i] < '0' || port.ptr[i] > '9')
			return false;
	return port.len == 0 || port.ptr[0] == ':';
}

int wr_host_read(struct weir_str host, struct wr_rules_http_memory *memory,
		 struct weir_str *canonical, bool *unsure)
{
	char address[WR_ADDRESS_TEXT];
	size_t len = 0, found;
	char *text;

	host = wr_str_trim(host);
	*unsure = !is_sure_host(host);
	host = without_port(host);
	found = canonical_address(host, address);
	text = wr_rules_http_memory_take(memory, found > host.len ? found : host.len, 1);
	if (!text)
		return WEIR_EROOM;
	if (found)
		memcpy(text, address, len = found);
	for (size_t i = 0; !found && i < host.len; i++) {
		int byte = wr_escaped_byte(host, i);

		text[len++] = wr_lower(byte < 0 ? host.ptr[i] : (char)byte);
		i += byte < 0 ? 0 : 2;
	}
	while (!found && len && text[len - 1] == '.')
		len--;
	*canonical = (struct weir_str){text, len};
	return 0;
}
