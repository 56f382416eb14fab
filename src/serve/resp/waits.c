/* The commands of a loop's RESP sessions that wait: for decisions of serve/decide, or for answers
 * to questions that the commands send themselves. See waits.h. */
#include "serve/resp/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/container.h"
#include "serve/decide/pending.h"
#include "serve/deliver/queue_host.h"
#include "serve/loop.h"

#define WAITS_FIRST 32u
#define WAITS_LEAST 8u
#define WAITS_MOST 1024u
#define BEST_FOR_NS 10000000000u /* how long the quickest answer counts as recent */
#define SPARE_MAX 256u
#define TURN 16 /* number of commands that a session may run before the next session in line */

/* A command that waits for a decision, or for the answer to its own question. */
struct wr_resp_task {
	/* Has to be first: a pointer to `wait` is cast to struct wr_resp_task. */
	struct wr_resp_wait wait;
	union {
		struct wr_pending decision;
		struct wr_central_ask question;
	};
	uint64_t asked_mono_ns;
	struct wr_resp_task *next; /* next task in the list of spare tasks */
};

static struct wr_resp_loop *own_of(struct wr_resp_host *host)
{
	return (struct wr_resp_loop *)host;
}

static struct wr_resp_task *task_of(struct wr_resp_wait *wait)
{
	return (struct wr_resp_task *)wait;
}

/* ---- lists of sessions ---- */

static void append_talk(struct wr_resp_loop *own, enum wr_resp_list list, struct wr_resp_talk *talk)
{
	struct wr_resp_talks *talks = &own->lists[list];
	struct wr_resp_place *place = &talk->places[list];

	if (place->back)
		return;
	place->next = NULL;
	place->back = talks->last;
	*talks->last = talk;
	talks->last = &place->next;
}

static void remove_talk(struct wr_resp_loop *own, enum wr_resp_list list, struct wr_resp_talk *talk)
{
	struct wr_resp_place *place = &talk->places[list];

	if (!place->back)
		return;
	*place->back = place->next;
	if (place->next)
		place->next->places[list].back = place->back;
	else
		own->lists[list].last = place->back;
	*place = (struct wr_resp_place){0};
}

static struct wr_resp_talk *take_first_talk(struct wr_resp_loop *own, enum wr_resp_list list)
{
	struct wr_resp_talk *talk = own->lists[list].first;

	if (talk)
		remove_talk(own, list, talk);
	return talk;
}

void wr_resp_forget_talk(struct wr_resp_talk *talk)
{
	struct wr_resp_loop *own = own_of(talk->session.host);

	remove_talk(own, WR_RESP_READY, talk);
	remove_talk(own, WR_RESP_LINE, talk);
	own->host.line = own->lists[WR_RESP_LINE].first != NULL;
}

/* A session that has to stop because too many commands wait is put in line, even if some of those
 * commands are its own. Otherwise this session would always be the first to use a free place. */
void wr_resp_note_stalled(struct wr_resp_talk *talk)
{
	struct wr_resp_host *host = talk->session.host;
	struct wr_resp_loop *own = own_of(host);

	if (!host->central || !talk->session.stopped ||
	    (host->waits < host->waits_max && !host->line))
		return;
	own->was_full = true;
	host->line = true;
	append_talk(own, WR_RESP_LINE, talk);
}

void wr_resp_loop_go_on(struct wr_resp_loop *own)
{
	struct wr_resp_host *host = &own->host;
	struct wr_resp_talk *talk;

	while ((talk = take_first_talk(own, WR_RESP_READY)))
		wr_resp_feed(talk);
	while (host->waits < host->waits_max && (talk = take_first_talk(own, WR_RESP_LINE))) {
		host->line = own->lists[WR_RESP_LINE].first != NULL;
		talk->session.turn = TURN;
		wr_resp_feed(talk);
		talk->session.turn = 0;
	}
}

void wr_resp_ready(struct wr_resp_session *session)
{
	wr_assert(session->host);
	append_talk(own_of(session->host), WR_RESP_READY, (struct wr_resp_talk *)session);
}

/* ---- how many commands may wait ----
 *
 * Commands of a pipeline wait here and not in Redis, because a queue in Redis would bring all of
 * them near the timeout. If sessions had to wait in line, waits_max grows by one with each answer
 * that takes at most an eighth of the timeout longer than the quickest recent answer. waits_max
 * shrinks by a quarter when an answer takes longer than the quickest one by more than two eighths
 * of the timeout. */

static void adapt_waits_max(struct wr_resp_loop *own, uint64_t took_ns, uint64_t now_ns)
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
		   now_ns - own->cut_mono_ns > took_ns) { /* once for all commands in flight */
		own->cut_mono_ns = now_ns;
		own->was_full = false;
		host->waits_max -= host->waits_max / 4;
		if (host->waits_max < WAITS_LEAST)
			host->waits_max = WAITS_LEAST;
	}
}

/* ---- tasks ---- */

static struct wr_resp_task *take_task(struct wr_resp_loop *own)
{
	struct wr_resp_task *task = own->spare;

