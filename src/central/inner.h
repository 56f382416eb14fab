/* The parts of struct wr_central and what its files ask of each other.
 *
 *   ask ──► parts (a limit each) ──► calls (a script call each) ──► shard ──► link ──► Redis
 *
 * A part belongs to its ask until that is concluded, and to its call until that is answered; when
 * one of the two has gone, to the other alone. A call belongs to exactly one queue: its shard's
 * until it is written (the end of a turn), its link's until it is answered, or one of those that
 * wait for better times. Functions that are given a call own it from then on. */
#ifndef WR_CENTRAL_INNER_H
#define WR_CENTRAL_INNER_H

#include "central/breaker.h"
#include "central/central.h"
#include "central/exchange.h"
#include "central/lease.h"
#include "central/refusals.h"
#include "redis/topology.h"
#include "redis/command.h"
#include "redis/reply.h"
#include "redis/script.h"

#define WR_CENTRAL_PARTS_MAX 65536u    /* limits under way in one loop, reports included */
#define WR_REPORTS_MAX 16384u  /* … of which reports */
#define WR_IN_FLIGHT_MAX 8192u /* calls of one shard without a reply, or not written yet */
#define WR_CENTRAL_OUTPUT_MAX (8u << 20) /* bytes of one link not yet written */
#define WR_SHARDS_MAX 256u
#define WR_MERGE_ENTRIES 1024u
#define WR_MERGED_MAX 4096u         /* takes in one call */
#define WR_TRIES_MAX 8u             /* redirections and the like of one call */
#define WR_SILENCE_NS 1000000000ull /* wr_central_silence_ns, at least */
#define WR_MESSAGES_MAX 64u
#define WR_CENTRAL_KEY_TEXT 24 /* a key's hash as text */
#define WR_REDIS_KEY (WR_REDIS_PREFIX_MAX + WR_CENTRAL_KEY_TEXT + WR_QUESTION_ID + 16)
#define WR_MS_NS 1000000ull

/* ---- what is under way ---- */

/* One limit of a question. */
struct wr_central_part {
	struct wr_central_part *next; /* of its ask, in the question's order */
	struct wr_central_part *mate; /* of its call */
	struct wr_central_ask *ask;   /* NULL: nobody waits for it any more */
	struct wr_call *call;         /* NULL: answered */
	struct wr_take take;
	struct wr_answer answer;
	uint64_t key[2];
	uint64_t identity; /* of the limit: its id and its numbers */
	uint64_t tag;      /* the counter's name in the table */
	uint64_t taken_us; /* when Redis decided, by its clock */
	uint64_t back_ns;  /* late.c: when it is given back, mono */
	uint32_t group;
	bool leased;   /* units are borrowed from its counter: another script decides */
	bool recalled; /* the answer is from memory */
	bool settled;  /* … or need not be asked for */
	bool left;     /* the asker has gone: what is granted is given back */
	uint8_t id_len;
	char id[WR_QUESTION_ID];
};

