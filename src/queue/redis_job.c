/* Translates jobs into calls of the script, and the script's replies into results of jobs. Called
 * by redis_backend.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "queue/record.h"
#include "queue/redis_backend.h"

/* Error replies of Redis are logged at most once in this time. */
#define REMIND_US 60000000u
/* Longer waits are shortened to this time, so that sums of times are exact in Lua's numbers. */
#define WAIT_MAX_US (366 * WR_QUEUE_DAY_US)

/* ---- calls ---- */

void wr_queue_redis_begin_call(struct wr_queue_redis *redis, const char *verb, size_t args)
{
	struct wr_commands *out = &redis->link.out;

	wr_command_begin(out, 5 + args);
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, wr_queue_script_lines.sha1);
	wr_command_text(out, "1");
	wr_command_text(out, redis->base);
	wr_command_text(out, verb);
}

static void write_number(struct wr_queue_redis *redis, uint64_t value)
{
	wr_command_number(&redis->link.out, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void write_text(struct wr_queue_redis *redis, struct weir_str value)
{
	wr_command_arg(&redis->link.out, value.ptr, value.len);
}

static void write_duration(struct wr_queue_redis *redis, uint64_t us)
{
	write_number(redis, us < WAIT_MAX_US ? us : WAIT_MAX_US);
}

/* Writes the script call for a put. If memory is exhausted or encryption failed, writes nothing and
 * sets the job's reason. */
static void write_put_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	const struct wr_queue_request *r = job->put.request;
	const struct wr_queue_opts *opts = redis->backend.opts;
	size_t head_len = wr_queue_record_size(r);
	uint8_t *head = malloc(head_len);
	uint8_t hash[WR_TICKET_HASH_BYTES];
	bool good = head;

	/* A repeated put keeps its ticket, because the script recognizes the repetition by the
	 * ticket. If all bytes of the ticket are 0, this is the first call of the put, and a ticket
	 * is made. */
	if (memcmp(job->put.ticket, (const uint8_t[WR_TICKET_BYTES]){0}, WR_TICKET_BYTES) == 0)
		good = good && wr_ticket_make(job->put.ticket, hash);
	wr_ticket_hash(job->put.ticket, hash);
	if (!good || !wr_queue_record_write(r, hash, redis->backend.seals, head)) {
		free(head);
		job->reason = WR_QUEUE_FAILED;
		return;
	}
	wr_queue_redis_begin_call(redis, "put", 15);
	wr_command_arg(&redis->link.out, hash, sizeof hash);
	wr_command_arg(&redis->link.out, r->key, sizeof r->key);
	write_text(redis, r->rule);
	write_number(redis, r->max_tries);
	write_duration(redis, job->put.max_age_us);
	write_duration(redis, r->interval_us);
	write_duration(redis, job->put.wait_us);
	write_number(redis, head_len + r->body.len + r->rule.len + WR_QUEUE_RECORD_OVERHEAD);
	write_number(redis, r->body.len);
	wr_command_arg(&redis->link.out, head, head_len);
	write_text(redis, r->body);
	write_number(redis, job->put.max_waiting);
	write_number(redis, opts->max_requests);
	write_number(redis, opts->max_bytes);
	write_number(redis, opts->max_line_bytes);
	free(head);
}

/* Writes the script call for a take. On the first take of a connection, the script frees the
 * requests of earlier takes whose reply was lost. The script ignores a delayed take of an earlier
 * connection, which it recognizes by the number of the connection. */
static void write_take_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	redis->links += redis->link.untaken;
	wr_queue_redis_begin_call(redis, "take", 6);
	write_number(redis, job->take.max);
	write_number(redis, redis->backend.opts->lease_us);
	write_duration(redis, redis->backend.opts->keep_dead_us);
	wr_command_text(&redis->link.out, redis->owner.name);
	wr_command_number(&redis->link.out, redis->link.untaken ? (int64_t)redis->received : -1);
	write_number(redis, redis->links);
	redis->link.untaken = false;
}

