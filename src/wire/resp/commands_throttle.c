/* Runs CL.THROTTLE and THROTTLE: reads the limit, decides in the table or asks the central store,
 * and writes five numbers. Called through the table of commands.c. */
#include "base/assert.h"
#include "limiter/fleet.h"
#include "limiter/share.h"
#include "store/store.h"
#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

/* The numeric arguments of the command, which follow the key. The quantity is optional. */
enum number { MAX_BURST, COUNT, PERIOD, QUANTITY, NUMBERS };

/* The differences between CL.THROTTLE and THROTTLE. A bucket holds max_burst + `beyond` tokens,
 * and `bounds` has the allowed values of each argument. */
struct dialect {
	int64_t beyond;
	struct {
		const char *name;
		int64_t least, most;
	} bounds[NUMBERS];
};

static const struct dialect cell = {1,
				    {{"max_burst", 0, UINT32_MAX - 1ll},
				     {"count", 1, UINT32_MAX},
				     {"period", 1, WR_THROTTLE_PERIOD_MAX_S},
				     {"quantity", -(int64_t)UINT32_MAX, INT64_MAX}}};
static const struct dialect crab = {0,
				    {{"max_burst", 1, UINT32_MAX},
				     {"count", 1, UINT32_MAX},
				     {"period", 1, WR_THROTTLE_PERIOD_MAX_S},
				     {"quantity", 0, INT64_MAX}}};

/* Reads the numbers after the key. Returns NUMBERS if all of them are valid, otherwise the index of
 * the first invalid one. */
static enum number read_numbers(const struct wr_resp_command *command,
				const struct dialect *dialect, int64_t numbers[NUMBERS])
{
	numbers[QUANTITY] = 1;
	for (uint32_t i = 0; i < NUMBERS && 2 + i < command->argc; i++)
		if (!wr_resp_integer(command->argv[2 + i], &numbers[i]) ||
		    numbers[i] < dialect->bounds[i].least || numbers[i] > dialect->bounds[i].most)
			return i;
	return NUMBERS;
}

static void prepare_throttle(struct wr_resp_host *host, const struct dialect *dialect,
			     struct wr_resp_ready *ready)
{
	struct wr_throttle_request *request = &ready->throttle;
	const struct weir_limit *limit;
	int64_t numbers[NUMBERS];

	if (read_numbers(&ready->command, dialect, numbers) != NUMBERS)
		return;
	request->capacity = (uint32_t)(numbers[MAX_BURST] + dialect->beyond);
	request->count = (uint32_t)numbers[COUNT];
	request->period_s = (uint64_t)numbers[PERIOD];
	request->quantity = numbers[QUANTITY];
	limit = wr_throttle_limit(&host->throttle, request, NULL);
	if (limit)
		request->key = wr_throttle_key(host->table, limit, ready->command.argv[1]);
	ready->prepared = true;
}

void wr_prepare_cl_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready)
{
	prepare_throttle(host, &cell, ready);
}

void wr_prepare_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready)
{
	prepare_throttle(host, &crab, ready);
}

/* Returns the limit of the command. On failure writes an error and returns NULL. */
static const struct weir_limit *limit_of(const struct wr_resp_call *call,
					 const struct dialect *dialect)
{
	const struct weir_limit *limit;
	struct weir_error error;
	int64_t numbers[NUMBERS];

	if (!call->ready->prepared) {
		enum number bad = read_numbers(&call->ready->command, dialect, numbers);

		wr_assert(bad < NUMBERS);
		wr_reply_error(call->out, "ERR %s is not an integer or out of range (%lld to %lld)",
			       dialect->bounds[bad].name, (long long)dialect->bounds[bad].least,
			       (long long)dialect->bounds[bad].most);
		return NULL;
	}
	limit = wr_throttle_limit(&call->host->throttle, &call->ready->throttle, &error);
	if (!limit)
		wr_reply_error(call->out, "ERR %s", error.text);
	return limit;
}

/* ---- answers ---- */

static void write_numbers(struct wr_resp_out *out, int64_t first,
			  const struct wr_throttle_answer *answer, int64_t fourth, int64_t fifth)
{
	uint8_t *at;

	if (!wr_reply_room(out, 6 * WR_REPLY_NUMBER_BYTES))
		return;
	at = wr_reply_put_line(out->at, '*', 5);
	at = wr_reply_put_line(at, ':', first);
	at = wr_reply_put_line(at, ':', answer->limit);
	at = wr_reply_put_line(at, ':', answer->remaining);
	at = wr_reply_put_line(at, ':', fourth);
	out->at = wr_reply_put_line(at, ':', fifth);
}

/* Writes five numbers. The reply of CL.THROTTLE has: limited, limit, remaining, retry after, reset
 * after. The reply of THROTTLE has: allowed, limit, remaining, reset after, retry after; its retry
 * after is 0 if the request is allowed. */
static void write_reply(struct wr_resp_host *host, const struct dialect *dialect,
			struct wr_throttle_answer *answer, struct wr_resp_out *out)
{
	if (__builtin_expect(answer->limited, 0)) {
		wr_resp_count(&host->tally.limited);
		if (host->shadow) {
			answer->limited = false;
			answer->retry_s = -1;
		}
	}
	if (dialect == &cell)
		write_numbers(out, answer->limited, answer, answer->retry_s, answer->reset_s);
	else
		write_numbers(out, !answer->limited, answer, answer->reset_s,
			      answer->limited ? answer->retry_s : 0);
}

