/* Replaces src/central in tests: it records questions and messages, and answers a question when the
 * test calls fake_answer. The test sets the bytes that its links send. */
#ifndef TEST_SERVE_FAKE_CENTRAL_H
#define TEST_SERVE_FAKE_CENTRAL_H

#include "central/central.h"

#define FAKE_ASKS 16

struct fake_link {
	struct wr_central_link link; /* has to be the first field */
	int ups, downs, dirties;
	char why[160];
	const uint8_t *out; /* bytes that the link will send */
	size_t out_len;
	size_t in_len;
	uint8_t in[4096];     /* the first bytes that the link received */
	bool closes_on_input; /* the next input closes the link */
};

struct wr_central {
	struct wr_central_host host;
	void *context;
	struct wr_central_opts opts;
	struct wr_central_ask
		*asked[FAKE_ASKS]; /* questions in flight; NULL: answered or abandoned */
	struct wr_question_head heads[FAKE_ASKS];
	int count; /* number of questions so far */
	int left, ticks, forgotten, shut_downs;
	uint32_t leases;                 /* number of leases that were not returned */
	const struct fake_link *watched; /* read_by_tick is about this link */
	size_t read_by_tick;             /* in_len of `watched` at the last tick */
	bool at_once;    /* each question is answered before wr_central_take returns */
	uint32_t flags;  /* flags of the answers if at_once is set */
	int messages[8]; /* number of messages of each kind */
	uint8_t published[WR_CENTRAL_MESSAGE_MAX];
	size_t published_len;
	int published_count;
};

/* The central that was created last; NULL: it was freed. */
extern struct wr_central *fake;

/* Answers question number i. Each item of the answer has these flags, 7 of 9 units remaining, and a
 * delay of delay_ns. */
void fake_answer(int i, uint32_t flags, uint64_t delay_ns);
void fake_fail(int i);

#endif
