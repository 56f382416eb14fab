/* A stand-in for the central store: it reads a question, decides with the same algorithms on its
 * own counters, and answers. */
#ifndef TEST_LIMITER_STANDIN_H
#define TEST_LIMITER_STANDIN_H

#include "helper.h"

#include <stdbool.h>

#include "limiter/question.h"

/* By how much the central store's clock is ahead of the time of the question. */
#define STORE_CLOCK_US 777000000ull

struct store {
	struct counter {
		uint64_t key[2];
		char id[WR_QUESTION_ID + 1];
		struct weir_state state;
	} counters[16];
	int count;
	int questions, returns, reports;
	uint32_t fail_mask; /* bit i: item i of the next question fails */
	/* All items belong to one key: if one item refuses, no units are taken for the others. */
	bool all_or_none;
	struct wr_question_item items[WEIR_NEEDS_MAX]; /* items of the last message */
	int item_count;
	uint8_t bytes[WEIR_QUESTION_MAX];
	uint8_t answer[WEIR_QUESTION_MAX];
	int len;
	size_t answer_len;
};

/* Fetches the next message of the ask. Returns its length. */
int store_fetch(struct rig *rig, struct store *store);

/* Carries out the message and writes the answer. */
void store_serve(struct store *store, uint64_t now_ns);

/* Exchanges messages until there is a verdict and no further message. */
int store_finish(struct rig *rig, struct store *store, int verdict);

/* Begins an ask, adds descriptors, which are separated by ';' and have cost 1, and decides. Returns
 * the verdict. */
int store_ask(struct rig *rig, struct store *store, const char *descriptors);

/* Returns how many of `crowd` requests are admitted. */
int store_admitted(struct rig *rig, struct store *store, const char *descriptors, int crowd);

/* Decides while the central store does not answer. The stand-in does not get the reports. */
int store_fails(struct rig *rig, const char *descriptors);
int store_fails_admitted(struct rig *rig, const char *descriptors, int crowd);

#endif
