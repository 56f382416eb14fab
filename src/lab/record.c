/* How the lab reads a record of a log as an HTTP request. */
#include "lab/record.h"

#include <string.h>

#include "base/str.h"

bool wr_lab_record_has_request(const struct wr_lab_record *record)
{
	if (record->target.len || record->method.len)
		return true;
	switch (record->status) {
	case 400:
	case 408:
	case 414:
	case 431:
	case 444:
	case 494:
	case 495:
	case 496:
	case 497:
	case 499:
	case 505:
		return false;
	default:
		return true;
	}
}

struct weir_http_view wr_lab_record_view(const struct wr_lab_record *record)
{
	struct weir_http_view view = {
		.size = sizeof view,
		.peer_len = record->has_address ? sizeof view.peer : 0,
		.method = record->method.len ? record->method : WR_STR("GET"),
		.target = record->target.len ? record->target : WR_STR("/"),
		.host = record->host,
		.identity = record->user,
		.headers = record->headers,
		.header_count = record->header_count,
	};

	memcpy(view.peer, record->address.bytes, sizeof view.peer);
	return view;
}
