/* Responds with the counters of a descriptor, for key.c. Counters in Redis are read from Redis. If
 * Redis does not reply within the timeout, the response has the counters of this machine instead.
 * The member "source" of each counter says where its numbers come from. */
#include <stdio.h>
#include <stdlib.h>

#include "base/address.h"
#include "base/assert.h"
#include "base/container.h"
#include "limiter/peek.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"
#include "wire/check/json.h"

/* ---- writing ---- */

void wr_admin_json_time(struct wr_json_out *json, const char *name, uint64_t ns)
{
	if (ns == 0)
		wr_json_member_null(json, name);
	else if (ns == WEIR_NEVER)
		wr_json_member_string(json, name, WR_STR("ever"));
	else
		wr_json_member_seconds(json, name, ns);
}

/* Returns the value of the member "source", which says where the values of the counter come from:
 * "table", "store" (Redis) and so on. */
static struct weir_str source_of(const struct weir_counter *counter)
{
	if (counter->flags & WEIR_COUNTER_STORE)
		return WR_STR("store");
	if (counter->flags & WEIR_COUNTER_EXCHANGED)
		return WR_STR("exchange");
	return counter->flags & (WEIR_COUNTER_CENTRAL | WEIR_COUNTER_EVENTUAL) ? WR_STR("machine")
									       : WR_STR("table");
}

static int write_counter(void *context, const struct weir_counter *counter)
{
	const char *algorithm = weir_algorithm_name((int)counter->algorithm);
	struct wr_json_out *json = context;

	wr_json_object(json);
	wr_json_member_string_or_null(json, "rule", counter->rule);
	wr_json_member_string_or_null(json, "name", counter->name);
	wr_json_member_string_or_null(json, "algorithm", wr_str(algorithm ? algorithm : ""));
	wr_json_member_uint(json, "requests", counter->requests);
	wr_json_member_seconds(json, "period", counter->period_ns);
	wr_json_member_uint(json, "limit", counter->limit);
	wr_json_member_uint(json, "remaining", counter->remaining);
	wr_json_member_uint(json, "debt", counter->debt);
	if (counter->algorithm == WEIR_CONCURRENT)
		wr_json_member_uint(json, "slots_in_use", counter->limit - counter->remaining);
	else
		wr_json_member_null(json, "slots_in_use");
	wr_json_member_seconds(json, "retry_after", counter->retry_after_ns);
	wr_json_member_seconds(json, "reset_after", counter->reset_after_ns);
	wr_admin_json_time(json, "banned_until", counter->banned_until_ns);
	wr_json_member_bool(json, "ban_automatic", counter->ban_flags & WEIR_BAN_AUTOMATIC);
	wr_json_member_bool(json, "ban_shield", counter->ban_flags & WEIR_BAN_SHIELD);
	wr_admin_json_time(json, "shadow_ban_until", counter->shadow_ban_until_ns);
	wr_json_member_uint(json, "ban_level", counter->ban_level);
	wr_json_member_uint(json, "ban_refusals", counter->refusals);
	wr_json_member_uint(json, "ban_after", counter->ban_after);
	wr_json_member_uint(json, "granted", counter->granted);
	wr_admin_json_time(json, "granted_until", counter->granted_until_ns);
	wr_json_member_bool(json, "shadow", counter->flags & WEIR_COUNTER_SHADOW);
	wr_json_member_bool(json, "quota", counter->flags & WEIR_COUNTER_QUOTA);
	wr_json_member_bool(json, "paused", counter->flags & WEIR_COUNTER_PAUSED);
	wr_json_member_bool(json, "central",
			    counter->flags & (WEIR_COUNTER_CENTRAL | WEIR_COUNTER_EVENTUAL));
	wr_json_member_string(json, "source", source_of(counter));
	wr_json_end_object(json);
	return 0;
}

/* ---- reading ---- */

/* An HTTP request for counters. The request can wait for Redis, so this struct has copies of all
 * data that the response needs. */
