/* Checks takes and writes the arguments of the take script. Called by src/central, script.c and
 * script_lease.c. */

#include "base/assert.h"
#include "base/error.h"
#include "redis/script.h"

/* The first argument of a limit: its algorithm, and bits for the optional arguments that follow.
 * The same numbers are in scripts/take. */
enum {
	ARG_COUNT_REJECTED = 8,
	ARG_SOFT = 16,     /* adds the arguments ceiling, soft_for_us */
	ARG_MAX_WAIT = 32, /* adds the argument max_wait_us */
	ARG_CALENDAR = 64, /* adds the arguments before, start, end, after */
	/* Adds one argument, the sum of decided_us and delay_us. If the limit has a queue, the sum
	 * is the time at which the request leaves the queue. */
	ARG_DECIDED = 128,
	ARG_TIMES = 256,  /* adds the argument times */
	ARG_REPORT = 512, /* adds the report's sequence number */
	ARG_RESET = 1024,
	ARG_OWE = 2048, /* adds the number of units that may be in use */
	ARG_CLAIM = 4096,
	ARG_PROOF = 8192, /* for a give-back: adds the arguments used, given */
};

/* The maximum time in src/algo, where times are ns in 63 bits. */
#define TIME_MAX_US (INT64_MAX / 1000)
#define SPAN_MAX_US (WEIR_SPAN_MAX_NS / 1000)

/* A cost above this value makes no difference, because no counter can hold so many units. */
#define COST_MAX (1ll << 33)

static bool is_bucket(const struct wr_take *take)
{
	return take->algorithm == WEIR_TOKEN_BUCKET || take->algorithm == WEIR_LEAKY_BUCKET;
}

/* Returns the capacity without granted units, by the same rules as weir_limit_check(). */
static uint32_t own_capacity(const struct wr_take *take)
{
	if (take->limit == 0)
		return 0;
	if (take->algorithm == WEIR_LEAKY_BUCKET)
		return take->queue_size + 1;
	return take->burst ? take->burst : take->limit;
}

static uint32_t own_ceiling(const struct wr_take *take)
{
	return take->soft_ceiling && take->limit ? take->soft_ceiling : own_capacity(take);
}

/* Returns the largest ceiling that the algorithm can count to. */
static uint64_t max_ceiling(const struct wr_take *take)
{
	unsigned __int128 tokens;

	if (take->algorithm == WEIR_SLIDING_LOG)
		return WEIR_LOG_MAX;
	if (take->algorithm == WEIR_CONCURRENT)
		return WEIR_SLOTS_MAX;
	if (!is_bucket(take))
		return UINT32_MAX;
	tokens = (unsigned __int128)take->limit * SPAN_MAX_US / take->period_us;
	return tokens < UINT32_MAX ? (uint64_t)tokens : UINT32_MAX;
}

static uint32_t usable_grant(const struct wr_take *take)
{
	uint64_t most = max_ceiling(take);
	uint64_t room = most > own_ceiling(take) ? most - own_ceiling(take) : 0;

	return take->granted < room ? take->granted : (uint32_t)room;
}

uint32_t wr_take_capacity(const struct wr_take *take)
{
	return own_capacity(take) + usable_grant(take);
}

/* Returns the number of units that a counter of the table can count. Redis counts no more, so that
 * both report the same debt. */
static int64_t most_counted(const struct wr_take *take)
{
	switch (take->algorithm) {
	case WEIR_SLIDING_LOG:
		return WEIR_LOG_MAX;
	case WEIR_FIXED_WINDOW:
	case WEIR_SLIDING_COUNTER:
		return UINT32_MAX;
	default:
		return INT64_MAX;
	}
}

/* Returns the number of units that may be in use after a debt was charged, as wr_most_owed()
 * does. */
static int64_t most_owed(const struct wr_take *take)
{
	uint32_t capacity = wr_take_capacity(take);
	int64_t most = (int64_t)own_ceiling(take) + usable_grant(take),
		countable = most_counted(take);

	if (!(take->flags & WEIR_NO_DEBT))
		most += take->max_debt ? take->max_debt : capacity;
	return most < countable ? most : countable;
}

