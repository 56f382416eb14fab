/* Commands that wait for a decision, for the central store, for the queue of deferred requests, or
 * for the settler of reservations. Here, the source of a command is the one of these four that
 * answers it.
 *
 *   host->decider->begin(host, domain, &wait);     // or host->central->begin, host->queue->begin
 *   wr_resp_wait_init(wait, session, source, &kind);
 *   host->decider->decide(host, wait, now_ns);     // calls wr_resp_decided, now or later
 *   wr_resp_wait_reply(wait, out);                 // writes the reply, or lets the command wait
 *
 * A command that waits is appended to the list of its session. Later commands run in the meantime.
 * Their replies are stored in wait->behind, so that replies are sent in the order of the commands.
 * serve/decide makes the decisions; this layer has no socket and no clock. CL.THROTTLE, WEIR.ASK
 * and WEIR.DEFER do not decide a struct weir_ask, so they use the central store or the queue
 * directly. */
#ifndef WR_WIRE_RESP_WAIT_H
#define WR_WIRE_RESP_WAIT_H

#include <weir/control.h>

#include "limiter/reservation.h"
#include "wire/resp/session.h"

#define WR_RESP_WAITS_MAX 256u /* maximum number of waiting commands of one session */

/* Makes the decisions of WEIR.CHECK, WEIR.PEEK, WEIR.RESET and WEIR.RESERVE. */
struct wr_resp_decider {
	/* Allocates *wait. All its fields are zero except `ask`, which is an ask for `domain`; the
	 * caller adds the descriptors. Returns 0. On failure returns a WEIR_E code and allocates
	 * nothing. */
	int (*begin)(struct wr_resp_host *host, struct weir_str domain, struct wr_resp_wait **wait);
	/* Decides wait->ask, in the central store if a rule requires that. Calls wr_resp_decided
	 * once, possibly before `decide` returns. */
	void (*decide)(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns);
	/* Called if the connection ends before the reply is written. Gives back the units that the
	 * ask has taken. wr_resp_decided is not called afterwards. */
	void (*cancel)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Frees the struct wr_resp_wait and its ask. */
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Resets counters as weir_control_reset does, but on all nodes of the fleet. */
	int (*reset)(struct wr_resp_host *host, const struct weir_target *target, uint64_t now_ns,
		     struct weir_error *error);
	/* Makes the ask a reservation. Called before descriptors are added. Returns 0 or a WEIR_E
	 * code. */
	int (*reserve)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Writes the token of an admitted reservation, as wr_reservation_write does. Sets *ttl_ns
	 * to its time to live. On failure gives the units back. */
	int (*token)(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t *ttl_ns,
		     char *text);
	/* Charges the costs of the ask, which was not decided. Returns the largest number of units
	 * that were charged. */
	uint64_t (*charge)(struct wr_resp_host *host, struct wr_resp_wait *wait, uint64_t now_ns);
};

/* Settles reservations. `begin`, `end` and `leave` have the contracts of struct wr_resp_central. */
struct wr_resp_settler {
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Settles the reservation and calls wr_resp_settled once, possibly before `settle` returns.
	 * An unknown reservation is always reported before `settle` returns. */
	void (*settle)(struct wr_resp_host *host, struct wr_resp_wait *wait,
		       enum wr_settle_action action, int64_t actual, struct weir_str token);
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
};

/* The central store, for commands that write the bytes of their question themselves. */
struct wr_resp_central {
	/* Returns a zeroed struct wr_resp_wait, or NULL if there is no memory. */
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Sends a question of kind TAKE. Calls wr_resp_answered once, possibly before `ask`
	 * returns. */
	void (*ask)(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		    size_t len, uint64_t now_ns);
	/* Abandons the question: wr_resp_answered is not called afterwards, and units that the
	 * central store grants later are given back. */
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	/* Sends a message that gets no answer. The message reports units that were given back, or
	 * units that were admitted without asking the central store. */
	void (*send)(struct wr_resp_host *host, const void *message, size_t len, uint64_t now_ns);
	/* Returns the WEIR_SECRET_BYTES of the fleet's secret, or NULL if Redis has not sent the
	 * secret. */
	const uint8_t *(*secret)(struct wr_resp_host *host);
};

struct wr_wire_defer_request;

/* The result of WEIR.DEFER or WEIR.TICKET, passed to wr_resp_answered as `answer`. */
struct wr_wire_defer_answer {
	/* Name and text of an enum wr_queue_reason, as strings, because this layer does not include
	 * the headers of `queue`. Both are NULL on success. */
	const char *reason, *sentence;
	char ticket[33];
	uint64_t position, expected_ns;
	struct weir_str json; /* state of a ticket; empty: there is no such ticket */
};

/* The queue of deferred requests. `begin`, `end` and `leave` have the contracts of struct
 * wr_resp_central. Each call of `defer` or `ticket` leads to one call of wr_resp_answered, possibly
 * before `defer` or `ticket` returns. */
