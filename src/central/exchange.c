/* Runs the exchange in rounds. A round sends counters from the table to Redis, and stores the sums
 * of the other nodes in the table. Called by the timer and at shutdown. */
#include "central/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

#define NO_REGION "-"
#define SOON_NS (50 * WR_MS_NS)
#define SHUTDOWN_NS (1000 * WR_MS_NS)

/* ---- start and end ---- */

bool wr_central_exchanges_start(struct wr_central *central, const struct wr_central_opts *opts)
{
	struct wr_central_exchanges *x;

	wr_assert(!central->exchanges);
	if (!opts->chief || !opts->table || !opts->sync_ns)
		return true;
	x = calloc(1, sizeof *x);
	central->exchanges = x;
	if (!x)
		return false;
	x->sync_ns = opts->sync_ns;
	x->round_ns = central->mono_ns;
	x->overshoot_ns = central->mono_ns;
	snprintf(x->region, sizeof x->region, "%s", opts->region ? opts->region : NO_REGION);
	return true;
}

static void free_marks(struct wr_central_exchanges *x)
{
	for (uint32_t i = 0; i < x->mark_count; i++)
		wr_central_relay_drop(x, &x->marks[i]);
	free(x->marks);
	x->marks = NULL;
	x->mark_count = 0;
}

void wr_central_exchanges_free(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	wr_central_regions_unlink(central);
	if (!x)
		return;
	if (central->table)
		wr_store_exchange_leave(central->table, central->owner);
	free_marks(x);
	wr_central_pool_free(&x->jobs);
	free(x);
	central->exchanges = NULL;
}

size_t wr_central_exchange_holder(const struct wr_central *central, uint64_t incarnation,
				  char name[WR_EXCHANGE_NAME])
{
	wr_assert(central->exchanges);
	return (size_t)snprintf(name, WR_EXCHANGE_NAME, "%s/%.8s.%016llx",
				central->exchanges->region, central->holder,
				(unsigned long long)incarnation);
}

/* ---- the overshoot estimate ---- */

uint32_t wr_central_exchange_overshoot_ppm(uint64_t admitted, uint32_t others, uint32_t capacity,
					   uint64_t sync_ns, uint64_t delay_ns)
{
	unsigned __int128 each = (unsigned __int128)admitted * (sync_ns + delay_ns) / sync_ns;
	unsigned __int128 ppm;

	wr_assert(sync_ns > 0);
	if (capacity == 0)
		return 0;
	if (each > capacity)
		each = capacity;
	ppm = each * others * 1000000 / capacity;
	return ppm < UINT32_MAX ? (uint32_t)ppm : UINT32_MAX;
}

static void note_overshoot(struct wr_central *central, uint32_t ppm)
{
	struct wr_central_exchanges *x = central->exchanges;
	uint64_t since_ns = central->mono_ns - x->overshoot_ns;

	if (since_ns >= WR_EXCHANGE_OVERSHOOT_NS) {
		x->overshoot_ppm[1] =
			since_ns < 2 * WR_EXCHANGE_OVERSHOOT_NS ? x->overshoot_ppm[0] : 0;
		x->overshoot_ppm[0] = 0;
		x->overshoot_ns = central->mono_ns;
	}
	if (ppm > x->overshoot_ppm[0])
		x->overshoot_ppm[0] = ppm;
}

uint32_t wr_central_exchanges_overshoot(const struct wr_central *central)
{
	const struct wr_central_exchanges *x = central->exchanges;

	if (!x)
		return 0;
	return x->overshoot_ppm[0] > x->overshoot_ppm[1] ? x->overshoot_ppm[0]
							 : x->overshoot_ppm[1];
}

/* ---- a table slot as a job ---- */

static struct wr_redis_exchange_tally tally_of(const struct wr_store_exchange_count *count)
{
	return (struct wr_redis_exchange_tally){count->plus, count->minus};
}

/* A calendar window is identified by the second in which it begins. */
static void fill_calendar(const struct wr_store_exchange_view *view,
			  struct wr_central_exchange_job *job)
{
	const struct wr_store_exchange_count *latest = &view->counts[0];
	uint64_t length_ns = view->name.window_end_ns - view->name.window_start_ns;
	uint64_t start_ns = latest->start_ns ? latest->start_ns : view->name.window_start_ns;

	job->starts_ns[0] = start_ns;
	job->starts_ns[1] = 0;
	job->state.window = start_ns / 1000000000;
	job->state.now = tally_of(latest);
	job->unit_ns = 1000000000;
	job->oldest = start_ns > length_ns ? (start_ns - length_ns) / 1000000000 : 0;
	job->life_us = length_ns / 500; /* length_ns * 2 / 1000: twice the window, in µs */
}

/* Copies the counts of two windows into the job: the window that contains the current time, and the
 * window before. If a node with a faster clock has already begun a later window, copies that window
 * and the one before it. */
static void fill_windows(const struct wr_store_exchange_view *view, uint64_t now_ns,
			 struct wr_central_exchange_job *job)
{
	uint64_t span_ns = wr_store_exchange_span_ns(&view->name);
	uint64_t window = now_ns / span_ns;

