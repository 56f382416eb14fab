#include "serve/admin/queue_json.h"

#include "base/str.h"
#include "base/utf8.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

static void put_text(struct wr_text *out, const char *name, const char *text)
{
	wr_json_put_name(out, name);
	wr_json_put_text_or_null(out, wr_str(text ? text : ""));
}

static void put_bytes(struct wr_text *out, const char *name, struct weir_str text)
{
	wr_json_put_name(out, name);
	wr_json_put_bytes(out, text);
}

/* ---- how it stands ---- */

static void put_stats(struct wr_text *out, const struct wr_queue_stats *stats)
{
	wr_json_put_number(out, "waiting", stats->waiting);
	wr_json_put_number(out, "delivering", stats->delivering);
	wr_json_put_number(out, "dead", stats->dead);
	wr_json_put_number(out, "bytes", stats->bytes);
	wr_json_put_number(out, "keys", stats->lines);
	wr_json_put_number(out, "tickets", stats->tickets);
	wr_json_put_name(out, "oldest");
	wr_json_put_seconds(out, stats->oldest_us * 1000);
	wr_json_put_number(out, "disk_bytes", stats->disk_bytes);
	PUT(out, ",\"totals\":{\"stored\":");
	wr_text_number(out, stats->put_total);
	wr_json_put_number(out, "delivered", stats->delivered_total);
	wr_json_put_number(out, "retried", stats->retried_total);
	wr_json_put_number(out, "dead", stats->dead_total);
	wr_json_put_number(out, "dropped", stats->dropped_total);
	wr_json_put_number(out, "commits", stats->commits_total);
	PUT(out, "}");
}

/* By this process; only reasons there were. */
static void put_refused(struct wr_text *out, struct wr_queue_tally *tally)
{
	bool more = false;

	PUT(out, ",\"refused\":{");
	for (int i = 0; i < WR_QUEUE_REASON_COUNT; i++) {
		uint64_t count = atomic_load_explicit(&tally->refused[i], memory_order_relaxed);

		if (count == 0)
			continue;
		if (more)
			wr_text_char(out, ',');
		more = true;
		wr_json_put_text(out, wr_str(wr_queue_reason_name((enum wr_queue_reason)i)));
		wr_text_char(out, ':');
		wr_text_number(out, count);
	}
	PUT(out, "}");
}

void wr_queue_json(struct wr_queue_host *host, struct wr_text *out)
{
	struct weir_error trouble = {.text = ""};
	enum wr_queue_reason state = wr_queue_state(host->queue, &trouble);
	const struct wr_queue_settings *settings = &host->settings->queue;
	const struct wr_queue_opts *bounds = wr_queue_opts(host->queue);
	struct wr_queue_seen seen;

	wr_queue_look(host, &seen);
	PUT(out, "{\"url\":");
	wr_json_put_text(out, wr_str(host->text));
	put_text(out, "target", settings->target);
	put_text(out, "state", wr_queue_reason_name(state));
	put_text(out, "trouble", state == WR_QUEUE_OK ? NULL : trouble.text);
	wr_json_put_name(out, "target_up");
	wr_text_put(out, !settings->target  ? WR_STR("null")
			 : seen.down_for_ns ? WR_STR("false")
					    : WR_STR("true"));
	wr_json_put_number(out, "sending", seen.sending);
	wr_json_put_number(out, "max_requests", bounds->max_requests);
	wr_json_put_number(out, "max_bytes", bounds->max_bytes);
	wr_json_put_number(out, "max_line_bytes", bounds->max_line_bytes);
	wr_json_put_number(out, "max_dead", bounds->max_dead);
	wr_json_put_number(out, "max_dead_bytes", bounds->max_dead_bytes);
	put_stats(out, &seen.stats);
	put_refused(out, &host->tally);
	PUT(out, "}");
}

/* ---- one request ---- */

static void put_time(struct wr_text *out, const char *name, uint64_t us)
{
	wr_json_put_name(out, name);
	if (us)
		wr_json_put_seconds(out, us * 1000);
	else
		PUT(out, "null");
}

static void put_key(struct wr_text *out, const uint8_t key[WR_LINE_KEY_BYTES])
{
	static const char hex[] = "0123456789abcdef";

	PUT(out, ",\"key\":\"");
	for (size_t i = 0; i < WR_LINE_KEY_BYTES; i++) {
		wr_text_char(out, hex[key[i] >> 4]);
		wr_text_char(out, hex[key[i] & 15]);
	}
	PUT(out, "\"");
}

static void put_fields(struct wr_text *out, const struct wr_deferred *request, bool hidden)
{
	PUT(out, ",\"fields\":[");
	for (size_t i = 0; i < request->field_count; i++) {
		const struct wr_deferred_field *field = &request->fields[i];

		wr_text_put(out, i ? WR_STR(",{\"name\":") : WR_STR("{\"name\":"));
		wr_json_put_bytes(out, field->name);
		PUT(out, ",\"value\":");
		if (field->secret || field->locked || hidden)
			PUT(out, "null");
		else
			wr_json_put_bytes(out, field->value);
		wr_text_put(out, field->secret || field->locked ? WR_STR(",\"sealed\":true}")
								: WR_STR(",\"sealed\":false}"));
	}
	PUT(out, "]");
}

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

static void put_body(struct wr_text *out, struct weir_str body, bool hidden)
{
	PUT(out, ",\"body\":");
	if (hidden || body.len > WR_QUEUE_BODY_SHOWN || !is_text(body))
		PUT(out, "null");
	else
		wr_json_put_bytes(out, body);
}

static void put_progress(struct wr_text *out, const struct wr_deferred *request)
{
	wr_json_put_number(out, "tries", request->tries);
	wr_json_put_number(out, "max_tries", request->max_tries);
	wr_json_put_name(out, "http_status");
	if (request->status)
		wr_text_number(out, request->status);
	else
		PUT(out, "null");
	wr_json_put_name(out, "reason");
	if (request->reason.len)
		wr_json_put_bytes(out, request->reason);
	else
		PUT(out, "null");
	wr_json_put_name(out, "position");
	if (request->position)
		wr_text_number(out, request->position);
	else
		PUT(out, "null");
	wr_json_put_number(out, "body_bytes", request->body_len);
	put_time(out, "accepted_at", request->accepted_us);
	put_time(out, "due_at", request->due_us);
	put_time(out, "expires_at", request->expires_us);
	put_time(out, "finished_at", request->done_us);
}

void wr_queue_json_request(const struct wr_deferred *request, bool whole, bool hidden,
			   struct wr_text *out)
{
	struct weir_str uri = request->uri;

	if (hidden)
		uri = wr_str_first(uri, wr_str_find(uri, '?'));
	PUT(out, "{\"id\":");
	wr_text_number(out, request->id);
	put_text(out, "state", wr_deferred_state_name(request->state));
	put_bytes(out, "rule", request->rule);
	put_bytes(out, "domain", request->domain);
	put_key(out, request->key);
	put_bytes(out, "method", request->method);
	put_bytes(out, "uri", uri);
	put_progress(out, request);
	if (whole) {
		put_bytes(out, "idempotency_key", request->idempotency_key);
		put_fields(out, request, hidden);
		put_body(out, request->body, hidden);
	}
	PUT(out, "}");
}