	if (task) {
		own->spare = task->next;
		own->spare_count--;
	} else {
		task = malloc(sizeof *task);
	}
	if (task)
		task->wait = (struct wr_resp_wait){0};
	return task;
}

static void give_task(struct wr_resp_loop *own, struct wr_resp_task *task)
{
	if (own->spare_count == SPARE_MAX) {
		free(task);
		return;
	}
	task->next = own->spare;
	own->spare = task;
	own->spare_count++;
}

/* Notes how long an answer took. Called when the answer has been delivered to the task's session;
 * `ready` is the result of the function that delivered it. An answer that comes while the session
 * runs did not come from Redis, so its time does not count. */
static void note_answer(struct wr_resp_task *task, bool ready)
{
	struct wr_resp_session *session = task->wait.session;
	struct wr_resp_loop *own = own_of(session->host);

	if (!session->inside) {
		uint64_t now_ns = wr_loop_mono_ns(own->loop);

		adapt_waits_max(own, now_ns - task->asked_mono_ns, now_ns);
	}
	if (ready)
		wr_resp_ready(session);
}

/* ---- decisions ---- */

static void on_decided(struct wr_pending *decision, int verdict)
{
	struct wr_resp_task *task = wr_container_of(decision, struct wr_resp_task, decision);

	note_answer(task, wr_resp_decided(&task->wait, verdict));
}

static int begin_decision(struct wr_resp_host *host, struct weir_str domain,
			  struct wr_resp_wait **wait)
{
	struct wr_resp_loop *own = own_of(host);
	struct wr_resp_task *task = take_task(own);
	int rc = task ? wr_pending_init(&task->decision, own->loop, domain) : WEIR_EMEMORY;

	if (rc < 0) {
		if (task)
			give_task(own, task);
		return rc;
	}
	task->decision.done = on_decided;
	task->decision.report_delay = true;
	task->decision.via = "resp";
	task->wait.ask = task->decision.ask;
	*wait = &task->wait;
	return 0;
}

static void decide_wait(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns)
{
	struct wr_resp_task *task = task_of(wait);

	wr_pending_decide_at(&task->decision, now_ns);
	if (!wait->heard)
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
	give_task(own_of(host), task_of(wait));
}

static int reset_counters(struct wr_resp_host *host, const struct weir_target *target,
			  uint64_t now_ns, struct weir_error *error)
{
	struct wr_order order = {.verb = WR_ORDER_RESET, .target = target};

	return wr_order_run(own_of(host)->loop, &order, now_ns, error);
}

static const struct wr_resp_decider decider = {begin_decision, decide_wait, cancel_decision,
					       end_decision, reset_counters};

/* ---- questions that commands send themselves ---- */

static struct wr_resp_wait *begin_question(struct wr_resp_host *host)
{
	struct wr_resp_task *task = take_task(own_of(host));

	if (!task)
		return NULL;
	task->question = (struct wr_central_ask){0};
	return &task->wait;
}

static void end_question(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	give_task(own_of(host), task_of(wait));
}

static void on_answer(struct wr_central_ask *question, const void *answer, size_t len)
{
	struct wr_resp_task *task = wr_container_of(question, struct wr_resp_task, question);
	struct wr_resp_loop *own = own_of(task->wait.session->host);

	own->host.engine = wr_loop_engine(own->loop);
	own->host.table = wr_loop_table(own->loop);
	wr_redis_note_rtt(own->loop, wr_loop_mono_ns(own->loop) - task->asked_mono_ns);
	note_answer(task, wr_resp_answered(&task->wait, answer, len, wr_loop_now_ns(own->loop)));
}

static void ask_question(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
			 size_t len, uint64_t now_ns)
{
	struct wr_resp_task *task = task_of(wait);
	struct wr_loop *loop = own_of(host)->loop;

	task->asked_mono_ns = wr_loop_mono_ns(loop);
	task->question.done = on_answer;
	wr_redis_take(loop, &task->question, question, len, now_ns);
}

static void leave_question(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	wr_redis_leave(own_of(host)->loop, &task_of(wait)->question);
}

static void send_message(struct wr_resp_host *host, const void *message, size_t len,
			 uint64_t now_ns)
{
	wr_redis_send(own_of(host)->loop, message, len, now_ns);
}

static const uint8_t *fleet_secret(struct wr_resp_host *host)
{
	return wr_redis_secret(host->engine);
}

static const struct wr_resp_central central = {begin_question, end_question, ask_question,
					       leave_question, send_message, fleet_secret};

/* ---- beginning and end ---- */

void wr_resp_loop_init(struct wr_resp_loop *own)
{
	for (int i = 0; i < WR_RESP_LISTS; i++)
		own->lists[i].last = &own->lists[i].first;
	own->host.waits_max = WAITS_FIRST;
	own->host.decider = &decider;
	if (own->loop->redis)
		own->host.central = &central;
	if (own->loop->queue)
		own->host.queue = &wr_queue_resp;
}

void wr_resp_loop_free(struct wr_resp_loop *own)
{
	while (own->spare) {
		struct wr_resp_task *task = own->spare;

		own->spare = task->next;
		free(task);
	}
}