static void write_settle_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	static const char *const outcomes[] = {"delivered", "again", "dead", "release", "absent"};

	wr_queue_redis_begin_call(redis, "settle", 9);
	write_number(redis, job->settle.id);
	wr_command_arg(&redis->link.out, job->settle.key, sizeof job->settle.key);
	write_number(redis, job->settle.fence);
	wr_command_text(&redis->link.out, outcomes[job->settle.outcome]);
	write_number(redis, job->settle.status);
	write_duration(redis, job->settle.wait_us);
	write_text(redis, wr_str_first(job->settle.reason, WR_QUEUE_REQUEST_REASON_MAX));
	write_duration(redis, redis->backend.opts->keep_us);
	write_duration(redis, redis->backend.opts->keep_dead_us);
}

/* Writes the set of states as digits, as the script expects it. The script has no state
 * `delivering`: requests in delivery have the digit of `waiting`. */
static struct weir_str state_digits(uint8_t states, char digits[WR_QUEUE_REQUEST_STATE_COUNT])
{
	size_t len = 0;

	for (unsigned i = 0; i < WR_QUEUE_REQUEST_STATE_COUNT; i++)
		if (states & 1u << i)
			digits[len++] = i == WR_QUEUE_REQUEST_DELIVERING ? '0' : (char)('0' + i);
	return (struct weir_str){digits, len};
}

static void write_page_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	static const char *const verbs[] = {[WR_QUEUE_LIST] = "list",
					    [WR_QUEUE_SHOW] = "show",
					    [WR_QUEUE_RETRY] = "retry",
					    [WR_QUEUE_DROP] = "drop"};
	const struct wr_queue_filter *filter = &job->page.filter;
	const struct wr_queue_opts *opts = redis->backend.opts;
	char digits[WR_QUEUE_REQUEST_STATE_COUNT];

	if (job->page.max == 0 || job->page.max > WR_QUEUE_REDIS_PAGE_MAX)
		job->page.max = WR_QUEUE_REDIS_PAGE_MAX;
	wr_queue_redis_begin_call(redis, verbs[job->verb], 10);
	write_text(redis, filter->rule);
	wr_command_arg(&redis->link.out, filter->key, filter->key ? WR_LINE_KEY_BYTES : 0);
	write_text(redis, state_digits(filter->states, digits));
	write_number(redis, filter->id);
	write_number(redis, job->page.after);
	write_number(redis, job->page.max);
	write_duration(redis, opts->keep_us);
	write_number(redis, opts->max_requests);
	write_number(redis, opts->max_bytes);
	write_number(redis, opts->max_line_bytes);
}

static void write_ticket_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	uint8_t hash[WR_TICKET_HASH_BYTES];

	wr_ticket_hash(job->ticket.ticket, hash);
	wr_queue_redis_begin_call(redis, "ticket", 1);
	wr_command_arg(&redis->link.out, hash, sizeof hash);
}

static void write_stats_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	(void)job;
	wr_queue_redis_begin_call(redis, "stats", 0);
}

static void write_recount_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	(void)job;
	wr_queue_redis_begin_call(redis, "poll", 1);
	wr_command_number(&redis->link.out, -1);
}

/* ---- replies ---- */

static void read_put_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			   const redisReply *reply)
{
	job->reason = wr_queue_redis_reason_of(wr_queue_redis_text(reply, 1));
	if (job->reason != WR_QUEUE_OK)
		return;
	job->put.id = (uint64_t)wr_queue_redis_number(reply, 2);
	job->put.position = (uint64_t)wr_queue_redis_number(reply, 3);
	wr_queue_backend_report_waiting(&redis->backend, job->put.request->key,
					(uint64_t)wr_queue_redis_number(reply, 4));
}

