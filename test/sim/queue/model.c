/* The oracle: a simple queue in C. It repeats each call of the script that Redis has run and
 * compares its result with the reply of Redis. server.c calls qs_model_call(). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sim.h"

/* A call of the script and its reply. */
struct call {
	struct qs_sim *sim;
	struct qs_model *model;
	const struct weir_str *args; /* arguments of the call, without the verb */
	size_t count;
	const redisReply *reply;
	uint64_t now_us; /* the time that the reply contains */
};

static uint64_t arg_number(const struct call *call, size_t at)
{
	char text[32];

	if (at >= call->count || call->args[at].len >= sizeof text)
		return 0;
	memcpy(text, call->args[at].ptr, call->args[at].len);
	text[call->args[at].len] = '\0';
	return strtoull(text, NULL, 10);
}

static unsigned line_of(struct weir_str key)
{
	return key.len == WR_LINE_KEY_BYTES ? (unsigned char)key.ptr[0] : QS_LINES;
}

static uint64_t reply_number(const struct call *call, size_t at)
{
	return (uint64_t)wr_queue_redis_number(call->reply, at);
}

static void expect(const struct call *call, const char *what, uint64_t actual, uint64_t expected)
{
	if (actual != expected)
		qs_fail(call->sim, "%s is %" PRIu64 "; expected %" PRIu64, what, actual, expected);
}

static void expect_text(const struct call *call, const char *what, struct weir_str actual,
			const char *expected)
{
	if (!wr_str_equal(actual, wr_str(expected)))
		qs_fail(call->sim, "%s is '%.*s'; expected '%s'", what, (int)actual.len, actual.ptr,
			expected);
}

/* ---- waiting requests ---- */

static struct qs_row *find_row(struct qs_model *model, uint64_t id)
{
	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].id == id && model->rows[i].state != QS_FORGOTTEN)
			return &model->rows[i];
	return NULL;
}

const struct qs_row *qs_model_find(const struct qs_model *model, unsigned post)
{
	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].post == post)
			return &model->rows[i];
	return NULL;
}

static size_t count_state(const struct qs_model *model, enum qs_state state, uint64_t *bytes)
{
	size_t count = 0;

	*bytes = 0;
	for (size_t i = 0; i < model->count; i++) {
		if (model->rows[i].state != state)
			continue;
		count++;
		*bytes += model->rows[i].bytes;
	}
	return count;
}

static size_t count_line(const struct qs_model *model, unsigned line, uint64_t *bytes)
{
	size_t count = 0;

	*bytes = 0;
	for (size_t i = 0; i < model->count; i++) {
		const struct qs_row *row = &model->rows[i];

		if (row->state != QS_WAITING || row->line != line)
			continue;
		count++;
		*bytes += row->bytes;
	}
	return count;
}

size_t qs_model_waiting(const struct qs_model *model, unsigned line)
{
	uint64_t bytes;

	return count_line(model, line, &bytes);
}

/* Returns the oldest waiting row of a line, or NULL. The first match is the oldest row, because
 * rows are sorted by id. */
static struct qs_row *line_head(struct qs_model *model, unsigned line)
{
	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].state == QS_WAITING && model->rows[i].line == line)
			return &model->rows[i];
	return NULL;
}

static uint64_t position(const struct qs_model *model, const struct qs_row *row)
{
	uint64_t before = 0;

	for (size_t i = 0; i < model->count; i++)
		before += model->rows[i].state == QS_WAITING && model->rows[i].line == row->line &&
			  model->rows[i].id < row->id;
	return row->state == QS_WAITING ? before + 1 : 0;
}

static bool is_taken(const struct qs_model *model, const struct qs_row *row)
{
	return row->state == QS_WAITING && model->lines[row->line].fence &&
	       model->lines[row->line].id == row->id;
}

