/* Counters of a descriptor as an answer. Those that Redis keeps are asked for there first; without
 * an answer in time they are what this machine knows, and that is said. */
#include <stdlib.h>

#include "limiter/peek.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"
#include "wire/check/json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

/* ---- writing ---- */

void wr_admin_put_time(struct wr_text *out, uint64_t ns)
{
	if (ns == 0)
		PUT(out, "null");
	else if (ns == WEIR_NEVER)
		PUT(out, "\"ever\"");
	else
		wr_json_put_seconds(out, ns);
}

/* Whose figures they are. */
static struct weir_str source_of(const struct weir_counter *counter)
{
	if (counter->flags & WEIR_COUNTER_STORE)
		return WR_STR("store");
	if (counter->flags & WEIR_COUNTER_EXCHANGED)
		return WR_STR("exchange");
	return counter->flags & (WEIR_COUNTER_CENTRAL | WEIR_COUNTER_EVENTUAL) ? WR_STR("machine")
									       : WR_STR("table");
}

static void put_counter(struct wr_text *out, const struct weir_counter *counter)
{
	const char *algorithm = weir_algorithm_name((int)counter->algorithm);

	PUT(out, "{\"rule\":");
	wr_json_put_text_or_null(out, counter->rule);
	PUT(out, ",\"name\":");
	wr_json_put_text_or_null(out, counter->name);
	PUT(out, ",\"algorithm\":");
	wr_json_put_text_or_null(out, wr_str(algorithm ? algorithm : ""));
	wr_json_put_number(out, "requests", counter->requests);
	PUT(out, ",\"period\":");
	wr_json_put_seconds(out, counter->period_ns);
	wr_json_put_number(out, "limit", counter->limit);
	wr_json_put_number(out, "remaining", counter->remaining);
	PUT(out, ",\"retry_after\":");
	wr_json_put_seconds(out, counter->retry_after_ns);
	PUT(out, ",\"reset_after\":");
	wr_json_put_seconds(out, counter->reset_after_ns);
	PUT(out, ",\"banned_until\":");
	wr_admin_put_time(out, counter->banned_until_ns);
	wr_json_put_number(out, "granted", counter->granted);
	PUT(out, ",\"granted_until\":");
	wr_admin_put_time(out, counter->granted_until_ns);
	wr_json_put_flag(out, "shadow", counter->flags & WEIR_COUNTER_SHADOW);
	wr_json_put_flag(out, "quota", counter->flags & WEIR_COUNTER_QUOTA);
	wr_json_put_flag(out, "paused", counter->flags & WEIR_COUNTER_PAUSED);
	wr_json_put_flag(out, "central",
			 counter->flags & (WEIR_COUNTER_CENTRAL | WEIR_COUNTER_EVENTUAL));
	PUT(out, ",\"source\":");
	wr_json_put_text(out, source_of(counter));
	PUT(out, "}");
}

struct counter_list {
	struct wr_text *out;
	bool more;
};

static int on_counter(void *context, const struct weir_counter *counter)
{
	struct counter_list *list = context;

	if (list->more)
		wr_text_char(list->out, ',');
	list->more = true;
	put_counter(list->out, counter);
	return 0;
}

/* ---- looking ---- */

/* On its way. The request may wait for the store, so it has what it needs for itself. */
struct look {
	struct wr_http_request *request;
	struct wr_loop *loop;
	struct wr_core_ref *ref;
	json_t *document; /* texts of the target are in it */
	struct weir_target target;
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	struct wr_peek *peek;
	struct wr_central_ask store;
	bool asking;
};

static void end(struct look *look)
{
	if (look->peek)
		wr_peek_close(look->peek);
	wr_core_ref_drop(&look->loop->refs, look->ref);
	json_decref(look->document);
	free(look);
}

/* Where there are several regions, whatever is done to counters is done in one. */
static void write_counters(struct wr_text *out, void *context)
{
	const struct look *look = context;
	const char *region = wr_loop_service(look->loop)->settings.redis.region;
	struct counter_list list = {out, false};

	PUT(out, "{\"region\":");
	wr_json_put_text_or_null(out, wr_str(region ? region : ""));
	PUT(out, ",\"counters\":[");
	wr_peek_show(look->peek, on_counter, &list);
	PUT(out, "]}\n");
}

static void reply(struct look *look)
{
	wr_admin_reply(look->request, 200, "application/json", write_counters, look);
	end(look);
}

static void on_answer(struct wr_central_ask *store, const void *answer, size_t len)
{
	struct look *look = (struct look *)((char *)store - offsetof(struct look, store));

	look->asking = false;
	if (len)
		wr_peek_answer(look->peek, answer, len);
	if (look->request->held)
		reply(look);
}

static void on_gone(struct wr_http_request *request)
{
	struct look *look = request->context;

	wr_redis_leave(look->loop, &look->store);
	end(look);
}

/* The store's answer, or that there is none, may be there before this returns. */
static void ask_store(struct look *look)
{
	uint8_t question[WEIR_QUESTION_MAX];
	int len = look->loop->redis ? wr_peek_question(look->peek, question, sizeof question) : 0;

	if (len > 0) {
		look->asking = true;
		look->store.done = on_answer;
		wr_redis_take(look->loop, &look->store, question, (size_t)len,
			      wr_loop_now_ns(look->loop));
	}
	if (!look->asking) {
		reply(look);
		return;
	}
	look->request->context = look;
	wr_http_hold(look->request, on_gone);
}

static struct look *begin(struct wr_http_request *request, json_t *document,
			  const struct weir_target *target)
{
	struct look *look = calloc(1, sizeof *look);

	if (!look)
		return NULL;
	look->request = request;
	look->loop = request->server->loop;
	look->ref = wr_core_ref_take(&look->loop->refs);
	look->document = json_incref(document);
	look->target = *target;
	memcpy(look->entries, target->entries, target->count * sizeof *target->entries);
	look->target.entries = look->entries;
	return look;
}

void wr_admin_reply_counters(struct wr_http_request *request, json_t *document,
			     const struct weir_target *target)
{
	struct wr_text nothing = {NULL, 0, 0};
	struct counter_list list = {&nothing, false};
	struct look *look = begin(request, document, target);
	int rc;

	if (!look) {
		wr_admin_reply_error(request, WEIR_EMEMORY, "");
		return;
	}
	rc = wr_peek_open(wr_loop_engine(look->loop), &look->target, wr_loop_now_ns(look->loop),
			  &look->peek, NULL);
	if (rc == 0)
		rc = wr_peek_show(look->peek, on_counter, &list);
	if (rc < 0) {
		wr_admin_reply_error(request, rc, rc == WEIR_ENOENT ? WR_ADMIN_NO_LIMIT : "");
		end(look);
		return;
	}
	ask_store(look);
}
