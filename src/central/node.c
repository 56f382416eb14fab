/* Tasks of the chief loop: the node announces itself, counts the nodes of the fleet, and agrees
 * with them on the secret that keys are hashed with. Called by the timer and by shard.c. */
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/str.h"
#include "central/inner.h"

#define BEAT_NS (2000 * WR_MS_NS)
#define SECRET_HEX ((size_t)2 * WR_CENTRAL_SECRET)

static void send_duty(struct wr_central *central, enum wr_call_kind kind, uint8_t step,
		      const char *name, bool *busy)
{
	struct wr_call *call = wr_call_new_fleet(central, kind, name, busy);

	if (!call)
		return;
	call->step = step;
	wr_call_send(central, call);
}

/* ---- counting nodes ---- */

static enum wr_call_written write_beat(struct wr_central_conn *conn, struct wr_call *call)
{
	char key[WR_REDIS_KEY];

	wr_central_fleet_key(conn->central, "nodes", key);
	wr_call_write_script(conn, call, WR_SCRIPT_NODES, 3);
	wr_command_text(&conn->out, "1");
	wr_command_text(&conn->out, key);
	wr_command_text(&conn->out, conn->central->holder);
	return wr_call_write_end(conn);
}

static void read_beat(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;

	wr_call_free(central, call);
	wr_central_shard_on_success(conn->shard);
	if (!wr_redis_reply_is_number(reply, 1, UINT32_MAX))
		return;
	central->duties.nodes = (uint32_t)reply->integer;
	central->host.nodes(central->context, central->duties.nodes);
}

const struct wr_call_ops wr_call_beat_ops = {.write = write_beat,
					     .on_reply = read_beat,
					     .keyed = true,
					     .feeds_breaker = true,
					     .script = WR_SCRIPT_NODES};

/* ---- the secret ----
 *
 * The node reads the secret with GET. If Redis has no secret, the node proposes one with SET … NX
 * and reads again. So all nodes use the value in Redis. A node that already uses a secret proposes
 * this secret, because Redis may have lost its data. */

enum secret_step { GET_FIRST, PROPOSE, GET_AGAIN };

static void to_hex(const uint8_t *bytes, char *hex)
{
	for (size_t i = 0; i < WR_CENTRAL_SECRET; i++) {
		hex[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	hex[SECRET_HEX] = 0;
}

static bool from_hex(struct weir_str hex, uint8_t *bytes)
{
	if (hex.len != SECRET_HEX)
		return false;
	for (size_t i = 0; i < WR_CENTRAL_SECRET; i++) {
		int high = wr_hex(hex.ptr[2 * i]), low = wr_hex(hex.ptr[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static enum wr_call_written write_secret(struct wr_central_conn *conn, struct wr_call *call)
{
	char key[WR_REDIS_KEY], hex[SECRET_HEX + 1];

	wr_central_fleet_key(conn->central, "secret", key);
	if (call->step != PROPOSE)
		return wr_call_write_words(conn, "GET", key, WR_WORDS_END);
	to_hex(conn->central->duties.proposed, hex);
	return wr_call_write_words(conn, "SET", key, hex, "NX", WR_WORDS_END);
}

static void adopt_secret(struct wr_central *central, const uint8_t *secret)
{
	struct wr_central_duties *duties = &central->duties;

	if (duties->secret_known && memcmp(duties->secret, secret, sizeof duties->secret) == 0)
		return;
	if (duties->secret_known)
		wr_central_log(central, WR_CENTRAL_LOG_WARN,
			       "the fleet's secret in Redis has changed; all counters start again");
	memcpy(duties->secret, secret, sizeof duties->secret);
	duties->secret_known = true;
	central->host.secret(central->context, duties->secret);
}

static void propose_secret(struct wr_central *central)
{
	struct wr_central_duties *duties = &central->duties;

	if (duties->secret_known)
		memcpy(duties->proposed, duties->secret, sizeof duties->proposed);
	else if (getrandom(duties->proposed, sizeof duties->proposed, 0) != sizeof duties->proposed)
		return;
	send_duty(central, WR_CALL_SECRET, PROPOSE, "secret", &duties->agreeing);
}

static void read_secret(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = conn->central;
	struct wr_central_duties *duties = &central->duties;
	uint8_t step = call->step;
	uint8_t secret[WR_CENTRAL_SECRET];

	wr_call_free(central, call);
	if (step == PROPOSE) {
		send_duty(central, WR_CALL_SECRET, GET_AGAIN, "secret", &duties->agreeing);
		return;
	}
	if (reply->type == REDIS_REPLY_NIL && step == GET_FIRST) {
		propose_secret(central);
		return;
	}
	if (from_hex(wr_redis_reply_text(reply), secret)) {
		adopt_secret(central, secret);
	} else if (!duties->secret_logged) {
		duties->secret_logged = true;
		wr_central_log(central, WR_CENTRAL_LOG_ERROR,
			       "the key %ssecret does not contain a secret of weir; delete it or "
			       "choose another "
			       "--redis-prefix",
			       central->prefix);
	}
}

const struct wr_call_ops wr_call_secret_ops = {
	.write = write_secret, .on_reply = read_secret, .keyed = true, .script = -1};

/* ---- timer ---- */

static void send_heartbeat(struct wr_central *central)
{
	struct wr_central_duties *duties = &central->duties;

	duties->beat_at_ns = central->mono_ns + BEAT_NS;
	if (!duties->secret_given && !duties->agreeing)
		send_duty(central, WR_CALL_SECRET, GET_FIRST, "secret", &duties->agreeing);
	if (!duties->beating)
		send_duty(central, WR_CALL_BEAT, 0, "nodes", &duties->beating);
}

/* Sends a heartbeat at once, because the heartbeat also reads the secret. There are two reasons to
 * read it now. A node without the secret cannot ask Redis for decisions. And if Redis has lost its
 * data, a node that knows the secret must store it again before a new node proposes another one:
 * with another secret all keys would have other hashes, and all counters would start again. */
void wr_central_duties_on_ready(struct wr_central *central, const struct wr_central_shard *shard)
{
	char key[WR_REDIS_KEY];

	wr_assert(shard->central == central);
	if (!central->chief)
		return;
	wr_central_fleet_key(central, "secret", key);
	if (central->duties.nodes == 0 || !central->duties.secret_known ||
	    wr_central_slot_shard(central, wr_central_text_slot(central, key)) == shard)
		send_heartbeat(central);
	wr_central_wake_at(central, central->mono_ns);
}

void wr_central_duties_tick(struct wr_central *central)
{
	if (!central->chief)
		return;
	if (central->mono_ns >= central->duties.beat_at_ns)
		send_heartbeat(central);
	wr_central_wake_at(central, central->duties.beat_at_ns);
}
