/* Writes the queue and deferred requests as JSON, as docs/http-api.md describes. Called by
 * queue.c. */
#include "serve/admin/queue.h"

#include "base/str.h"
#include "base/utf8.h"
#include "serve/admin/admin.h"

/* ---- the queue ---- */

static void write_stats(struct wr_json_out *json, const struct wr_queue_stats *stats)
{
	wr_json_member_uint(json, "waiting", stats->waiting);
	wr_json_member_uint(json, "delivering", stats->delivering);
	wr_json_member_uint(json, "dead", stats->dead);
	wr_json_member_uint(json, "bytes", stats->bytes);
	wr_json_member_uint(json, "keys", stats->lines);
	wr_json_member_uint(json, "tickets", stats->tickets);
	wr_json_member_seconds(json, "oldest", stats->oldest_us * 1000);
	wr_json_member_uint(json, "disk_bytes", stats->disk_bytes);
	wr_json_key(json, "totals");
	wr_json_object(json);
	wr_json_member_uint(json, "stored", stats->put_total);
	wr_json_member_uint(json, "delivered", stats->delivered_total);
	wr_json_member_uint(json, "retried", stats->retried_total);
	wr_json_member_uint(json, "dead", stats->dead_total);
	wr_json_member_uint(json, "dropped", stats->dropped_total);
	wr_json_member_uint(json, "commits", stats->commits_total);
	wr_json_end_object(json);
}

/* Writes how many requests this process could not defer, by reason. Reasons with a count of 0 are
 * left out. */
static void write_refused(struct wr_json_out *json, struct wr_serve_queue_tally *tally)
{
	wr_json_key(json, "refused");
	wr_json_object(json);
	for (int i = 0; i < WR_QUEUE_REASON_COUNT; i++) {
		uint64_t count = atomic_load_explicit(&tally->refused[i], memory_order_relaxed);

		if (count)
			wr_json_member_uint(json, wr_queue_reason_name((enum wr_queue_reason)i),
					    count);
	}
	wr_json_end_object(json);
}

void wr_admin_json_queue(struct wr_json_out *json, struct wr_serve_queue_host *host)
{
	struct weir_error trouble = {.text = ""};
	enum wr_queue_reason state = wr_queue_state(host->queue, &trouble);
	const char *target = host->settings->queue.target;
	const struct wr_queue_opts *bounds = wr_queue_opts(host->queue);
	struct wr_serve_queue_seen seen;

	wr_serve_queue_look(host, &seen);
	wr_json_object(json);
	wr_json_member_string(json, "url", wr_str(host->text));
	wr_json_member_string_or_null(json, "target", wr_str(target ? target : ""));
	wr_json_member_string_or_null(json, "state", wr_str(wr_queue_reason_name(state)));
	wr_json_member_string_or_null(json, "trouble",
				      wr_str(state == WR_QUEUE_OK ? "" : trouble.text));
	if (target)
		wr_json_member_bool(json, "target_up", seen.down_for_ns == 0);
	else
		wr_json_member_null(json, "target_up");
	wr_json_member_uint(json, "sending", seen.sending);
	wr_json_member_uint(json, "max_requests", bounds->max_requests);
	wr_json_member_uint(json, "max_bytes", bounds->max_bytes);
	wr_json_member_uint(json, "max_line_bytes", bounds->max_line_bytes);
	wr_json_member_uint(json, "max_dead", bounds->max_dead);
	wr_json_member_uint(json, "max_dead_bytes", bounds->max_dead_bytes);
	write_stats(json, &seen.stats);
	write_refused(json, &host->tally);
	wr_json_end_object(json);
}

/* ---- a deferred request ---- */

/* Writes a member with a number, or null if the number is 0. */
static void write_number(struct wr_json_out *json, const char *name, uint64_t number)
{
	if (number)
		wr_json_member_uint(json, name, number);
	else
		wr_json_member_null(json, name);
}

static void write_key(struct wr_json_out *json, const uint8_t key[WR_LINE_KEY_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	char text[2 * WR_LINE_KEY_BYTES];

	for (size_t i = 0; i < WR_LINE_KEY_BYTES; i++) {
		text[2 * i] = hex[key[i] >> 4];
		text[2 * i + 1] = hex[key[i] & 15];
	}
	wr_json_member_string(json, "key", (struct weir_str){text, sizeof text});
}

static void write_fields(struct wr_json_out *json, const struct wr_queue_request *request,
			 bool hidden)
{
	wr_json_key(json, "fields");
	wr_json_array(json);
	for (size_t i = 0; i < request->field_count; i++) {
		const struct wr_queue_request_field *field = &request->fields[i];
		bool sealed = field->secret || field->locked;

		wr_json_object(json);
		wr_json_member_bytes(json, "name", field->name);
		if (sealed || hidden)
			wr_json_member_null(json, "value");
		else
			wr_json_member_bytes(json, "value", field->value);
		wr_json_member_bool(json, "sealed", sealed);
		wr_json_end_object(json);
	}
	wr_json_end_array(json);
}

/* Returns whether the bytes are UTF-8 without a zero byte. */
static bool is_text(struct weir_str bytes)
{
	for (size_t i = 0; i < bytes.len;) {
		size_t len = wr_utf8_len(bytes.ptr + i, bytes.len - i);

		if (len == 0 || bytes.ptr[i] == '\0')
			return false;
		i += len;
	}
	return true;
}

static void write_progress(struct wr_json_out *json, const struct wr_queue_request *request)
{
	wr_json_member_uint(json, "tries", request->tries);
	wr_json_member_uint(json, "max_tries", request->max_tries);
	write_number(json, "http_status", request->status);
	if (request->reason.len)
		wr_json_member_bytes(json, "reason", request->reason);
	else
		wr_json_member_null(json, "reason");
	write_number(json, "position", request->position);
	wr_json_member_uint(json, "body_bytes", request->body_len);
	wr_admin_json_time(json, "accepted_at", request->accepted_us * 1000);
	wr_admin_json_time(json, "due_at", request->due_us * 1000);
	wr_admin_json_time(json, "expires_at", request->expires_us * 1000);
	wr_admin_json_time(json, "finished_at", request->done_us * 1000);
}

void wr_admin_json_deferred(struct wr_json_out *json, const struct wr_queue_request *request,
			    bool whole, bool hidden)
{
	struct weir_str uri = request->uri, body = request->body;

	if (hidden)
		uri = wr_str_first(uri, wr_str_find(uri, '?'));
	wr_json_object(json);
	wr_json_member_uint(json, "id", request->id);
	wr_json_member_string_or_null(json, "state",
				      wr_str(wr_queue_request_state_name(request->state)));
	wr_json_member_bytes(json, "rule", request->rule);
	wr_json_member_bytes(json, "domain", request->domain);
	write_key(json, request->key);
	wr_json_member_bytes(json, "method", request->method);
	wr_json_member_bytes(json, "uri", uri);
	write_progress(json, request);
	if (whole) {
		wr_json_member_bytes(json, "idempotency_key", request->idempotency_key);
		write_fields(json, request, hidden);
		if (hidden || body.len > WR_ADMIN_QUEUE_BODY_SHOWN || !is_text(body))
			wr_json_member_null(json, "body");
		else
			wr_json_member_bytes(json, "body", body);
	}
	wr_json_end_object(json);
}
