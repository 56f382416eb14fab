/* A struct wr_central with a host in memory: connections are queues of commands, time is a number,
 * and the test writes the replies of the servers. The rig itself replies to the handshake, PING,
 * INFO, heartbeats and the control stream, in order. The test replies to the calls of the other
 * scripts. */
#ifndef TEST_CENTRAL_RIG_H
#define TEST_CENTRAL_RIG_H

// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdbool.h>

#include "central/central.h"
#include "redis/script.h"

#define MS 1000000ull
#define NOW_NS 1700000040000000000ull /* a whole minute */
#define NOW_US (NOW_NS / 1000)
#define PEERS_MAX 256
#define COMMANDS_MAX 4200
#define COMMAND_BYTES 640
#define PORTS_MAX 16

struct rig;

/* A connection as the server sees it. */
struct peer {
	struct rig *rig;
	struct wr_central_link *link; /* NULL if the connection is closed */
	uint16_t port;
	bool up;
	int waiting; /* number of commands without a reply; the commands are listed oldest first */
	char (*commands)[COMMAND_BYTES];
	int taken; /* number of these commands that next_command() has returned */
};

/* The faults that the test sets for a port. */
struct trouble {
	uint16_t port;
	bool refuses;     /* the server refuses connections */
	bool silent;      /* no connection to the server is ever completed */
	bool mute;        /* the server accepts connections but sends no reply by itself */
	const char *ping; /* the reply to PING, if it is not +PONG */
	const char *auth, *role;
	uint16_t names; /* the port of the master that this Sentinel names; 0: rig.master */
};

struct rig {
	struct wr_redis_target target;
	struct wr_central *central;
	uint64_t now_ns, mono_ns, wake_ns;
	bool waking;
	struct peer peers[PEERS_MAX];
	int peer_count;
	struct peer *dirty[PEERS_MAX];
	int dirty_count;
	int writes; /* number of writes to links, and total number of bytes */
	size_t bytes;
	struct trouble troubles[PORTS_MAX];
	int trouble_count;

	/* The data of the servers. */
	char secret_hex[400]; /* the fleet's secret as text; "": no secret is stored */
	bool refuses_secret;  /* SET NX changes nothing, because another node was faster */
	int nodes;
	const char *info;   /* the reply to INFO; NULL: a reply without problems */
	const char *slots;  /* the reply to CLUSTER SLOTS */
	uint16_t master;    /* the port of the master that Sentinels name; 0: unknown */
	const char *stream; /* the reply to the next XREAD; later reads get no messages */
	int added;          /* number of XADD commands */
	char added_text[COMMAND_BYTES];
	char last_xread[COMMAND_BYTES];

	/* The events that were reported to the host. */
	char logged[32768];
	int secrets;
	uint8_t secret[WR_CENTRAL_SECRET];
	uint32_t nodes_told;
	char messages[4096]; /* the message "long" takes long */
	uint64_t message_age_ns;
	struct wr_central_info info_now;
};

/* Makes a rig for a URL. The rig is connected unless the port has a fault. opts may be NULL;
 * target, prefix and seed are filled in. */
struct rig *rig_new(const char *url, const struct wr_central_opts *opts);
/* Makes a rig without a struct wr_central, so that the test can set faults first. */
struct rig *rig_begin(const char *url);
void rig_start(struct rig *rig, const struct wr_central_opts *given);
void rig_free(struct rig *rig);

struct trouble *rig_trouble(struct rig *rig, uint16_t port);

/* Runs one turn of the loop: passes all output to the servers, and sends the replies that the rig
 * sends by itself. */
void run_turn(struct rig *rig);
/* Advances the time, and calls wr_central_tick at the times that the central asked for. */
void pass_time(struct rig *rig, uint64_t ns);

/* Returns the newest connection to a port, or NULL. */
struct peer *peer_at(struct rig *rig, uint16_t port);
/* Returns the next command that the test must reply to, or NULL. */
const char *next_command(struct peer *peer);
/* Replies to the oldest command that next_command() has returned. */
void reply(struct peer *peer, const char *bytes);
/* Ends the connection. */
void cut_peer(struct peer *peer, const char *why);

/* Returns a reply of take.lua for one limit. `times` is the number of admitted requests of a merged
 * call. */
const char *taken(bool admitted, int remaining, int64_t retry_us, int times);
/* Returns a reply of take.lua for n limits, with five values for each limit. */
const char *taken_all(int n, const int64_t (*values)[5]);
enum { V_ADMITTED = 1, V_SOFT = 2, V_TAKEN = 4, V_OUTSIDE = 8, V_TIMES = 16 };

const struct wr_central_info *info(struct rig *rig);
uint64_t faults(struct rig *rig, enum wr_fault fault);
/* Returns the state of the first shard. */
enum wr_central_shard_state state_now(struct rig *rig);

/* ---- questions ---- */

struct item {
	uint64_t key;
	const char *id; /* NULL: "fixed_window/1m" */
	int64_t cost;
	uint32_t limit; /* 0: 10 */
	uint32_t group;
	uint8_t algorithm; /* 0: fixed window */
	/* The limit has `consistency: lease`. The counter's key in the table is `key`. */
	bool leased;
	uint16_t flags;
	uint32_t burst, soft_ceiling, granted, max_debt;
	uint64_t period_ns; /* 0: a minute */
	uint64_t decided_us;
	uint64_t windows[4]; /* calendar windows in seconds: before, start, end, after */
};

/* Writes a question. Returns its length. The bytes are valid until the next call. */
size_t question(uint8_t kind, const struct item *items, size_t count, const uint8_t **bytes);

struct asker {
	struct wr_central_ask ask;
	struct rig *rig;
	size_t len;
	int done, count;
	struct wr_answer answers[WEIR_NEEDS_MAX];
	uint64_t done_at_ns; /* monotonic */
	void (*then)(struct asker *asker);
};

void take(struct rig *rig, struct asker *asker, const struct item *items, size_t count);
/* Settles a reservation. The first item is its marker. */
void settle_question(struct rig *rig, struct asker *asker, const struct item *items, size_t count);
void take_one(struct rig *rig, struct asker *asker, uint64_t key, int64_t cost);
void send_question(struct rig *rig, uint8_t kind, const struct item *items, size_t count);
/* Sends a take to the server at port 6379, and replies to it with these bytes. An error reply must
 * fail the take. */
void take_with_reply(struct rig *rig, uint64_t key, const char *bytes);

/* Returns the flags of the n-th answer, which must exist. */
uint32_t flags_of(const struct asker *asker, int n);

#define assert_pending(asker) assert_int_equal((asker)->done, 0)
#define assert_admitted(asker)                                                                     \
	assert_int_equal(flags_of(asker, 0) & (WR_ANSWER_ADMITTED | WR_ANSWER_FAILED),             \
			 WR_ANSWER_ADMITTED)
#define assert_refused(asker)                                                                      \
	assert_int_equal(flags_of(asker, 0) & (WR_ANSWER_ADMITTED | WR_ANSWER_FAILED), 0)
#define assert_failed(asker) assert_int_equal(flags_of(asker, 0), WR_ANSWER_FAILED)

#endif
