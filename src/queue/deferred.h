/* A deferred request is a request that its limit refused. The queue stores the request and delivers
 * it later. */
#ifndef WR_QUEUE_DEFERRED_H
#define WR_QUEUE_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* length of a ticket: random bytes with which a client can read the state of its request */
#define WR_TICKET_BYTES 16u
#define WR_TICKET_TEXT 33u /* 32 lower-case hexadecimal digits and a zero byte */
#define WR_TICKET_HASH_BYTES 32u
#define WR_LINE_KEY_BYTES 16u

/* Maximum sizes of the parts of a request. A put of a larger request fails with
 * WR_QUEUE_TOO_LARGE. */
#define WR_QUEUE_REQUEST_NAME_MAX 255u
#define WR_QUEUE_REQUEST_METHOD_MAX 32u
#define WR_QUEUE_REQUEST_URI_MAX (32u << 10)
#define WR_QUEUE_REQUEST_DESCRIPTORS_MAX (32u << 10)
#define WR_QUEUE_REQUEST_FIELDS_MAX 128u
/* all names and values together, before encryption */
#define WR_QUEUE_REQUEST_FIELD_BYTES_MAX (64u << 10)
#define WR_QUEUE_REQUEST_BODY_MAX (16u << 20)
#define WR_QUEUE_REQUEST_REASON_MAX 200u

/* X(enum value, name): the states of a deferred request */
#define WR_QUEUE_REQUEST_STATES(X)                                                                 \
	X(WR_QUEUE_REQUEST_WAITING, "waiting")                                                     \
	X(WR_QUEUE_REQUEST_DELIVERING, "delivering") /* waiting, and a deliverer has taken it */   \
	X(WR_QUEUE_REQUEST_DELIVERED,                                                              \
	  "delivered")                   /* the API has responded; only the ticket is left */      \
	X(WR_QUEUE_REQUEST_DEAD, "dead") /* not tried again, unless an operator retries it */      \
	X(WR_QUEUE_REQUEST_DROPPED, "dropped") /* an operator deleted it; only the ticket is left */

enum wr_queue_request_state {
#define WR_QUEUE_REQUEST_ENUM(name, text) name,
	WR_QUEUE_REQUEST_STATES(WR_QUEUE_REQUEST_ENUM)
#undef WR_QUEUE_REQUEST_ENUM
		WR_QUEUE_REQUEST_STATE_COUNT
};

const char *wr_queue_request_state_name(enum wr_queue_request_state state);

struct wr_queue_request_field {
	struct weir_str name;
	struct weir_str value;
	bool secret; /* the value is encrypted in the backend */
	/* The value was not decrypted, so `value` is "". The request is only shown, or no key fits.
	 */
	bool locked;
};

/* For a put, the caller fills in the members from `key` to `body`; the queue ignores the others. In
 * results all members are filled in. Times are µs since 1970 by the wall clock of the machine that
 * reads the request. */
struct wr_queue_request {
	uint64_t id; /* number of the request, in order of arrival, from 1 */
	uint8_t ticket_hash[WR_TICKET_HASH_BYTES]; /* SHA-256 of the ticket */

	/* key of the request's line; the requests of a line are delivered in order of their ids */
	uint8_t key[WR_LINE_KEY_BYTES];
	struct weir_str rule, domain, method, uri;
	/* sent with every delivery attempt; "" in a put: the queue makes the key */
	struct weir_str idempotency_key;
	struct weir_str descriptors; /* input of weir_ask_replay() */
	const struct wr_queue_request_field *fields;
	size_t field_count;
	uint32_t max_tries; /* maximum number of delivery attempts; at least 1 */
	/* the limit admits one request of this key per interval; 0: unknown */
	uint64_t interval_us;
	struct weir_str body;

	enum wr_queue_request_state state;
	uint32_t tries;    /* failed delivery attempts */
	uint16_t status;   /* HTTP status of the last try; 0: no response */
	uint64_t position; /* position in its line, from 1; 0: the request does not wait */
	uint64_t body_len; /* length of the body, even if the body was not read */
	uint64_t bytes;    /* size that counts against the queue's limits; only SQLite sets it */
	/* number of the take that returned the request; a settle must pass this number */
	uint64_t fence;
	/* done_us is 0 until the request is finished */
	uint64_t accepted_us, due_us, done_us, expires_us;
	struct weir_str reason; /* why the last try failed, for people */

	/* the next request of a result with several requests; NULL: this is the last one */
	struct wr_queue_request *next;
	void *memory; /* the allocation that holds this struct and its texts; NULL for a put */
};

/* Frees a result and all requests that follow it through `next`. NULL is allowed. */
void wr_queue_request_free(struct wr_queue_request *first);

/* Writes the bytes as 2 * count lower-case hexadecimal digits, without a zero byte. */
void wr_queue_write_hex(const uint8_t *bytes, size_t count, char *digits);

/* Parses 2 * count hexadecimal digits. Returns false if the text has another length or another
 * character. */
bool wr_queue_parse_hex(struct weir_str digits, uint8_t *bytes, size_t count);

void wr_ticket_text(const uint8_t ticket[WR_TICKET_BYTES], char text[WR_TICKET_TEXT]);

/* Parses the text of a ticket. Returns false if the text is not a ticket. */
bool wr_ticket_parse(struct weir_str text, uint8_t ticket[WR_TICKET_BYTES]);

#endif