static void read_take_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			    const redisReply *reply)
{
	struct wr_queue_request **tail = &job->take.first;
	uint64_t now_us = (uint64_t)wr_queue_redis_number(reply, 0);
	int64_t next_us = wr_queue_redis_number(reply, 2);
	size_t at = wr_queue_redis_report_lines(redis, reply, 3) + 1;

	if (wr_queue_redis_number(reply, 1) < 0) {
		/* The script refused the take, because an earlier process with this owner name had
		 * connections with higher numbers. Continue from the highest number and repeat the
		 * take. */
		redis->links = (uint64_t)next_us;
		redis->link.untaken = true;
		job->take.next_us = 0;
		return;
	}
	job->take.expired = (uint32_t)wr_queue_redis_number(reply, 1);
	job->take.next_us = next_us < 0 ? UINT64_MAX : (uint64_t)next_us;
	for (; at + 1 < reply->elements; at += 2) {
		uint64_t fence = (uint64_t)wr_queue_redis_number(reply, at);
		struct wr_queue_request *row =
			wr_queue_redis_read_row(redis, reply->element[at + 1], now_us, true);

		redis->received = fence > redis->received ? fence : redis->received;
		if (!row) {
			job->reason = WR_QUEUE_FAILED;
			continue;
		}
		row->fence = fence;
		row->state = WR_QUEUE_REQUEST_DELIVERING;
		row->position = 1;
		*tail = row;
		tail = &row->next;
		job->take.count++;
	}
}

static void read_settle_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			      const redisReply *reply)
{
	int64_t state = wr_queue_redis_number(reply, 2);

	job->reason = wr_queue_redis_reason_of(wr_queue_redis_text(reply, 1));
	if (job->reason != WR_QUEUE_OK)
		return;
	job->settle.state = state >= 0 && state < WR_QUEUE_REQUEST_STATE_COUNT
				    ? (enum wr_queue_request_state)state
				    : WR_QUEUE_REQUEST_WAITING;
	job->settle.waiting = (uint64_t)wr_queue_redis_number(reply, 3);
	wr_queue_backend_report_waiting(&redis->backend, job->settle.key, job->settle.waiting);
}

/* Reads a request from three elements of a reply. Element `at` is the position of the request, and
 * the next element is 1 if the request is in delivery. The third element is an array with the
 * fields of the request. */
static struct wr_queue_request *read_shown(const struct wr_queue_redis *redis,
					   const redisReply *reply, size_t at)
{
	uint64_t now_us = (uint64_t)wr_queue_redis_number(reply, 0);
	struct wr_queue_request *row =
		wr_queue_redis_read_row(redis, reply->element[at + 2], now_us, false);

	if (!row)
		return NULL;
	row->position = (uint64_t)wr_queue_redis_number(reply, at);
	if (row->state == WR_QUEUE_REQUEST_WAITING && wr_queue_redis_number(reply, at + 1))
		row->state = WR_QUEUE_REQUEST_DELIVERING;
	return row;
}

static void read_ticket_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			      const redisReply *reply)
{
	if (reply->elements < 4) {
		job->reason = WR_QUEUE_UNKNOWN;
		return;
	}
	job->ticket.found = read_shown(redis, reply, 1);
	if (!job->ticket.found)
		job->reason = WR_QUEUE_FAILED;
}

