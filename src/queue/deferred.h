/* A request at rest: what was refused now and is delivered later. */
#ifndef WR_QUEUE_DEFERRED_H
#define WR_QUEUE_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_TICKET_BYTES 16u /* random; whoever has them may ask what became of the request */
#define WR_TICKET_TEXT 33u  /* 32 hexadecimal digits in lower case, and a zero */
#define WR_TICKET_HASH_BYTES 32u
#define WR_LINE_KEY_BYTES 16u

/* Bounds of what is stored. A put beyond them is refused: too_large. */
#define WR_DEFERRED_NAME_MAX 255u
#define WR_DEFERRED_METHOD_MAX 32u
#define WR_DEFERRED_URI_MAX (32u << 10)
#define WR_DEFERRED_DESCRIPTORS_MAX (32u << 10)
#define WR_DEFERRED_FIELDS_MAX 128u
#define WR_DEFERRED_FIELD_BYTES_MAX (64u << 10) /* names and values together, before sealing */
#define WR_DEFERRED_BODY_MAX (16u << 20)
#define WR_DEFERRED_REASON_MAX 200u

/* X(enum, name) */
#define WR_DEFERRED_STATES(X)                                                                      \
	X(WR_DEFERRED_WAITING, "waiting")                                                          \
	X(WR_DEFERRED_DELIVERING, "delivering") /* waiting, and somebody has taken it */           \
	X(WR_DEFERRED_DELIVERED, "delivered")   /* the API answered; only the ticket is left */    \
	X(WR_DEFERRED_DEAD, "dead")             /* given up, kept whole: it can be retried */      \
	X(WR_DEFERRED_DROPPED, "dropped")       /* by an operator; only the ticket is left */

enum wr_deferred_state {
#define WR_DEFERRED_ENUM(name, text) name,
	WR_DEFERRED_STATES(WR_DEFERRED_ENUM)
#undef WR_DEFERRED_ENUM
		WR_DEFERRED_STATE_COUNT
};

const char *wr_deferred_state_name(enum wr_deferred_state state);

struct wr_field {
	struct weir_str name;
	struct weir_str value;
	bool secret; /* put: is to be sealed. Taken: was. The value is there if it could be opened
		      */
	bool locked; /* it was sealed and is not opened: listed only, or no key fits. No value */
};

/* To be put: from `key` to `body`. All else is filled in by the queue. Times are µs since 1970 by
 * the wall clock of whoever asks. */
struct wr_deferred {
	uint64_t id;                               /* order of arrival in this queue, from 1 */
	uint8_t ticket_hash[WR_TICKET_HASH_BYTES]; /* SHA-256 of the ticket */

	uint8_t key[WR_LINE_KEY_BYTES]; /* one line for each, delivered in order */
	struct weir_str rule, domain, method, uri;
	struct weir_str idempotency_key; /* "": the queue makes one. The same at every try */
	struct weir_str descriptors;     /* what weir_ask_replay wants */
	const struct wr_field *fields;
	size_t field_count;
	uint32_t max_tries;   /* at least 1 */
	uint64_t interval_us; /* how far apart the limit admits those of this key; 0: unknown */
	struct weir_str body;

	enum wr_deferred_state state;
	uint32_t tries;    /* that had no final answer */
	uint16_t status;   /* of HTTP, of the last try; 0: there was no answer */
	uint64_t position; /* in the line of its key, from 1; 0 if it does not wait */
	uint64_t body_len; /* also where the body is not read along */
	uint64_t bytes;    /* what it counts for; of a file alone */
	uint64_t fence;    /* taken: to be shown when it is settled */
	uint64_t accepted_us, due_us, done_us, expires_us; /* done: 0 until it is */
	struct weir_str reason;                            /* of the last failure, for people */

	struct wr_deferred *next; /* of a result with several */
	void *memory;             /* where all of the above is; NULL for one to be put */
};

/* Frees a result, `next` and all. NULL is fine. */
void wr_deferred_free(struct wr_deferred *first);

void wr_ticket_text(const uint8_t ticket[WR_TICKET_BYTES], char text[WR_TICKET_TEXT]);

/* False: not a ticket. */
bool wr_ticket_parse(struct weir_str text, uint8_t ticket[WR_TICKET_BYTES]);

#endif
