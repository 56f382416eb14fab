/* How the lab reads a record of a log as an HTTP request. */
#include "lab/record.h"

#include <string.h>

#include "base/str.h"

bool wr_lab_status_is_from_server(uint32_t status)
{
	switch (status) {
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
		return true;
	default:
		return false;
	}
}

bool wr_lab_record_has_request(const struct wr_lab_record *record)
{
	return record->target.len || record->method.len ||
	       !wr_lab_status_is_from_server(record->status);
}

void wr_lab_record_view(const struct wr_lab_record *record, struct weir_http_view *view)
{
	view->peer_len = record->has_address ? sizeof view->peer : 0;
	memcpy(view->peer, record->address.bytes, sizeof view->peer);
	view->method = record->method.len ? record->method : WR_STR("GET");
	view->target = record->target.len ? record->target : WR_STR("/");
	view->host = record->host;
	view->identity = record->user;
}
