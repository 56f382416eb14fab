/* A central that replaces src/central in tests. It records the questions, and answers them when the
 * test calls fake_answer() or fake_fail(). The test sets the output of its links. */
#ifndef TEST_SERVE_FAKE_CENTRAL_H
#define TEST_SERVE_FAKE_CENTRAL_H

#include "central/central.h"

#define FAKE_ASKS 16

struct fake_link {
	struct wr_central_link link; /* the first field: a pointer to it is cast to this struct */
	int ups, downs, dirties;
	char why[160];
	const uint8_t *out; /* output that is not sent so far */
	size_t out_len;
	size_t in_len;
	uint8_t in[4096];     /* the first bytes that were received */
	bool closes_on_input; /* close the link at the next input */
};

struct wr_central {
	struct wr_central_host host;
	void *context;
	struct wr_central_opts opts;
	struct wr_central_ask *asked[FAKE_ASKS]; /* the questions; NULL: answered or cancelled */
	struct wr_question_head heads[FAKE_ASKS];
	int count; /* number of questions so far */
	int left, ticks, forgotten, drained;
	uint32_t leases;                 /* leases that are not returned so far */
	const struct fake_link *watched; /* a link, or NULL */
	size_t read_by_tick;             /* bytes that `watched` had received at the last tick */
	bool at_once;                    /* answer before wr_central_take() returns, with `flags` */
	uint32_t flags;
	int told[8]; /* number of messages without an answer, by their kind */
	uint8_t published[WR_CENTRAL_MESSAGE_MAX];
	size_t published_len;
	int published_count;
};

/* The central that was created last; NULL: it was freed. */
extern struct wr_central *fake;

/* Answers question number i. Each item of the answer has these flags, 7 of 9 units left, and a wait
 * of delay_ns. */
void fake_answer(int i, uint32_t flags, uint64_t delay_ns);
void fake_fail(int i);

#endif
