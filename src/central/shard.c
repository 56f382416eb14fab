/* A Redis server: its connection, its breaker, its queue of unwritten calls, and the log messages
 * about its outages. Called by call.c, conn.c, cluster.c, sentinels.c and the timer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

_Static_assert(WR_FAULT_COUNT <= 32, "wr_central_shard.logged_faults has one bit per fault");

/* A connection attempt is given up after 10 times timeout_ns, but not before 1 s has passed.
 * Questions that wait for the connection fail earlier, at their own timeout. */
#define GIVE_UP_TIMEOUTS 10u
#define GIVE_UP_MIN_NS 1000000000ull

struct wr_central_shard *wr_central_shard_new(struct wr_central *central,
					      const struct wr_endpoint *at)
{
	struct wr_central_shard *shard = calloc(1, sizeof *shard);

	if (!shard)
		return NULL;
	shard->central = central;
	shard->at = *at;
	shard->aof = -1;
	return shard;
}

bool wr_central_shard_is_ready(const struct wr_central_shard *shard)
{
	return shard->conn && shard->conn->state == WR_CONN_READY;
}

bool wr_central_shard_is_up(const struct wr_central_shard *shard)
{
	return wr_central_shard_is_ready(shard) && shard->breaker.state == WR_BREAKER_CLOSED;
}

bool wr_central_shard_answers(const struct wr_central_shard *shard)
{
	return wr_central_shard_is_ready(shard) && shard->breaker.state != WR_BREAKER_OPEN;
}

/* ---- log messages ---- */

static const char *remedy(const struct wr_central_shard *shard, enum wr_fault fault)
{
	switch (fault) {
	case WR_FAULT_NOAUTH:
		return "; set a password in the URL or with --redis-password-file";
	case WR_FAULT_WRONGPASS:
		return "; check the user and password in the URL or in --redis-password-file";
	case WR_FAULT_NOPERM:
		return "; see docs/redis.md for the ACL that weir needs";
	case WR_FAULT_OOM:
		return "; raise its maxmemory";
	case WR_FAULT_MOVED:
		return shard->central->cluster
			       ? ""
			       : "; the server belongs to a cluster: use redis+cluster://";
	case WR_FAULT_READONLY:
		return shard->central->target->kind == WR_REDIS_SINGLE
			       ? "; weir needs the address of the master, or redis+sentinel://"
			       : "";
	case WR_FAULT_WRONGTYPE:
		return "; choose another --redis-prefix";
	default:
		return "";
	}
}

/* Copies `text` (an error reply or another message) to shard->trouble, with blanks in place of
 * control characters. If `text` is empty, copies wr_fault_text(fault) instead. */
static void note_trouble(struct wr_central_shard *shard, enum wr_fault fault, struct weir_str text)
{
	size_t len = text.len < sizeof shard->trouble - 1 ? text.len : sizeof shard->trouble - 1;

	if (len == 0) {
		snprintf(shard->trouble, sizeof shard->trouble, "%s", wr_fault_text(fault));
		return;
	}
	for (size_t i = 0; i < len; i++)
		shard->trouble[i] = text.ptr[i] >= ' ' && text.ptr[i] != 127 ? text.ptr[i] : ' ';
	shard->trouble[len] = 0;
}

/* Logs shard->trouble, but each kind of error (enum wr_fault) only once per outage. */
static void log_trouble(struct wr_central_shard *shard, enum wr_fault fault)
{
	char at[WR_ENDPOINT_TEXT];
	const char *consequence = "";

	if (shard->logged_faults >> fault & 1)
		return;
	shard->logged_faults |= 1u << fault;
	if (shard->breaker.state == WR_BREAKER_OPEN)
		consequence =
			shard->central->home
				? "; the requests admitted here are pushed when it is back"
				: "; until it is back, on_store_failure of each limit decides";
	wr_endpoint_text(&shard->at, at);
	wr_central_log(shard->central, WR_CENTRAL_LOG_WARN, "%s: %s%s%s",
		       shard->at.kind == WR_ENDPOINT_ANY ? "the master" : at, shard->trouble,
		       consequence, remedy(shard, fault));
}

static void log_recovery(struct wr_central_shard *shard)
{
	char at[WR_ENDPOINT_TEXT];

	if (!shard->down)
		return;
	shard->down = false;
	shard->logged_faults = 0;
	wr_endpoint_text(&shard->at, at);
	wr_central_log(shard->central, WR_CENTRAL_LOG_INFO, "%s: back after %.1f s", at,
		       (double)(shard->central->mono_ns - shard->down_since_ns) / 1e9);
}