/* Returns the reason why a request of this size is refused, or "" if there is room. */
static const char *no_room(const struct call *call, unsigned line, uint64_t bytes,
			   uint64_t max_waiting)
{
	const struct wr_queue_opts *opts = &call->sim->plan->opts;
	uint64_t all, held;
	size_t waiting = count_state(call->model, QS_WAITING, &all);
	size_t in_line = count_line(call->model, line, &held);

	if (waiting >= opts->max_requests)
		return "full";
	if (all + bytes > opts->max_bytes)
		return "bytes_full";
	if (in_line >= max_waiting)
		return "key_full";
	return in_line && held + bytes > opts->max_line_bytes ? "key_bytes_full" : "";
}

static void check_bounds(const struct call *call)
{
	const struct wr_queue_opts *opts = &call->sim->plan->opts;
	uint64_t all, held;
	size_t waiting = count_state(call->model, QS_WAITING, &all);

	if (waiting > opts->max_requests || all > opts->max_bytes)
		qs_fail(call->sim, "%zu requests with %" PRIu64 " bytes wait", waiting, all);
	for (unsigned line = 0; line < QS_LINES; line++)
		if (count_line(call->model, line, &held) > 1 && held > opts->max_line_bytes)
			qs_fail(call->sim, "%" PRIu64 " bytes wait in line %u", held, line);
}

static void advance_time(const struct call *call)
{
	if (call->now_us < call->model->last_us)
		qs_fail(call->sim, "the queue's time went back");
	call->model->last_us = call->now_us;
}

/* ---- put ---- */

static unsigned read_post(const struct call *call, struct weir_str body)
{
	char text[16] = "";

	memcpy(text, body.ptr, body.len < 15 ? body.len : 15);
	if (strtoul(text, NULL, 10) >= call->sim->plan->posts) {
		qs_fail(call->sim, "a body is not of any post");
		return 0;
	}
	return (unsigned)strtoul(text, NULL, 10);
}

static void add_row(const struct call *call, unsigned line)
{
	struct qs_model *model = call->model;
	struct qs_row *row = &model->rows[model->count];
	unsigned post = read_post(call, call->args[10]);
	struct qs_row *known = (struct qs_row *)qs_model_find(model, post);

	if (known && known->state != QS_FORGOTTEN) {
		qs_fail(call->sim, "post %u is stored twice", post);
		return;
	}
	if (known) { /* the ticket has expired, so the script stored the post again */
		call->sim->report->copies++;
		call->sim->posts[post].copied = true;
		known->post = QS_POSTS;
	}
	*row = (struct qs_row){.id = ++model->last_id,
			       .post = post,
			       .line = line,
			       .max_tries = arg_number(call, 3),
			       .age_us = arg_number(call, 4),
			       .at_us = call->now_us,
			       .due_us = call->now_us + arg_number(call, 6),
			       .expires_us = call->now_us + arg_number(call, 4),
			       .bytes = arg_number(call, 7)};
	memcpy(row->hash, call->args[0].ptr, sizeof row->hash);
	model->count++;
	model->put++;
	advance_time(call);
	qs_trace(call->sim, "stored post %u of line %u as %" PRIu64, post, line, row->id);
}

static void model_put(const struct call *call)
{
	struct qs_model *model = call->model;
	unsigned line = line_of(call->args[1]);
	const struct qs_row *row = NULL;
	const char *why = "";

	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].state != QS_FORGOTTEN &&
		    memcmp(model->rows[i].hash, call->args[0].ptr, sizeof model->rows[i].hash) == 0)
			row = &model->rows[i];
	if (!row) {
		why = no_room(call, line, arg_number(call, 7), arg_number(call, 11));
		if (!*why)
			add_row(call, line);
		row = &model->rows[model->count - 1];
	}
	expect_text(call, "put", wr_queue_redis_text(call->reply, 1), why);
	if (*why)
		return;
	expect(call, "id of a put", reply_number(call, 2), row->id);
	if (row->state == QS_WAITING)
		expect(call, "position of a put", reply_number(call, 3), position(model, row));
	expect(call, "waiting after a put", reply_number(call, 4), qs_model_waiting(model, line));
}

/* ---- take ---- */

