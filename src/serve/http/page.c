/* Recognises requests of web pages by Host, Origin and Content-Type. Called by http.c and the admin
 * API. */
#include "serve/http/page.h"

#include <stdio.h>

#include "base/str.h"
#include "base/address.h"

/* Returns the length of the host name in `host`, without the colon and the port. An IPv6 address
 * includes its brackets. */
static size_t name_end(struct weir_str host)
{
	if (host.len && host.ptr[0] == '[') {
		size_t end = wr_str_find(host, ']');

		return end < host.len ? end + 1 : end;
	}
	return wr_str_find(host, ':');
}

bool wr_page_host_is_local(struct weir_str host)
{
	size_t end = name_end(host);
	struct weir_str name = wr_str_first(host, end);
	struct wr_address address;

	if (end < host.len && host.ptr[end] != ':')
		return false;
	if (wr_str_equal_nocase(name, WR_STR("localhost")) || wr_str_equal(name, WR_STR("[::1]")))
		return true;
	return wr_address_parse(name, &address) == 0 && wr_address_is_v4(&address) &&
	       address.bytes[12] == 127;
}

bool wr_page_host_has_port(struct weir_str host, uint16_t port)
{
	struct weir_str rest = wr_str_from(host, name_end(host));
	char text[8];

	if (rest.len <= 1)
		return port == 80;
	snprintf(text, sizeof text, ":%u", port);
	return wr_str_equal(rest, wr_str(text));
}

bool wr_page_is_foreign(struct weir_str origin, struct weir_str host)
{
	size_t scheme = wr_str_find(origin, ':');

	if (origin.len == 0)
		return false;
	return scheme + 3 > origin.len ||
	       !wr_str_equal_nocase(wr_str_from(origin, scheme + 3), host);
}

bool wr_page_is_json(struct weir_str content_type)
{
	struct weir_str type =
		wr_str_trim(wr_str_first(content_type, wr_str_find(content_type, ';')));

	return wr_str_equal_nocase(type, WR_STR("application/json"));
}