/* ---- failures ---- */

/* Called when the breaker has opened or its pause was extended. `newly` is true if the breaker was
 * not open before. */
static void on_breaker_opened(struct wr_central_shard *shard, enum wr_fault fault, bool newly)
{
	shard->connect_by_ns = 0;
	if (newly) {
		shard->counts.opened++;
		if (!shard->down)
			shard->down_since_ns = shard->central->mono_ns;
		shard->down = true;
	}
	log_trouble(shard, fault);
	wr_central_wake_at(shard->central, shard->breaker.probe_at_ns);
	if (shard->central->cluster)
		wr_central_cluster_refresh_soon(shard->central);
	if (shard->central->sentinels)
		wr_central_sentinels_poll_soon(shard->central);
	wr_call_queue_fail(shard->central, &shard->unwritten, WR_FAULT_OPEN);
}

static void open_breaker(struct wr_central_shard *shard, enum wr_fault fault)
{
	bool newly = shard->breaker.state != WR_BREAKER_OPEN;

	wr_breaker_open(&shard->breaker, &wr_central_breaker, shard->central->mono_ns,
			wr_central_random(shard->central));
	on_breaker_opened(shard, fault, newly);
}

/* Opens the breaker and closes the connection. */
static void drop_conn(struct wr_central_shard *shard, enum wr_fault fault)
{
	struct wr_central_conn *conn = shard->conn;

	shard->conn = NULL;
	open_breaker(shard, fault);
	if (conn)
		wr_central_conn_close(conn);
}

static void count_failure(struct wr_central_shard *shard, enum wr_fault fault)
{
	struct wr_central *central = shard->central;

	if (wr_breaker_failed(&shard->breaker, &wr_central_breaker, central->mono_ns,
			      wr_central_random(central)))
		on_breaker_opened(shard, fault, true);
}

/* Called for an error reply to a call that does not affect the breaker, such as a call for a task
 * of the chief loop. The error must be logged: as long as the secret is not known, no question is
 * sent, so there may be no other errors in the log. */
void wr_central_shard_warn(struct wr_central_shard *shard, enum wr_fault fault,
			   struct weir_str text)
{
	wr_assert(fault < WR_FAULT_COUNT);
	note_trouble(shard, fault, text);
	log_trouble(shard, fault);
}

void wr_central_shard_on_fault(struct wr_central_shard *shard, enum wr_fault fault,
			       struct weir_str text)
{
	wr_assert(fault < WR_FAULT_COUNT);
	note_trouble(shard, fault, text);
	switch (wr_fault_act(fault)) {
	case WR_ACT_NONE:
	case WR_ACT_AGAIN:
		log_trouble(shard, fault);
		break;
	case WR_ACT_COUNT:
		count_failure(shard, fault);
		break;
	case WR_ACT_OPEN:
		open_breaker(shard, fault);
		break;
	case WR_ACT_RELOCATE:
		if (shard->central->cluster) {
			wr_central_cluster_refresh_soon(shard->central);
			count_failure(shard, fault);
		} else {
			drop_conn(shard, fault);
		}
		break;
	case WR_ACT_RELOGIN:
		drop_conn(shard, fault);
		break;
	}
}

/* If the connection has worked, it is opened again at once, because the server is likely to be
 * available. Questions wait for the new connection, and fail only if it cannot be opened in
 * time. */
void wr_central_shard_on_lost(struct wr_central_shard *shard, bool served, enum wr_fault fault,
			      const char *why)
{
	wr_assert(fault < WR_FAULT_COUNT);
	shard->conn = NULL;
	note_trouble(shard, fault, wr_str(why));
	if (served && shard->breaker.state == WR_BREAKER_CLOSED) {
		if (shard->central->sentinels)
			wr_central_sentinels_poll_soon(shard->central);
		wr_central_shard_connect(shard);
	} else {
		shard->counts.faults[fault]++;
		open_breaker(shard, fault);
	}
	if (shard->central->cluster)
		wr_central_cluster_on_failure(shard->central);
}

/* ---- recovery ---- */

void wr_central_shard_connect(struct wr_central_shard *shard)
{
	struct wr_central *central = shard->central;

	if (shard->conn)
		return;
	if (shard->breaker.state == WR_BREAKER_CLOSED) {
		shard->connect_by_ns = central->mono_ns + central->timeout_ns;
		wr_central_wake_at(central, shard->connect_by_ns);
	}
	if (shard->at.kind != WR_ENDPOINT_ANY)
		wr_central_conn_open(central, &shard->at, shard);
}

