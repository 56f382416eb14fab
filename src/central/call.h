/* Parts and calls: the commands that a loop sends to Redis, and the functions that make, send,
 * answer and end them. inner.h has the servers and connections to which calls are sent.
 *
 * Ownership. A part belongs to its ask until the ask has ended, and to its call until the call has
 * ended; the ask or the call, whichever ends last, frees the part. A call is in exactly one queue:
 * the queue of its shard until it is written, the queue of its connection until it is answered, or
 * a queue of calls that wait to be retried. A function that sends, fails or frees a call owns the
 * call from then on. */
#ifndef WR_CENTRAL_CALL_H
#define WR_CENTRAL_CALL_H

#include <string.h>

#include "central/central.h"
#include "redis/reply.h"
#include "redis/script.h"

/* Maximum number of parts in one loop, including the parts of reports. */
#define WR_CENTRAL_PARTS_MAX 65536u
#define WR_REPORTS_MAX 16384u /* maximum number of parts that belong to reports in one loop */
#define WR_MERGED_MAX 4096u   /* maximum number of takes merged into one call */
/* Maximum number of retries of one call after MOVED, ASK, NOSCRIPT and TRYAGAIN. */
#define WR_TRIES_MAX 8u
#define WR_CENTRAL_KEY_TEXT 24 /* size of a buffer for a key's hash as text */
#define WR_REDIS_KEY (WR_REDIS_PREFIX_MAX + WR_CENTRAL_KEY_TEXT + WR_QUESTION_ID + 16)

#define WR_CALL_MAGIC 0x63616c6cu

struct wr_central_conn;
struct wr_central_lease_hold;
struct wr_central_shard;

/* One limit of a question. */
struct wr_central_part {
	struct wr_central_part *next;      /* next part of the ask, in the order of the question */
	struct wr_central_part *call_next; /* next part of the call */
	struct wr_central_ask *ask;        /* NULL: the ask has ended */
	struct wr_call *call;              /* NULL: the call has ended */
	struct wr_take take;
	struct wr_answer answer;
	uint64_t key[2];
	uint64_t identity;     /* hash of the limit's id and settings */
	uint64_t tag;          /* the counter's tag in the table */
	uint64_t taken_us;     /* when Redis decided, by the clock of Redis */
	uint64_t give_back_ns; /* when late.c gives the units back, monotonic */
	uint32_t group;
	bool leased;    /* units of the counter can be leased, so the lease script decides */
	bool recalled;  /* the answer comes from the cache of refusals */
	bool settled;   /* the limit is decided without asking Redis */
	bool cancelled; /* the ask was cancelled, so units that Redis grants are given back */
	uint8_t id_len;
	char id[WR_QUESTION_ID];
};

enum wr_call_kind {
	WR_CALL_TAKE,
	WR_CALL_LEASE, /* takes of a counter whose units can be leased, a lease request, or both */
	WR_CALL_RETURN,
	WR_CALL_OWE,
	WR_CALL_SETTLE, /* claims and settles a reservation */
	WR_CALL_REPORT,
	WR_CALL_RESET,
	WR_CALL_EXCHANGE,
	WR_CALL_PUSH,
	WR_CALL_ASKING,    /* the command ASKING; precedes a call that an ASK reply redirected */
	WR_CALL_HANDSHAKE, /* one of the first commands on a connection, see handshake.c */
	WR_CALL_PING,
	WR_CALL_INFO,
	WR_CALL_SLOTS,
	WR_CALL_MASTER,
	WR_CALL_SENTINELS,
	WR_CALL_BEAT,
	WR_CALL_SECRET,
	WR_CALL_TIME,
	WR_CALL_LISTEN,
	WR_CALL_PUBLISH,
	WR_CALL_KINDS
};

/* One command to Redis. Its kind selects the functions that write the command and read its
 * reply. */
