/* The commands of a loop's RESP sessions that wait for a decision of serve/decide, or for the
 * answer to a question that the command itself has sent. Called by resp.c and, through the
 * callbacks of wire/resp/wait.h, by the commands. */
#include "serve/resp/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/container.h"
#include "limiter/reservation.h"
#include "serve/decide/pending.h"
#include "serve/decide/settling.h"
#include "serve/deliver/queue_host.h"
#include "serve/loop.h"

/* Initial value, minimum and maximum of host->waits_max, which is the maximum number of commands
 * that wait for the central store at once. */
#define WAITS_FIRST 32u
#define WAITS_LEAST 8u
#define WAITS_MOST 1024u
/* The time of the quickest answer is stored this long. Then the next answer replaces it. */
#define BEST_FOR_NS 10000000000u
#define SPARE_MAX 256u /* maximum number of freed tasks that are kept for reuse */
/* Number of commands of a session that can begin to wait before it is the next session's turn. */
#define TURN 16

/* A command that waits for a decision, or for the answer to its own question. */
struct wr_serve_resp_task {
	/* Has to be first: a pointer to `wait` is cast to a pointer to this struct. */
	struct wr_resp_wait wait;
	union {
		struct wr_pending decision;
		struct wr_central_ask question;
	};
	uint64_t asked_mono_ns; /* when the question was sent */
};

static struct wr_serve_resp_loop *own_of(struct wr_resp_host *host)
{
	return (struct wr_serve_resp_loop *)host;
}

static struct wr_serve_resp_task *task_of(struct wr_resp_wait *wait)
{
	return (struct wr_serve_resp_task *)wait;
}

/* ---- lists of sessions ---- */

void wr_serve_resp_forget_talk(struct wr_serve_resp_talk *talk)
{
	struct wr_serve_resp_loop *own = own_of(talk->session.host);

	wr_assert(talk->session.host);
	wr_list_remove(&talk->ready_link);
	wr_list_remove(&talk->line_link);
	own->host.line = !wr_list_is_empty(&own->line);
}

/* A session that already has waiting commands is appended to `line` too. Without that, it would run
 * again when an answer comes, and could begin its next command before sessions that have waited
 * longer. */
void wr_serve_resp_queue_stalled(struct wr_serve_resp_talk *talk)
{
	struct wr_resp_host *host = talk->session.host;
	struct wr_serve_resp_loop *own = own_of(host);

	wr_assert(host);
	if (!host->central || !talk->session.stopped ||
	    (host->waits < host->waits_max && !host->line))
		return;
	own->was_full = true;
	host->line = true;
	if (!wr_list_holds(&talk->line_link))
		wr_list_add_last(&own->line, &talk->line_link);
}

void wr_serve_resp_loop_go_on(struct wr_serve_resp_loop *own)
{
	struct wr_resp_host *host = &own->host;
	struct wr_list *link;

	wr_assert(host->waits_max > 0);
	while ((link = wr_list_pop(&own->ready)))
		wr_serve_resp_feed(wr_container_of(link, struct wr_serve_resp_talk, ready_link));
	while (host->waits < host->waits_max && (link = wr_list_pop(&own->line))) {
		struct wr_serve_resp_talk *talk =
			wr_container_of(link, struct wr_serve_resp_talk, line_link);

		host->line = !wr_list_is_empty(&own->line);
		talk->session.turn = TURN;
		wr_serve_resp_feed(talk);
		talk->session.turn = 0;
	}
}

void wr_serve_resp_ready(struct wr_resp_session *session)
{
	struct wr_serve_resp_talk *talk =
		wr_container_of(session, struct wr_serve_resp_talk, session);

	wr_assert_magic(session, WR_RESP_SESSION_MAGIC);
	if (!wr_list_holds(&talk->ready_link))
		wr_list_add_last(&own_of(session->host)->ready, &talk->ready_link);
}

/* ---- how many commands may wait ----
 *
 * Commands of a pipeline wait in this process and not in Redis: in a long queue in Redis, all
 * commands would come near the timeout. If a session had to wait in line, waits_max grows by one
 * with each answer that takes at most an eighth of the timeout longer than the quickest recent
 * answer. If an answer takes more than two eighths of the timeout longer than the quickest recent
 * answer, waits_max shrinks by a quarter. */

