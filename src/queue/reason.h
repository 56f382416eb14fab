/* Reasons why the queue did not do a job. Clients see a reason: its name is in RESP replies, JSON
 * and metric labels, and its sentence in response bodies. All names and sentences are defined in
 * the list below. */
#ifndef WR_QUEUE_REASON_H
#define WR_QUEUE_REASON_H

/* X(enum value, name, sentence) */
#define WR_QUEUE_REASONS(X)                                                                        \
	X(WR_QUEUE_OK, "ok", "done")                                                               \
	X(WR_QUEUE_FULL, "full",                                                                   \
	  "the queue contains its maximum number of requests (--queue-max)")                       \
	X(WR_QUEUE_KEY_FULL, "key_full",                                                           \
	  "this key has its maximum number of waiting requests (max_waiting of the rule)")         \
	X(WR_QUEUE_KEY_BYTES_FULL, "key_bytes_full",                                               \
	  "the waiting requests of this key have their maximum size (--queue-line-bytes)")         \
	X(WR_QUEUE_BYTES_FULL, "bytes_full", "the queue has its maximum size (--queue-bytes)")     \
	X(WR_QUEUE_TOO_LARGE, "too_large", "the request is too large to be stored")                \
	X(WR_QUEUE_NO_SPACE, "no_space", "the disk of the queue is full or nearly full")           \
	X(WR_QUEUE_AWAY, "away", "the queue is unavailable")                                       \
	X(WR_QUEUE_NOT_PERSISTENT, "not_persistent",                                               \
	  "the queue's Redis could lose requests; it needs appendonly yes, appendfsync always, "   \
	  "maxmemory-policy noeviction")                                                           \
	X(WR_QUEUE_CORRUPT, "corrupt", "the queue's file is damaged")                              \
	X(WR_QUEUE_READ_ONLY, "read_only", "the queue cannot be written to")                       \
	X(WR_QUEUE_BUSY, "busy", "too many requests are being written to the queue")               \
	X(WR_QUEUE_NO_KEY, "no_key",                                                               \
	  "a header field has credentials, and there is no key to encrypt it: set --queue-key")    \
	X(WR_QUEUE_ENDING, "ending", "weir is shutting down")                                      \
	X(WR_QUEUE_UNKNOWN, "unknown", "there is no such request")                                 \
	X(WR_QUEUE_LOST, "lost", "another process has taken over the request")                     \
	X(WR_QUEUE_FAILED, "error", "the queue failed; see the log")

enum wr_queue_reason {
#define WR_QUEUE_ENUM(name, word, sentence) name,
	WR_QUEUE_REASONS(WR_QUEUE_ENUM)
#undef WR_QUEUE_ENUM
		WR_QUEUE_REASON_COUNT
};

/* Return the name or the sentence of a reason. The result is never NULL, even for a value outside
 * the enum. */
const char *wr_queue_reason_name(enum wr_queue_reason reason);
const char *wr_queue_reason_text(enum wr_queue_reason reason);

#endif
