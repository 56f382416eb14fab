/* What a node does once, by its chief loop: it is heard of, counts those who are, and agrees with
 * them upon the secret under which keys are hashed. */
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "central/inner.h"

#define BEAT_NS (2000 * WR_MS_NS)
#define SECRET_HEX ((size_t)2 * WR_CENTRAL_SECRET)

static void push(struct wr_central *central, enum wr_call_kind kind, uint8_t step, const char *name)
{
	struct wr_call *call = wr_call_new(central, kind);
	char key[WR_REDIS_KEY];

	if (!call)
		return;
	wr_own_key(central, name, key);
	call->step = step;
	call->slot = wr_call_slot(central, key);
	wr_call_send(central, call);
}

/* ---- nodes ---- */

static enum wr_put put_beat(struct wr_line *line, struct wr_call *call)
{
	char key[WR_REDIS_KEY];

	wr_own_key(line->central, "nodes", key);
	wr_put_script(line, call, WR_SCRIPT_NODES, 3);
	wr_command_text(&line->out, "1");
	wr_command_text(&line->out, key);
	wr_command_text(&line->out, line->central->holder);
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

static void heard_beat(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = line->central;

	wr_call_free(central, call);
	wr_shard_passed(line->shard);
	central->duties.beating = false;
	if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 1 || reply->integer > UINT32_MAX)
		return;
	central->duties.nodes = (uint32_t)reply->integer;
	central->host.nodes(central->context, central->duties.nodes);
}

static void failed_beat(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	central->duties.beating = false;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_beat_ops = {.put = put_beat,
					.heard = heard_beat,
					.failed = failed_beat,
					.keyed = true,
					.counts = true,
					.script = WR_SCRIPT_NODES};

/* ---- the secret ----
 *
 * GET; if there is none, SET … NX with ours (a new one, or the one in use, should Redis have lost
 * it), and GET again: all nodes end up with what Redis has. */

enum secret { LOOK, PROPOSE, LOOK_AGAIN };

static void to_hex(const uint8_t *bytes, char *hex)
{
	for (size_t i = 0; i < WR_CENTRAL_SECRET; i++) {
		hex[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
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

static enum wr_put put_secret(struct wr_line *line, struct wr_call *call)
{
	char key[WR_REDIS_KEY], hex[SECRET_HEX];

	wr_own_key(line->central, "secret", key);
	if (call->step == PROPOSE) {
		to_hex(line->central->duties.proposed, hex);
		wr_command_begin(&line->out, 4);
		wr_command_text(&line->out, "SET");
		wr_command_text(&line->out, key);
		wr_command_arg(&line->out, hex, sizeof hex);
		wr_command_text(&line->out, "NX");
	} else {
		wr_command_begin(&line->out, 2);
		wr_command_text(&line->out, "GET");
		wr_command_text(&line->out, key);
	}
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

static void adopt(struct wr_central *central, const uint8_t *secret)
{
	struct wr_duties *duties = &central->duties;

	if (duties->secret_known && memcmp(duties->secret, secret, sizeof duties->secret) == 0)
		return;
	if (duties->secret_known)
		wr_central_say(central, WR_SAY_WARN,
			       "the fleet's secret has become another one: counters begin anew");
	memcpy(duties->secret, secret, sizeof duties->secret);
	duties->secret_known = true;
	central->host.secret(central->context, duties->secret);
}

static void propose(struct wr_central *central)
{
	struct wr_duties *duties = &central->duties;

	if (duties->secret_known)
		memcpy(duties->proposed, duties->secret, sizeof duties->proposed);
	else if (getrandom(duties->proposed, sizeof duties->proposed, 0) != sizeof duties->proposed)
		return;
	push(central, WR_CALL_SECRET, PROPOSE, "secret");
}

static void heard_secret(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	struct wr_central *central = line->central;
	struct wr_duties *duties = &central->duties;
	uint8_t step = call->step;
	uint8_t secret[WR_CENTRAL_SECRET];

	wr_call_free(central, call);
	if (step == PROPOSE) {
		push(central, WR_CALL_SECRET, LOOK_AGAIN, "secret");
		return;
	}
	if (reply->type == REDIS_REPLY_NIL && step == LOOK) {
		propose(central);
		return;
	}
	duties->agreeing = false;
	if (from_hex(wr_reply_text(reply), secret)) {
		adopt(central, secret);
	} else if (!duties->said_secret) {
		duties->said_secret = true;
		wr_central_say(
			central, WR_SAY_ERROR,
			"the key %ssecret is not a secret of weir's; delete it, or choose another "
			"--redis-prefix",
			central->prefix);
	}
}

static void failed_secret(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	(void)fault;
	central->duties.agreeing = false;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_secret_ops = {.put = put_secret,
					  .heard = heard_secret,
					  .failed = failed_secret,
					  .keyed = true,
					  .script = -1};

/* ---- time ---- */

static void beat(struct wr_central *central)
{
	struct wr_duties *duties = &central->duties;

	duties->beat_at_ns = central->mono_ns + BEAT_NS;
	if (!duties->secret_given && !duties->agreeing) {
		duties->agreeing = true;
		push(central, WR_CALL_SECRET, LOOK, "secret");
	}
	if (!duties->beating) {
		duties->beating = true;
		push(central, WR_CALL_BEAT, 0, "nodes");
	}
}

/* A shard has become ready: who does not know the secret cannot wait for the next beat. Nor can who
 * does: if the data were lost, a newcomer would find none, propose another, and all counters would
 * begin anew a second time. */
void wr_duties_ready(struct wr_central *central, const struct wr_shard *shard)
{
	char key[WR_REDIS_KEY];

	if (!central->chief)
		return;
	wr_own_key(central, "secret", key);
	if (central->duties.nodes == 0 || !central->duties.secret_known ||
	    wr_route_shard(central, wr_call_slot(central, key)) == shard)
		beat(central);
	wr_wake(central, central->mono_ns);
}

void wr_duties_tick(struct wr_central *central)
{
	if (!central->chief)
		return;
	if (central->mono_ns >= central->duties.beat_at_ns)
		beat(central);
	wr_wake(central, central->duties.beat_at_ns);
}
