/* Returns the names and the sentences of reasons. Called by all users of the queue. */
#include "queue/reason.h"

const char *wr_queue_reason_name(enum wr_queue_reason reason)
{
	static const char *const names[] = {
#define REASON_NAME(name, word, sentence) word,
		WR_QUEUE_REASONS(REASON_NAME)
#undef REASON_NAME
	};

	return reason < WR_QUEUE_REASON_COUNT ? names[reason] : "error";
}

const char *wr_queue_reason_text(enum wr_queue_reason reason)
{
	/* A switch is used instead of an array, because some of the texts consist of several string
	 * literals, and clang warns about such elements of an array. */
	switch (reason) {
#define REASON_TEXT(name, word, sentence)                                                          \
	case name:                                                                                 \
		return sentence;
		WR_QUEUE_REASONS(REASON_TEXT)
#undef REASON_TEXT
	default:
		return "?";
	}
}
