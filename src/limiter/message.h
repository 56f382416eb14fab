/* Writing a message to the central store, item by item. */
#ifndef WR_LIMITER_MESSAGE_H
#define WR_LIMITER_MESSAGE_H

#include "limiter/ask.h"
#include "limiter/question.h"

struct wr_message {
	enum wr_question_kind kind;
	uint16_t count;
	uint8_t *at;
	size_t cap;
	size_t len; /* what it takes, which may be more than there is room for */
};

static inline struct wr_message wr_message(enum wr_question_kind kind, void *bytes, size_t cap)
{
	return (struct wr_message){
		.kind = kind, .at = bytes, .cap = cap, .len = sizeof(struct wr_question_head)};
}

/* What names the need's counter besides its key. Returns its length. */
size_t wr_need_id(const struct wr_ask_need *need, char id[WR_QUESTION_ID + 1]);

void wr_message_add(struct wr_message *message, const struct weir_ask *ask,
		    const struct wr_ask_need *need);

/* Writes the head. Returns its length, 0 if it has no items, or WEIR_EROOM. */
int wr_message_end(const struct wr_message *message);

/* Whether the bytes are an answer to a question with so many items. Nothing is believed before
 * that. */
bool wr_answer_fits(const void *bytes, size_t len, uint16_t asked);

#endif