struct wr_resp_queue {
	struct wr_resp_wait *(*begin)(struct wr_resp_host *host);
	void (*end)(struct wr_resp_host *host, struct wr_resp_wait *wait);
	void (*defer)(struct wr_resp_host *host, struct wr_resp_wait *wait,
		      const struct wr_wire_defer_request *request, uint64_t now_ns);
	void (*ticket)(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str ticket,
		       uint64_t now_ns);
	void (*leave)(struct wr_resp_host *host, struct wr_resp_wait *wait);
};

enum wr_resp_source {
	WR_RESP_DECIDER,
	WR_RESP_CENTRAL,
	WR_RESP_QUEUE,
	WR_RESP_SETTLER,
};

/* The callbacks of a command that can wait. */
struct wr_resp_wait_kind {
	/* Receives the answer of the central store or the queue. If `len` is 0, the central store
	 * has not answered, and no answer will come. `receive` is NULL for commands that wait for a
	 * decision. */
	void (*receive)(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);
	/* Writes the reply. */
	void (*reply)(struct wr_resp_wait *wait, struct wr_resp_out *out);
	/* Frees the memory that the command itself allocated. May be NULL. */
	void (*end)(struct wr_resp_wait *wait);
};

struct wr_resp_wait {
	const struct wr_resp_wait_kind *kind;
	struct wr_resp_session *session;
	struct wr_resp_wait *next; /* the session's next waiting command, in order */
	struct weir_ask *ask;      /* NULL: the command does not wait for a decision */
	int verdict;               /* verdict of the decision: enum weir_verdict or a WEIR_E code */
	uint8_t source;            /* enum wr_resp_source */
	uint8_t protocol;          /* RESP version of the reply */
	bool answered;             /* the answer or the decision has arrived */
	/* Replies to later commands, which must be sent after the reply to this command. */
	struct wr_buf behind;
	union {
		struct {
			uint8_t *bytes; /* points to `few` or to allocated memory */
			size_t len;
			uint8_t few[64];
		} answer; /* for WEIR.ASK */
		struct {
			struct wr_throttle_request request;
			struct wr_throttle_answer answer;
			bool crab;
		} throttle;
		struct {
			const char *reason, *sentence;
			char ticket[33];
			uint64_t position, expected_ns;
			char *json; /* allocated with malloc */
			size_t json_len;
			bool asked; /* the command is WEIR.TICKET */
		} deferred;         /* for WEIR.DEFER and WEIR.TICKET */
		struct {
			uint64_t ttl_ns; /* 0: the default */
		} reserve;
		struct {
			const char *word;  /* the result */
			const char *error; /* the sentence of an error, or NULL */
			bool unknown;      /* there is no such reservation */
			uint64_t refunded, charged;
		} settle;
	};
};

/* Initializes a struct wr_resp_wait, which the function `begin` of the decider, of the central
 * store or of the queue has returned. `source` says which of the three. */
void wr_resp_wait_init(struct wr_resp_wait *wait, struct wr_resp_session *session,
		       enum wr_resp_source source, const struct wr_resp_wait_kind *kind);

/* Called after the command has asked the decider, the central store or the queue. If the answer has
 * already arrived, writes the reply and ends the wait. Otherwise appends *wait to the session's
 * list of waiting commands. */
void wr_resp_wait_reply(struct wr_resp_wait *wait, struct wr_resp_out *out);

/* Called by the decider, the central store or the queue when its answer has arrived.
 * wr_resp_answered and wr_resp_decided return true if the reply can be written; the caller then has
 * to call wr_resp_session_input without data. They return false if an earlier command of the
 * session still waits, or if wr_resp_session_input is running for the session and writes the reply
 * itself. */
bool wr_resp_answered(struct wr_resp_wait *wait, const void *answer, size_t len, uint64_t now_ns);
bool wr_resp_decided(struct wr_resp_wait *wait, int verdict);

/* The same for the settler, which has set wait->settle. */
bool wr_resp_settled(struct wr_resp_wait *wait);

/* ---- called by the session ---- */

/* Returns whether the session's next command must not run yet, because too many commands of the
 * session or of the whole host wait. */
bool wr_resp_waits_full(const struct wr_resp_session *session);

/* Writes replies in order, up to the first waiting command that has no answer. */
void wr_resp_waits_flush(struct wr_resp_session *session, struct wr_resp_out *out);

/* Returns the output for the reply to the next command: `out`, or `behind` if earlier commands of
 * the session wait. Replies in `behind` are sent after the replies to those commands. */
struct wr_resp_out *wr_resp_waits_open(struct wr_resp_session *session, struct wr_resp_out *out,
				       struct wr_resp_out *behind);
void wr_resp_waits_close(struct wr_resp_out *behind);

/* Called when the connection has ended: cancels and frees all waiting commands of the session. */
void wr_resp_waits_end(struct wr_resp_session *session);

#endif