struct wr_call {
	struct wr_call *next; /* next call in the queue */
	uint32_t magic;       /* WR_CALL_MAGIC */
	uint8_t kind;         /* enum wr_call_kind */
	/* For HANDSHAKE, SECRET and TIME: which of the commands in a sequence this call is. */
	uint8_t step;
	uint8_t tries;
	uint8_t fault; /* enum wr_fault, valid in on_failure */
	bool asking;   /* ASKING must be sent before this call */
	bool eval;     /* the call is sent as EVAL with the script's text */
	bool written;  /* the call was written, so Redis may have executed it */
	bool late;     /* no reply came within the timeout, and this was counted */
	bool merged;   /* all parts are takes of the same counter with the same cost */
	bool leased;   /* for RETURN, OWE and REPORT: units of the counter can be leased */
	uint16_t slot;
	uint16_t count; /* number of parts */
	uint64_t key[2];
	uint64_t number; /* 1 for the first call written to the connection, and so on */
	/* Monotonic time at which the call was written. While the call waits for a retry: the time
	 * of the retry. */
	uint64_t mono_ns;
	/* For REPORT: the sequence number of the report, or 0 if it was never sent. */
	uint64_t report_seq;
	uint64_t report_since_ns;    /* for REPORT: when the report was first sent, monotonic */
	bool report_in_flight;       /* for REPORT: the call was sent and is not answered */
	struct wr_call *report_next; /* for REPORT: next report in the list of report.c */
	struct wr_central_shard *shard;
	/* For LEASE: the lease that the call reports and renews, or NULL. */
	struct wr_central_lease_hold *hold;
	void *job; /* EXCHANGE: struct wr_central_exchange_job; PUSH: struct wr_central_push */
	/* The flag *busy is set to false when the call is freed; NULL: there is no flag. */
	bool *busy;
	struct wr_central_part *first, *last;
	/* For SETTLE: parts that are sent in calls of their own when the reservation is claimed. */
	struct wr_central_part *later;
};

struct wr_call_queue {
	struct wr_call *first, *last;
	uint32_t count;
};

static inline void wr_call_queue_push(struct wr_call_queue *queue, struct wr_call *call)
{
	call->next = NULL;
	if (queue->last)
		queue->last->next = call;
	else
		queue->first = call;
	queue->last = call;
	queue->count++;
}

/* Returns NULL if the queue is empty. */
static inline struct wr_call *wr_call_queue_pop(struct wr_call_queue *queue)
{
	struct wr_call *call = queue->first;

	if (!call)
		return NULL;
	queue->first = call->next;
	if (!queue->first)
		queue->last = NULL;
	queue->count--;
	call->next = NULL;
	return call;
}

static inline bool wr_central_same_key(const uint64_t a[2], const uint64_t b[2])
{
	return a[0] == b[0] && a[1] == b[1];
}

/* Returns whether two parts of one key concern the same counter. */
static inline bool wr_central_same_id(const struct wr_central_part *a,
				      const struct wr_central_part *b)
{
	return a->id_len == b->id_len && memcmp(a->id, b->id, a->id_len) == 0;
}

/* Returns whether Redis took units for the part. These units can be given back. */
static inline bool wr_central_has_units(const struct wr_central_part *part)
{
	return (part->answer.flags & (WR_ANSWER_ADMITTED | WR_ANSWER_NOT_TAKEN |
				      WR_ANSWER_FAILED)) == WR_ANSWER_ADMITTED &&
	       part->take.cost > 0;
}

enum wr_central_script_name {
	WR_SCRIPT_TAKE,
	WR_SCRIPT_LEASE,
	WR_SCRIPT_EXCHANGE,
	WR_SCRIPT_PUSH,
	WR_SCRIPT_NODES,
	WR_SCRIPT_NAMES
};

/* ---- pool.c ---- */

/* wr_call_new returns a new call, and wr_central_part_new a new part. Both return NULL if there are
 * too many calls or parts, or if there is no memory. */
