/* A deferred request: it was refused by its limit, is stored in a queue and is delivered later. */
#ifndef WR_QUEUE_DEFERRED_H
#define WR_QUEUE_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_TICKET_BYTES 16u /* random; the holder of a ticket can read the request's state */
#define WR_TICKET_TEXT 33u  /* 32 lower-case hexadecimal digits and a zero byte */
#define WR_TICKET_HASH_BYTES 32u
#define WR_LINE_KEY_BYTES 16u

/* Maximum sizes. A larger request is refused as WR_QUEUE_TOO_LARGE. */
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
	X(WR_DEFERRED_DELIVERING, "delivering") /* waiting, and a deliverer has taken it */        \
	X(WR_DEFERRED_DELIVERED, "delivered") /* the API has responded; only the ticket is left */ \
	X(WR_DEFERRED_DEAD, "dead")           /* given up; all data is left for a retry */         \
	X(WR_DEFERRED_DROPPED, "dropped")     /* by an operator; only the ticket is left */

enum wr_deferred_state {
#define WR_DEFERRED_ENUM(name, text) name,
	WR_DEFERRED_STATES(WR_DEFERRED_ENUM)
#undef WR_DEFERRED_ENUM
		WR_DEFERRED_STATE_COUNT
};

const char *wr_deferred_state_name(enum wr_deferred_state state);

struct wr_deferred_field {
	struct weir_str name;
	struct weir_str value;
	bool secret; /* the value is encrypted in the backend */
	bool locked; /* the value was not decrypted (the request is only shown, or no key fits), and
			is "" here */
};

/* For a put, the caller fills in `key` to `body`; the queue ignores the rest. In results all
 * members are filled in. Times are µs since 1970 by the wall clock of the machine that reads. */
struct wr_deferred {
	uint64_t id;                               /* in order of arrival, from 1 */
	uint8_t ticket_hash[WR_TICKET_HASH_BYTES]; /* SHA-256 of the ticket */

	uint8_t key[WR_LINE_KEY_BYTES]; /* of the line; a line is delivered in order */
	struct weir_str rule, domain, method, uri;
	struct weir_str idempotency_key; /* the same at every try; "": the queue makes one */
	struct weir_str descriptors;     /* for weir_ask_replay() */
	const struct wr_deferred_field *fields;
	size_t field_count;
	uint32_t max_tries; /* at least 1 */
	uint64_t
		interval_us; /* the limit admits one request of this key per interval; 0: unknown */
	struct weir_str body;

	enum wr_deferred_state state;
	uint32_t tries;    /* failed delivery attempts */
	uint16_t status;   /* HTTP status of the last try; 0: no response */
	uint64_t position; /* in the line of its key, from 1; 0: it does not wait */
	uint64_t body_len; /* also set if the body was not read */
	uint64_t bytes;    /* counted against the queue's limits; SQLite only */
	uint64_t fence;    /* number of the take; the settle has to name it */
	uint64_t accepted_us, due_us, done_us, expires_us; /* done_us: 0 until it is finished */
	struct weir_str reason;                            /* of the last failure, for people */

	struct wr_deferred *next; /* in a result of several requests */
	void *memory; /* the allocation with this struct and its texts; NULL for a put */
};

/* Frees a result and all that follow it by `next`. NULL is allowed. */
void wr_deferred_free(struct wr_deferred *first);

void wr_ticket_text(const uint8_t ticket[WR_TICKET_BYTES], char text[WR_TICKET_TEXT]);

/* False: the text is not a ticket. */
bool wr_ticket_parse(struct weir_str text, uint8_t ticket[WR_TICKET_BYTES]);

#endif