void wr_central_shard_on_success(struct wr_central_shard *shard)
{
	if (shard->conn)
		shard->conn->served = true;
	if (shard->conn && shard->conn->late)
		return;
	if (wr_breaker_succeeded(&shard->breaker))
		wr_central_reports_send_soon(shard->central);
	if (shard->breaker.state == WR_BREAKER_CLOSED)
		log_recovery(shard);
}

/* The server read its clock at some time between the write of the call and now. The middle between
 * these two times is assumed, so the error is at most half of the round trip. Late replies are
 * ignored, because they are too inaccurate. */
void wr_central_shard_note_clock(struct wr_central_shard *shard, const struct wr_call *call,
				 uint64_t now_us)
{
	const struct wr_central *central = shard->central;
	uint64_t back_ns = (central->mono_ns - call->mono_ns) / 2;

	wr_assert_magic(call, WR_CALL_MAGIC);
	if (!call->late)
		shard->clock_us = (int64_t)now_us - (int64_t)((central->now_ns - back_ns) / 1000);
}

void wr_central_shard_on_ready(struct wr_central_shard *shard)
{
	struct wr_central *central = shard->central;

	wr_assert(shard->conn && shard->conn->state == WR_CONN_READY);
	shard->connect_by_ns = 0;
	shard->counts.connects++;
	if (shard->breaker.state == WR_BREAKER_OPEN)
		wr_breaker_half_open(&shard->breaker, &wr_central_breaker);
	wr_central_conn_send(shard->conn, WR_CALL_TIME, NULL);
	if (central->chief)
		wr_central_conn_send(shard->conn, WR_CALL_INFO, NULL);
	if (central->cluster)
		wr_central_cluster_on_ready(central, shard);
	wr_central_duties_on_ready(central, shard);
	wr_central_reports_send_soon(central);
	if (shard->unwritten.first)
		wr_central_conn_mark_dirty(shard->conn);
}

void wr_central_shard_move(struct wr_central_shard *shard, const struct wr_endpoint *at)
{
	struct wr_central_conn *conn = shard->conn;

	shard->conn = NULL;
	shard->at = *at;
	shard->breaker = (struct wr_breaker){.state = WR_BREAKER_CLOSED};
	wr_central_shard_connect(shard);
	if (conn)
		wr_central_conn_close(conn);
}

/* ---- probes ---- */

/* A probe (PING) has the same timeout as a question. A late reply leaves the breaker open. */
static void read_ping(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	if (conn->late)
		snprintf(conn->shard->trouble, sizeof conn->shard->trouble,
			 "replies take %llu ms, longer than --redis-timeout",
			 (unsigned long long)((conn->central->mono_ns - call->mono_ns) / WR_MS_NS));
	else if (conn->shard->breaker.state == WR_BREAKER_OPEN)
		wr_breaker_half_open(&conn->shard->breaker, &wr_central_breaker);
	wr_call_free(conn->central, call);
}

const struct wr_call_ops wr_call_ping_ops = {
	.words = {"PING"}, .on_reply = read_ping, .script = -1};

/* Probes the server: connects to it or, if it is connected, sends PING. If this probe does not
 * succeed, the next probe follows after the next pause. */
static void send_probe(struct wr_central_shard *shard)
{
	struct wr_central *central = shard->central;

	wr_breaker_open(&shard->breaker, &wr_central_breaker, central->mono_ns,
			wr_central_random(central));
	if (!shard->conn)
		wr_central_shard_connect(shard);
	else if (wr_central_shard_is_ready(shard) && !shard->probing)
		wr_central_conn_send(shard->conn, WR_CALL_PING, &shard->probing);
}

/* ---- timer ---- */

uint64_t wr_central_silence_ns(const struct wr_central *central)
{
	return central->timeout_ns > WR_SILENCE_NS ? central->timeout_ns : WR_SILENCE_NS;
}

/* Returns the time at which the connection times out, monotonic. Returns 0 if it has no
 * deadline. */
static uint64_t conn_deadline(const struct wr_central_conn *conn)
{
	uint64_t give_up_ns = GIVE_UP_TIMEOUTS * conn->central->timeout_ns;

	if (conn->state == WR_CONN_OPENING || conn->state == WR_CONN_HANDSHAKE)
		return conn->opened_mono_ns +
		       (give_up_ns > GIVE_UP_MIN_NS ? give_up_ns : GIVE_UP_MIN_NS);
	return conn->waiting.first
		       ? conn->waiting.first->mono_ns + wr_central_silence_ns(conn->central)
		       : 0;
}