enum wr_call_kind {
	WR_CALL_TAKE,
	WR_CALL_LEASE, /* a take where units are borrowed, or a word about them, or both */
	WR_CALL_RETURN,
	WR_CALL_REPORT,
	WR_CALL_RESET,
	WR_CALL_EXCHANGE,
	WR_CALL_PUSH,
	WR_CALL_ASKING,    /* says that the next call is here by an ASK */
	WR_CALL_HANDSHAKE, /* one of a link's first commands */
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

/* One command, and what is to become of its reply. */
struct wr_call {
	struct wr_call *next; /* of the queue it is in */
	uint8_t kind;         /* enum wr_call_kind */
	uint8_t step;         /* GREETING, SECRET: which command */
	uint8_t tries;
	bool asking;  /* an ASKING goes before it */
	bool eval;    /* the script's text goes along */
	bool written; /* Redis may carry it out */
	bool late;    /* the timeout has passed without a reply; counted once */
	bool merged;  /* its parts are takes of one counter and one cost */
	bool leased;  /* RETURN, REPORT: of a counter that units are borrowed from */
	uint16_t slot;
	uint16_t count; /* parts */
	uint64_t key[2];
	uint64_t number;          /* of its writing, within the link */
	uint64_t mono_ns;         /* when it was written; waiting to be tried again: when that is */
	uint64_t report_seq;      /* 0: not sent yet */
	uint64_t report_since_ns; /* mono, when it was first sent */
	bool report_in_flight;    /* under way */
	struct wr_call *report_next; /* of its list */
	struct wr_central_shard *shard;
	struct wr_lease_hold *hold; /* LEASE: that it speaks for, or NULL */
	void *of;                   /* EXCHANGE, PUSH: what they are about */
	struct wr_central_part *first, *last;
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

/* ---- connections and servers ---- */

enum wr_central_conn_state {
	WR_CONN_OPENING,
	WR_CONN_HANDSHAKE, /* connected; logging in */
	WR_CONN_READY,
	WR_CONN_CLOSED, /* closed; freed when nobody is in its functions any more */
};

enum wr_script_name {
	WR_SCRIPT_TAKE,
	WR_SCRIPT_LEASE,
	WR_SCRIPT_EXCHANGE,
	WR_SCRIPT_PUSH,
	WR_SCRIPT_NODES,
	WR_SCRIPT_NAMES
};

struct wr_central_conn {
	struct wr_link link; /* first: hosts hold a pointer to it */
	struct wr_central *central;
	struct wr_central_shard *shard; /* NULL: to a sentinel */
	enum wr_central_conn_state state;
	bool dirty;  /* the host was told */
	bool served; /* a question was answered */
	bool late;   /* the reply that is read now came after its timeout */
	uint64_t opened_mono_ns;
	uint64_t written;                /* number of the call written last */
	uint64_t evals[WR_SCRIPT_NAMES]; /* number of the last one that brings the text along */
	struct wr_commands out;
	struct wr_redis_replies in;
	struct wr_call_queue waiting; /* written, in the order of their replies */
	struct wr_call *due;          /* … the first of them that may still be in time */
	struct wr_central_conn *next; /* dead ones */
};

/* A server, or in a topology of one, the server. */
struct wr_central_shard {
	struct wr_central *central;
	struct wr_endpoint at;        /* WR_ENDPOINT_ANY: not known yet (sentinels) */
	struct wr_central_conn *conn; /* NULL: none */
	struct wr_breaker breaker;
	struct wr_call_queue turn; /* not written yet */
	uint64_t connect_by_ns;    /* mono; not 0: the breaker opens unless it is ready by then */
	uint64_t down_since_ns;    /* mono */
	uint32_t slots;
	uint32_t logged_faults; /* faults told to the log since it was last up, a bit each */
	bool down;              /* the log was told so */
	bool probing;           /* a PING is under way */
	int64_t clock_us;       /* its clock less ours */
	char trouble[160], version[24], policy[24];
	int8_t aof;
	struct wr_central_counts counts;
};

/* ---- duties ---- */

/* cluster.c: who serves which slot. */
struct wr_central_cluster {
	bool known;       /* there was a map once */
	bool unreachable; /* all known nodes were tried in vain */
	bool asking;      /* CLUSTER SLOTS is under way */
	bool logged;      /* the log was told what is wrong */
	uint32_t turn;    /* whom to ask next */
	uint32_t tried;   /* in vain, since one answered */
	uint64_t refresh_at_ns, refreshed_ns;
	struct wr_call_queue unrouted;   /* calls that wait for the first map */
	uint16_t owner[WR_SLOTS];        /* number of the shard, or WR_CLUSTER_NO_OWNER */
	struct wr_redis_cluster_map map; /* the last one, as it was read */
};

/* sentinels.c: who the master is. */
struct wr_central_sentinels {
	struct wr_endpoint_list list;
	uint32_t at;    /* whom we ask */
	uint32_t tried; /* in vain, since one answered */
	struct wr_central_conn *conn;
	bool asking;
	bool logged; /* the log was told that they are of no help */
	uint32_t polls;
	uint64_t polled_ns, poll_at_ns;
	uint64_t answer_by_ns; /* mono; 0: none is awaited */
};

struct wr_central_message {
	struct wr_central_message *next;
	size_t len;
	uint8_t bytes[];
};

/* node.c, control.c: what a node does once. */
struct wr_central_duties {
	bool beating, listening, publishing, agreeing;
	bool secret_known, secret_given, secret_logged;
	uint8_t secret[WR_CENTRAL_SECRET], proposed[WR_CENTRAL_SECRET];
	uint32_t nodes;
	uint64_t beat_at_ns, listen_at_ns, publish_at_ns; /* mono */
	uint64_t redis_us;                                /* what TIME said */
	uint64_t heard_ms, heard_seq;                     /* the last message's id */
	struct wr_central_message *first, *last;          /* to be published */
	uint32_t message_count;
};

#define WR_REPORT_LISTS 1024u
#define WR_TIME_FOR_STREAM 1u /* step of a TIME that goes with a look at the stream */

struct wr_central_reports {
	struct wr_call *lists[WR_REPORT_LISTS]; /* by key, in the order they came, sent ones too */
	uint32_t calls, parts;
	uint32_t in_flight;
	bool full_logged; /* since there was room the last time */
	uint64_t next_seq;
	uint64_t send_at_ns; /* mono; UINT64_MAX: there are none */
};

/* late.c: takes that Redis carried out after their askers had given up, by key. */
struct wr_central_late {
	struct wr_central_part *lists[WR_REPORT_LISTS];
	uint32_t count;
	uint64_t look_at_ns; /* mono; UINT64_MAX: there are none */
};

struct wr_central_merge_entry {
	uint64_t turn;
	struct wr_call *call;
};

struct wr_central_pool_block;

struct wr_central_pool {
	struct wr_central_pool_block *blocks;
	void *free;
	uint32_t made;
};

struct wr_central {
	const struct wr_redis_target *target;
	struct wr_central_host host;
	void *context;
	char prefix[WR_REDIS_PREFIX_MAX + 4]; /* "weir:1:" */
	size_t prefix_len;
	char holder[48];   /* the node's name in Redis */
	char reporter[64]; /* … and that of this loop in reports */
	uint64_t timeout_ns;
	struct weir_table *table; /* where units are spent from, or NULL */
	uint64_t owner;           /* who we are there, and as a holder in Redis */
	uint32_t fleet_size;
	bool chief;
	bool freeing, ticking;
	uint64_t random;