/* Frees the lines whose lease has expired. On a new connection, also frees the lines of the caller
 * whose fence is above args[4], the highest fence that the caller has received. */
static void reclaim_lines(const struct call *call)
{
	bool asks = call->args[4].ptr[0] != '-';

	for (unsigned i = 0; i < QS_LINES; i++) {
		struct qs_line *line = &call->model->lines[i];

		if (line->fence && line->until_us <= call->now_us) {
			call->sim->report->takeover++;
			line->fence = 0;
		}
		if (line->fence && asks && line->fence > arg_number(call, 4) &&
		    wr_str_equal(call->args[3], wr_str(line->owner)))
			line->fence = 0;
	}
}

static void finish_row(const struct call *call, struct qs_row *row, enum qs_state state,
		       uint64_t keep_us)
{
	struct qs_model *model = call->model;

	row->state = state;
	row->gone_us = call->now_us + keep_us;
	model->delivered += state == QS_DELIVERED;
	model->dead += state == QS_DEAD;
	model->dropped += state == QS_DROPPED;
	qs_trace(call->sim, "%" PRIu64 " of line %u is %s", row->id, row->line,
		 state == QS_DELIVERED ? "delivered"
		 : state == QS_DEAD    ? "dead"
				       : "dropped");
}

static void expire_head(const struct call *call, unsigned line, uint64_t waiting)
{
	struct qs_row *row = line < QS_LINES ? line_head(call->model, line) : NULL;

	if (!row || call->model->lines[line].fence || row->expires_us > call->now_us) {
		qs_fail(call->sim, "line %u lost its head, which has not expired", line);
		return;
	}
	finish_row(call, row, QS_DEAD, arg_number(call, 2));
	expect(call, "waiting after an expired request", waiting,
	       qs_model_waiting(call->model, line));
}

static void hand_out(const struct call *call, uint64_t fence, const redisReply *given)
{
	struct qs_model *model = call->model;
	uint64_t id = (uint64_t)wr_queue_redis_number(given, 0);
	struct qs_row *row = find_row(model, id);
	const struct qs_row *first = row ? line_head(model, row->line) : NULL;
	struct qs_line *line = row ? &model->lines[row->line] : NULL;

	if (!row || row->state != QS_WAITING) {
		qs_fail(call->sim, "%" PRIu64 " is given out and is not waiting", id);
		return;
	}
	if (line->fence)
		qs_fail(call->sim, "line %u has two owners", row->line);
	if (first != row)
		qs_fail(call->sim, "%" PRIu64 " is given out before %" PRIu64, id, first->id);
	if (row->due_us > call->now_us || row->expires_us <= call->now_us)
		qs_fail(call->sim, "%" PRIu64 " is given out and is not due or has expired", id);
	expect(call, "fence", fence, ++model->fences);
	expect(call, "tries", (uint64_t)wr_queue_redis_number(given, 5), row->tries);
	expect(call, "body", read_post(call, wr_queue_redis_text(given, 16)), row->post);
	*line = (struct qs_line){
		.fence = fence, .id = id, .until_us = call->now_us + arg_number(call, 1)};
	snprintf(line->owner, sizeof line->owner, "%.*s", (int)call->args[3].len,
		 call->args[3].ptr);
	qs_trace(call->sim, "%" PRIu64 " of line %u is taken by %s, fence %" PRIu64, id, row->line,
		 line->owner, fence);
}

/* Returns whether a take comes from a connection that its owner has replaced. Checks that Redis has
 * refused such a take. */
static bool is_stale(const struct call *call)
{
	struct qs_owner *owner = call->model->owners;

	while (owner->name[0] && !wr_str_equal(call->args[3], wr_str(owner->name)))
		owner++;
	if (owner == call->model->owners + QS_OWNERS)
		abort();
	snprintf(owner->name, sizeof owner->name, "%.*s", (int)call->args[3].len,
		 call->args[3].ptr);
	if (arg_number(call, 5) >= owner->link) {
		owner->link = arg_number(call, 5);
		return false;
	}
	expect(call, "elements of a stale take", call->reply->elements, 4);
	expect(call, "link of a stale take", reply_number(call, 2), owner->link);
	call->sim->report->stale++;
	return true;
}

