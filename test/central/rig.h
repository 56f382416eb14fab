/* A struct wr_central with a host in memory: connections are queues of commands, time is a number,
 * and the test writes the replies of the servers. The rig answers the handshake, PING, INFO,
 * heartbeats and the control stream by itself, in order. Calls of the deciding scripts are left to
 * the test. */
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

/* A connection, from the server's side. */
struct peer {
	struct rig *rig;
	struct wr_central_link *link; /* NULL: closed */
	uint16_t port;
	bool up;
	int waiting; /* unanswered commands, oldest first: */
	char (*commands)[COMMAND_BYTES];
	int taken; /* of these: already returned by next_command() */
};

/* The faults of a port. */
struct trouble {
	uint16_t port;
	bool refuses;     /* refuses connections */
	bool silent;      /* never completes a connection */
	bool mute;        /* accepts connections but answers nothing by itself */
	const char *ping; /* the reply to PING instead of +PONG */
	const char *auth, *role;
	uint16_t names; /* the master that this Sentinel names; 0: rig.master */
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
	int writes; /* writes to links, and bytes in total */
	size_t bytes;
	struct trouble troubles[PORTS_MAX];
	int trouble_count;

	/* The data of the servers. */
	char secret_hex[400]; /* "": none */
	bool refuses_secret;  /* another node was faster: SET NX changes nothing */
	int nodes;
	const char *info;   /* NULL: a plain one */
	const char *slots;  /* reply to CLUSTER SLOTS */
	uint16_t master;    /* the master that Sentinels name; 0: unknown */
	const char *stream; /* reply to XREAD, once */
	int added;          /* number of XADD */
	char added_text[COMMAND_BYTES];
	char last_xread[COMMAND_BYTES];

	/* What the host was notified of. */
	char logged[32768];
	int secrets;
	uint8_t secret[WR_CENTRAL_SECRET];
	uint32_t nodes_told;
	char heard[4096];
	uint64_t heard_age_ns;
	struct wr_central_info info_now;
};

/* Makes a rig for a URL, connected unless the port has a fault. opts may be NULL; target, prefix
 * and seed are filled in. */
struct rig *rig_new(const char *url, const struct wr_central_opts *opts);
struct rig *rig_begin(const char *url); /* without a central, to prepare faults first */
void rig_start(struct rig *rig, const struct wr_central_opts *given);
void rig_free(struct rig *rig);

struct trouble *rig_trouble(struct rig *rig, uint16_t port);

/* One turn of the loop: writes and reads output, and answers what the rig answers by itself. */
void run_turn(struct rig *rig);
/* Advances the time, with ticks when the central asked for them. */
void pass_time(struct rig *rig, uint64_t ns);

/* The newest connection to a port, or NULL. */
struct peer *peer_at(struct rig *rig, uint16_t port);
/* The next command that the test must answer, or NULL. */
const char *next_command(struct peer *peer);
/* Answers the oldest of them. */
void reply(struct peer *peer, const char *bytes);
/* Ends the connection. */
void cut_peer(struct peer *peer, const char *why);

/* A reply of take.lua for one limit; `times`: admitted requests of a merged call. */
const char *taken(bool admitted, int remaining, int64_t retry_us, int times);
/* The same for n limits, five values each. */
const char *taken_all(int n, const int64_t (*values)[5]);
enum { V_ADMITTED = 1, V_SOFT = 2, V_TAKEN = 4, V_OUTSIDE = 8, V_TIMES = 16 };

const struct wr_central_info *info(struct rig *rig);
uint64_t faults(struct rig *rig, enum wr_fault fault);

/* ---- questions ---- */

struct item {
	uint64_t key;
	const char *id; /* NULL: "fixed_window/1m" */
	int64_t cost;
	uint32_t limit; /* 0: 10 */
	uint32_t group;
	uint8_t algorithm; /* 0: fixed window */
	bool leased;       /* consistency: lease; its key in the table is `key` */
	uint16_t flags;
	uint32_t burst, soft_ceiling, granted;
	uint64_t period_ns; /* 0: a minute */
	uint64_t decided_us;
	uint64_t windows[4]; /* calendar windows: before, start, end, after, in seconds */
};

/* Returns the length of a question; its bytes are valid until the next one. */
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
void take_one(struct rig *rig, struct asker *asker, uint64_t key, int64_t cost);
void send_question(struct rig *rig, uint8_t kind, const struct item *items, size_t count);

/* Flags of the n-th answer, which must exist. */
uint32_t flags_of(const struct asker *asker, int n);

#define assert_pending(asker) assert_int_equal((asker)->done, 0)
#define assert_admitted(asker)                                                                     \
	assert_int_equal(flags_of(asker, 0) & (WR_ANSWER_ADMITTED | WR_ANSWER_FAILED),             \
			 WR_ANSWER_ADMITTED)
#define assert_refused(asker)                                                                      \
	assert_int_equal(flags_of(asker, 0) & (WR_ANSWER_ADMITTED | WR_ANSWER_FAILED), 0)
#define assert_failed(asker) assert_int_equal(flags_of(asker, 0), WR_ANSWER_FAILED)

#endif