static int64_t clamp_cost(int64_t cost)
{
	return cost > COST_MAX ? COST_MAX : cost < -COST_MAX ? -COST_MAX : cost;
}

static int64_t clamp_us(uint64_t us)
{
	return us > TIME_MAX_US ? TIME_MAX_US : (int64_t)us;
}

static bool is_calendar(const struct wr_take *take)
{
	return take->window_end_us != 0;
}

static bool has_proof(const struct wr_take *take)
{
	if (take->algorithm != WEIR_TOKEN_BUCKET || take->limit == 0)
		return false;
	return take->cost > 0 ? take->proves && take->mode == WR_MODE_TAKE
			      : take->cost < 0 && take->used && take->decided_us;
}

bool wr_take_uses_given(const struct wr_take *take)
{
	return has_proof(take) || (take->algorithm == WEIR_TOKEN_BUCKET && take->cost < 0);
}

static int flags_of(const struct wr_take *take)
{
	int flags = take->algorithm;

	if (take->flags & WEIR_COUNT_REJECTED)
		flags |= ARG_COUNT_REJECTED;
	if (own_ceiling(take) > own_capacity(take))
		flags |= ARG_SOFT;
	if (take->max_wait_us)
		flags |= ARG_MAX_WAIT;
	if (is_calendar(take))
		flags |= ARG_CALENDAR;
	if (take->decided_us)
		flags |= ARG_DECIDED;
	if (take->times > 1)
		flags |= ARG_TIMES;
	if (take->mode == WR_MODE_REPORT)
		flags |= ARG_REPORT;
	if (take->mode == WR_MODE_RESET)
		flags |= ARG_RESET;
	if (take->mode == WR_MODE_OWE)
		flags |= ARG_OWE;
	if (take->mode == WR_MODE_CLAIM)
		flags |= ARG_CLAIM;
	if (has_proof(take))
		flags |= ARG_PROOF;
	return flags;
}

size_t wr_script_argc(const struct wr_take *takes, size_t count)
{
	size_t args = 0;

	for (size_t i = 0; i < count; i++) {
		int flags = flags_of(&takes[i]);

		args += 4u + is_bucket(&takes[i]) + 2u * !!(flags & ARG_SOFT) +
			!!(flags & ARG_MAX_WAIT) + 4u * !!(flags & ARG_CALENDAR) +
			!!(flags & ARG_DECIDED) + !!(flags & ARG_TIMES) + !!(flags & ARG_REPORT) +
			!!(flags & ARG_OWE) + 2u * (flags & ARG_PROOF && takes[i].cost < 0);
	}
	return args;
}

static void write_take(struct wr_commands *out, const struct wr_take *take, uint64_t report_seq)
{
	int flags = flags_of(take);

	wr_command_number(out, flags);
	wr_command_number(out, take->mode == WR_MODE_RESET ? 0 : clamp_cost(take->cost));
	wr_command_number(out, wr_take_capacity(take));
	wr_command_number(out, clamp_us(take->period_us));
	if (is_bucket(take))
		wr_command_number(out, take->limit);
	if (flags & ARG_SOFT) {
		wr_command_number(out, (int64_t)own_ceiling(take) + usable_grant(take));
		wr_command_number(out, clamp_us(take->soft_for_us));
	}
	if (flags & ARG_MAX_WAIT)
		wr_command_number(out, clamp_us(take->max_wait_us));
	if (flags & ARG_CALENDAR) {
		wr_command_number(out, clamp_us(take->window_before_us));
		wr_command_number(out, clamp_us(take->window_start_us));
		wr_command_number(out, clamp_us(take->window_end_us));
		wr_command_number(out, clamp_us(take->window_after_us));
	}
	if (flags & ARG_DECIDED)
		wr_command_number(out, clamp_us(take->decided_us + take->delay_us));
	if (flags & ARG_TIMES)
		wr_command_number(out, take->times);
	if (flags & ARG_REPORT)
		wr_command_number(out, clamp_us(report_seq));
	if (flags & ARG_OWE)
		wr_command_number(out, most_owed(take));
	if (flags & ARG_PROOF && take->cost < 0) {
		wr_command_number(out, take->used);
		wr_command_number(out, clamp_us(take->given));
	}
}