static void model_take(const struct call *call)
{
	const redisReply *reply = call->reply;
	size_t at = 3, given;

	if (is_stale(call))
		return;
	reclaim_lines(call);
	for (; at + 1 < reply->elements && wr_queue_redis_text(reply, at).len; at += 2)
		expire_head(call, line_of(wr_queue_redis_text(reply, at)),
			    reply_number(call, at + 1));
	expect(call, "expired", reply_number(call, 1), (at - 3) / 2);
	given = (reply->elements - at - 1) / 2;
	if (given > arg_number(call, 0))
		qs_fail(call->sim, "%zu requests are given out", given);
	for (at++; at + 1 < reply->elements; at += 2)
		hand_out(call, reply_number(call, at), reply->element[at + 1]);
	if (reply->elements > 4)
		advance_time(call);
}

/* ---- settle ---- */

/* Checks that the outcome in a settle matches the response of the API. */
static void check_answer(const struct call *call, const struct qs_row *row, uint64_t fence,
			 const char *outcome)
{
	const struct qs_send *send = qs_api_by_fence(call->sim, row->post, fence);
	unsigned status = send ? send->status : 0;
	bool sent = send && !send->unsent;
	bool fine = strcmp(outcome, "release") == 0 ? !sent : sent;

	/* The fence does not identify the delivery attempt, because Redis issues the same fences again after a
	 * loss of data. */
	if (call->sim->plan->faults & 1u << QS_LOSS)
		return;
	if (strcmp(outcome, "delivered") == 0)
		fine = fine && wr_deliver_is_final(status);
	if (strcmp(outcome, "again") == 0 || strcmp(outcome, "absent") == 0)
		fine = fine && !wr_deliver_is_final(status);
	if (!fine || (sent && arg_number(call, 4) != status))
		qs_fail(call->sim, "%" PRIu64 " is settled as %s after status %u", row->id, outcome,
			status);
}

static void settle_row(const struct call *call, struct qs_row *row)
{
	char outcome[16] = "";
	uint64_t due_us = call->now_us + arg_number(call, 5);

	memcpy(outcome, call->args[3].ptr, call->args[3].len < 15 ? call->args[3].len : 15);
	check_answer(call, row, arg_number(call, 2), outcome);
	row->fence = arg_number(call, 2);
	call->model->lines[row->line].fence = 0;
	if (strcmp(outcome, "again") == 0 || strcmp(outcome, "dead") == 0)
		row->tries++;
	if (strcmp(outcome, "release") != 0)
		row->status = arg_number(call, 4);
	if (strcmp(outcome, "delivered") == 0) {
		finish_row(call, row, QS_DELIVERED, arg_number(call, 7));
	} else if (strcmp(outcome, "dead") == 0 ||
		   (strcmp(outcome, "again") == 0 && row->tries == row->max_tries)) {
		finish_row(call, row, QS_DEAD, arg_number(call, 8));
	} else {
		row->due_us = due_us;
		call->model->retried += strcmp(outcome, "release") != 0;
	}
	advance_time(call);
}

static void model_settle(const struct call *call)
{
	struct qs_model *model = call->model;
	unsigned number_of_line = line_of(call->args[1]);
	const struct qs_line *line = &model->lines[number_of_line];
	uint64_t id = arg_number(call, 0), fence = arg_number(call, 2);
	struct qs_row *row = find_row(model, id);
	bool owned = line->fence == fence && line->id == id;

	if (owned && row && row->state == QS_WAITING) {
		settle_row(call, row);
	} else if (!row || row->fence != fence) {
		expect_text(call, "settle by a former owner", wr_queue_redis_text(call->reply, 1),
			    "lost");
		return;
	}
	expect_text(call, "settle", wr_queue_redis_text(call->reply, 1), "");
	expect(call, "state after a settle", reply_number(call, 2), row->state);
	expect(call, "waiting after a settle", reply_number(call, 3),
	       qs_model_waiting(model, number_of_line));
}

