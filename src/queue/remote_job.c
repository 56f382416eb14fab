/* Jobs as calls of the script, and its answers as their results. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "queue/record.h"
#include "queue/remote.h"

#define REMIND_US 60000000u
#define WAIT_MAX_US (366 * WR_DAY_US) /* no sum of times gets beyond what Lua counts exactly */

/* ---- calls ---- */

/* EVALSHA sha 1 base verb and `args` more. */
static void begin(struct wr_remote *remote, const char *verb, size_t args)
{
	struct wr_commands *out = &remote->link.out;

	wr_command_begin(out, 5 + args);
	wr_command_text(out, "EVALSHA");
	wr_command_text(out, wr_script_lines.sha1);
	wr_command_text(out, "1");
	wr_command_text(out, remote->base);
	wr_command_text(out, verb);
}

static void number(struct wr_remote *remote, uint64_t value)
{
	wr_command_number(&remote->link.out, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void text(struct wr_remote *remote, struct weir_str value)
{
	wr_command_arg(&remote->link.out, value.ptr, value.len);
}

static void duration(struct wr_remote *remote, uint64_t us)
{
	number(remote, us < WAIT_MAX_US ? us : WAIT_MAX_US);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	while (len && bytes[len - 1] == 0)
		len--;
	return len == 0;
}

static bool call_put(struct wr_remote *remote, struct wr_queue_job *job)
{
	const struct wr_deferred *r = job->put.request;
	const struct wr_queue_opts *opts = remote->store.opts;
	size_t head_len = wr_record_size(r);
	uint8_t *head = malloc(head_len);
	uint8_t hash[WR_TICKET_HASH_BYTES];
	bool good;

	/* One that is said again keeps its ticket, by which the script knows it. */
	good = !is_zero(job->put.ticket, WR_TICKET_BYTES) || wr_ticket_make(job->put.ticket, hash);
	wr_ticket_hash(job->put.ticket, hash);
	if (!head || !good || !wr_record_write(r, hash, remote->store.seals, head)) {
		free(head);
		return false;
	}
	begin(remote, "put", 15);
	wr_command_arg(&remote->link.out, hash, sizeof hash);
	wr_command_arg(&remote->link.out, r->key, sizeof r->key);
	text(remote, r->rule);
	number(remote, r->max_tries);
	duration(remote, job->put.max_age_us);
	duration(remote, r->interval_us);
	duration(remote, job->put.wait_us);
	number(remote, head_len + r->body.len + r->rule.len + WR_RECORD_OVERHEAD);
	number(remote, r->body.len);
	wr_command_arg(&remote->link.out, head, head_len);
	text(remote, r->body);
	number(remote, job->put.max_waiting);
	number(remote, opts->max_requests);
	number(remote, opts->max_bytes);
	number(remote, opts->max_line_bytes);
	free(head);
	return true;
}

/* On a new connection the script gives back what was given and never heard of. Its number tells the
 * script which takes are of a connection before, and come too late to be heard. */
static void call_take(struct wr_remote *remote, const struct wr_queue_job *job)
{
	remote->links += remote->link.untaken;
	begin(remote, "take", 6);
	number(remote, job->take.max);
	number(remote, remote->store.opts->lease_us);
	duration(remote, remote->store.opts->keep_dead_us);
	wr_command_text(&remote->link.out, remote->owner.name);
	wr_command_number(&remote->link.out, remote->link.untaken ? (int64_t)remote->heard : -1);
	number(remote, remote->links);
	remote->link.untaken = false;
}

static void call_settle(struct wr_remote *remote, const struct wr_queue_job *job)
{
	static const char *const outcomes[] = {"delivered", "again", "dead", "release", "absent"};

	begin(remote, "settle", 9);
	number(remote, job->settle.id);
	wr_command_arg(&remote->link.out, job->settle.key, sizeof job->settle.key);
	number(remote, job->settle.fence);
	wr_command_text(&remote->link.out, outcomes[job->settle.outcome]);
	number(remote, job->settle.status);
	duration(remote, job->settle.wait_us);
	text(remote, wr_str_first(job->settle.reason, WR_DEFERRED_REASON_MAX));
	duration(remote, remote->store.opts->keep_us);
	duration(remote, remote->store.opts->keep_dead_us);
}

/* What is taken waits, for the script. */
static struct weir_str state_digits(uint8_t states, char digits[WR_DEFERRED_STATE_COUNT])
{
	size_t len = 0;

	for (unsigned i = 0; i < WR_DEFERRED_STATE_COUNT; i++)
		if (states & 1u << i)
			digits[len++] = i == WR_DEFERRED_DELIVERING ? '0' : (char)('0' + i);
	return (struct weir_str){digits, len};
}

static void call_page(struct wr_remote *remote, struct wr_queue_job *job)
{
	static const char *const verbs[] = {[WR_QUEUE_LIST] = "list",
					    [WR_QUEUE_SHOW] = "show",
					    [WR_QUEUE_RETRY] = "retry",
					    [WR_QUEUE_DROP] = "drop"};
	const struct wr_queue_filter *filter = &job->page.filter;
	const struct wr_queue_opts *opts = remote->store.opts;
	char digits[WR_DEFERRED_STATE_COUNT];

	if (job->page.max == 0 || job->page.max > WR_REMOTE_PAGE_MAX)
		job->page.max = WR_REMOTE_PAGE_MAX;
	begin(remote, verbs[job->verb], 10);
	text(remote, filter->rule);
	wr_command_arg(&remote->link.out, filter->key, filter->key ? WR_LINE_KEY_BYTES : 0);
	text(remote, state_digits(filter->states, digits));
	number(remote, filter->id);
	number(remote, job->page.after);
	number(remote, job->page.max);
	duration(remote, opts->keep_us);
	number(remote, opts->max_requests);
	number(remote, opts->max_bytes);
	number(remote, opts->max_line_bytes);
}

static void call_ticket(struct wr_remote *remote, const struct wr_queue_job *job)
{
	uint8_t hash[WR_TICKET_HASH_BYTES];

	wr_ticket_hash(job->ticket.ticket, hash);
	begin(remote, "ticket", 1);
	wr_command_arg(&remote->link.out, hash, sizeof hash);
}

bool wr_remote_call(struct wr_remote *remote, struct wr_queue_job *job)
{
	switch (job->verb) {
	case WR_QUEUE_PUT:
		if (!call_put(remote, job))
			return false;
		break;
	case WR_QUEUE_TAKE:
		call_take(remote, job);
		break;
	case WR_QUEUE_SETTLE:
		call_settle(remote, job);
		break;
	case WR_QUEUE_TICKET:
		call_ticket(remote, job);
		break;
	case WR_QUEUE_LIST:
	case WR_QUEUE_SHOW:
	case WR_QUEUE_RETRY:
	case WR_QUEUE_DROP:
		call_page(remote, job);
		break;
	case WR_QUEUE_STATS:
		begin(remote, "stats", 0);
		break;
	case WR_QUEUE_RECOUNT:
		begin(remote, "poll", 1);
		wr_command_number(&remote->link.out, -1);
		break;
	}
	return wr_command_end(&remote->link.out);
}

/* ---- answers ---- */

static void hear_put(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	job->reason = wr_remote_reason(wr_remote_text(reply, 1));
	if (job->reason != WR_QUEUE_OK)
		return;
	job->put.id = (uint64_t)wr_remote_number(reply, 2);
	job->put.position = (uint64_t)wr_remote_number(reply, 3);
	wr_store_tell(&remote->store, job->put.request->key, (uint64_t)wr_remote_number(reply, 4));
}

static void hear_take(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	struct wr_deferred **tail = &job->take.first;
	uint64_t now_us = (uint64_t)wr_remote_number(reply, 0);
	int64_t next_us = wr_remote_number(reply, 2);
	size_t at = wr_remote_tell(remote, reply, 3) + 1;

	if (wr_remote_number(reply, 1) < 0) {
		/* A process before had our name: we count on from its connections. */
		remote->links = (uint64_t)next_us;
		remote->link.untaken = true;
		job->take.next_us = 0;
		return;
	}
	job->take.expired = (uint32_t)wr_remote_number(reply, 1);
	job->take.next_us = next_us < 0 ? UINT64_MAX : (uint64_t)next_us;
	for (; at + 1 < reply->elements; at += 2) {
		uint64_t fence = (uint64_t)wr_remote_number(reply, at);
		struct wr_deferred *row =
			wr_remote_row(remote, reply->element[at + 1], now_us, true);

		remote->heard = fence > remote->heard ? fence : remote->heard;
		if (!row) {
			job->reason = WR_QUEUE_FAILED;
			continue;
		}
		row->fence = fence;
		row->state = WR_DEFERRED_DELIVERING;
		row->position = 1;
		*tail = row;
		tail = &row->next;
		job->take.count++;
	}
}

static void hear_settle(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	int64_t state = wr_remote_number(reply, 2);

	job->reason = wr_remote_reason(wr_remote_text(reply, 1));
	if (job->reason != WR_QUEUE_OK)
		return;
	job->settle.state = state >= 0 && state < WR_DEFERRED_STATE_COUNT
				    ? (enum wr_deferred_state)state
				    : WR_DEFERRED_WAITING;
	job->settle.waiting = (uint64_t)wr_remote_number(reply, 3);
	wr_store_tell(&remote->store, job->settle.key, job->settle.waiting);
}

/* Elements at, at + 1 and at + 2: position, whether it is taken, the row. */
static struct wr_deferred *hear_shown(const struct wr_remote *remote, const redisReply *reply,
				      size_t at)
{
	uint64_t now_us = (uint64_t)wr_remote_number(reply, 0);
	struct wr_deferred *row = wr_remote_row(remote, reply->element[at + 2], now_us, false);

	if (!row)
		return NULL;
	row->position = (uint64_t)wr_remote_number(reply, at);
	if (row->state == WR_DEFERRED_WAITING && wr_remote_number(reply, at + 1))
		row->state = WR_DEFERRED_DELIVERING;
	return row;
}

static void hear_ticket(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	if (reply->elements < 4) {
		job->reason = WR_QUEUE_UNKNOWN;
		return;
	}
	job->ticket.found = hear_shown(remote, reply, 1);
	if (!job->ticket.found)
		job->reason = WR_QUEUE_FAILED;
}

static void hear_page(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	uint8_t states = job->page.filter.states;
	struct wr_deferred **tail = &job->page.first;
	size_t at = wr_remote_tell(remote, reply, 6) + 1;

	job->page.last = (uint64_t)wr_remote_number(reply, 1);
	job->page.end = (uint64_t)wr_remote_number(reply, 2);
	job->page.count = (uint32_t)wr_remote_number(reply, 3);
	job->page.left = (uint32_t)wr_remote_number(reply, 4);
	for (; at + 2 < reply->elements; at += 3) {
		struct wr_deferred *row = hear_shown(remote, reply, at);

		if (!row || (states && !(states & 1u << row->state))) {
			wr_deferred_free(row);
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
		job->reason = job->page.left ? wr_remote_reason(wr_remote_text(reply, 5))
					     : WR_QUEUE_UNKNOWN;
}

static void hear_stats(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	struct wr_queue_stats *s = &job->stats;
	uint64_t *const to[] = {&s->waiting,       &s->delivering, &s->dead,
				&s->bytes,         &s->lines,      &s->tickets,
				&s->oldest_us,     &s->put_total,  &s->delivered_total,
				&s->retried_total, &s->dead_total, &s->dropped_total};

	for (size_t i = 0; i < sizeof to / sizeof *to; i++)
		*to[i] = (uint64_t)wr_remote_number(reply, i + 1);
	s->commits_total = remote->commits;
}

/* The log is what WR_QUEUE_FAILED points at; once a minute is enough. */
static void say_error(struct wr_remote *remote, const redisReply *reply)
{
	if (remote->said_us && remote->now.mono_us - remote->said_us < REMIND_US)
		return;
	remote->said_us = remote->now.mono_us | 1;
	wr_store_say(&remote->store, WR_QUEUE_ERROR, "the queue's Redis answers: %.*s",
		     (int)(reply->len < 300 ? reply->len : 300), reply->str);
}

void wr_remote_answer(struct wr_remote *remote, struct wr_queue_job *job, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR) {
		job->reason = wr_remote_fault(reply);
		say_error(remote, reply);
		return;
	}
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
		job->reason = WR_QUEUE_FAILED;
		return;
	}
	switch (job->verb) {
	case WR_QUEUE_PUT:
		hear_put(remote, job, reply);
		break;
	case WR_QUEUE_TAKE:
		hear_take(remote, job, reply);
		break;
	case WR_QUEUE_SETTLE:
		hear_settle(remote, job, reply);
		break;
	case WR_QUEUE_TICKET:
		hear_ticket(remote, job, reply);
		break;
	case WR_QUEUE_LIST:
	case WR_QUEUE_SHOW:
	case WR_QUEUE_RETRY:
	case WR_QUEUE_DROP:
		hear_page(remote, job, reply);
		break;
	case WR_QUEUE_STATS:
		hear_stats(remote, job, reply);
		break;
	case WR_QUEUE_RECOUNT:
		wr_remote_tell(remote, reply, 2);
		break;
	}
}
