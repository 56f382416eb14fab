/* Commands of a session that wait for the central store, or for the queue of deferred requests.
 *
 *   wait = wr_resp_wait_begin(session, &wait_kind, with_ask);   // NULL: no memory
 *   wr_resp_wait_ask(wait, question, len, now_ns);              // the answer comes at once or
 * later … wr_resp_heard(wait, answer, len, now_ns);                   // by whoever speaks with the
 * store
 *
 * and the reply is written in its turn, by wr_resp_session_input. Replies to commands that came
 * after it and need not wait are kept with it.
 */
#ifndef WR_WIRE_RESP_WAIT_H
#define WR_WIRE_RESP_WAIT_H

#include <weir/control.h>

#include "wire/resp/session.h"

#define WR_RESP_WAITS_MAX 256u /* of one session */

/* What the sessions of a thread need of whoever speaks with the store. */
struct wr_resp_store {
	/* Memory for a wait, zeroed, with that of an ask (WEIR_ASK_BYTES at `ask`) if `with_ask`.
	 * NULL: there is none. What the ask was begun with, table and engine, stays until `end`. */
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host, bool with_ask);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Asks; wr_resp_heard is called once, perhaps before this returns. */
	void (*take)(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		     size_t len, uint64_t now_ns);
	/* Nobody waits any more: wr_resp_heard is not to be called. */
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns);
	/* Tells the store what is not answered: what is given back, or was admitted without it. */
	void (*tell)(struct wr_resp_host *host, const void *message, size_t len, uint64_t now_ns);
	/* An operator's reset, of all nodes; as weir_control_reset. */
	int (*reset)(struct wr_resp_host *host, const struct weir_target *target, uint64_t now_ns,
		     struct weir_error *error);
	/* The fleet's secret, WEIR_SECRET_BYTES; NULL: not known yet. */
	const uint8_t *(*secret)(struct wr_resp_host *host);
};

struct wr_defer_request;

/* What became of WEIR.DEFER or WEIR.TICKET: the `answer` of wr_resp_heard. */
struct wr_defer_answer {
	const char *reason;   /* NULL: it went well; otherwise a word of WR_DEFER_REASONS */
	const char *sentence; /* … and what to do about it */
	char ticket[33];
	uint64_t position, expected_ns;
	struct weir_str json; /* of a ticket; empty: there is no such ticket */
};

/* What they need of whoever has the queue. As above, and `heard` may be called before `defer` and
 * `ticket` return. */
struct wr_resp_queue {
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	void (*defer)(struct wr_resp_host *host, struct wr_resp_wait *wait,
		      const struct wr_defer_request *request, uint64_t now_ns);
	void (*ticket)(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str ticket,
		       uint64_t now_ns);
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
};

/* A command that can wait: WEIR.CHECK, CL.THROTTLE, WEIR.ASK … */
struct wr_resp_wait_kind {
	/* The store has spoken; len is 0: it has not, and will not. */
	void (*heard)(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);
	/* Writes the reply. */
	void (*tell)(struct wr_resp_wait *wait, struct wr_resp_out *out);
	/* Frees what is its own; `heard` and not told: the client left before. May be NULL. */
	void (*end)(struct wr_resp_wait *wait, bool told, uint64_t now_ns);
};

struct wr_resp_wait {
	const struct wr_resp_wait_kind *kind;
	struct wr_resp_session *session;
	struct wr_resp_wait *next;
	struct weir_ask *ask; /* NULL: it has none */
	uint64_t begun_ns;    /* when its command was run */
	uint8_t protocol;     /* of the reply */
	bool heard;
	bool queued; /* it waits for the queue, not for the store */
	int rc;      /* of the ask: verdict, or below 0 */
	/* Replies to commands behind it. */
	uint8_t *behind;
	uint32_t behind_len, behind_cap;
	union {
		struct {
			uint8_t *bytes; /* `few`, or allocated */
			size_t len;
			uint8_t few[64];
		} answer; /* WEIR.ASK */
		struct {
			struct wr_throttle_request request;
			struct wr_throttle_answer answer;
			bool crab;
		} throttle;
		struct {
			const char *reason, *sentence;
			char ticket[33];
			uint64_t position, expected_ns;
			char *json; /* from malloc */
			size_t json_len;
			bool asked; /* for a ticket */
		} deferred;         /* WEIR.DEFER, WEIR.TICKET */
	};
};

struct wr_resp_wait *wr_resp_wait_begin(struct wr_resp_session *session,
					const struct wr_resp_wait_kind *kind, bool with_ask);

/* One that was begun and needs not wait after all. */
void wr_resp_wait_drop(struct wr_resp_session *session, struct wr_resp_wait *wait);

/* Puts it behind the others and asks. */
void wr_resp_wait_ask(struct wr_resp_wait *wait, const void *question, size_t len, uint64_t now_ns);

/* Puts one of the queue's behind the others; it is handed over by the caller. */
void wr_resp_wait_queue(struct wr_resp_wait *wait);

/* Tells the store what an ask that was decided, or cancelled, has for it. */
void wr_resp_tell_store(struct wr_resp_host *host, struct weir_ask *ask, uint64_t now_ns);

/* The store's answer. True: the session has something to say, or can go on, and is not doing so
 * already; wr_resp_session_input without data does it. */
bool wr_resp_heard(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);

/* ---- for the session ---- */

/* Whether one more command may be run. */
bool wr_resp_waits_full(const struct wr_resp_session *session);

/* Writes replies up to the first that is still waited for. */
void wr_resp_waits_tell(struct wr_resp_session *session, uint64_t now_ns, struct wr_resp_out *out);

/* Where the reply to the next command goes: `out`, or `kept` if others come first. */
struct wr_resp_out *wr_resp_waits_open(struct wr_resp_session *session, struct wr_resp_out *out,
				       struct wr_resp_out *kept);
void wr_resp_waits_close(struct wr_resp_out *kept);

/* All of them leave. */
void wr_resp_waits_end(struct wr_resp_session *session, uint64_t now_ns);

#endif
