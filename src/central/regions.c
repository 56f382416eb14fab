/* Pushes the units admitted in this region into the Redis of the other regions. Each other region
 * has a struct wr_central of its own, which has no other task. Called by exchange.c, after each
 * exchange with the Redis of this region. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

/* A push of one counter to one region. Behind the array `entries`, the same allocation contains the
 * names and states to which the entries point. */
struct wr_central_push {
	int slot;
	unsigned peer;
	uint64_t owner, incarnation;
	uint64_t life_us;
	uint64_t sent_ns; /* when the call was written, monotonic */
	bool relayed;     /* the entries after the first one are a page of other nodes' states */
	bool more;        /* another page follows */
	uint8_t id_len;
	char id[WR_EXCHANGE_ID];
	uint32_t count;
	struct wr_redis_exchange_entry entries[];
};

void wr_central_add_region(struct wr_central *central, struct wr_central *peer)
{
	struct wr_central_exchanges *x = central->exchanges;

	wr_assert(central->magic == WR_CENTRAL_MAGIC && peer->magic == WR_CENTRAL_MAGIC);
	if (!x || x->peer_count == WR_EXCHANGE_PEERS)
		return;
	peer->home = central;
	peer->region = x->peer_count;
	wr_central_region_tag(peer->target, x->tags[x->peer_count]);
	x->peers[x->peer_count++] = peer;
}

/* The host should free the struct wr_central of each other region before `home`, the struct
 * wr_central of this node's own region. If `home` is freed first, calls to the other regions can
 * end after that and must not use `home`. So the pointers to `home` are removed. */
void wr_central_regions_unlink(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	if (central->home && central->home->exchanges)
		central->home->exchanges->peers[central->region] = NULL;
	central->home = NULL;
	for (uint32_t i = 0; x && i < x->peer_count; i++)
		if (x->peers[i])
			x->peers[i]->home = NULL;
}

bool wr_central_region_is_up(const struct wr_central *peer)
{
	wr_assert_magic(peer, WR_CENTRAL_MAGIC);
	for (uint32_t i = 0; i < peer->shard_count; i++)
		if (wr_central_shard_answers(peer->shards[i]))
			return true;
	return false;
}

uint32_t wr_central_regions_up(const struct wr_central *central)
{
	const struct wr_central_exchanges *x = central->exchanges;
	uint32_t up = 0;

	wr_assert(x && x->peer_count <= WR_EXCHANGE_PEERS);
	for (uint32_t i = 0; i < x->peer_count; i++)
		if (x->peers[i] && wr_central_region_is_up(x->peers[i]))
			up |= 1u << i;
	return up;
}

uint32_t wr_central_regions_in_flight(const struct wr_central *central)
{
	const struct wr_central_exchanges *x = central->exchanges;
	uint32_t busy = 0;

	wr_assert(x && x->peer_count <= WR_EXCHANGE_PEERS);
	for (uint32_t i = 0; i < x->peer_count; i++)
		if (x->peers[i])
			busy += x->peers[i]->pushes;
	return busy;
}

/* Sets the numbers of regions in *info, and adds the push counters of all regions to
 * info->counts. */
void wr_central_regions_info(const struct wr_central *central, struct wr_central_info *info)
{
	const struct wr_central_exchanges *x = central->exchanges;

	wr_assert_magic(central, WR_CENTRAL_MAGIC);
	info->regions = x ? x->peer_count : 0;
	for (uint32_t i = 0; i < info->regions; i++) {
		const struct wr_central *peer = x->peers[i];
		struct wr_central_counts sum;

		if (!peer)
			continue;
		info->regions_up += wr_central_region_is_up(peer);
		sum = peer->counts;
		for (uint32_t k = 0; k < peer->shard_count; k++)
			wr_central_counts_add(&sum, &peer->shards[k]->counts);
		info->counts.pushes += sum.pushes;
		info->counts.pushes_failed += sum.pushes_failed;
	}
}

/* ---- the PUSH call ---- */