struct wr_call *wr_call_new(struct wr_central *central, enum wr_call_kind kind);
struct wr_central_part *wr_central_part_new(struct wr_central *central);
void wr_central_part_free(struct wr_central *central, struct wr_central_part *part);
/* Frees the call and its parts. */
void wr_call_free(struct wr_central *central, struct wr_call *call);
/* Appends a part to a call. */
void wr_call_add(struct wr_call *call, struct wr_central_part *part);
/* Removes all parts from the call. Returns the first part; the parts stay linked by call_next. */
struct wr_central_part *wr_call_detach_parts(struct wr_call *call);

/* ---- question.c ---- */

/* Reads the items of a question one after the other. */
struct wr_central_question {
	const uint8_t *at, *end;
	uint16_t left; /* number of items that are not read yet */
	uint8_t kind;
	bool begun; /* an item was read */
};

/* wr_central_question_open starts reading a question, and wr_central_question_next reads its next
 * item into `part`. Both return false if the bytes of the question are malformed. */
bool wr_central_question_open(struct wr_central_question *reader, const void *bytes, size_t len);
bool wr_central_question_next(struct wr_central_question *reader, struct wr_central_part *part);

/* ---- call.c ---- */

enum wr_call_written {
	WR_CALL_WRITTEN,
	WR_CALL_UNWANTED, /* the call is not needed, so nothing was written */
	WR_CALL_NO_ROOM,  /* the output buffer is full, so nothing was written */
};

/* The functions of one kind of call. For each call, either on_reply or on_failure is called,
 * once. */
struct wr_call_ops {
	/* Writes the command. NULL: the command consists of `words`. */
	enum wr_call_written (*write)(struct wr_central_conn *conn, struct wr_call *call);
	const char *words[2];
	/* Called with the reply, which is valid until on_reply returns. NULL: the call is only
	 * freed. */
	void (*on_reply)(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply);
	/* Called when the call has failed and will not be retried. NULL: the call is only freed. */
	void (*on_failure)(struct wr_central *central, struct wr_call *call);
	bool keyed; /* the call goes to the shard that owns its slot, and follows redirections */
	bool feeds_breaker; /* success and failure of the call count for the breaker */
	bool reads_errors;  /* on_reply also gets error replies */
	/* The script that the call runs (enum wr_central_script_name); -1: the call runs no script.
	 * */
	int script;
};

extern const struct wr_call_ops wr_call_take_ops, wr_call_return_ops, wr_call_owe_ops,
	wr_call_report_ops, wr_call_settle_ops;
extern const struct wr_call_ops wr_call_reset_ops, wr_call_lease_ops, wr_call_exchange_ops;
extern const struct wr_call_ops wr_call_push_ops, wr_call_asking_ops, wr_call_handshake_ops;
extern const struct wr_call_ops wr_call_ping_ops, wr_call_info_ops, wr_call_slots_ops;
extern const struct wr_call_ops wr_call_master_ops, wr_call_sentinels_ops, wr_call_beat_ops;
extern const struct wr_call_ops wr_call_secret_ops, wr_call_time_ops, wr_call_listen_ops;
extern const struct wr_call_ops wr_call_publish_ops;

const struct wr_call_ops *wr_call_ops(const struct wr_call *call);
/* Sends the call to the shard that owns its slot. */
void wr_call_send(struct wr_central *central, struct wr_call *call);
/* Called with the reply to the call. Retries the call, or ends it with on_reply or on_failure. */
void wr_call_reply(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply);
/* Ends the call with on_failure, and counts `fault`, the kind of error. */
void wr_call_fail(struct wr_central *central, struct wr_call *call, enum wr_fault fault);
/* Empties the queue and fails the calls that were in it. The failure of a call may add new calls to
 * the queue; these are not failed. */
void wr_call_queue_fail(struct wr_central *central, struct wr_call_queue *queue,
			enum wr_fault fault);
/* Returns the counters for events of the call: the counters of its shard or, if it has no shard,
 * those of `central`. */
struct wr_central_counts *wr_call_counts(struct wr_central *central, const struct wr_call *call);

