/* The head of a request as bytes: the part that only its delivery needs. SQLite and Redis store the
 * same bytes.
 *
 *   version 1 · domain · method · uri · idempotency key · descriptors · fields 4
 *   and for each field: secret 1 · name · value
 *
 * A text is its length in 4 bytes (little endian) and its bytes. Values of secret fields are
 * encrypted (seal.h). The body is stored separately. */
#ifndef WR_QUEUE_RECORD_H
#define WR_QUEUE_RECORD_H

#include "queue/queue.h"
#include "queue/seal.h"

/* Bytes that a request counts for in addition to head, body and rule name: rows, indexes, ticket.
 */
#define WR_QUEUE_RECORD_OVERHEAD 512u

/* Returns WR_QUEUE_OK if the request can be stored, else WR_QUEUE_TOO_LARGE or WR_QUEUE_NO_KEY. */
enum wr_queue_reason wr_queue_record_check(const struct wr_deferred *request,
					   const struct wr_seals *seals);

/* Returns the length of the head. The request must have passed wr_queue_record_check(). */
size_t wr_queue_record_size(const struct wr_deferred *request);

/* Writes the head, wr_queue_record_size() bytes. A request without an idempotency key gets one
 * derived from the ticket's hash. False: encryption failed. */
bool wr_queue_record_write(const struct wr_deferred *request, const uint8_t *ticket_hash,
			   const struct wr_seals *seals, uint8_t *head);

/* A request as a backend has read it. Parts that were not read are empty. */
struct wr_queue_record {
	struct wr_deferred row; /* numbers, ticket_hash and key; no texts */
	struct weir_str rule, reason, head, body;
	bool open; /* decrypt secret fields */
};

/* Returns a result that is one allocation, to be freed with wr_deferred_free(), or NULL if memory
 * is exhausted. A head that cannot be parsed is treated as missing, and `reason` reports that. */
struct wr_deferred *wr_queue_record_read(const struct wr_queue_record *record,
					 const struct wr_seals *seals);

/* Makes a new ticket and its hash. False: the system has no random numbers. */
bool wr_ticket_make(uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);
void wr_ticket_hash(const uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);

#endif