static enum wr_call_written write_push(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_central_push *push = call->job;

	wr_call_write_script(conn, call, WR_SCRIPT_PUSH, 2 + wr_script_push_argc(push->count));
	wr_command_number(&conn->out, 1);
	wr_call_write_key(conn, call, "e:", push->id, push->id_len);
	wr_script_push_args(push->entries, push->count, push->life_us, &conn->out);
	if (!wr_command_end(&conn->out))
		return WR_CALL_NO_ROOM;
	conn->shard->counts.calls++;
	push->sent_ns = conn->central->mono_ns;
	return WR_CALL_WRITTEN;
}

/* Returns the struct wr_central_exchange_mark of the push's table slot. Returns NULL if the table
 * has been replaced or `home` was freed. */
static struct wr_central_exchange_mark *mark_of(const struct wr_central *home,
						const struct wr_central_push *push)
{
	const struct wr_central_exchanges *x = home ? home->exchanges : NULL;

	if (!x || !home->table || push->owner != home->owner || x->marks_owner != push->owner)
		return NULL;
	return &x->marks[push->slot];
}

/* Called when a push has arrived. If it contained only the state of this node, and this state is
 * still the newest, no push to the other region is due any more. If it contained a relayed page, a
 * push stays due until the Redis of this region knows that all data has arrived. */
static void note_arrival(const struct wr_central *home, struct wr_central_exchange_mark *mark,
			 const struct wr_central_push *push)
{
	bool again = mark->again >> push->peer & 1;

	home->exchanges->resend |= again;
	if (push->relayed)
		wr_central_relay_advance(mark, push->entries[push->count - 1].holder, push->more);
	else if (!again)
		wr_store_exchange_paid(home->table, push->slot, push->owner, push->incarnation,
				       push->peer);
}

/* Called when a push has failed. The next round notifies the Redis of this region that the other
 * region may lack data. */
static void note_loss(const struct wr_central *home, struct wr_central_exchange_mark *mark,
		      const struct wr_central_push *push)
{
	if (push->relayed)
		wr_central_relay_drop(home->exchanges, mark);
	mark->lacking |= (uint8_t)(1u << push->peer);
	home->exchanges->resend = true;
	wr_store_exchange_failed(home->table, push->slot, push->owner);
}

static void finish_push(struct wr_central *peer, struct wr_call *call, bool delivered)
{
	struct wr_central_push *push = call->job;
	struct wr_central_exchange_mark *mark = mark_of(peer->home, push);
	uint8_t bit = (uint8_t)(1u << push->peer);

	if (mark) {
		if (delivered)
			note_arrival(peer->home, mark, push);
		else
			note_loss(peer->home, mark, push);
		mark->pushing &= (uint8_t)~bit;
		mark->again &= (uint8_t)~bit;
	}
	peer->pushes--;
	free(push);
	call->job = NULL;
	wr_call_free(peer, call);
}

static void read_push(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *peer = conn->central;
	const struct wr_central_push *push = call->job;
	struct wr_central_exchanges *x = peer->home ? peer->home->exchanges : NULL;
	uint64_t took_ns = peer->mono_ns - push->sent_ns;

	(void)reply;
	wr_central_shard_on_success(conn->shard);
	conn->shard->counts.pushes++;
	if (x && took_ns > x->delay_ns)
		x->delay_ns = took_ns;
	finish_push(peer, call, true);
}

static void on_push_failed(struct wr_central *peer, struct wr_call *call)
{
	wr_call_counts(peer, call)->pushes_failed++;
	finish_push(peer, call, false);
}

const struct wr_call_ops wr_call_push_ops = {.write = write_push,
					     .on_reply = read_push,
					     .on_failure = on_push_failed,
					     .keyed = true,
					     .feeds_breaker = true,
					     .script = WR_SCRIPT_PUSH};

/* ---- pushing ---- */

static size_t text_bytes(const struct wr_redis_exchange_entry *entries, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += entries[i].holder.len + entries[i].value.len;
	return bytes;
}

static struct weir_str copy_entry_text(char **at, struct weir_str text)
{
	struct weir_str copy = {*at, text.len};

	memcpy(*at, text.ptr, text.len);
	*at += text.len;
	return copy;
}

/* Makes a push. Its first entry is this node's state. If `page` is not NULL, the entries of the
 * page follow. Returns NULL if there is no memory. */
