/* Relays all data of a counter to a region that may lack some of it. Only one node at a time relays
 * a counter to a region. The exchange script chooses this node. In the Redis hash of the counter,
 * the script stores which region lacks data and which node relays to it. Called by exchange.c and
 * regions.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/blake.h"
#include "central/inner.h"

/* After this many rounds without a call of the relaying node, another node can relay. */
#define RELAY_ROUNDS 3u
#define RELAY_EXTRA_NS (2000 * WR_MS_NS)

void wr_central_region_tag(const struct wr_redis_target *target, char tag[WR_EXCHANGE_TAG + 1])
{
	uint8_t digest[WR_BLAKE_BYTES];
	char text[WR_REDIS_TEXT];
	struct wr_blake blake;

	wr_blake_begin(&blake);
	wr_blake_feed(&blake, text, wr_redis_target_text(target, text));
	wr_blake_end(&blake, digest);
	snprintf(tag, WR_EXCHANGE_TAG + 1, "%02x%02x%02x%02x", digest[0], digest[1], digest[2],
		 digest[3]);
}

/* ---- writing the exchange call ---- */

void wr_central_relay_fill(struct wr_central *central, struct wr_central_exchange_job *job)
{
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_central_exchange_mark *mark = &x->marks[job->slot];
	uint32_t all = (1u << x->peer_count) - 1, up = wr_central_regions_up(central);

	wr_assert(job->slot >= 0 && (uint32_t)job->slot < x->mark_count);
	job->lacking = (uint8_t)((all & ~up) | mark->lacking);
	mark->lacking = 0;
	if (!mark->relay && x->relay_count < WR_RELAYS_MAX)
		job->reached = (uint8_t)(up & ~(uint32_t)mark->pushing);
	if (mark->relay && !(mark->pushing >> mark->relay->peer & 1)) {
		job->relays = true;
		job->relay = *mark->relay;
	}
}

void wr_central_relay_on_failure(struct wr_central *central,
				 const struct wr_central_exchange_job *job)
{
	struct wr_central_exchanges *x = central->exchanges;

	if (job->owner != x->marks_owner)
		return;
	x->marks[job->slot].lacking |= job->lacking;
	x->resend |= job->lacking != 0;
}

static struct weir_str tags_of(const struct wr_central_exchanges *x, uint8_t peers, char *text)
{
	struct weir_str tags = {text, 0};

	for (unsigned i = 0; i < x->peer_count; i++)
		if (peers >> i & 1) {
			memcpy(text + tags.len, x->tags[i], WR_EXCHANGE_TAG);
			tags.len += WR_EXCHANGE_TAG;
		}
	return tags;
}

void wr_central_relay_write(const struct wr_central *central,
			    const struct wr_central_exchange_job *job,
			    struct wr_central_relay_text *text, struct wr_redis_exchange_call *args)
{
	const struct wr_central_exchanges *x = central->exchanges;
	const struct wr_central_relay *relay = &job->relay;

	wr_assert(!job->relays || relay->peer < x->peer_count);
	args->lacking = tags_of(x, job->lacking, text->lacking);
	args->reached = tags_of(x, job->reached, text->reached);
	args->relay_ms = (RELAY_ROUNDS * x->sync_ns + RELAY_EXTRA_NS) / WR_MS_NS;
	if (!job->relays)
		return;
	args->relayed = (struct weir_str){x->tags[relay->peer], WR_EXCHANGE_TAG};
	args->relayed_us = relay->since_us;
	if (!relay->complete)
		args->last = (struct weir_str){relay->last, relay->last_len};
}

/* ---- reading its reply ---- */

void wr_central_relay_drop(struct wr_central_exchanges *x, struct wr_central_exchange_mark *mark)
{
	wr_assert(!mark->relay || x->relay_count > 0);
	if (!mark->relay)
		return;
	free(mark->relay);
	mark->relay = NULL;
	x->relay_count--;
}

static int region_of_tag(const struct wr_central_exchanges *x, struct weir_str tag)
{
	for (unsigned i = 0; i < x->peer_count; i++)
		if (tag.len == WR_EXCHANGE_TAG && memcmp(tag.ptr, x->tags[i], tag.len) == 0)
			return (int)i;
	return -1;
}

int wr_central_relay_on_reply(struct wr_central *central, const struct wr_central_exchange_job *job,
			      const struct wr_redis_exchange_page *page)
{
	struct wr_central_exchanges *x = central->exchanges;
	struct wr_central_exchange_mark *mark = &x->marks[job->slot];
	int peer = region_of_tag(x, page->region);

	wr_assert(job->slot >= 0 && (uint32_t)job->slot < x->mark_count);
	if (job->relays)
		wr_central_relay_drop(x, mark);
	if (peer < 0 || mark->relay)
		return -1;
	mark->relay = calloc(1, sizeof *mark->relay);
	if (!mark->relay)
		return -1;
	mark->relay->peer = (unsigned)peer;
	mark->relay->since_us = page->since_us;
	x->relay_count++;
	return peer;
}

void wr_central_relay_advance(struct wr_central_exchange_mark *mark, struct weir_str last,
			      bool more)
{
	struct wr_central_relay *relay = mark->relay;

	wr_assert(relay);
	relay->complete = !more;
	relay->last_len = (uint8_t)last.len;
	memcpy(relay->last, last.ptr, last.len);
}
