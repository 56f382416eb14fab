/* A deferred request is a request that its limit refused. The queue stores the request and delivers
 * it later. */
#ifndef WR_QUEUE_DEFERRED_H
#define WR_QUEUE_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* Length of a ticket in bytes. A ticket is random. A client that sends the ticket gets the state of
 * its deferred request. */
#define WR_TICKET_BYTES 16u
/* size of a ticket as text: 32 lower-case hexadecimal digits and a zero byte */
#define WR_TICKET_TEXT 33u
#define WR_TICKET_HASH_BYTES 32u
#define WR_LINE_KEY_BYTES 16u

/* Maximum sizes of the parts of a request, in bytes, and maximum number of its fields. A put of a
 * larger request fails with WR_QUEUE_TOO_LARGE. */
#define WR_QUEUE_REQUEST_NAME_MAX 255u
#define WR_QUEUE_REQUEST_METHOD_MAX 32u
#define WR_QUEUE_REQUEST_URI_MAX (32u << 10)
#define WR_QUEUE_REQUEST_DESCRIPTORS_MAX (32u << 10)
#define WR_QUEUE_REQUEST_FIELDS_MAX 128u
/* maximum size of the names and values of all fields of a request together, before encryption */
#define WR_QUEUE_REQUEST_FIELD_BYTES_MAX (64u << 10)
#define WR_QUEUE_REQUEST_BODY_MAX (16u << 20)
#define WR_QUEUE_REQUEST_REASON_MAX 200u

/* X(enum value, name): the states of a deferred request */
#define WR_QUEUE_REQUEST_STATES(X)                                                                 \
	X(WR_QUEUE_REQUEST_WAITING, "waiting")                                                     \
	X(WR_QUEUE_REQUEST_DELIVERING, "delivering") /* a deliverer is sending the request */      \
	X(WR_QUEUE_REQUEST_DELIVERED,                                                              \
	  "delivered")                   /* the API has responded; fields and body are deleted */  \
	X(WR_QUEUE_REQUEST_DEAD, "dead") /* not tried again, unless an operator retries it */      \
	X(WR_QUEUE_REQUEST_DROPPED, "dropped") /* an operator deleted its fields and body */

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
	bool secret; /* true if the backend stores the value encrypted */
	/* True: `value` is "", because the value was not decrypted. Either decryption failed (for
	 * example, the encryption key is missing), or the caller asked for the request without
	 * secret values. */
	bool locked;
};

/* A caller that puts a request fills in the members from `key` to `body`; the queue ignores the
 * other members. In results all members are filled in. Times are µs since 1970 by the wall clock of
 * this machine, even if another machine stored the request. */
struct wr_queue_request {
	uint64_t id; /* number of the request, in order of arrival, from 1 */
	uint8_t ticket_hash[WR_TICKET_HASH_BYTES]; /* SHA-256 of the ticket */

	/* key of the request's line; the requests of a line are delivered in order of their ids */
	uint8_t key[WR_LINE_KEY_BYTES];
	struct weir_str rule, domain, method, uri;
	/* The idempotency key is sent with every delivery attempt. If it is "" in a put, the queue
	 * makes one. */
	struct weir_str idempotency_key;
	/* the descriptors of the request as bytes; weir_ask_record() writes them, and
	 * weir_ask_replay() reads them */
	struct weir_str descriptors;
	const struct wr_queue_request_field *fields;
	size_t field_count;
	uint32_t max_tries; /* maximum number of delivery attempts; at least 1 */
	/* the limit admits one request of this key per interval_us; 0: the interval is unknown */
	uint64_t interval_us;
	struct weir_str body;

	enum wr_queue_request_state state;
	uint32_t tries;    /* number of failed delivery attempts */
	uint16_t status;   /* HTTP status of the latest delivery attempt; 0: no response */
	uint64_t position; /* position in the line, from 1; 0: the request does not wait */
	uint64_t body_len; /* length of the body, even if the body was not read */
	/* size that counts towards the maximum sizes of the queue, such as max_bytes; only the
	 * SQLite backend sets this member */
	uint64_t bytes;
	/* Number of the take job that returned the request for delivery. The settle job that
	 * records the result of the delivery passes the same number. */
	uint64_t fence;
	/* done_us is 0 until the request is delivered, dead or dropped */
	uint64_t accepted_us, due_us, done_us, expires_us;
	struct weir_str reason; /* text for people: why the latest delivery attempt failed */

	/* the next request of a result with several requests; NULL: no further request */
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
