/* Commands whose replies come later: decisions, questions to the central store, and jobs of the
 * queue of deferred requests.
 *
 *   host->decider->begin(host, domain, &wait);     // or host->central->begin, host->queue->begin
 *   wr_resp_wait_init(wait, session, source, &kind);
 *   host->decider->decide(host, wait, now_ns);     // wr_resp_decided comes at once or later
 *   wr_resp_wait_reply(wait, out);                 // writes the reply, or lets the command wait
 *
 * A command that waits is put behind those of its session that wait already. Commands behind it run
 * meanwhile; wait->behind holds their replies, so that replies go out in the order of the commands.
 * Decisions are made by serve/decide; this side has no socket and no clock. CL.THROTTLE, WEIR.ASK
 * and WEIR.DEFER are not decisions of a struct weir_ask and have sources of their own. */
#ifndef WR_WIRE_RESP_WAIT_H
#define WR_WIRE_RESP_WAIT_H

#include <weir/control.h>

#include "wire/resp/session.h"

#define WR_RESP_WAITS_MAX 256u /* of one session */

/* WEIR.CHECK, WEIR.PEEK and WEIR.RESET. */
struct wr_resp_decider {
	/* *wait is zeroed but for `ask`, an ask of `domain` without descriptors, which the caller
	 * adds. Returns 0 or a WEIR_E code; then there is no wait. */
	int (*begin)(struct wr_resp_host *host, struct weir_str domain, struct wr_resp_wait **wait);
	/* Decides wait->ask, in the central store if a rule wants that. Calls wr_resp_decided once,
	 * perhaps before it returns. */
	void (*decide)(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns);
	/* The client has left before its reply was written: what was taken is given back, and
	 * wr_resp_decided is not called any more. */
	void (*cancel)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Frees the wait and its ask. */
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* As weir_control_reset, on all nodes of the fleet. */
	int (*reset)(struct wr_resp_host *host, const struct weir_target *target, uint64_t now_ns,
		     struct weir_error *error);
};

/* The central store, for commands that bring their own question. */
struct wr_resp_central {
	/* A zeroed wait, or NULL: no memory. */
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Sends a question of kind TAKE. Calls wr_resp_answered once, perhaps before it returns. */
	void (*ask)(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		    size_t len, uint64_t now_ns);
	/* wr_resp_answered is not called any more; units that are granted later are given back. */
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Sends a message that has no answer: units given back, or admitted without the store. */
	void (*send)(struct wr_resp_host *host, const void *message, size_t len, uint64_t now_ns);
	/* The fleet's secret, WEIR_SECRET_BYTES; NULL: not known yet. */
	const uint8_t *(*secret)(struct wr_resp_host *host);
};

struct wr_defer_request;

/* The result of WEIR.DEFER or WEIR.TICKET: the `answer` of wr_resp_answered. */
struct wr_defer_answer {
	const char *reason;   /* NULL: success; otherwise a word of WR_DEFER_REASONS */
	const char *sentence; /* … and the remedy */
	char ticket[33];
	uint64_t position, expected_ns;
	struct weir_str json; /* of a ticket; empty: there is no such ticket */
};

/* The queue of deferred requests: begin, end and leave as above. `defer` and `ticket` lead to one
 * call of wr_resp_answered, perhaps before they return. */
struct wr_resp_queue {
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	void (*defer)(struct wr_resp_host *host, struct wr_resp_wait *wait,
		      const struct wr_defer_request *request, uint64_t now_ns);
	void (*ticket)(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str ticket,
		       uint64_t now_ns);
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
};

enum wr_resp_source {
	WR_RESP_DECIDER,
	WR_RESP_CENTRAL,
	WR_RESP_QUEUE,
};

/* The callbacks of a command that can wait. */
struct wr_resp_wait_kind {
	/* The answer of the central store or the queue; len 0: none came, and none will. NULL for
	 * decisions. */
	void (*heard)(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);
	/* Writes the reply. */
	void (*reply)(struct wr_resp_wait *wait, struct wr_resp_out *out);
	/* Frees memory of the command's own. May be NULL. */
	void (*end)(struct wr_resp_wait *wait);
};

struct wr_resp_wait {
	const struct wr_resp_wait_kind *kind;
	struct wr_resp_session *session;
	struct wr_resp_wait *next; /* of the session, in the order of the commands */
	struct weir_ask *ask;      /* of a decision, or NULL */
	int verdict;               /* … to reply with: enum weir_verdict, or a WEIR_E code */
	uint8_t source;            /* enum wr_resp_source */
	uint8_t protocol;          /* of the reply */
	bool heard;                /* the answer has come */
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

/* For a wait that its source has just begun. */
void wr_resp_wait_init(struct wr_resp_wait *wait, struct wr_resp_session *session,
		       enum wr_resp_source source, const struct wr_resp_wait_kind *kind);

/* After its source was asked: writes the reply if the answer is there and ends the wait, otherwise
 * puts it behind the session's others. */
void wr_resp_wait_reply(struct wr_resp_wait *wait, struct wr_resp_out *out);

/* The source's answer. Both return true if the session has a reply to write or can go on, and is
 * not doing so already: then the caller sees to a wr_resp_session_input without data. */
bool wr_resp_answered(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);
bool wr_resp_decided(struct wr_resp_wait *wait, int verdict);

/* ---- for the session ---- */

/* Whether no further command may run: too many wait, of the session or of the whole host. */
bool wr_resp_waits_full(const struct wr_resp_session *session);

/* Writes replies up to the first wait that has no answer yet. */
void wr_resp_waits_flush(struct wr_resp_session *session, struct wr_resp_out *out);

/* Where the reply to the next command goes: `out`, or `kept` if others come first. */
struct wr_resp_out *wr_resp_waits_open(struct wr_resp_session *session, struct wr_resp_out *out,
				       struct wr_resp_out *kept);
void wr_resp_waits_close(struct wr_resp_out *kept);

/* The connection has ended: cancels and frees all waits. */
void wr_resp_waits_end(struct wr_resp_session *session);

#endif
