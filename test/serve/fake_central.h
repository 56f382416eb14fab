/* A central in place of src/central: it notes what it is asked, and answers when the test says so.
 * Its links carry what the test wants. */
#ifndef TEST_SERVE_FAKE_CENTRAL_H
#define TEST_SERVE_FAKE_CENTRAL_H

#include "central/central.h"

#define FAKE_ASKS 16

struct fake_link {
	struct wr_central_link link; /* first */
	int ups, downs, dirties;
	char why[160];
	const uint8_t *out; /* to be written */
	size_t out_len;
	size_t in_len;
	uint8_t in[4096];     /* the first bytes that came */
	bool closes_on_input; /* the next input closes it */
};

struct wr_central {
	struct wr_central_host host;
	void *context;
	struct wr_central_opts opts;
	struct wr_central_ask *asked[FAKE_ASKS]; /* NULL: answered or left */
	struct wr_question_head heads[FAKE_ASKS];
	int count; /* asked so far */
	int left, ticks, forgotten, drained;
	uint32_t leases;                 /* still to be returned */
	const struct fake_link *watched; /* how much it had read … */
	size_t read_by_tick;             /* … when the last tick came */
	bool at_once;                    /* answers before wr_central_take returns */
	uint32_t flags;                  /* … with these, in every verdict */
	int told[8];                     /* messages by their kind */
	uint8_t published[WR_CENTRAL_MESSAGE_MAX];
	size_t published_len;
	int published_count;
};

/* The last one made; NULL: it was freed. */
extern struct wr_central *fake;

/* Answers the i-th question: each item with these flags, 7 left of 9, a wait of delay_ns. */
void fake_answer(int i, uint32_t flags, uint64_t delay_ns);
void fake_fail(int i);

#endif
