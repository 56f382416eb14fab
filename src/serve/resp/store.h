/* RESP sessions of a loop and the central store: who waits for it, whose answers are there, and how
 * many may wait at once. */
#ifndef WR_SERVE_RESP_STORE_H
#define WR_SERVE_RESP_STORE_H

#include "serve/fleet/redis.h"
#include "net/stream.h"
#include "wire/resp/wait.h"

struct wr_resp_pending;

enum wr_resp_list {
	WR_RESP_READY, /* with answers to say */
	WR_RESP_LINE,  /* whose commands have to wait until fewer wait for the store */
	WR_RESP_LISTS,
};

/* A stream's state. */
struct wr_resp_talk {
	struct wr_resp_session session;
	struct wr_stream *stream;
	struct wr_resp_place {
		struct wr_resp_talk *next, **back; /* back is NULL: not in it */
	} places[WR_RESP_LISTS];
};

struct wr_resp_talks {
	struct wr_resp_talk *first, **last; /* where the next one goes */
};

/* What a loop has. */
struct wr_resp_loop {
	struct wr_resp_host host; /* first: a host is one of these */
	struct wr_loop *loop;
	struct wr_resp_talks lists[WR_RESP_LISTS];
	struct wr_resp_pending *spare;
	size_t spare_count;
	uint64_t best_ns, best_mono_ns; /* how soon an answer came of late, and when */
	uint64_t cut_mono_ns;           /* when fewer were let wait, last */
	bool was_full;                  /* since then */
};

void wr_resp_store_begin(struct wr_resp_loop *own);
void wr_resp_store_end(struct wr_resp_loop *own);
void wr_resp_store_go_on(struct wr_resp_loop *own);

/* After input: whether it has to wait for others to be answered. */
void wr_resp_note_stalled(struct wr_resp_talk *talk);
void wr_resp_forget_talk(struct wr_resp_talk *talk);

/* It has something to say, or can go on: before the loop sleeps, it will. */
void wr_resp_ready(struct wr_resp_session *session);

/* resp.c: input without data. */
void wr_resp_feed(struct wr_resp_talk *talk);

#endif