/* ---- with a central store ---- */

/* Decides by this node's share of the limit, because the central store has not answered. If units
 * were taken, reports them to the central store. */
static void decide_share(struct wr_resp_host *host, const struct weir_limit *limit,
			 const struct wr_throttle_request *request, uint64_t now_ns,
			 struct wr_throttle_answer *answer)
{
	struct weir_limit share = wr_limiter_limit_share(limit, wr_fleet_size(host->engine));
	uint8_t report[WR_THROTTLE_MESSAGE];
	size_t len;

	wr_throttle(host->table, &share, request->key, request->quantity, now_ns, answer);
	if (answer->limited || request->quantity <= 0 || !host->central->secret(host))
		return;
	len = wr_throttle_message(WR_QUESTION_REPORT, limit, request, request->quantity, now_ns,
				  report);
	host->central->send(host, report, len, now_ns);
}

static void read_answer(struct wr_resp_wait *wait, const void *bytes, size_t len, uint64_t now_ns)
{
	struct wr_resp_host *host = wait->session->host;
	const struct wr_throttle_request *request = &wait->throttle.request;
	const struct weir_limit *limit = wr_throttle_limit(&host->throttle, request, NULL);
	struct wr_throttle_answer *answer = &wait->throttle.answer;
	uint32_t nodes = wr_fleet_size(host->engine);
	uint64_t charged_ns;

	if (!wr_throttle_read(bytes, len, limit, request, answer)) {
		decide_share(host, limit, request, now_ns, answer);
		return;
	}
	/* Update this node's own counter, by which the node decides if the central store becomes
	 * unavailable. First add the units that the central store granted. Then wr_share_cap()
	 * divides the units that remain in the central store by the number of nodes. If the own
	 * counter has more free units than that, wr_share_cap() counts the difference as used. */
	if (!answer->limited && request->quantity > 0) {
		struct weir_limit share = wr_limiter_limit_share(limit, nodes);

		wr_store_charge(host->table, &share, request->key, request->quantity, now_ns,
				&charged_ns);
	}
	wr_share_cap(host->table, limit, nodes, request->key,
		     &(struct weir_decision){.limit = (uint32_t)answer->limit,
					     .remaining = (uint32_t)answer->remaining},
		     now_ns);
}

static void write_answer(struct wr_resp_wait *wait, struct wr_resp_out *out)
{
	write_reply(wait->session->host, wait->throttle.crab ? &crab : &cell,
		    &wait->throttle.answer, out);
}

static const struct wr_resp_wait_kind throttle_kind = {read_answer, write_answer, NULL};

/* Sends the question to the central store. If the quantity is negative, first sends a message that
 * gives the units back, and then a question of cost 0 that reads the counter. */
static void ask_central(const struct wr_resp_call *call, struct wr_resp_wait *wait,
			const struct weir_limit *limit)
{
	const struct wr_resp_central *central = call->host->central;
	const struct wr_throttle_request *request = &wait->throttle.request;
	uint8_t message[WR_THROTTLE_MESSAGE];
	int64_t cost = request->quantity;
	size_t len;

	if (cost < 0) {
		len = wr_throttle_message(WR_QUESTION_RETURN, limit, request, cost, call->now_ns,
					  message);
		central->send(call->host, message, len, call->now_ns);
		cost = 0;
	}
	len = wr_throttle_message(WR_QUESTION_TAKE, limit, request, cost, call->now_ns, message);
	central->ask(call->host, wait, message, len, call->now_ns);
	wr_resp_wait_reply(wait, call->out);
}

static void decide_centrally(const struct wr_resp_call *call, const struct dialect *dialect,
			     const struct weir_limit *limit)
{
	struct wr_throttle_request request = call->ready->throttle;
	const uint8_t *secret = call->host->central->secret(call->host);
	struct wr_resp_wait *wait = secret ? call->host->central->begin(call->host) : NULL;
	struct wr_throttle_answer answer;

	if (secret)
		wr_throttle_fleet_key(secret, call->argv[1], request.fleet_key);
	if (!wait) {
		decide_share(call->host, limit, &request, call->now_ns, &answer);
		write_reply(call->host, dialect, &answer, call->out);
		return;
	}
	wr_resp_wait_init(wait, call->session, WR_RESP_CENTRAL, &throttle_kind);
	wait->throttle.request = request;
	wait->throttle.crab = dialect == &crab;
	ask_central(call, wait, limit);
}

/* ---- the commands ---- */

static void run_throttle(const struct wr_resp_call *call, const struct dialect *dialect)
{
	const struct wr_throttle_request *request = &call->ready->throttle;
	const struct weir_limit *limit = limit_of(call, dialect);
	struct wr_throttle_answer answer;

	if (!limit)
		return;
	if (__builtin_expect(request->quantity < 0, 0) && !wr_resp_operates(call)) {
		wr_reply_error(call->out, WR_RESP_NO_REFUNDS);
		return;
	}
	if (call->host->central) {
		decide_centrally(call, dialect, limit);
		return;
	}
	wr_throttle(call->host->table, limit, request->key, request->quantity, call->now_ns,
		    &answer);
	write_reply(call->host, dialect, &answer, call->out);
}

void wr_resp_command_cl_throttle(const struct wr_resp_call *call)
{
	run_throttle(call, &cell);
}

void wr_resp_command_throttle(const struct wr_resp_call *call)
{
	run_throttle(call, &crab);
}
