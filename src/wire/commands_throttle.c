/* CL.THROTTLE and THROTTLE: numbers in, numbers out. */
#include "wire/commands.h"

/* How a command counts: its bucket holds max_burst + `beyond`. */
struct dialect {
	int64_t beyond, quantity_least;
};

static const struct dialect cell = {1, -(int64_t)UINT32_MAX}, crab = {0, 0};

/* X(argument, name, least, most) */
#define ARGUMENTS(X)                                                                               \
	X(2, max_burst, 1 - dialect->beyond, (int64_t)UINT32_MAX - dialect->beyond)                \
	X(3, count, 1, (int64_t)UINT32_MAX)                                                        \
	X(4, period, 1, WR_THROTTLE_PERIOD_MAX_S)                                                  \
	X(5, quantity, dialect->quantity_least, INT64_MAX)

struct numbers {
#define NUMBER(at, name, least, most) int64_t name;
	ARGUMENTS(NUMBER)
#undef NUMBER
};

/* Of key max_burst count period [quantity]. False: one of them will not do. */
static bool read_numbers(const struct wr_resp_command *command, const struct dialect *dialect,
			 struct numbers *numbers)
{
	*numbers = (struct numbers){.quantity = 1};
#define READ(at, name, least, most)                                                                \
	if ((at) < command->argc && (!wr_resp_integer(command->argv[at], &numbers->name) ||        \
				     numbers->name < (least) || numbers->name > (most)))           \
		return false;
	ARGUMENTS(READ)
#undef READ
	return true;
}

/* Which one, of the arguments of a command that was not prepared. */
static void tell_number(const struct wr_resp_call *call, const struct dialect *dialect)
{
	const struct {
		uint32_t at;
		const char *name;
		int64_t least, most;
	} bounds[] = {
#define BOUNDS(at, name, least, most) {at, #name, least, most},
		ARGUMENTS(BOUNDS)
#undef BOUNDS
	};
	int64_t value;

	for (size_t i = 0; i < sizeof bounds / sizeof *bounds && bounds[i].at < call->argc; i++) {
		if (wr_resp_integer(call->argv[bounds[i].at], &value) && value >= bounds[i].least &&
		    value <= bounds[i].most)
			continue;
		wr_reply_error(call->out, "ERR %s is not an integer or out of range (%lld to %lld)",
			       bounds[i].name, (long long)bounds[i].least,
			       (long long)bounds[i].most);
		return;
	}
}

static void prepare(struct wr_resp_host *host, const struct dialect *dialect,
		    struct wr_resp_ready *ready)
{
	struct wr_throttle_request *request = &ready->throttle;
	const struct weir_limit *limit;
	struct numbers numbers;

	if (!read_numbers(&ready->command, dialect, &numbers))
		return;
	request->capacity = (uint32_t)(numbers.max_burst + dialect->beyond);
	request->count = (uint32_t)numbers.count;
	request->period_s = (uint64_t)numbers.period;
	request->quantity = numbers.quantity;
	limit = wr_throttle_limit(&host->throttle, request, NULL);
	if (limit)
		request->key = wr_throttle_key(host->table, limit, ready->command.argv[1]);
	ready->prepared = true;
}

void wr_prepare_cl_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready)
{
	prepare(host, &cell, ready);
}

void wr_prepare_throttle(struct wr_resp_host *host, struct wr_resp_ready *ready)
{
	prepare(host, &crab, ready);
}

/* False: the client has been told why not. */
static bool decide(const struct wr_resp_call *call, const struct dialect *dialect,
		   struct wr_throttle_answer *answer)
{
	const struct wr_throttle_request *request = &call->ready->throttle;
	const struct weir_limit *limit;
	struct weir_error error;

	if (!call->ready->prepared) {
		tell_number(call, dialect);
		return false;
	}
	limit = wr_throttle_limit(&call->host->throttle, request, &error);
	if (!limit) {
		wr_reply_error(call->out, "ERR %s", error.text);
		return false;
	}
	wr_throttle(call->host->table, limit, request->key, request->quantity, call->now_ns,
		    answer);
	if (__builtin_expect(answer->limited, 0)) {
		wr_resp_count(&call->host->tally.limited);
		if (call->host->shadow) {
			answer->limited = false;
			answer->retry_s = -1;
		}
	}
	return true;
}

static void tell(struct wr_resp_out *out, int64_t first, const struct wr_throttle_answer *answer,
		 int64_t fourth, int64_t fifth)
{
	uint8_t *at;

	if (!wr_reply_room(out, 6 * WR_REPLY_NUMBER_BYTES))
		return;
	at = wr_put_line(out->at, '*', 5);
	at = wr_put_line(at, ':', first);
	at = wr_put_line(at, ':', answer->limit);
	at = wr_put_line(at, ':', answer->remaining);
	at = wr_put_line(at, ':', fourth);
	out->at = wr_put_line(at, ':', fifth);
}

/* limited, limit, remaining, retry after, reset after */
void wr_command_cl_throttle(const struct wr_resp_call *call)
{
	struct wr_throttle_answer answer;

	if (decide(call, &cell, &answer))
		tell(call->out, answer.limited, &answer, answer.retry_s, answer.reset_s);
}

/* allowed, limit, remaining, reset after, retry after: 0 when allowed */
void wr_command_throttle(const struct wr_resp_call *call)
{
	struct wr_throttle_answer answer;

	if (decide(call, &crab, &answer))
		tell(call->out, !answer.limited, &answer, answer.reset_s,
		     answer.limited ? answer.retry_s : 0);
}
