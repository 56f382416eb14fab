/* The RESP sessions of a loop that wait: which of them have replies to write, whose turn is next,
 * and how many commands may wait for the central store at once.
 *
 * WEIR.CHECK and WEIR.PEEK are decided by serve/decide/pending.h. CL.THROTTLE and WEIR.ASK send
 * their own questions to the central store. Called by resp.c, and by deliver/from_resp.c when the
 * queue has answered a command. */
#ifndef WR_SERVE_RESP_WAITS_H
#define WR_SERVE_RESP_WAITS_H

#include "serve/fleet/redis.h"
#include "net/stream.h"
#include "wire/resp/wait.h"

struct wr_resp_task;

enum wr_resp_list {
	WR_RESP_READY, /* sessions with replies to write */
	WR_RESP_LINE,  /* sessions whose next command has to wait until fewer wait */
	WR_RESP_LISTS,
};

/* A stream's state. */
struct wr_resp_talk {
	struct wr_resp_session session;
	struct wr_stream *stream;
	struct wr_resp_place {
		struct wr_resp_talk *next, **back; /* back is NULL: not in the list */
	} places[WR_RESP_LISTS];
};

struct wr_resp_talks {
	struct wr_resp_talk *first, **last; /* last: where the next one is linked */
};

/* What a loop has. */
struct wr_resp_loop {
	struct wr_resp_host host; /* first: a host is one of these */
	struct wr_loop *loop;
	struct wr_resp_talks lists[WR_RESP_LISTS];
	struct wr_resp_task *spare;
	size_t spare_count;
	uint64_t best_ns, best_mono_ns; /* the quickest answer of late, and when it came */
	uint64_t cut_mono_ns;           /* when waits_max was lowered last */
	bool was_full;                  /* since then */
};

void wr_resp_loop_init(struct wr_resp_loop *own);
void wr_resp_loop_free(struct wr_resp_loop *own);

/* Before the loop sleeps: writes replies that are due, and runs commands that can go on. */
void wr_resp_loop_go_on(struct wr_resp_loop *own);

/* After input: puts the session in line if its next command has to wait for others. */
void wr_resp_note_stalled(struct wr_resp_talk *talk);

/* The connection has ended: takes it out of all lists. */
void wr_resp_forget_talk(struct wr_resp_talk *talk);

/* The session has a reply to write or can go on: wr_resp_loop_go_on sees to it. */
void wr_resp_ready(struct wr_resp_session *session);

/* resp.c: input without data. */
void wr_resp_feed(struct wr_resp_talk *talk);

#endif
