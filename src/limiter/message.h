/* Writes messages to the central store, item by item. limiter/question.h describes the format. */
#ifndef WR_LIMITER_MESSAGE_H
#define WR_LIMITER_MESSAGE_H

#include "limiter/ask.h"
#include "limiter/question.h"

struct wr_message {
	enum wr_question_kind kind;
	uint16_t count;
	uint8_t *at;
	size_t cap;
	/* Length of the whole message; if it is larger than cap, the rest was not written. */
	size_t len;
};

static inline struct wr_message wr_message(enum wr_question_kind kind, void *bytes, size_t cap)
{
	return (struct wr_message){
		.kind = kind, .at = bytes, .cap = cap, .len = sizeof(struct wr_question_head)};
}

/* Writes the id of the need. The id and the key together identify the need's counter. Returns the
 * length of the id. */
size_t wr_ask_need_id(const struct wr_ask_need *need, char id[WR_QUESTION_ID + 1]);

/* Appends an item. Sets its lengths. */
void wr_message_add_item(struct wr_message *message, struct wr_question_item *item, const char *id,
			 size_t id_len);

/* Appends the item of a need. In a SETTLE, need->message tells whether the item gives units back or
 * charges them. */
void wr_message_add(struct wr_message *message, const struct weir_ask *ask,
		    const struct wr_ask_need *need);

/* Completes the message with its struct wr_question_head. Returns the length of the message, 0 if
 * it has no items, or WEIR_EROOM. */
int wr_message_end(const struct wr_message *message);

/* Returns whether the bytes are a valid answer to a question with `asked` items. The bytes come
 * from the network, so they must be checked with this function before use. */
bool wr_answer_fits(const void *bytes, size_t len, uint16_t asked);

#endif