static struct wr_central_push *make_push(const struct wr_central_exchange_job *job, unsigned peer,
					 const struct wr_redis_exchange_entry *own,
					 const struct wr_redis_exchange_page *page)
{
	size_t others = page ? page->count : 0;
	struct wr_central_push *push =
		malloc(sizeof *push + (1 + others) * sizeof *own + text_bytes(own, 1) +
		       (page ? text_bytes(page->entries, others) : 0));
	char *at;

	if (!push)
		return NULL;
	*push = (struct wr_central_push){.slot = job->slot,
					 .peer = peer,
					 .owner = job->owner,
					 .incarnation = job->incarnation,
					 .life_us = job->life_us,
					 .relayed = page != NULL,
					 .more = page && page->more,
					 .id_len = job->id_len,
					 .count = (uint32_t)(1 + others)};
	memcpy(push->id, job->id, job->id_len);
	at = (char *)(push->entries + push->count);
	for (size_t i = 0; i < push->count; i++) {
		const struct wr_redis_exchange_entry *entry = i ? &page->entries[i - 1] : own;

		push->entries[i].holder = copy_entry_text(&at, entry->holder);
		push->entries[i].value = copy_entry_text(&at, entry->value);
	}
	return push;
}

/* Pushes the counter to region i. Only one push per counter and region is in flight. Changes during
 * a push are sent together afterwards. Returns false if nothing was sent. */
static bool push_counter(struct wr_central *central, unsigned i,
			 const struct wr_central_exchange_job *job,
			 const struct wr_redis_exchange_entry *own,
			 const struct wr_redis_exchange_page *page)
{
	struct wr_central_exchange_mark *mark = &central->exchanges->marks[job->slot];
	struct wr_central *peer = central->exchanges->peers[i];
	uint8_t bit = (uint8_t)(1u << i);
	struct wr_central_push *push;
	struct wr_call *call;

	if (mark->pushing & bit) {
		mark->again |= bit;
		return false;
	}
	if (!peer || peer->pushes >= WR_PUSHES_MAX || !wr_central_region_is_up(peer))
		return false;
	push = make_push(job, i, own, page);
	call = push ? wr_call_new(peer, WR_CALL_PUSH) : NULL;
	if (!call) {
		free(push);
		return false;
	}
	mark->pushing |= bit;
	peer->pushes++;
	call->job = push;
	memcpy(call->key, job->key, sizeof call->key);
	wr_central_enter(peer, central->now_ns, central->mono_ns);
	wr_call_send(peer, call);
	wr_central_exit(peer);
	return true;
}

void wr_central_regions_push(struct wr_central *central, const struct wr_central_exchange_job *job,
			     const struct wr_redis_exchange_page *page)
{
	struct wr_central_exchanges *x = central->exchanges;
	char holder[WR_EXCHANGE_NAME], value[WR_EXCHANGE_VALUE];
	struct wr_redis_exchange_entry own = {
		.holder = {holder, wr_central_exchange_holder(central, job->incarnation, holder)},
		.value = {value, wr_redis_exchange_value(&job->state, value)}};
	uint32_t all = (1u << x->peer_count) - 1, due = job->used ? all : job->due & all;
	int relayed;

	wr_assert(x->peer_count <= WR_EXCHANGE_PEERS);
	if (x->peer_count == 0)
		return;
	relayed = wr_central_relay_on_reply(central, job, page);
	if (relayed >= 0)
		due |= 1u << relayed;
	wr_store_exchange_owe(central->table, job->slot, central->owner, due);
	for (unsigned i = 0; i < x->peer_count; i++) {
		bool is_relayed = relayed == (int)i;

		if (due >> i & 1 &&
		    !push_counter(central, i, job, &own, is_relayed ? page : NULL) && is_relayed)
			wr_central_relay_drop(x, &x->marks[job->slot]);
	}
}

void wr_central_regions_give_up(struct wr_central *central)
{
	struct wr_central_exchanges *x = central->exchanges;

	for (uint32_t i = 0; x->marks_owner == central->owner && i < x->mark_count; i++) {
		if (!x->marks[i].pushing)
			continue;
		x->marks[i].lacking |= x->marks[i].pushing;
		wr_store_exchange_failed(central->table, (int)i, central->owner);
	}
}