	uint64_t now_ns, mono_ns; /* as last told */
	uint64_t wake_ns;         /* when the host was asked to call */
	uint32_t depth;           /* calls into here that have not returned */
	struct wr_central_conn *closed;

	struct wr_central_ask *first_ask, *last_ask; /* by deadline */
	uint32_t waiting;
	struct wr_central_pool parts, calls;
	struct wr_call_queue again; /* calls to be tried again in a moment, by time */
	uint64_t turn;              /* calls of a turn may be merged */
	struct wr_central_merge_entry merge[WR_MERGE_ENTRIES];

	struct wr_central_shard *shards[WR_SHARDS_MAX];
	uint32_t shard_count;
	struct wr_central_cluster *cluster;     /* cluster */
	struct wr_central_sentinels *sentinels; /* sentinels */
	struct wr_central_duties duties;
	struct wr_central_reports reports;
	struct wr_central_late late;
	struct wr_refusals *refusals;
	struct wr_lease_holds *holds;
	struct wr_central_exchanges *exchanges; /* NULL: not our business */
	struct wr_central *home;         /* this is one of its regions, and no store of ours */
	uint32_t region;                 /* … by this number */
	uint32_t pushes;                 /* … with so many calls under way */
	struct wr_central_counts counts; /* what is no shard's, and of shards that are gone */
};

/* central.c: each call from outside is between these two. */
void wr_central_enter(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns);
void wr_central_exit(struct wr_central *central);
void wr_central_wake_at(struct wr_central *central, uint64_t mono_ns);
uint64_t wr_central_random(struct wr_central *central);
__attribute__((format(printf, 3, 4))) void
wr_central_log(struct wr_central *central, enum wr_say level, const char *format, ...);

/* pool.c: zeroed, or NULL: there are too many. */
struct wr_call *wr_call_new(struct wr_central *central, enum wr_call_kind kind);
struct wr_central_part *wr_central_part_new(struct wr_central *central);
void wr_central_part_free(struct wr_central *central, struct wr_central_part *part);
void wr_call_free(struct wr_central *central, struct wr_call *call); /* with its parts */
void wr_call_add(struct wr_call *call, struct wr_central_part *part);
void wr_central_pools_free(struct wr_central *central);

/* question.c: a message's bytes as parts. */
struct wr_central_question {
	const uint8_t *at, *end;
	uint16_t left;
	uint8_t kind;
};

bool wr_central_question_open(struct wr_central_question *reader, const void *bytes, size_t len);
/* False: it is malformed. */
bool wr_central_question_next(struct wr_central_question *reader, struct wr_central_part *part);

/* call.c: what is common to all kinds. */
const struct wr_call_ops *wr_call_ops(const struct wr_call *call);
void wr_call_send(struct wr_central *central, struct wr_call *call); /* to whom it belongs */
void wr_call_reply(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply);
void wr_call_fail(struct wr_central *central, struct wr_call *call, enum wr_fault fault);
uint16_t wr_central_text_slot(const struct wr_central *central, const char *key);
/* The key of something the fleet has one of: "weir:1:nodes". */
void wr_central_fleet_key(const struct wr_central *central, const char *name,
			  char key[WR_REDIS_KEY]);
size_t wr_central_part_key(const struct wr_central *central, const struct wr_call *call,
			   const struct wr_central_part *part, char key[WR_REDIS_KEY]);
/* "weir:1:{HASH}:fixed_window/1m", and of what is borrowed there "weir:1:{HASH}:l:fixed_window/1m"
 */
size_t wr_central_counter_key(const struct wr_central *central, const uint64_t key[2],
			      const char *mark, struct weir_str id, char text[WR_REDIS_KEY]);
/* The slot of a counter's key (0 without a cluster), and who has it; NULL: nobody does. */
uint16_t wr_central_key_slot(const struct wr_central *central, const uint64_t key[2]);
struct wr_central_shard *wr_central_key_shard(struct wr_central *central, const uint64_t key[2]);
void wr_central_key_text(const uint64_t key[2], char text[WR_CENTRAL_KEY_TEXT]);
void wr_call_write_script(struct wr_central_conn *conn, struct wr_call *call,
			  enum wr_script_name name, size_t args);

enum wr_call_written {
	WR_CALL_WRITTEN,
	WR_CALL_UNWANTED, /* nobody wants it any more */
	WR_CALL_NO_ROOM,
};

/* What the files of the kinds give: put writes the command; heard gets a reply that is no error;
 * failed is told the fault once nothing more is done about it. */
struct wr_call_ops {
	enum wr_call_written (*write)(struct wr_central_conn *conn, struct wr_call *call);
	void (*on_reply)(struct wr_central_conn *conn, struct wr_call *call,
			 const redisReply *reply);
	void (*on_failure)(struct wr_central *central, struct wr_call *call, enum wr_fault fault);
	bool keyed;         /* belongs to the shard of its slot, and follows it */
	bool feeds_breaker; /* its success and failure are the breaker's business */
	bool reads_errors;  /* heard gets error replies, too */
	int script;         /* enum wr_script_name, or -1 */
};

extern const struct wr_call_ops wr_call_take_ops, wr_call_return_ops, wr_call_report_ops,
	wr_call_reset_ops;

/* Puts the keys under which take.lua keeps when each counter of the call was reset. */
void wr_call_write_reset_marks(struct wr_central_conn *conn, const struct wr_call *call);
extern const struct wr_call_ops wr_call_lease_ops, wr_call_exchange_ops, wr_call_push_ops;
extern const struct wr_call_ops wr_call_asking_ops, wr_call_handshake_ops, wr_call_ping_ops,
	wr_call_info_ops;
extern const struct wr_call_ops wr_call_slots_ops, wr_call_master_ops, wr_call_sentinels_ops;
extern const struct wr_call_ops wr_call_beat_ops, wr_call_secret_ops, wr_call_time_ops,
	wr_call_listen_ops;
extern const struct wr_call_ops wr_call_publish_ops;

/* ask.c */
void wr_central_asks_expire(struct wr_central *central);
void wr_central_asks_fail(struct wr_central *central); /* all of them */
/* The part is out of its call and has its answer; whoever waits may be told. */
void wr_central_part_answered(struct wr_central *central, struct wr_central_part *part);

/* take.c: for calls whose parts are takes. Those who have gone before it was written take nothing;
 * an answer (to one limit, whether asked for once or more often) is handed out; nobody gets one. */
void wr_call_drop_abandoned(struct wr_central *central, struct wr_call *call);
void wr_call_takes_answered(struct wr_central_conn *conn, struct wr_call *call,
			    const struct wr_taken *taken);
void wr_call_takes_failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault);

/* … what the part has got is sent back, with the part. */
void wr_central_give_back(struct wr_central *central, struct wr_central_part *part);

/* late.c: a part whose asker gave up was taken after all. */
void wr_central_late_add(struct wr_central *central, struct wr_central_part *part);
/* Takes from a report what Redis has counted by such takes already. */
void wr_central_late_deduct(struct wr_central *central, const struct wr_call *call,
			    struct wr_central_part *part);
void wr_central_late_forget(struct wr_central *central, const uint64_t key[2]);
void wr_central_late_tick(struct wr_central *central);
void wr_central_late_free(struct wr_central *central);

/* recall.c: answers what memory knows; how many parts of the ask need not be asked. */
uint16_t wr_central_recall_refusals(struct wr_central *central, struct wr_central_ask *ask);

/* merge.c: whether a call with one part could go along in another one of this turn; then it has,
 * and is gone. If not, others may go along with it. */
bool wr_call_merge(struct wr_central *central, struct wr_call *call);

/* shard.c */
struct wr_central_shard *wr_central_shard_new(struct wr_central *central,
					      const struct wr_endpoint *at);
void wr_central_shard_close(struct wr_central_shard *shard); /* all but its memory */
void wr_central_shard_push(struct wr_central_shard *shard, struct wr_call *call);
void wr_central_shard_connect(struct wr_central_shard *shard);
void wr_central_shard_on_ready(struct wr_central_shard *shard);
/* A call was answered. A reply that comes after its timeout is no success. */
void wr_central_shard_on_success(struct wr_central_shard *shard);
/* What its clock said between the writing of the call and now. */
void wr_central_shard_note_clock(struct wr_central_shard *shard, const struct wr_call *call,
				 uint64_t now_us);
void wr_central_shard_on_fault(struct wr_central_shard *shard, enum wr_fault fault,
			       struct weir_str text);
void wr_central_shard_warn(struct wr_central_shard *shard, enum wr_fault fault,
			   struct weir_str text);
/* The line is gone. served: it had been of use. */
void wr_central_shard_on_lost(struct wr_central_shard *shard, bool served, enum wr_fault fault,
			      const char *why);
/* It is at another address now, or its address has changed hands. */
void wr_central_shard_move(struct wr_central_shard *shard, const struct wr_endpoint *at);
void wr_central_shard_tick(struct wr_central_shard *shard);
uint64_t
wr_central_silence_ns(const struct wr_central *central); /* a second, or the timeout if longer */
bool wr_central_shard_is_up(const struct wr_central_shard *shard);
/* … or may be: it is tried by what nobody waits for, too, or it would be so for ever. */
bool wr_central_shard_answers(const struct wr_central_shard *shard);
/* Whether the line is there and a call may be put on it beside all questions. */
bool wr_central_shard_is_ready(const struct wr_central_shard *shard);

/* line.c */
struct wr_central_conn *wr_central_conn_open(struct wr_central *central,
					     const struct wr_endpoint *at,
					     struct wr_central_shard *shard);
void wr_central_conn_write(struct wr_central_conn *conn,
			   struct wr_call *call);              /* written in this turn */
void wr_central_conn_mark_dirty(struct wr_central_conn *conn); /* there is something to write */
/* Closes it; what waited on it fails. Whoever held it does no longer. */
void wr_central_conn_close(struct wr_central_conn *conn);
/* The same, and its shard or the sentinels are told. */
void wr_central_conn_fail(struct wr_central_conn *conn, enum wr_fault fault, const char *why);
void wr_central_conns_free_closed(struct wr_central *central);

/* greet.c */
void wr_central_handshake(struct wr_central_conn *conn);

/* info.c */
void wr_central_counts_add(struct wr_central_counts *sum, const struct wr_central_counts *part);

/* cluster.c, sentinels.c, node.c, control.c, report.c, settings.c */
struct wr_central_shard *wr_central_slot_shard(struct wr_central *central, uint16_t slot);
bool wr_central_cluster_start(struct wr_central *central);
void wr_central_cluster_free(struct wr_central *central);
void wr_central_cluster_tick(struct wr_central *central);
void wr_central_cluster_refresh_soon(struct wr_central *central); /* the map may be out of date */
void wr_central_cluster_on_ready(struct wr_central *central, struct wr_central_shard *shard);
void wr_central_cluster_on_failure(struct wr_central *central, struct wr_central_shard *shard);
struct wr_central_shard *wr_central_cluster_redirect(struct wr_central *central,
						     const struct wr_endpoint *at, uint16_t slot,
						     bool moved);
bool wr_central_sentinels_start(struct wr_central *central);
void wr_central_sentinels_tick(struct wr_central *central);
void wr_central_sentinels_poll_soon(struct wr_central *central); /* the master may be another one */
void wr_central_sentinels_poll(struct wr_central *central);
void wr_central_sentinels_on_lost(struct wr_central *central, const char *why);
void wr_central_duties_on_ready(struct wr_central *central, const struct wr_central_shard *shard);
void wr_central_duties_tick(struct wr_central *central);
void wr_central_control_tick(struct wr_central *central);
void wr_central_control_free(struct wr_central *central);
void wr_central_reports_add(struct wr_central *central, struct wr_call *call);
void wr_central_reports_send_soon(struct wr_central *central); /* a shard may be back */

/* Sends what is to be reported of the key of a take, which is about to be sent: Redis would grant
 * once more what this node has admitted without it. */
void wr_central_reports_send_before(struct wr_central *central, const struct wr_call *take);
/* Whether nothing of what the part took can matter any more, by this node's clock. */
bool wr_central_report_is_stale(const struct wr_central *central, const struct wr_take *take);
/* Takes a late part from a report that was not sent yet. False: there is none. */
bool wr_central_reports_deduct(struct wr_central *central, const struct wr_central_part *late);
/* Whether a late take and a report are of one counter and window. */
bool wr_central_late_matches(struct wr_central *central, const struct wr_central_part *late,
			     const struct wr_call *call, const struct wr_central_part *part);
void wr_central_reports_tick(struct wr_central *central);
void wr_central_reports_free(struct wr_central *central);
void wr_central_ask_time(struct wr_central_conn *conn);
void wr_central_ask_settings(struct wr_central_conn *conn);

#endif
