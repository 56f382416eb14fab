/* The head of a request: the parts that its delivery needs, without the body. (The head of a line
 * is another thing: the request that is delivered next.) Both backends store the head of a request
 * as these parts, one after the other:
 *
 *   version (1 byte), domain, method, uri, idempotency key, descriptors, number of fields (4 bytes)
 *   and for each field: secret (1 byte), name, value
 *
 * A part for which no size is given here is a text. It is stored as its length in 4 bytes (little
 * endian), then its bytes. Values of secret fields are encrypted (seal.h). The body is stored
 * separately. */
#ifndef WR_QUEUE_RECORD_H
#define WR_QUEUE_RECORD_H

#include "queue/queue.h"
#include "queue/seal.h"

/* Bytes that the queue counts for each request in addition to head, body and rule name. This is an
 * estimate of the space for rows, indexes and the ticket. */
#define WR_QUEUE_RECORD_OVERHEAD 512u

/* Returns WR_QUEUE_OK if the request can be stored, WR_QUEUE_TOO_LARGE if a part is too large, or
 * WR_QUEUE_NO_KEY if a secret field cannot be encrypted because there is no encryption key. */
enum wr_queue_reason wr_queue_record_check(const struct wr_queue_request *request,
					   const struct wr_seals *seals);

/* Returns the length of the head. The request must have passed wr_queue_record_check(). */
size_t wr_queue_record_size(const struct wr_queue_request *request);

/* Writes wr_queue_record_size() bytes to `head`. For a request without an idempotency key, writes a
 * key derived from the ticket's hash. Returns false if encryption failed. */
bool wr_queue_record_write(const struct wr_queue_request *request, const uint8_t *ticket_hash,
			   const struct wr_seals *seals, uint8_t *head);

/* A request as a backend has read it. Parts that the backend did not read are empty. */
struct wr_queue_record {
	/* the request without its texts, header fields and body; the members below contain these */
	struct wr_queue_request row;
	struct weir_str rule, reason, head, body;
	bool open; /* true: decrypt the secret fields */
};

/* Makes a request from what a backend has read, in one allocation that the caller frees with
 * wr_queue_request_free(). Returns NULL if memory is exhausted. A head that cannot be parsed is
 * treated as missing; the member `reason` of the request then says so. */
struct wr_queue_request *wr_queue_record_read(const struct wr_queue_record *record,
					      const struct wr_seals *seals);

/* Makes a new ticket and its hash. Returns false if the system provides no random numbers. */
bool wr_ticket_make(uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);
void wr_ticket_hash(const uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);

#endif