static void adapt_waits_max(struct wr_serve_resp_loop *own, uint64_t took_ns, uint64_t now_ns)
{
	uint64_t slack_ns = own->loop->redis->redis->settings->timeout_ns / 8;
	struct wr_resp_host *host = &own->host;

	if (took_ns <= own->best_ns || now_ns - own->best_mono_ns >= BEST_FOR_NS) {
		own->best_ns = took_ns;
		own->best_mono_ns = now_ns;
	}
	if (took_ns <= own->best_ns + slack_ns) {
		if (own->was_full && host->waits_max < WAITS_MOST)
			host->waits_max++;
	} else if (took_ns > own->best_ns + 2 * slack_ns &&
		   now_ns - own->cut_mono_ns >
			   took_ns) { /* the question was sent after waits_max was last lowered */
		own->cut_mono_ns = now_ns;
		own->was_full = false;
		host->waits_max -= host->waits_max / 4;
		if (host->waits_max < WAITS_LEAST)
			host->waits_max = WAITS_LEAST;
	}
}

/* ---- tasks ---- */

static struct wr_serve_resp_task *take_task(struct wr_serve_resp_loop *own)
{
	struct wr_serve_resp_task *task = wr_pool_take(&own->spare, sizeof *task);

	if (task)
		task->wait = (struct wr_resp_wait){0};
	return task;
}

/* Called after wr_resp_answered(), wr_resp_decided() or wr_resp_settled(); `ready` is the result of
 * that function. Adapts waits_max to the time that the answer took. An answer that comes while the
 * session runs is not from Redis, so its time does not count. If `ready` is true, makes the session
 * run soon. */
static void after_answer(const struct wr_resp_wait *wait, uint64_t asked_mono_ns, bool ready)
{
	struct wr_resp_session *session = wait->session;
	struct wr_serve_resp_loop *own = own_of(session->host);

	if (!session->inside) {
		uint64_t now_ns = wr_loop_mono_ns(own->loop);

		adapt_waits_max(own, now_ns - asked_mono_ns, now_ns);
	}
	if (ready)
		wr_serve_resp_ready(session);
}

/* ---- decisions ---- */

static void on_command_decided(struct wr_pending *decision, int verdict)
{
	struct wr_serve_resp_task *task =
		wr_container_of(decision, struct wr_serve_resp_task, decision);

	after_answer(&task->wait, task->asked_mono_ns, wr_resp_decided(&task->wait, verdict));
}

static int begin_decision(struct wr_resp_host *host, struct weir_str domain,
			  struct wr_resp_wait **wait)
{
	struct wr_serve_resp_loop *own = own_of(host);
	struct wr_serve_resp_task *task = take_task(own);
	int rc = task ? wr_pending_init(&task->decision, own->loop, domain) : WEIR_EMEMORY;

	if (rc < 0) {
		if (task)
			wr_pool_give(&own->spare, task, SPARE_MAX);
		return rc;
	}
	task->decision.done = on_command_decided;
	task->decision.report_delay = true;
	task->decision.via = "resp";
	task->wait.ask = task->decision.ask;
	*wait = &task->wait;
	return 0;
}

static void decide_wait(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns)
{
	struct wr_serve_resp_task *task = task_of(wait);

	wr_pending_decide_at(&task->decision, now_ns);
	if (!wait->answered)
		task->asked_mono_ns = wr_loop_mono_ns(own_of(host)->loop);
}

static void cancel_decision(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	wr_pending_cancel(&task_of(wait)->decision);
}

static void end_decision(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	wr_pending_end(&task_of(wait)->decision);
	wr_pool_give(&own_of(host)->spare, task_of(wait), SPARE_MAX);
}

static int reset_counters(struct wr_resp_host *host, const struct weir_target *target,
			  uint64_t now_ns, struct weir_error *error)
{
	struct wr_order order = {.verb = WR_ORDER_RESET, .target = target};

	return wr_serve_order_run(own_of(host)->loop, &order, now_ns, error);
}

static int reserve_wait(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	return wr_pending_reserve(&task_of(wait)->decision);
}

static int write_token(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t *ttl_ns,
		       char *text)
{
	(void)host;
	return wr_pending_token(&task_of(wait)->decision, ttl_ns, text);
}

static uint64_t charge_wait(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns)
{
	uint64_t charged;

	wr_ask_charge(wait->ask, now_ns);
	wr_ask_settled_units(wait->ask, &charged);
	wr_serve_redis_send_rest(own_of(host)->loop, wait->ask, now_ns);
	return charged;
}

static const struct wr_resp_decider decider = {begin_decision, decide_wait,    cancel_decision,
					       end_decision,   reset_counters, reserve_wait,
					       write_token,    charge_wait};

/* ---- settlements ---- */

