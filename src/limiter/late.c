/* weir_question_late: handles an answer of the central store that came after
 * weir_ask_store_failed.
 *
 * The central store has counted the units in the answer, although on_store_failure has decided the
 * request. The question is rewritten in place as a message of kind LATE with these units. The
 * central store compares them with the units that the request reported, and gives back units that
 * were counted twice or not admitted. */
#include <string.h>

#include "limiter/message.h"

/* Returns whether the bytes are a complete question of kind TAKE. Copies the struct at the start of
 * the question to *head. */
static bool is_question(const uint8_t *bytes, size_t len, struct wr_question_head *head)
{
	size_t at = sizeof *head;

	if (len < sizeof *head || len > WEIR_QUESTION_MAX)
		return false;
	memcpy(head, bytes, sizeof *head);
	if (head->version != WR_QUESTION_VERSION || head->kind != WR_QUESTION_TAKE ||
	    head->bytes != len)
		return false;
	for (uint16_t i = 0; i < head->count; i++) {
		struct wr_question_item item;

		if (len - at < sizeof item)
			return false;
		memcpy(&item, bytes + at, sizeof item);
		if (item.bytes != sizeof item + item.id_len || item.bytes > len - at ||
		    item.cost < 0)
			return false;
		at += item.bytes;
	}
	return at == len;
}

int weir_question_late(void *question, size_t len, const void *answer, size_t answer_len)
{
	const uint32_t how = WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN | WR_ANSWER_FAILED;
	uint8_t *bytes = question, *from, *to;
	const uint8_t *answers = answer;
	struct wr_question_head head;
	uint16_t asked;

	if (!question || !answer)
		return WEIR_EINVAL;
	if (!is_question(bytes, len, &head) || !wr_answer_fits(answer, answer_len, head.count))
		return WEIR_EFORMAT;
	asked = head.count;
	head.count = 0;
	from = to = bytes + sizeof head;
	answers += sizeof head;
	for (uint16_t i = 0; i < asked; i++, answers += sizeof(struct wr_answer)) {
		struct wr_question_item item;
		struct wr_answer one;

		memcpy(&item, from, sizeof item);
		memcpy(&one, answers, sizeof one);
		if ((one.flags & how) == WR_ANSWER_ADMITTED && item.cost > 0) {
			item.decided_us = one.decided_us;
			item.delay_ns = one.delay_ns;
			memmove(to, from, item.bytes);
			memcpy(to, &item, sizeof item);
			to += item.bytes;
			head.count++;
		}
		from += item.bytes;
	}
	if (head.count == 0)
		return 0;
	head.kind = WR_QUESTION_LATE;
	head.bytes = (uint32_t)(to - bytes);
	memcpy(bytes, &head, sizeof head);
	return (int)head.bytes;
}
