/* The part of a request that only its delivery needs, as bytes: the same in SQLite and in Redis.
 *
 *   version 1 · domain · method · uri · idempotency key · descriptors · fields 4
 *   and for each field: secret 1 · name · value
 *
 * A text is its length in 4 bytes (little endian) and its bytes. Values of secret fields are
 * sealed. The body is kept beside it. */
#ifndef WR_QUEUE_RECORD_H
#define WR_QUEUE_RECORD_H

#include "queue/queue.h"
#include "queue/seal.h"

/* What a request counts for in bytes, beyond its head and body: rows, indexes, a ticket. */
#define WR_RECORD_OVERHEAD 512u

/* Whether it can be stored: WR_QUEUE_OK, WR_QUEUE_TOO_LARGE, WR_QUEUE_NO_KEY. */
enum wr_queue_reason wr_record_check(const struct wr_deferred *request,
				     const struct wr_seals *seals);

/* Bytes of the head of a request that was checked. */
size_t wr_record_size(const struct wr_deferred *request);

/* Writes them. False: sealing failed. A request without an idempotency key gets one that is made of
 * its ticket's hash. */
bool wr_record_write(const struct wr_deferred *request, const uint8_t *ticket_hash,
		     const struct wr_seals *seals, uint8_t *head);

/* What a store has of a request; NULL and 0 where it was not read. */
struct wr_record {
	struct wr_deferred row; /* numbers, ticket_hash and key; no texts */
	struct weir_str rule, reason, head, body;
	bool open; /* secret fields are to be opened */
};

/* A result in one piece of memory: NULL: no memory. A head that makes no sense is as if it was not
 * there, and `row.reason` says so. */
struct wr_deferred *wr_record_read(const struct wr_record *record, const struct wr_seals *seals);

/* A new ticket and its hash. False: there is no randomness. */
bool wr_ticket_make(uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);
void wr_ticket_hash(const uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES]);

#endif
