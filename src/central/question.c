/* Reads the questions that limiter/question.h defines. They may come from a socket, so every field
 * is checked. Called by ask.c and send.c. */
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "central/inner.h"
#include "rules/rules.h"

bool wr_central_question_open(struct wr_central_question *reader, const void *bytes, size_t len)
{
	struct wr_question_head head;

	if (len < sizeof head || len > WEIR_QUESTION_MAX)
		return false;
	memcpy(&head, bytes, sizeof head);
	if (head.version != WR_QUESTION_VERSION || head.bytes != len || head.count == 0 ||
	    head.count > WEIR_NEEDS_MAX)
		return false;
	*reader = (struct wr_central_question){.at = (const uint8_t *)bytes + sizeof head,
					       .end = (const uint8_t *)bytes + len,
					       .left = head.count,
					       .kind = head.kind};
	return true;
}

/* Rounds a period up to whole µs. take_of() rounds the maximum wait and the grace down. A longer
 * period, a shorter wait and a shorter grace make a limit stricter, so rounding never weakens a
 * limit. */
static uint64_t us_rounded_up(uint64_t ns)
{
	return ns / 1000 + (ns % 1000 != 0);
}

static uint8_t mode_of(uint8_t kind)
{
	switch (kind) {
	case WR_QUESTION_REPORT:
		return WR_MODE_REPORT;
	case WR_QUESTION_RESET:
		return WR_MODE_RESET;
	case WR_QUESTION_OWE:
		return WR_MODE_OWE;
	case WR_QUESTION_SETTLE:
		return WR_MODE_CLAIM;
	}
	return WR_MODE_TAKE;
}

static struct wr_take take_of(const struct wr_question_item *item, uint8_t kind)
{
	return (struct wr_take){
		.algorithm = item->algorithm,
		.mode = mode_of(kind),
		.flags = item->flags,
		.limit = item->limit,
		.burst = item->burst,
		.queue_size = item->queue_size,
		.soft_ceiling = item->soft_ceiling,
		.granted = item->granted,
		.max_debt = item->max_debt,
		.cost = item->cost,
		.period_us = us_rounded_up(item->period_ns),
		.max_wait_us = item->max_wait_ns / 1000,
		.soft_for_us = item->soft_for_ns / 1000,
		.window_before_us = item->window_before_ns / 1000,
		.window_start_us = item->window_start_ns / 1000,
		.window_end_us = item->window_end_ns / 1000,
		.window_after_us = item->window_after_ns / 1000,
		.decided_us = item->decided_us,
		.delay_us = kind == WR_QUESTION_RETURN ? item->delay_ns / 1000 : 0,
		.proves = kind == WR_QUESTION_TAKE && item->used,
		.used = kind == WR_QUESTION_RETURN ? item->used : 0,
		.given = item->given,
	};
}

/* Returns a hash of the id and the settings of a limit, without the cost. */
static uint64_t identity_of(const struct wr_question_item *item, const char *id)
{
	uint64_t numbers[] = {
		item->algorithm | (uint64_t)item->flags << 8 | (uint64_t) !!item->used << 31 |
			(uint64_t)item->group << 32,
		item->limit | (uint64_t)item->burst << 32,
		item->queue_size | (uint64_t)item->soft_ceiling << 32,
		item->granted,
		item->period_ns,
		item->max_wait_ns,
		item->soft_for_ns,
		item->window_start_ns,
		item->window_end_ns,
	};

	return XXH3_64bits_withSeed(id, item->id_len, XXH3_64bits(numbers, sizeof numbers));
}

static bool fits_kind(const struct wr_question_item *item, uint8_t kind)
{
	switch (kind) {
	case WR_QUESTION_TAKE:
		return item->cost >= 0;
	case WR_QUESTION_RETURN:
		return item->cost < 0;
	case WR_QUESTION_REPORT:
	case WR_QUESTION_OWE:
	case WR_QUESTION_SETTLE:
		return item->cost > 0;
	case WR_QUESTION_LATE:
		return item->cost > 0 && item->decided_us > 0;
	case WR_QUESTION_RESET:
		return true;
	}
	return false;
}

/* Returns the kind of an item. Items of a SETTLE that follow its marker are those of a RETURN or an
 * OWE. */
static uint8_t item_kind(const struct wr_central_question *reader,
			 const struct wr_question_item *item)
{
	if (reader->kind != WR_QUESTION_SETTLE || !reader->begun)
		return reader->kind;
	return item->cost < 0 ? WR_QUESTION_RETURN : WR_QUESTION_OWE;
}

bool wr_central_question_next(struct wr_central_question *reader, struct wr_central_part *part)
{
	struct wr_question_item item;
	size_t room = (size_t)(reader->end - reader->at);
	uint8_t kind;

	wr_assert(reader->at <= reader->end);
	if (room < sizeof item)
		return false;
	memcpy(&item, reader->at, sizeof item);
	kind = item_kind(reader, &item);
	if (item.id_len == 0 || item.id_len > WR_QUESTION_ID ||
	    item.bytes != sizeof item + item.id_len || room < item.bytes || !fits_kind(&item, kind))
		return false;
	part->take = take_of(&item, kind);
	part->key[0] = item.key[0];
	part->key[1] = item.key[1];
	part->group = item.group;
	part->leased = item.consistency == WR_LEASE && wr_redis_lease_lends(&part->take);
	if (part->leased) { /* leased units can return to the bucket, so nothing can be proved */
		part->take.proves = false;
		part->take.used = 0;
	}
	part->tag = item.tag;
	part->id_len = (uint8_t)item.id_len;
	memcpy(part->id, reader->at + sizeof item, item.id_len);
	part->identity = identity_of(&item, part->id);
	if (kind == WR_QUESTION_LATE) {
		part->taken_us = part->answer.decided_us = item.decided_us;
		part->answer.delay_ns = item.delay_ns;
	}
	reader->at += item.bytes;
	reader->left--;
	reader->begun = true;
	return wr_take_check(&part->take, NULL) == 0 && (reader->left || reader->at == reader->end);
}