/* ---- operators and tickets ---- */

static bool matches_filter(const struct call *call, const struct qs_row *row)
{
	uint64_t id = arg_number(call, 3);
	char digit = (char)('0' + (int)row->state);

	if (row->state == QS_FORGOTTEN || (id ? row->id != id : row->id <= arg_number(call, 4)))
		return false;
	return call->args[2].len == 0 || memchr(call->args[2].ptr, digit, call->args[2].len);
}

static bool retry_row(const struct call *call, struct qs_row *row, uint64_t *left)
{
	if (row->state == QS_DEAD && *no_room(call, row->line, row->bytes, UINT64_MAX)) {
		++*left;
		return false;
	}
	row->due_us = call->now_us;
	if (row->state == QS_DEAD) {
		row->tries = 0;
		row->expires_us = call->now_us + row->age_us;
		row->state = QS_WAITING;
		qs_trace(call->sim, "%" PRIu64 " of line %u waits again", row->id, row->line);
	}
	return true;
}

static void change_rows(const struct call *call, bool drops)
{
	uint64_t changed = 0, left = 0, looked = 0;

	for (size_t i = 0; i < call->model->count; i++) {
		struct qs_row *row = &call->model->rows[i];

		if (!arg_number(call, 3) && row->state != QS_FORGOTTEN &&
		    row->id > arg_number(call, 4) && ++looked > arg_number(call, 5))
			break;
		if (!matches_filter(call, row) ||
		    (row->state != QS_WAITING && row->state != QS_DEAD) ||
		    is_taken(call->model, row))
			continue;
		if (drops)
			finish_row(call, row, QS_DROPPED, arg_number(call, 6));
		changed += drops || retry_row(call, row, &left);
		if (drops)
			row->status = 0;
	}
	expect(call, "changed by an operator", reply_number(call, 3), changed);
	expect(call, "left by an operator", reply_number(call, 4), left);
	if (changed)
		advance_time(call);
}

static void model_ticket(const struct call *call)
{
	struct qs_model *model = call->model;
	const struct qs_row *row = NULL;
	const redisReply *shown;

	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].state != QS_FORGOTTEN &&
		    memcmp(model->rows[i].hash, call->args[0].ptr, sizeof model->rows[i].hash) == 0)
			row = &model->rows[i];
	expect(call, "elements of a ticket", call->reply->elements, row ? 4 : 1);
	if (!row || call->reply->elements != 4)
		return;
	shown = call->reply->element[3];
	expect(call, "position", reply_number(call, 1), position(model, row));
	expect(call, "taken", reply_number(call, 2), is_taken(model, row));
	expect(call, "id of a ticket", (uint64_t)wr_queue_redis_number(shown, 0), row->id);
	expect(call, "state of a ticket", (uint64_t)wr_queue_redis_number(shown, 4), row->state);
	expect(call, "tries of a ticket", (uint64_t)wr_queue_redis_number(shown, 5), row->tries);
	expect(call, "status of a ticket", (uint64_t)wr_queue_redis_number(shown, 12), row->status);
}

/* ---- tidy, stats, poll ---- */

static bool is_stored(const struct call *call, const struct qs_row *row)
{
	char key[64];

	snprintf(key, sizeof key, "weir:1:{queue}:r:%" PRIu64, row->id);
	return wr_sim_redis_find(call->sim->server.redis, wr_str(key)) != NULL;
}

/* Forgets the rows that the script has removed. If the number or the size of the rows exceeds a
 * maximum, the script may remove any row of that state. */