	if (view->counts[0].start_ns / span_ns > window)
		window = view->counts[0].start_ns / span_ns;
	job->state.window = window;
	for (int i = 0; i < 2; i++) {
		const struct wr_store_exchange_count *count = &view->counts[i];

		if (count->start_ns && count->start_ns / span_ns == window)
			job->state.now = tally_of(count);
		else if (count->start_ns && count->start_ns / span_ns + 1 == window)
			job->state.before = tally_of(count);
	}
	job->starts_ns[0] = window * span_ns;
	job->starts_ns[1] = window ? (window - 1) * span_ns : 0;
	job->unit_ns = span_ns;
	job->oldest = window > 2 ? window - 2 : 0;
	job->life_us = span_ns / 500;
}

static void fill_job(const struct wr_central *central, int slot,
		     const struct wr_store_exchange_view *view, struct wr_central_exchange_job *job)
{
	const struct wr_store_exchange_name *name = &view->name;
	uint32_t id_len = name->id_len < sizeof job->id ? name->id_len : sizeof job->id;

	*job = (struct wr_central_exchange_job){
		.slot = slot,
		.capacity = (name->burst ? name->burst : name->limit) + name->granted,
		.owner = central->owner,
		.incarnation = view->incarnation,
		.key = {name->fleet_key[0], name->fleet_key[1]},
		.admitted = view->admitted,
		.id_len = (uint8_t)id_len};
	memcpy(job->id, name->id, id_len);
	if (name->window_end_ns)
		fill_calendar(view, job);
	else
		fill_windows(view, central->now_ns, job);
}

/* ---- the call ---- */

static enum wr_call_written write_exchange(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_central *central = conn->central;
	struct wr_central_exchange_job *job = call->job;
	struct wr_redis_exchange_call args = {.state = job->state,
					      .oldest = job->oldest,
					      .unit_ns = job->unit_ns,
					      .life_us = job->life_us};
	char holder[WR_EXCHANGE_NAME];
	struct wr_central_relay_text text;

	args.holder.len = wr_central_exchange_holder(central, job->incarnation, holder);
	args.holder.ptr = holder;
	wr_central_relay_write(central, job, &text, &args);
	wr_call_write_script(conn, call, WR_SCRIPT_EXCHANGE, 2 + wr_script_exchange_argc());
	wr_command_number(&conn->out, 1);
	wr_call_write_key(conn, call, "e:", job->id, job->id_len);
	wr_script_exchange_args(&args, &conn->out);
	if (!wr_command_end(&conn->out))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	job->sent_ns = central->mono_ns;
	return WR_CALL_WRITTEN;
}

static void send_slots(struct wr_central *central);

/* Called when the exchange call has ended. Frees the job of the call. If the round was interrupted
 * because too many calls were in flight, continues the round as soon as few enough are in
 * flight. */
static void finish_exchange(struct wr_central *central, struct wr_call *call)
{
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_central_exchange_job *job = call->job;

	if (job->owner == x->marks_owner)
		x->marks[job->slot].in_flight = 0;
	wr_central_pool_give(&x->jobs, job);
	x->in_flight--;
	call->job = NULL;
	wr_call_free(central, call);
	if (x->walking && !central->freeing && x->in_flight < WR_EXCHANGES_MAX / 2)
		send_slots(central);
}

static void read_exchange(struct wr_central_conn *conn, struct wr_call *call,
			  const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_central_exchange_job *job = call->job;
	struct wr_redis_exchange_page page;
	struct wr_exchanged others;
	uint64_t took_ns;

	if (wr_script_exchange_reply(reply, &others, &page) < 0) {
		wr_central_shard_on_fault(conn->shard, WR_FAULT_PROTOCOL, WR_STR(""));
		wr_call_fail(central, call, WR_FAULT_PROTOCOL);
		return;
	}
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.exchanges++;
	took_ns = central->mono_ns - job->sent_ns;
	x->delay_ns = x->delay_ns ? x->delay_ns - x->delay_ns / 8 + took_ns / 8 : took_ns;
	/* The last argument of wr_central_exchange_overshoot_ppm is the time until another node
	 * knows the units of this call. It is delay_ns, the time that a call takes, plus sync_ns:
	 * the other node has possibly finished its round just before this call, and then reads the
	 * units only in its next round. */
	note_overshoot(central, wr_central_exchange_overshoot_ppm(job->admitted, others.others,
								  job->capacity, x->sync_ns,
								  x->sync_ns + x->delay_ns));
	if (job->owner == central->owner && central->table) {
		struct wr_store_exchange_totals totals = {
			.counts = {{job->starts_ns[0], others.now.plus, others.now.minus},
				   {job->starts_ns[1], others.before.plus, others.before.minus}}};

		wr_store_exchange_apply(central->table, job->slot, central->owner, job->incarnation,
					&totals, central->now_ns, central->mono_ns);
		wr_central_regions_push(central, job, &page);
	}
	finish_exchange(central, call);
}

