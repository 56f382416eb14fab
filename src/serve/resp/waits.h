/* The RESP sessions of a loop that have replies to write or wait for their turn, and the limit on
 * the number of commands that wait for the central store at once.
 *
 * WEIR.CHECK and WEIR.PEEK are decided by serve/decide/pending.h. CL.THROTTLE and WEIR.ASK send
 * their own questions to the central store. Called by resp.c, and by deliver/from_resp.c when the
 * queue has answered a command. */
#ifndef WR_SERVE_RESP_WAITS_H
#define WR_SERVE_RESP_WAITS_H

#include "base/list.h"
#include "serve/fleet/redis.h"
#include "serve/pool.h"
#include "net/stream.h"
#include "wire/resp/wait.h"

/* The state of a stream with a RESP session. */
struct wr_serve_resp_talk {
	struct wr_resp_session session;
	struct wr_stream *stream;
	struct wr_list ready_link,
		line_link; /* link the session in `ready` and `line` of the loop */
};

/* The RESP state of a loop. */
struct wr_serve_resp_loop {
	/* Has to be first: a pointer to `host` is cast to a pointer to this struct. */
	struct wr_resp_host host;
	struct wr_loop *loop;
	struct wr_list ready; /* sessions with replies to write */
	/* Sessions whose next command cannot begin, because too many commands wait. */
	struct wr_list line;
	struct wr_pool spare; /* freed tasks */
	/* Duration of the quickest recent answer, and the time at which that answer came. */
	uint64_t best_ns, best_mono_ns;
	uint64_t cut_mono_ns; /* when waits_max was last lowered */
	/* True if a session was appended to `line` after waits_max was last lowered. */
	bool was_full;
};

void wr_serve_resp_loop_init(struct wr_serve_resp_loop *own);
void wr_serve_resp_loop_free(struct wr_serve_resp_loop *own);

/* Writes replies that are due, and runs commands that can go on. Called before the loop sleeps. */
void wr_serve_resp_loop_go_on(struct wr_serve_resp_loop *own);

/* Appends the session to `line` if its next command cannot begin because too many commands wait.
 * Called after input. */
void wr_serve_resp_queue_stalled(struct wr_serve_resp_talk *talk);

/* Removes a session from all lists. Called when its connection has ended. */
void wr_serve_resp_forget_talk(struct wr_serve_resp_talk *talk);

/* Called when the session has a reply to write. wr_serve_resp_loop_go_on then runs the session. */
void wr_serve_resp_ready(struct wr_resp_session *session);

/* Continues the session without new input: writes its replies, and runs its commands that can run
 * now. Defined in resp.c. */
void wr_serve_resp_feed(struct wr_serve_resp_talk *talk);

#endif