static void model_tidy(const struct call *call)
{
	struct qs_model *model = call->model;
	uint64_t gone = 0, bytes, before_bytes;
	size_t dead = count_state(model, QS_DEAD, &before_bytes);
	size_t tickets = count_state(model, QS_DELIVERED, &bytes);
	bool over = dead > arg_number(call, 2) || before_bytes > arg_number(call, 3);

	tickets += count_state(model, QS_DROPPED, &bytes);
	for (size_t i = 0; i < model->count; i++) {
		struct qs_row *row = &model->rows[i];

		if (row->state == QS_FORGOTTEN || is_stored(call, row))
			continue;
		gone++;
		if (row->state == QS_WAITING ||
		    (row->gone_us > call->now_us &&
		     (row->state == QS_DEAD ? !over : tickets <= arg_number(call, 0))))
			qs_fail(call->sim, "%" PRIu64 " is forgotten, in state %d", row->id,
				(int)row->state);
		row->state = QS_FORGOTTEN;
	}
	expect(call, "forgotten", reply_number(call, 1) + reply_number(call, 2), gone);
	dead = count_state(model, QS_DEAD, &bytes);
	if (reply_number(call, 2) < arg_number(call, 1) &&
	    (dead > arg_number(call, 2) || bytes > arg_number(call, 3)))
		qs_fail(call->sim, "%zu dead letters with %" PRIu64 " bytes are kept", dead, bytes);
}

static void model_stats(const struct call *call)
{
	const struct qs_model *model = call->model;
	uint64_t bytes, dead_bytes, ignored, taken = 0, lines = 0;
	size_t waiting = count_state(model, QS_WAITING, &bytes);
	size_t dead = count_state(model, QS_DEAD, &dead_bytes);

	for (unsigned i = 0; i < QS_LINES; i++) {
		taken += model->lines[i].fence != 0;
		lines += qs_model_waiting(model, i) > 0;
	}
	expect(call, "waiting", reply_number(call, 1), waiting - taken);
	expect(call, "delivering", reply_number(call, 2), taken);
	expect(call, "dead", reply_number(call, 3), dead);
	expect(call, "bytes", reply_number(call, 4), bytes + dead_bytes);
	expect(call, "lines", reply_number(call, 5), lines);
	expect(call, "tickets", reply_number(call, 6),
	       count_state(model, QS_DELIVERED, &ignored) +
		       count_state(model, QS_DROPPED, &ignored));
	expect(call, "put", reply_number(call, 8), model->put);
	expect(call, "delivered", reply_number(call, 9), model->delivered);
	expect(call, "retried", reply_number(call, 10), model->retried);
	expect(call, "dead ever", reply_number(call, 11), model->dead);
	expect(call, "dropped", reply_number(call, 12), model->dropped);
}

static void model_poll(const struct call *call)
{
	for (size_t at = 2; at + 1 < call->reply->elements; at += 2)
		expect(call, "waiting by a poll", reply_number(call, at + 1),
		       qs_model_waiting(call->model,
					line_of(wr_queue_redis_text(call->reply, at))));
}

static void model_drop(const struct call *call)
{
	change_rows(call, true);
}

static void model_retry(const struct call *call)
{
	change_rows(call, false);
}

void qs_model_call(struct qs_sim *sim, const struct weir_str *argv, size_t argc,
		   const redisReply *reply)
{
	static const struct {
		const char *name;
		void (*run)(const struct call *call);
	} verbs[] = {{"put", model_put},       {"take", model_take},   {"settle", model_settle},
		     {"ticket", model_ticket}, {"retry", model_retry}, {"drop", model_drop},
		     {"tidy", model_tidy},     {"stats", model_stats}, {"poll", model_poll}};
	struct call call = {sim, &sim->model, argv + 1, argc - 1, reply, 0};

	if (reply->type != REDIS_REPLY_ARRAY) {
		qs_fail(sim, "the script answers %.*s with an error: %s", (int)argv[0].len,
			argv[0].ptr, reply->str ? reply->str : "");
		return;
	}
	call.now_us = reply_number(&call, 0);
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (wr_str_equal(argv[0], wr_str(verbs[i].name))) {
			verbs[i].run(&call);
			check_bounds(&call);
			return;
		}
	qs_fail(sim, "the oracle does not know %.*s", (int)argv[0].len, argv[0].ptr);
}