static void read_page_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			    const redisReply *reply)
{
	uint8_t states = job->page.filter.states;
	struct wr_queue_request **tail = &job->page.first;
	size_t at = wr_queue_redis_report_lines(redis, reply, 6) + 1;

	job->page.last = (uint64_t)wr_queue_redis_number(reply, 1);
	job->page.end = (uint64_t)wr_queue_redis_number(reply, 2);
	job->page.count = (uint32_t)wr_queue_redis_number(reply, 3);
	job->page.left = (uint32_t)wr_queue_redis_number(reply, 4);
	for (; at + 2 < reply->elements; at += 3) {
		struct wr_queue_request *row = read_shown(redis, reply, at);

		if (!row || (states && !(states & 1u << row->state))) {
			wr_queue_request_free(row);
			job->page.count--;
			continue;
		}
		if (job->verb == WR_QUEUE_LIST) {
			row->fields = NULL;
			row->field_count = 0;
		}
		*tail = row;
		tail = &row->next;
	}
	if (job->page.filter.id && job->page.count == 0)
		job->reason = job->page.left
				      ? wr_queue_redis_reason_of(wr_queue_redis_text(reply, 5))
				      : WR_QUEUE_UNKNOWN;
}

static void read_stats_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			     const redisReply *reply)
{
	struct wr_queue_stats *s = &job->stats;
	uint64_t *const to[] = {&s->waiting,       &s->delivering, &s->dead,
				&s->bytes,         &s->lines,      &s->tickets,
				&s->oldest_us,     &s->put_total,  &s->delivered_total,
				&s->retried_total, &s->dead_total, &s->dropped_total};

	for (size_t i = 0; i < sizeof to / sizeof *to; i++)
		*to[i] = (uint64_t)wr_queue_redis_number(reply, i + 1);
	s->commits_total = redis->commits;
}

static void read_recount_reply(struct wr_queue_redis *redis, struct wr_queue_job *job,
			       const redisReply *reply)
{
	(void)job;
	wr_queue_redis_report_lines(redis, reply, 2);
}

/* ---- both, by verb ---- */

static const struct {
	void (*write)(struct wr_queue_redis *redis, struct wr_queue_job *job);
	void (*read)(struct wr_queue_redis *redis, struct wr_queue_job *job,
		     const redisReply *reply);
} verbs[] = {
	[WR_QUEUE_PUT] = {write_put_call, read_put_reply},
	[WR_QUEUE_TAKE] = {write_take_call, read_take_reply},
	[WR_QUEUE_SETTLE] = {write_settle_call, read_settle_reply},
	[WR_QUEUE_TICKET] = {write_ticket_call, read_ticket_reply},
	[WR_QUEUE_LIST] = {write_page_call, read_page_reply},
	[WR_QUEUE_SHOW] = {write_page_call, read_page_reply},
	[WR_QUEUE_RETRY] = {write_page_call, read_page_reply},
	[WR_QUEUE_DROP] = {write_page_call, read_page_reply},
	[WR_QUEUE_STATS] = {write_stats_call, read_stats_reply},
	[WR_QUEUE_RECOUNT] = {write_recount_call, read_recount_reply},
};

bool wr_queue_redis_write_call(struct wr_queue_redis *redis, struct wr_queue_job *job)
{
	wr_assert(job->verb < sizeof verbs / sizeof *verbs && verbs[job->verb].write);
	verbs[job->verb].write(redis, job);
	return job->reason == WR_QUEUE_OK && wr_command_end(&redis->link.out);
}

void wr_queue_redis_read_answer(struct wr_queue_redis *redis, struct wr_queue_job *job,
				const redisReply *reply)
{
	wr_assert(job->verb < sizeof verbs / sizeof *verbs && verbs[job->verb].read);
	if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0) {
		verbs[job->verb].read(redis, job, reply);
		return;
	}
	job->reason = WR_QUEUE_FAILED;
	if (reply->type != REDIS_REPLY_ERROR)
		return;
	job->reason = wr_queue_redis_error_reason(reply);
	/* The error is logged, because the text for WR_QUEUE_FAILED refers clients to the log. */
	if (redis->logged_us && redis->now.mono_us - redis->logged_us < REMIND_US)
		return;
	redis->logged_us = redis->now.mono_us | 1;
	wr_queue_backend_log(&redis->backend, WR_QUEUE_ERROR, "the queue's Redis replied: %.*s",
			     (int)(reply->len < 300 ? reply->len : 300), reply->str);
}