/* Marks the calls that were not answered within the timeout as late. A late call counts as a
 * failure of the shard, even if no caller waits for it any more. Late exchanges and pushes do not
 * count as failures: thousands of them are sent at once and wait for each other, so a late one does
 * not mean that the server is slow. */
static void mark_late(struct wr_central_shard *shard)
{
	struct wr_central *central = shard->central;
	struct wr_central_conn *conn = shard->conn;
	uint32_t failures = 0;

	for (; conn->due && conn->due->mono_ns + central->timeout_ns <= central->mono_ns;
	     conn->due = conn->due->next) {
		struct wr_call *call = conn->due;

		if (!call->late && wr_call_ops(call)->feeds_breaker &&
		    call->kind != WR_CALL_EXCHANGE && call->kind != WR_CALL_PUSH) {
			shard->counts.faults[WR_FAULT_TIMEOUT]++;
			failures++;
		}
		call->late = true;
	}
	if (conn->due)
		wr_central_wake_at(central, conn->due->mono_ns + central->timeout_ns);
	while (failures--)
		wr_central_shard_on_fault(shard, WR_FAULT_TIMEOUT, WR_STR(""));
}

static void check_conn(struct wr_central_shard *shard)
{
	uint64_t end = shard->conn ? conn_deadline(shard->conn) : 0;

	if (!end)
		return;
	if (shard->central->mono_ns < end)
		wr_central_wake_at(shard->central, end);
	else if (shard->conn->state == WR_CONN_READY)
		wr_central_conn_fail(shard->conn, WR_FAULT_LOST, "no reply for at least 1 s");
	else
		wr_central_conn_fail(shard->conn, WR_FAULT_CONNECT,
				     "the connection attempt timed out");
}

void wr_central_shard_tick(struct wr_central_shard *shard)
{
	struct wr_central *central = shard->central;

	if (shard->connect_by_ns && central->mono_ns >= shard->connect_by_ns) {
		shard->counts.faults[WR_FAULT_CONNECT]++;
		note_trouble(shard, WR_FAULT_CONNECT, WR_STR("not connected within the timeout"));
		open_breaker(shard, WR_FAULT_CONNECT);
		if (central->cluster)
			wr_central_cluster_on_failure(central);
	} else if (shard->connect_by_ns) {
		wr_central_wake_at(central, shard->connect_by_ns);
	}
	if (wr_central_shard_is_ready(shard))
		mark_late(shard);
	check_conn(shard);
	if (shard->breaker.state != WR_BREAKER_OPEN || (central->cluster && !shard->slots))
		return;
	if (central->mono_ns >= shard->breaker.probe_at_ns)
		send_probe(shard);
	wr_central_wake_at(central, shard->breaker.probe_at_ns);
}

/* ---- calls ---- */

void wr_central_shard_push(struct wr_central_shard *shard, struct wr_call *call)
{
	struct wr_central *central = shard->central;
	uint32_t in_flight =
		shard->unwritten.count + (shard->conn ? shard->conn->waiting.count : 0);

	wr_assert_magic(call, WR_CALL_MAGIC);
	call->shard = shard;
	if (shard->breaker.state == WR_BREAKER_OPEN) {
		wr_call_fail(central, call, WR_FAULT_OPEN);
		return;
	}
	if (wr_call_merge(central, call))
		return;
	/* If the breaker is half open and no call is in flight, all trial calls were cancelled
	 * before they were written. No reply can close the breaker, so new trial calls are
	 * allowed. */
	if (in_flight == 0 && shard->breaker.state == WR_BREAKER_HALF_OPEN)
		wr_breaker_half_open(&shard->breaker, &wr_central_breaker);
	if (wr_call_ops(call)->feeds_breaker && !wr_breaker_pass(&shard->breaker)) {
		wr_call_fail(central, call, WR_FAULT_OPEN);
		return;
	}
	if (in_flight >= WR_IN_FLIGHT_MAX) {
		wr_call_fail(central, call, WR_FAULT_FULL);
		return;
	}
	wr_call_queue_push(&shard->unwritten, call);
	if (wr_central_shard_is_ready(shard))
		wr_central_conn_mark_dirty(shard->conn);
	else
		wr_central_shard_connect(shard);
}

void wr_central_shard_close(struct wr_central_shard *shard)
{
	struct wr_central_conn *conn = shard->conn;

	shard->conn = NULL;
	wr_call_queue_fail(shard->central, &shard->unwritten, WR_FAULT_OPEN);
	if (conn)
		wr_central_conn_close(conn);
}
