/* Reads the default text format of Envoy:
 *
 *   [time] "request" status flags received sent duration upstream-time "forwarded-for" "user-agent"
 *   "request-id" "authority" "upstream"
 *
 * Istio's format has three more fields behind the flags: two words and a quoted text. At its end it
 * has five or more words, of which the fourth is the address of the client. */
#include "base/str.h"
#include "lab/log/value.h"

#define STATUS_MAX 999u
#define MS_NS 1000000u

/* The fields of a line that are still to read. */
struct envoy_rest {
	char *at, *end;
};

/* Reads a field: up to the next blank, or a text in quotes. */
static bool take_field(struct envoy_rest *rest, struct weir_str *field)
{
	char *start, *end;

	if (rest->at >= rest->end)
		return false;
	if (*rest->at == '"') {
		start = rest->at + 1;
		for (end = start; end < rest->end; end++)
			if (*end == '"' && (end + 1 == rest->end || end[1] == ' '))
				break;
		if (end == rest->end)
			return false;
		rest->at = end + 1;
	} else {
		start = rest->at;
		end = memchr(start, ' ', (size_t)(rest->end - start));
		end = end ? end : rest->end;
		rest->at = end;
	}
	if (rest->at < rest->end)
		rest->at++;
	*field = (struct weir_str){start, (size_t)(end - start)};
	return true;
}

static uint64_t number_of(struct weir_str field)
{
	uint64_t number = 0;

	for (size_t i = 0; i < field.len && i < 18; i++) {
		if (field.ptr[i] < '0' || field.ptr[i] > '9')
			return 0;
		number = number * 10 + (uint64_t)(field.ptr[i] - '0');
	}
	return number;
}

static bool is_number(struct weir_str field)
{
	for (size_t i = 0; i < field.len; i++)
		if (field.ptr[i] < '0' || field.ptr[i] > '9')
			return false;
	return field.len > 0;
}

/* Reads the time and the request line. */
static const char *read_head(struct wr_lab_parser *parser, struct envoy_rest *rest,
			     struct wr_lab_slot *slot)
{
	struct wr_lab_time time;
	struct weir_str request;
	char *bracket;

	if (rest->at == rest->end || *rest->at != '[')
		return "no time";
	bracket = memchr(rest->at, ']', (size_t)(rest->end - rest->at));
	if (!bracket ||
	    !wr_lab_time_read((struct weir_str){rest->at + 1, (size_t)(bracket - rest->at - 1)},
			      &parser->day, &time))
		return "no time";
	slot->record.time_ns = time.ns;
	slot->whole = time.whole;
	rest->at = bracket + 1;
	if (rest->end - rest->at < 2 || rest->at[0] != ' ' || rest->at[1] != '"')
		return "no request in quotes";
	rest->at++;
	if (!take_field(rest, &request))
		return "no request in quotes";
	wr_lab_slot_request(slot, request);
	return NULL;
}

/* Reads the numbers from the status to the time of the upstream server. */
static const char *read_numbers(struct envoy_rest *rest, struct wr_lab_slot *slot, bool *istio)
{
	struct weir_str status, flags, field, sent, duration;

	if (!take_field(rest, &status) || !take_field(rest, &flags) || !take_field(rest, &field))
		return "too few fields";
	if (!is_number(status) || number_of(status) > STATUS_MAX)
		return "no status";
	*istio = !is_number(field);
	for (int i = 0; *istio && i < 3; i++)
		if (!take_field(rest, &field))
			return "too few fields";
	if (!take_field(rest, &sent) || !take_field(rest, &duration) || !take_field(rest, &field))
		return "too few fields";
	if (!is_number(sent))
		return "no length";
	slot->record.status = (uint32_t)number_of(status);
	slot->record.bytes = number_of(sent);
	slot->record.duration_ns = wr_lab_duration(duration, MS_NS);
	return NULL;
}

/* Reads the header fields and the client. The client is the address that Istio's format has, or the
 * last entry of X-Forwarded-For. */
static const char *read_tail(struct wr_lab_parser *parser, struct envoy_rest *rest, bool istio,
			     struct wr_lab_slot *slot)
{
	struct weir_str forwarded, agent, id, authority, upstream, client = {"", 0};

	if (!take_field(rest, &forwarded) || !take_field(rest, &agent) || !take_field(rest, &id) ||
	    !take_field(rest, &authority) || !take_field(rest, &upstream))
		return "too few fields";
	wr_lab_slot_header(slot, WR_STR("x-forwarded-for"), forwarded);
	wr_lab_slot_header(slot, WR_STR("user-agent"), agent);
	wr_lab_slot_header(slot, WR_STR("x-request-id"), id);
	if (!wr_str_equal(authority, WR_STR("-")))
		slot->record.host = authority;
	for (int i = 0; istio && i < 4; i++)
		if (!take_field(rest, &client))
			client.len = 0;
	if (client.len == 0 || wr_str_equal(client, WR_STR("-")))
		client = wr_lab_last_of(forwarded);
	wr_lab_slot_client(slot, client, &parser->client);
	return NULL;
}

const char *wr_lab_envoy_read(struct wr_lab_parser *parser, char *line, size_t len,
			      struct wr_lab_slot *slot)
{
	struct envoy_rest rest = {line, line + len};
	bool istio = false;
	const char *reason = read_head(parser, &rest, slot);

	if (!reason)
		reason = read_numbers(&rest, slot, &istio);
	if (!reason)
		reason = read_tail(parser, &rest, istio, slot);
	return reason;
}
