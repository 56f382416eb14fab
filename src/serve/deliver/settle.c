/* Settles the limits of a delivery by its response. A delivery is charged and settled like any
 * request (limiter/settle.h). */
#include <stdlib.h>

#include "base/str.h"
#include "serve/deliver/deliver_impl.h"

#define NAME_MAX_BYTES 256 /* a rule does not name a longer header field */

/* Returns whether the body of the response is compressed. The cost in a compressed body cannot be
 * read. */
static bool is_encoded(CURL *easy)
{
	struct curl_header *field;

	return curl_easy_header(easy, "Content-Encoding", 0, CURLH_HEADER, -1, &field) ==
		       CURLHE_OK &&
	       !wr_str_equal_nocase(wr_str(field->value), WR_STR("identity"));
}

/* Makes the reader if a rule needs the body. Without memory there is no reader, and the default of
 * the rule counts. */
static void begin_reading(struct wr_delivery *delivery)
{
	char *type = NULL;
	void *memory;

	delivery->reads = true;
	if (!delivery->pending.ask ||
	    !(weir_ask_settles(delivery->pending.ask) & WEIR_SETTLE_BODY) ||
	    is_encoded(delivery->easy))
		return;
	curl_easy_getinfo(delivery->easy, CURLINFO_CONTENT_TYPE, &type);
	memory = malloc(WEIR_READER_BYTES);
	if (!memory || weir_ask_reader(delivery->pending.ask, memory, WEIR_READER_BYTES,
				       type ? wr_str(type) : WR_STR(""), &delivery->reader) < 0) {
		free(memory);
		delivery->reader = NULL;
	}
}

void wr_deliver_read_body(struct wr_delivery *delivery, const char *bytes, size_t len)
{
	if (!delivery->reads)
		begin_reading(delivery);
	if (delivery->reader)
		weir_reader_feed(delivery->reader, bytes, len);
}

void wr_deliver_end_reading(struct wr_delivery *delivery)
{
	free(delivery->reader);
	delivery->reader = NULL;
	delivery->reads = false;
}

/* Finds header fields of the response, for struct weir_outcome. `context` is the transfer. */
static size_t find_header(void *context, struct weir_str name, struct weir_str *values, size_t max)
{
	char text[NAME_MAX_BYTES];
	struct curl_header *field;
	size_t count = 0;

	if (name.len >= sizeof text)
		return 0;
	memcpy(text, name.ptr, name.len);
	text[name.len] = '\0';
	while (curl_easy_header(context, text, count, CURLH_HEADER, -1, &field) == CURLHE_OK) {
		if (count < max)
			values[count] = wr_str(field->value);
		count++;
	}
	return count;
}

void wr_deliver_settle(struct wr_delivery *delivery)
{
	struct weir_outcome outcome = {.size = sizeof outcome,
				       .bytes = delivery->answered,
				       .header = find_header,
				       .context = delivery->easy,
				       .request_known = 1,
				       .request_bytes = delivery->request->body.len,
				       .reader = delivery->reader};
	curl_off_t total_us = 0;
	long status = 0;

	if (!delivery->pending.ask)
		return;
	curl_easy_getinfo(delivery->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(delivery->easy, CURLINFO_TOTAL_TIME_T, &total_us);
	outcome.status = (uint32_t)status;
	outcome.time_ns = (uint64_t)total_us * 1000;
	if (delivery->reader)
		weir_reader_end(delivery->reader);
	wr_pending_settle(&delivery->pending, &outcome);
}
