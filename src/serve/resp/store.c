#include "serve/resp/store.h"

#include <stdlib.h>
#include <string.h>

#include "serve/loop.h"
#include "serve/deliver/queue_host.h"

#define WAITS_FIRST 32u
#define WAITS_LEAST 8u
#define WAITS_MOST 1024u
#define BEST_FOR_NS 10000000000u /* then a time that was good once is forgotten */
#define SPARE_MAX 256u
#define TURN 16 /* commands of a session before it is the next one's turn */

struct wr_resp_pending {
	struct wr_resp_wait wait; /* first: a wait is one of these */
	struct wr_central_ask ask;
	struct wr_core_ref *ref; /* of the ask in `wait` */
	uint64_t asked_mono_ns;
	struct wr_resp_pending *next;
};

static struct wr_resp_loop *own_of(struct wr_resp_host *host)
{
	return (struct wr_resp_loop *)host;
}

static struct wr_resp_pending *pending_of(struct wr_resp_wait *wait)
{
	return (struct wr_resp_pending *)wait;
}

/* ---- lists of sessions ---- */

static void append(struct wr_resp_loop *own, enum wr_resp_list list, struct wr_resp_talk *talk)
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

static void take_out(struct wr_resp_loop *own, enum wr_resp_list list, struct wr_resp_talk *talk)
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

static struct wr_resp_talk *take_first(struct wr_resp_loop *own, enum wr_resp_list list)
{
	struct wr_resp_talk *talk = own->lists[list].first;

	if (talk)
		take_out(own, list, talk);
	return talk;
}

void wr_resp_forget_talk(struct wr_resp_talk *talk)
{
	struct wr_resp_loop *own = own_of(talk->session.host);

	take_out(own, WR_RESP_READY, talk);
	take_out(own, WR_RESP_LINE, talk);
	own->host.line = own->lists[WR_RESP_LINE].first != NULL;
}

/* Who has to stop because enough wait stands in line, also if commands of his own are among them:
 * he would always be the first to take their places. */
void wr_resp_note_stalled(struct wr_resp_talk *talk)
{
	struct wr_resp_host *host = talk->session.host;
	struct wr_resp_loop *own = own_of(host);

	if (!host->store || !talk->session.stopped ||
	    (host->waits < host->waits_max && !host->line))
		return;
	own->was_full = true;
	host->line = true;
	append(own, WR_RESP_LINE, talk);
}

void wr_resp_store_go_on(struct wr_resp_loop *own)
{
	struct wr_resp_host *host = &own->host;
	struct wr_resp_talk *talk;

	while ((talk = take_first(own, WR_RESP_READY)))
		wr_resp_feed(talk);
	while (host->waits < host->waits_max && (talk = take_first(own, WR_RESP_LINE))) {
		host->line = own->lists[WR_RESP_LINE].first != NULL;
		talk->session.turn = TURN;
		wr_resp_feed(talk);
		talk->session.turn = 0;
	}
}

void wr_resp_ready(struct wr_resp_session *session)
{
	append(own_of(session->host), WR_RESP_READY, (struct wr_resp_talk *)session);
}

/* ---- how many may wait ----
 *
 * Commands of pipelines wait here rather than in Redis, where a queue would bring all of them near
 * the timeout: one more is let out with each answer as long as answers are hardly later than they
 * were at best, and a quarter fewer once they are. */

static void note_best(struct wr_resp_loop *own, uint64_t took_ns, uint64_t now_ns)
{
	if (took_ns > own->best_ns && now_ns - own->best_mono_ns < BEST_FOR_NS)
		return;
	own->best_ns = took_ns;
	own->best_mono_ns = now_ns;
}

static void adapt(struct wr_resp_loop *own, uint64_t took_ns, uint64_t now_ns)
{
	uint64_t slack_ns = own->loop->redis->redis->settings->timeout_ns / 8;
	struct wr_resp_host *host = &own->host;

	note_best(own, took_ns, now_ns);
	if (took_ns <= own->best_ns + slack_ns) {
		if (own->was_full && host->waits_max < WAITS_MOST)
			host->waits_max++;
	} else if (took_ns > own->best_ns + 2 * slack_ns &&
		   now_ns - own->cut_mono_ns > took_ns) { /* once for all that were out together */
		own->cut_mono_ns = now_ns;
		own->was_full = false;
		host->waits_max -= host->waits_max / 4;
		if (host->waits_max < WAITS_LEAST)
			host->waits_max = WAITS_LEAST;
	}
}