/* Writes a command. Its words are the arguments after `conn`, up to WR_WORDS_END. */
#define WR_WORDS_END ((const char *)NULL)
__attribute__((sentinel)) enum wr_call_written wr_call_write_words(struct wr_central_conn *conn,
								   ...);
/* Ends a command that the caller wrote to conn->out. Returns WR_CALL_WRITTEN or WR_CALL_NO_ROOM. */
enum wr_call_written wr_call_write_end(struct wr_central_conn *conn);
/* Begins an EVALSHA or EVAL command with `args` arguments after the script. */
void wr_call_write_script(struct wr_central_conn *conn, struct wr_call *call,
			  enum wr_central_script_name name, size_t args);

/* Writes the key of a value that exists once per fleet, such as "weir:1:nodes". */
void wr_central_fleet_key(const struct wr_central *central, const char *name,
			  char key[WR_REDIS_KEY]);
/* Makes a call for the key that wr_central_fleet_key writes for `name`. If `busy` is not NULL,
 * *busy is true until the call is freed. Returns NULL if there is no memory. */
struct wr_call *wr_call_new_fleet(struct wr_central *central, enum wr_call_kind kind,
				  const char *name, bool *busy);
/* Writes the key of a counter as an argument of the call, such as "weir:1:{HASH}:fixed_window/1m".
 * With the mark "l:" it is the key of the Redis hash that stores the counter's leases. With "e:" it
 * is the key of the Redis hash that the exchange script uses. */
void wr_call_write_key(struct wr_central_conn *conn, const struct wr_call *call, const char *mark,
		       const char *id, size_t id_len);
/* Writes the keys of the counters of all parts as arguments of the call. All parts of a merged call
 * have one counter, so its key is written once. */
void wr_call_write_part_keys(struct wr_central_conn *conn, const struct wr_call *call);
/* Writes, for each counter that gets units back or is reset, the key under which take.lua stores the
 * time of the last reset. */
void wr_call_write_reset_marks(struct wr_central_conn *conn, const struct wr_call *call);
/* Writes, for each counter that needs it, the key under which take.lua counts the tokens that were
 * given back. */
void wr_call_write_given_counts(struct wr_central_conn *conn, const struct wr_call *call);
/* Writes the 128 bits of a key's hash as 22 letters. */
void wr_central_key_text(const uint64_t key[2], char text[WR_CENTRAL_KEY_TEXT]);
/* Returns the cluster slot of a key that is given as text. Returns 0 without a cluster. */
uint16_t wr_central_text_slot(const struct wr_central *central, const char *key);
/* Returns the cluster slot of a counter. Returns 0 without a cluster. */
uint16_t wr_central_key_slot(const struct wr_central *central, const uint64_t key[2]);
/* Returns the shard that owns the counter's slot, or NULL if no shard is known to own it. */
struct wr_central_shard *wr_central_key_shard(struct wr_central *central, const uint64_t key[2]);

/* ---- ask.c ---- */

/* Ends the asks whose deadline has passed. */
void wr_central_asks_expire(struct wr_central *central);
/* Ends all asks as failed. */
void wr_central_asks_fail(struct wr_central *central);
/* Called when a part has got its answer and was removed from its call. Ends the ask if all parts of
 * the ask are answered. */
void wr_central_part_answered(struct wr_central *central, struct wr_central_part *part);

/* ---- settle.c ---- */

/* Sends the parts of a SETTLE. The first part, the marker, stays with the ask. */
void wr_central_settle_send(struct wr_central *central, struct wr_central_ask *ask);
/* Moves all parts except the marker to call->later, because Redis cannot execute the call as a
 * whole. */
void wr_call_settle_split(struct wr_call *call);

/* ---- send.c ---- */

/* Sends give-backs and debts, which are linked by call_next. */
void wr_central_send_settled(struct wr_central *central, struct wr_central_part *parts);
/* Counts a give-back or a debt as lost. */
void wr_central_count_lost_part(struct wr_central_counts *counts,
				const struct wr_central_part *part);

