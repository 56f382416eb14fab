/* A stand-in for a central store: it reads the question, decides by the same arithmetic on counters
 * of its own, and answers. */
#ifndef TEST_LIMITER_STANDIN_H
#define TEST_LIMITER_STANDIN_H

#include "helper.h"

#include <stdbool.h>

#include "limiter/question.h"

#define STORE_CLOCK_US 777000000ull /* the store's time is that of the question, and this */

struct store {
	struct counter {
		uint64_t key[2];
		char id[WR_QUESTION_ID + 1];
		struct weir_state state;
	} counters[16];
	int count;
	int questions, returns, reports;
	uint32_t fail_mask; /* bit i: item i of the next question fails */
	bool all_or_none;   /* as for limits of one key: those that admit take nothing */
	struct wr_question_item items[WEIR_NEEDS_MAX]; /* of the last message */
	int item_count;
	uint8_t bytes[WEIR_QUESTION_MAX];
	uint8_t answer[WEIR_QUESTION_MAX];
	int len;
	size_t answer_len;
};

/* Fetches what the ask has to say; how long it is. */
int store_fetch(struct rig *rig, struct store *store);

/* Carries the message out and writes the answer. */
void store_serve(struct store *store, uint64_t now_ns);

/* Until there is a verdict and nothing left to tell. */
int store_finish(struct rig *rig, struct store *store, int verdict);

/* All of it: descriptors parted by ';', each of cost 1. */
int store_ask(struct rig *rig, struct store *store, const char *descriptors);

/* How many of `crowd` are admitted. */
int store_admitted(struct rig *rig, struct store *store, const char *descriptors, int crowd);

/* The store does not answer. Reports of what is admitted then are kept back. */
int store_fails(struct rig *rig, const char *descriptors);
int store_fails_admitted(struct rig *rig, const char *descriptors, int crowd);

#endif