static void on_exchange_failed(struct wr_central *central, struct wr_call *call)
{
	const struct wr_central_exchange_job *job = call->job;

	wr_call_counts(central, call)->exchanges_failed++;
	if (job->owner == central->owner && central->table) {
		wr_store_exchange_failed(central->table, job->slot, central->owner);
		wr_central_relay_on_failure(central, job);
	}
	finish_exchange(central, call);
}

const struct wr_call_ops wr_call_exchange_ops = {.write = write_exchange,
						 .on_reply = read_exchange,
						 .on_failure = on_exchange_failed,
						 .keyed = true,
						 .feeds_breaker = true,
						 .script = WR_SCRIPT_EXCHANGE};

/* ---- rounds ---- */

/* Sends the counter of one table slot. If a call of the slot is in flight or the counter's shard is
 * down, the counter is sent in the next round. */
static void send_slot(struct wr_central *central, int slot,
		      const struct wr_store_exchange_view *view)
{
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_central_exchange_mark *mark = &x->marks[slot];
	struct wr_central_exchange_job *job = NULL;
	struct wr_call *call = NULL;
	const struct wr_central_shard *shard;

	/* There are three reasons to send the counter: it was used, a failed push must be reported
	 * to Redis, or a push can be made now. A push can be made to a region that is up, if a push
	 * to it is due and none is in flight. */
	if (!view->used && !mark->lacking &&
	    !(view->peers_due & wr_central_regions_up(central) & ~(uint32_t)mark->pushing))
		return;
	shard = mark->in_flight ? NULL : wr_central_key_shard(central, view->name.fleet_key);
	if (shard && wr_central_shard_answers(shard))
		job = wr_central_pool_take(&x->jobs, sizeof *job, WR_EXCHANGES_MAX);
	if (job)
		call = wr_call_new(central, WR_CALL_EXCHANGE);
	if (!call) {
		if (job)
			wr_central_pool_give(&x->jobs, job);
		wr_store_exchange_failed(central->table, slot, central->owner);
		x->resend |= mark->in_flight;
		return;
	}
	fill_job(central, slot, view, job);
	job->used = view->used;
	job->due = (uint8_t)view->peers_due;
	wr_central_relay_fill(central, job);
	mark->in_flight = 1;
	x->in_flight++;
	call->job = job;
	memcpy(call->key, job->key, sizeof call->key);
	wr_call_send(central, call);
}

static void send_slots(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_store_exchange_view view;

	/* `walking` is false while calls are sent. Otherwise a call that fails at once would run
	 * this function again before it has returned. */
	x->walking = false;
	while (x->in_flight < WR_EXCHANGES_MAX && x->marks_owner == central->owner) {
		int slot = wr_store_exchange_next(central->table, central->owner, &x->cursor,
						  wr_central_regions_up(central), central->now_ns,
						  central->mono_ns, &view);

		if (slot < 0) {
			x->cursor = 0;
			return;
		}
		send_slot(central, slot, &view);
	}
	x->walking = true;
}

/* If the table was replaced, allocates one struct wr_central_exchange_mark for each slot of the new
 * table. Returns false if there is no memory. */
static bool resize_marks(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;
	uint32_t slots = wr_store_exchange_slots(central->table);

	if (x->marks_owner == central->owner)
		return true;
	free_marks(x);
	x->marks = calloc(slots ? slots : 1, sizeof *x->marks);
	x->mark_count = x->marks ? slots : 0;
	x->marks_owner = x->marks ? central->owner : 0;
	x->cursor = 0;
	return x->marks != NULL;
}

/* Begins a round. Returns false if no round could begin; the limiter then continues to decide with
 * the counts in the table. */
static bool begin_round(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	note_overshoot(central, 0);
	if (!central->duties.secret_known || !resize_marks(central) || x->mark_count == 0 ||
	    !wr_store_exchange_own(central->table, central->owner, x->sync_ns, central->mono_ns) ||
	    !wr_central_region_is_up(central))
		return false;
	wr_store_exchange_answered(central->table, central->owner, central->mono_ns);
	x->resend = false;
	send_slots(central);
	return true;
}

void wr_central_exchanges_tick(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	if (!x || !central->table)
		return;
	if (central->mono_ns >= x->round_ns) {
		uint64_t wait_ns =
			begin_round(central) || x->sync_ns < SOON_NS ? x->sync_ns : SOON_NS;

		x->round_ns = central->mono_ns + wait_ns;
	}
	wr_central_wake_at(central, x->round_ns);
}

uint32_t wr_central_exchanges_finish(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	if (!x || !central->table)
		return 0;
	if (x->end_ns == 0) {
		x->end_ns = central->mono_ns;
		begin_round(central);
	}
	if (!x->finished && central->mono_ns - x->end_ns >= SHUTDOWN_NS / 2) {
		x->finished = true;
		wr_central_regions_give_up(central);
		begin_round(central);
	}
	if (central->mono_ns - x->end_ns >= SHUTDOWN_NS)
		return 0;
	wr_central_wake_at(central, x->end_ns + (x->finished ? SHUTDOWN_NS : SHUTDOWN_NS / 2));
	return x->in_flight + wr_central_regions_in_flight(central) + x->resend;
}