struct look {
	struct wr_serve_http_request *request;
	struct wr_loop *loop;
	struct wr_core_ref *ref;
	json_t *document; /* the parsed body; the strings of `target` point into it */
	struct weir_target target;
	struct weir_entry entries[WR_CHECK_ENTRIES_MAX];
	struct wr_peek *peek;
	struct wr_central_ask redis_question;
	char shield_address[WR_ADDRESS_TEXT]; /* "": the member is null */
	bool has_shield_address;
	bool asking;
};

static void end_look(struct look *look)
{
	if (look->peek)
		wr_peek_close(look->peek);
	wr_core_ref_drop(&look->loop->refs, look->ref);
	json_decref(look->document);
	free(look);
}

/* Writes the response with the counters. A reset, a grant or a ban gets the same response. The
 * response names the region, because such an order applies to one region only. */
static void write_counters(struct wr_json_out *json, void *context)
{
	const struct look *look = context;
	const char *region = wr_loop_service(look->loop)->settings.redis.region;

	wr_json_object(json);
	wr_json_member_string_or_null(json, "region", wr_str(region ? region : ""));
	wr_json_key(json, "counters");
	wr_json_array(json);
	wr_peek_show(look->peek, write_counter, json);
	wr_json_end_array(json);
	if (look->has_shield_address)
		wr_json_member_string_or_null(json, "shield_address", wr_str(look->shield_address));
	wr_json_end_object(json);
}

static void reply_counters(struct look *look)
{
	wr_admin_reply(look->request, 200, write_counters, look);
	end_look(look);
}

static void on_redis_reply(struct wr_central_ask *redis_question, const void *answer, size_t len)
{
	struct look *look = wr_container_of(redis_question, struct look, redis_question);

	look->asking = false;
	if (len)
		wr_peek_answer(look->peek, answer, len);
	if (look->request->held)
		reply_counters(look);
}

static void on_gone(struct wr_serve_http_request *request)
{
	struct look *look = request->context;

	wr_serve_redis_leave(look->loop, &look->redis_question);
	end_look(look);
}

/* Asks Redis for the counters. If no counter has to be read from Redis, or if wr_serve_redis_take()
 * calls on_redis_reply() before it returns, responds now. Otherwise holds the request, and
 * on_redis_reply() responds later. */
static void ask_redis(struct look *look)
{
	uint8_t question[WEIR_QUESTION_MAX];
	int len = look->loop->redis ? wr_peek_question(look->peek, question, sizeof question) : 0;

	if (len > 0) {
		look->asking = true;
		look->redis_question.done = on_redis_reply;
		wr_serve_redis_take(look->loop, &look->redis_question, question, (size_t)len,
				    wr_loop_now_ns(look->loop));
	}
	if (!look->asking) {
		reply_counters(look);
		return;
	}
	look->request->context = look;
	wr_serve_http_hold(look->request, on_gone);
}

static struct look *make_look(struct wr_serve_http_request *request, json_t *document,
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

static int ignore_counter(void *context, const struct weir_counter *counter)
{
	(void)context;
	(void)counter;
	return 0;
}

/* Reads the counters of this machine before Redis is asked, so that an error is reported without a
 * wait for Redis. */
void wr_admin_reply_counters(struct wr_serve_http_request *request, json_t *document,
			     const struct weir_target *target, const char *shield_address)
{
	struct look *look = make_look(request, document, target);
	int rc;

	wr_assert_magic(request, WR_HTTP_REQUEST_MAGIC);
	if (!look) {
		wr_admin_reply_error(request, WEIR_EMEMORY, "");
		return;
	}
	look->has_shield_address = shield_address != NULL;
	snprintf(look->shield_address, sizeof look->shield_address, "%s",
		 shield_address ? shield_address : "");
	rc = wr_peek_open(wr_loop_engine(look->loop), &look->target, wr_loop_now_ns(look->loop),
			  &look->peek, NULL);
	if (rc == 0 && wr_loop_settings(look->loop)->shadow)
		wr_peek_dry_run(look->peek);
	if (rc == 0)
		rc = wr_peek_show(look->peek, ignore_counter, NULL);
	if (rc < 0) {
		wr_admin_reply_error(request, rc, rc == WEIR_ENOENT ? WR_ADMIN_NO_LIMIT : "");
		end_look(look);
		return;
	}
	ask_redis(look);
}