/* ---- take.c: calls whose parts are takes ---- */

/* Writes the parts of the call as a call of the take script. Returns false if there is no room. */
bool wr_call_write_takes(struct wr_central_conn *conn, struct wr_call *call);
/* Reads the reply to such a call into `taken`. Returns false if the reply is malformed; the call was
 * then ended with wr_call_fail. */
bool wr_call_read_takes(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply,
			struct wr_taken taken[WR_TAKES_MAX]);

/* Called before the call is written. Frees the parts whose asks have ended. */
void wr_call_drop_abandoned(struct wr_central *central, struct wr_call *call);
/* Passes the decisions in the reply to the asks of the call's parts, and frees the call. */
void wr_call_takes_answered(struct wr_central_conn *conn, struct wr_call *call,
			    const struct wr_taken *taken);
/* Answers all parts with WR_ANSWER_FAILED, and frees the call. */
void wr_call_takes_failed(struct wr_central *central, struct wr_call *call);
/* Gives the units that Redis took for the part back to Redis. The caller must not use the part
 * afterwards. */
void wr_central_give_back(struct wr_central *central, struct wr_central_part *part);

/* ---- late.c ---- */

/* Called when Redis has executed a take after its ask had timed out. The caller must not use the
 * part afterwards. */
void wr_central_late_add(struct wr_central *central, struct wr_central_part *part);
/* Keeps the slot of a concurrent limit whose give-back failed, to give it back again later. Returns
 * false if there is no room; the caller then still owns the part. */
bool wr_central_late_keep(struct wr_central *central, struct wr_central_part *part);
/* Deducts units from a part of a report, if late takes have already counted these units in
 * Redis. */
void wr_central_late_deduct(struct wr_central *central, const struct wr_call *call,
			    struct wr_central_part *part);
/* Returns whether a late take and a part of a report concern the same counter and window. */
bool wr_central_late_matches(struct wr_central *central, const struct wr_central_part *late,
			     const struct wr_call *call, const struct wr_central_part *part);
void wr_central_late_forget(struct wr_central *central, const uint64_t key[2]);
void wr_central_late_tick(struct wr_central *central);
void wr_central_late_free(struct wr_central *central);

/* ---- recall.c, merge.c ---- */

/* Answers parts of the ask from remembered refusals. Returns the number of these parts; Redis is
 * asked about the other parts. */
uint16_t wr_central_recall_refusals(struct wr_central *central, struct wr_central_ask *ask);
/* Merges `call` into another call if two conditions hold: `call` consists of one take, and this
 * batch has a call with the same counter, limit and cost. Then the take is moved into that call,
 * `call` is freed, and the result is true. Otherwise returns false; later takes of the batch can be
 * moved into `call`. */
bool wr_call_merge(struct wr_central *central, struct wr_call *call);

/* ---- report.c ---- */

/* Stores a new report until it can be sent. The call belongs to report.c afterwards. */
void wr_central_reports_add(struct wr_central *central, struct wr_call *call);
/* Called when a shard may be available again. The next wr_central_tick sends reports. */
void wr_central_reports_send_soon(struct wr_central *central);
/* Sends the reports of a key before a take of the same key. Otherwise Redis would grant units that
 * this node has already admitted without Redis. */
void wr_central_reports_send_before(struct wr_central *central, const struct wr_call *take);
/* Returns whether the units of a take can no longer influence a decision, so that a report of them
 * would be useless. take->decided_us is the time at which the units were admitted. */
bool wr_central_report_is_stale(const struct wr_central *central, const struct wr_take *take);
/* Deducts a late take from a report that was not sent yet. Returns false if there is no report that
 * matches the take. */
bool wr_central_reports_deduct(struct wr_central *central, const struct wr_central_part *late);
void wr_central_reports_tick(struct wr_central *central);
void wr_central_reports_free(struct wr_central *central);

#endif
