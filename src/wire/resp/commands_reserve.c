/* Runs WEIR.RESERVE, WEIR.ACQUIRE, WEIR.COMMIT, WEIR.CANCEL and WEIR.RELEASE. Called through the
 * table of commands.c. */
#include "base/str.h"
#include "limiter/reservation.h"
#include "wire/resp/commands_check.h"

#define SECOND_NS 1000000000ull
#define MS_NS 1000000u

static void write_error(struct wr_resp_out *out, int rc)
{
	wr_reply_error(out, "ERR %s", weir_strerror(rc));
}

/* ---- WEIR.RESERVE and WEIR.ACQUIRE ---- */

/* Writes the decision and, if the request is admitted, the token. */
static void write_reserved(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	struct wr_resp_host *host = wait->session->host;
	uint64_t ttl_ns = wait->reserve.ttl_ns;
	char token[WR_RESERVATION_TEXT_MAX];
	int len = 0;

	if (wait->verdict < 0) {
		write_error(out, wait->verdict);
		return;
	}
	if (wait->verdict == WEIR_ADMIT || wait->verdict == WEIR_DELAY) {
		len = host->decider->token(host, wait, &ttl_ns, token);
		if (len < 0) {
			write_error(out, len);
			return;
		}
	}
	wr_resp_write_decision(wait, out, 2);
	wr_reply_bulk(out, WR_STR("reservation"));
	if (len)
		wr_reply_bulk(out, (struct weir_str){token, (size_t)len});
	else
		wr_reply_null(out);
	wr_reply_bulk(out, WR_STR("expires_after_ms"));
	wr_reply_integer(out, len ? (int64_t)(ttl_ns / MS_NS) : 0);
}

static const struct wr_resp_wait_kind reserve_kind = {NULL, write_reserved, NULL};

/* Adds the descriptors to the ask. On failure writes an error and returns false. */
static bool add_reserved(struct weir_ask *ask, struct wr_resp_arguments *reader)
{
	if (!wr_resp_add_descriptors(ask, reader))
		return false;
	if (wr_reservation_fits(ask))
		return true;
	wr_reply_error(reader->call->out,
		       "ERR the descriptors do not fit into the token of a reservation");
	return false;
}

void wr_resp_command_reserve(const struct wr_resp_call *call)
{
	const struct wr_resp_decider *decider = call->host->decider;
	struct wr_resp_arguments reader = {.call = call, .at = 2, .costs = true, .hits = 1};
	struct wr_resp_wait *wait;
	int64_t ttl_s = 0;
	int rc;

	if (wr_resp_read_option(&reader, "TTL", 1, WR_RESERVATION_TTL_MAX_NS / SECOND_NS, &ttl_s) <
	    0)
		return;
	rc = decider->begin(call->host, call->argv[1], &wait);
	if (rc != 0) {
		write_error(call->out, rc);
		return;
	}
	rc = decider->reserve(call->host, wait);
	if (rc != 0)
		write_error(call->out, rc);
	if (rc != 0 || !add_reserved(wait->ask, &reader)) {
		decider->end(call->host, wait);
		return;
	}
	wait->reserve.ttl_ns = (uint64_t)ttl_s * SECOND_NS;
	wr_resp_wait_init(wait, call->session, WR_RESP_DECIDER, &reserve_kind);
	decider->decide(call->host, wait, call->now_ns);
	wr_resp_wait_reply(wait, call->out);
}

/* ---- WEIR.COMMIT, WEIR.CANCEL and WEIR.RELEASE ---- */

static void write_settled(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	if (wait->settle.error) {
		wr_reply_error(out, "ERR %s", wait->settle.error);
		return;
	}
	wr_reply_map(out, 3);
	wr_reply_bulk(out, WR_STR("status"));
	wr_reply_bulk(out, wr_str(wait->settle.word));
	wr_reply_bulk(out, WR_STR("refunded"));
	wr_reply_integer(out, (int64_t)wait->settle.refunded);
	wr_reply_bulk(out, WR_STR("charged"));
	wr_reply_integer(out, (int64_t)wait->settle.charged);
}

static const struct wr_resp_wait_kind settle_kind = {NULL, write_settled, NULL};

/* Charges the actual cost of an unknown reservation to the descriptors in the arguments. Sets
 * *charged. On failure writes an error and returns false. */
static bool charge(struct wr_resp_arguments *reader, uint64_t *charged)
{
	const struct wr_resp_call *call = reader->call;
	const struct wr_resp_decider *decider = call->host->decider;
	struct wr_resp_wait *wait;
	bool good;
	int rc = decider->begin(call->host, call->argv[3], &wait);

	if (rc != 0) {
		write_error(call->out, rc);
		return false;
	}
	good = wr_resp_add_descriptors(wait->ask, reader);
	if (good)
		*charged = decider->charge(call->host, wait, call->now_ns);
	decider->end(call->host, wait);
	return good;
}

static void settle(const struct wr_resp_call *call, enum wr_settle_action action, int64_t actual,
		   struct wr_resp_arguments *reader)
{
	const struct wr_resp_settler *settler = call->host->settler;
	struct wr_resp_wait *wait = settler->begin(call->host);

	if (!wait) {
		write_error(call->out, WEIR_EMEMORY);
		return;
	}
	wr_resp_wait_init(wait, call->session, WR_RESP_SETTLER, &settle_kind);
	settler->settle(call->host, wait, action, actual, call->argv[1]);
	if (reader && wait->answered && wait->settle.unknown &&
	    !charge(reader, &wait->settle.charged)) {
		settler->end(call->host, wait);
		return;
	}
	wr_resp_wait_reply(wait, call->out);
}

/* Reads all descriptors before anything is charged, so that a command with a syntax error changes
 * nothing. */
static bool check_arguments(struct wr_resp_arguments reader)
{
	if (reader.at >= reader.call->argc)
		return wr_resp_syntax_error(&reader, "a descriptor has no keys");
	while (reader.at < reader.call->argc)
		if (!wr_resp_read_descriptor(&reader))
			return false;
	return true;
}

void wr_resp_command_commit(const struct wr_resp_call *call)
{
	struct wr_resp_arguments reader = {.call = call, .at = 4};
	int64_t actual;

	if (!wr_resp_integer(call->argv[2], &actual) || actual < 0 ||
	    actual > (int64_t)UINT32_MAX) {
		wr_reply_error(call->out,
			       "ERR the actual cost must be an integer from 0 to 4294967295");
		return;
	}
	reader.hits = actual;
	if (call->argc > 3 && !check_arguments(reader))
		return;
	settle(call, WR_SETTLE_COMMIT, actual, call->argc > 3 ? &reader : NULL);
}

void wr_resp_command_cancel(const struct wr_resp_call *call)
{
	settle(call, WR_SETTLE_CANCEL, 0, NULL);
}

void wr_resp_command_release(const struct wr_resp_call *call)
{
	settle(call, WR_SETTLE_RELEASE, 0, NULL);
}