void wr_script_args(const struct wr_take *takes, size_t count, uint64_t report_seq,
		    struct wr_commands *out)
{
	wr_assert(count <= WR_TAKES_MAX);
	for (size_t i = 0; i < count; i++)
		write_take(out, &takes[i], report_seq);
}

bool wr_take_merges(const struct wr_take *take)
{
	return take->mode == WR_MODE_TAKE && take->cost > 0 &&
	       take->algorithm != WEIR_LEAKY_BUCKET && take->algorithm != WEIR_CONCURRENT &&
	       !take->soft_ceiling && !(take->flags & WEIR_COUNT_REJECTED);
}

static int check_window(const struct wr_take *take, struct weir_error *error)
{
	if (take->algorithm != WEIR_FIXED_WINDOW)
		return wr_error(error, WEIR_ELIMIT, "only fixed_window supports calendar windows");
	if (take->window_start_us >= take->window_end_us || take->window_end_us > TIME_MAX_US)
		return wr_error(
			error, WEIR_ELIMIT,
			"the calendar window ends before it begins, or after the year 2262");
	if (take->window_start_us % 1000000)
		return wr_error(error, WEIR_ELIMIT,
				"a calendar window counted in Redis must begin at a whole second");
	return 0;
}

/* Checks a concurrent limit, which has only slots and max_hold. */
static int check_slots(const struct wr_take *take, struct weir_error *error)
{
	if (take->limit > WEIR_SLOTS_MAX || take->burst || take->soft_ceiling ||
	    take->flags & WEIR_COUNT_REJECTED)
		return wr_error(error, WEIR_ELIMIT, "these settings are not for concurrent");
	return 0;
}

static int check_mode(const struct wr_take *take, struct weir_error *error)
{
	bool slots = take->algorithm == WEIR_CONCURRENT;

	if (take->mode == WR_MODE_REPORT && (take->cost <= 0 || slots))
		return wr_error(error, WEIR_EINVAL, "a report needs a cost above 0, and no slots");
	if (take->mode == WR_MODE_OWE &&
	    (take->cost <= 0 || slots || take->algorithm == WEIR_LEAKY_BUCKET))
		return wr_error(error, WEIR_EINVAL,
				"a debt needs a cost above 0, and a limit that can have debts");
	return 0;
}

int wr_take_check(const struct wr_take *take, struct weir_error *error)
{
	int rc = check_mode(take, error);

	if (rc)
		return rc;
	if (take->algorithm < WEIR_TOKEN_BUCKET || take->algorithm > WEIR_CONCURRENT)
		return wr_error(error, WEIR_ELIMIT, "unknown algorithm %u", take->algorithm);
	if (take->period_us > SPAN_MAX_US || (take->period_us == 0 && !is_calendar(take)))
		return wr_error(error, WEIR_ELIMIT,
				"the period is %llu µs; it must be 1 µs to 100 years",
				(unsigned long long)take->period_us);
	if (take->queue_size == UINT32_MAX ||
	    (take->algorithm == WEIR_SLIDING_LOG && own_ceiling(take) > WEIR_LOG_MAX))
		return wr_error(error, WEIR_ELIMIT, "the queue or the log is too large");
	if (take->times > WR_TAKE_TIMES_MAX || (take->times > 1 && !wr_take_merges(take)))
		return wr_error(error, WEIR_EINVAL, "these requests cannot be merged");
	if (take->algorithm == WEIR_CONCURRENT && check_slots(take, error) < 0)
		return WEIR_ELIMIT;
	return is_calendar(take) ? check_window(take, error) : 0;
}
