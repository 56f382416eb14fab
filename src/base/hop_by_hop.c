/* Recognizes hop-by-hop header fields by their names and by the list in a Connection field. */
#include "base/hop_by_hop.h"

#include "base/str.h"

bool wr_hop_by_hop_name(struct weir_str name)
{
	static const struct weir_str names[] = {
		/* hop-by-hop fields (RFC 9110, 7.6.1 and 11.7) */
		WR_STR("connection"),
		WR_STR("proxy-connection"),
		WR_STR("keep-alive"),
		WR_STR("te"),
		WR_STR("transfer-encoding"),
		WR_STR("trailer"),
		WR_STR("upgrade"),
		WR_STR("http2-settings"),
		WR_STR("proxy-authenticate"),
		WR_STR("proxy-authorization"),
		/* fields about the body of one message */
		WR_STR("content-length"),
		WR_STR("expect"),
		/* the deliverer sets this field itself */
		WR_STR("x-weir-deferred"),
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (wr_str_equal_nocase(name, names[i]))
			return true;
	return false;
}

bool wr_hop_by_hop_listed(struct weir_str connection, struct weir_str name)
{
	size_t start = 0;

	for (size_t i = 0; i <= connection.len; i++) {
		char c = i < connection.len ? connection.ptr[i] : ',';

		if (c != ',' && c != ' ' && c != '\t')
			continue;
		if (i > start &&
		    wr_str_equal_nocase(name, (struct weir_str){connection.ptr + start, i - start}))
			return true;
		start = i + 1;
	}
	return false;
}