/* A command that settles a reservation. */
struct wr_serve_resp_settle {
	/* Has to be first: a pointer to `wait` is cast to a pointer to this struct. */
	struct wr_resp_wait wait;
	struct wr_settling settling;
	uint64_t asked_mono_ns;
};

static struct wr_resp_wait *begin_settle(struct wr_resp_host *host)
{
	struct wr_serve_resp_settle *settle = calloc(1, sizeof *settle);

	(void)host;
	return (struct wr_resp_wait *)settle;
}

static void end_settle(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
}

static void on_command_settled(struct wr_settling *settling)
{
	struct wr_serve_resp_settle *settle =
		wr_container_of(settling, struct wr_serve_resp_settle, settling);
	struct wr_resp_wait *wait = &settle->wait;

	wait->settle.word = wr_settling_word(settling);
	wait->settle.error = settling->result == WR_SETTLED_FAILED ? WR_SETTLING_FAILED : NULL;
	wait->settle.unknown = settling->result == WR_SETTLED_UNKNOWN;
	wait->settle.refunded = settling->refunded;
	wait->settle.charged = settling->charged;
	after_answer(wait, settle->asked_mono_ns, wr_resp_settled(wait));
}

static void settle_reservation(struct wr_resp_host *host, struct wr_resp_wait *wait,
			       enum wr_settle_action action, int64_t actual, struct weir_str token)
{
	struct wr_serve_resp_settle *settle = (struct wr_serve_resp_settle *)wait;
	struct wr_loop *loop = own_of(host)->loop;

	settle->asked_mono_ns = wr_loop_mono_ns(loop);
	wr_settling_begin(&settle->settling, loop, action, actual, token, on_command_settled);
}

static void leave_settle(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	wr_settling_leave(&((struct wr_serve_resp_settle *)wait)->settling);
}

static const struct wr_resp_settler settler = {begin_settle, end_settle, settle_reservation,
					       leave_settle};

/* ---- questions that commands send themselves ---- */

static struct wr_resp_wait *begin_question(struct wr_resp_host *host)
{
	struct wr_serve_resp_task *task = take_task(own_of(host));

	if (!task)
		return NULL;
	task->question = (struct wr_central_ask){0};
	return &task->wait;
}

static void end_question(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	wr_pool_give(&own_of(host)->spare, task_of(wait), SPARE_MAX);
}

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_serve_resp_task *task =
		wr_container_of(question, struct wr_serve_resp_task, question);
	struct wr_serve_resp_loop *own = own_of(task->wait.session->host);

	own->host.engine = wr_loop_engine(own->loop);
	own->host.table = wr_loop_table(own->loop);
	wr_serve_redis_note_rtt(own->loop, wr_loop_mono_ns(own->loop) - task->asked_mono_ns);
	after_answer(&task->wait, task->asked_mono_ns,
		     wr_resp_answered(&task->wait, answer, len, wr_loop_now_ns(own->loop)));
}

static void ask_question(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
			 size_t len, uint64_t now_ns)
{
	struct wr_serve_resp_task *task = task_of(wait);
	struct wr_loop *loop = own_of(host)->loop;

	task->asked_mono_ns = wr_loop_mono_ns(loop);
	task->question.done = on_answer;
	wr_serve_redis_take(loop, &task->question, question, len, now_ns);
}

static void leave_question(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	wr_serve_redis_leave(own_of(host)->loop, &task_of(wait)->question);
}

static void send_message(struct wr_resp_host *host, const void *message, size_t len,
			 uint64_t now_ns)
{
	wr_serve_redis_send(own_of(host)->loop, message, len, now_ns);
}

static const uint8_t *fleet_secret(struct wr_resp_host *host)
{
	return wr_serve_redis_secret(host->engine);
}

static const struct wr_resp_central central = {begin_question, end_question, ask_question,
					       leave_question, send_message, fleet_secret};

/* ---- beginning and end ---- */

void wr_serve_resp_loop_init(struct wr_serve_resp_loop *own)
{
	wr_assert(own->loop);
	wr_list_init(&own->ready);
	wr_list_init(&own->line);
	own->host.waits_max = WAITS_FIRST;
	own->host.decider = &decider;
	own->host.settler = &settler;
	own->host.multi_room.max = WR_RESP_MULTI_ALL_MAX;
	if (own->loop->redis)
		own->host.central = &central;
	if (own->loop->queue)
		own->host.queue = &wr_serve_queue_resp;
}

void wr_serve_resp_loop_free(struct wr_serve_resp_loop *own)
{
	wr_assert(wr_list_is_empty(&own->ready) && wr_list_is_empty(&own->line));
	wr_pool_free(&own->spare);
}