/* ---- what sessions need of the store ---- */

static struct wr_resp_pending *take_pending(struct wr_resp_loop *own)
{
	struct wr_resp_pending *pending = own->spare;

	if (!pending)
		return malloc(sizeof *pending);
	own->spare = pending->next;
	own->spare_count--;
	return pending;
}

static void give_pending(struct wr_resp_loop *own, struct wr_resp_pending *pending)
{
	if (own->spare_count == SPARE_MAX) {
		free(pending);
		return;
	}
	pending->next = own->spare;
	own->spare = pending;
	own->spare_count++;
}

static struct wr_resp_wait *begin(struct wr_resp_host *host, bool with_ask)
{
	struct wr_resp_loop *own = own_of(host);
	struct wr_resp_pending *pending = take_pending(own);

	if (!pending)
		return NULL;
	memset(pending, 0, sizeof *pending);
	if (!with_ask)
		return &pending->wait;
	pending->wait.ask = wr_ask_memory_take(&own->loop->waiting);
	if (!pending->wait.ask) {
		give_pending(own, pending);
		return NULL;
	}
	pending->ref = wr_core_ref_take(&own->loop->refs);
	return &pending->wait;
}

static void end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	struct wr_resp_loop *own = own_of(host);
	struct wr_resp_pending *pending = pending_of(wait);

	if (pending->ref) {
		wr_ask_memory_give(&own->loop->waiting, wait->ask);
		wr_core_ref_drop(&own->loop->refs, pending->ref);
	}
	give_pending(own, pending);
}

static void on_answer(struct wr_central_ask *ask, const void *answer, size_t len)
{
	struct wr_resp_pending *pending =
		(struct wr_resp_pending *)((char *)ask - offsetof(struct wr_resp_pending, ask));
	struct wr_resp_session *session = pending->wait.session;
	struct wr_resp_loop *own = own_of(session->host);

	own->host.engine = wr_loop_engine(own->loop);
	own->host.table = wr_loop_table(own->loop);
	if (!session->inside) { /* asked for a while ago */
		uint64_t now_ns = wr_loop_mono_ns(own->loop);

		wr_redis_note_rtt(own->loop, now_ns - pending->asked_mono_ns);
		adapt(own, now_ns - pending->asked_mono_ns, now_ns);
	}
	if (wr_resp_heard(&pending->wait, answer, len, wr_loop_now_ns(own->loop)))
		wr_resp_ready(session);
}

static void take(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		 size_t len, uint64_t now_ns)
{
	struct wr_resp_pending *pending = pending_of(wait);
	struct wr_loop *loop = own_of(host)->loop;

	pending->asked_mono_ns = wr_loop_mono_ns(loop);
	pending->ask.done = on_answer;
	wr_redis_take(loop, &pending->ask, question, len, now_ns);
}

static void leave(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns)
{
	(void)now_ns;
	wr_redis_leave(own_of(host)->loop, &pending_of(wait)->ask);
}

static void tell(struct wr_resp_host *host, const void *message, size_t len, uint64_t now_ns)
{
	wr_redis_send(own_of(host)->loop, message, len, now_ns);
}

static int reset(struct wr_resp_host *host, const struct weir_target *target, uint64_t now_ns,
		 struct weir_error *error)
{
	struct wr_order order = {.verb = WR_ORDER_RESET, .target = target};

	return wr_order_run(own_of(host)->loop, &order, now_ns, error);
}

static const uint8_t *secret(struct wr_resp_host *host)
{
	return wr_redis_secret(host->engine);
}

static const struct wr_resp_store store = {begin, end, take, leave, tell, reset, secret};

/* ---- beginning and end ---- */

void wr_resp_store_begin(struct wr_resp_loop *own)
{
	for (int i = 0; i < WR_RESP_LISTS; i++)
		own->lists[i].last = &own->lists[i].first;
	own->host.waits_max = WAITS_FIRST;
	if (own->loop->redis)
		own->host.store = &store;
	if (own->loop->queue)
		own->host.queue = &wr_queue_resp;
}

void wr_resp_store_end(struct wr_resp_loop *own)
{
	while (own->spare) {
		struct wr_resp_pending *pending = own->spare;

		own->spare = pending->next;
		free(pending);
	}
}
