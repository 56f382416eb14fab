/* Implements lease_model.h. */
#include "redis/lease_model.h"

#include <assert.h>
#include <string.h>

static uint32_t capacity_of(const struct wr_take *take)
{
	return wr_take_capacity(take);
}

static bool is_window(const struct wr_take *take)
{
	return take->algorithm == WEIR_FIXED_WINDOW || take->algorithm == WEIR_SLIDING_COUNTER;
}

uint64_t model_out(const struct model *model, uint64_t now_us)
{
	uint64_t out = 0;

	for (size_t i = 0; i < model->lease_count; i++)
		if (model->leases[i].ends_us > now_us)
			out += model->leases[i].out;
	return out;
}

/* ---- usage at a given time, if nothing happens until then ---- */

/* Returns the backlog at a time. The backlog shrinks, but not below the number of lent units. */
static __int128 backlog_at(const struct model *m, const struct wr_take *take, uint64_t us)
{
	__int128 most = m->backlog - (__int128)(us - m->at_us) * take->limit;

	for (size_t i = 0; i < m->lease_count; i++) {
		uint64_t end = m->leases[i].ends_us < us ? m->leases[i].ends_us : us;
		__int128 then = 0;

		for (size_t k = 0; k < m->lease_count; k++)
			if (m->leases[k].ends_us >= end)
				then += (__int128)m->leases[k].out * take->period_us;
		then -= (__int128)(us - end) * take->limit;
		most = then > most ? then : most;
	}
	return most > 0 ? most : 0;
}

static uint64_t bucket_used(const struct model *m, const struct wr_take *take, uint64_t us)
{
	return (uint64_t)((backlog_at(m, take, us) + take->period_us - 1) / take->period_us);
}

/* Counts the entries of the log at a time. Lent units are entries with the time of their end. */
static uint64_t log_used(const struct model *m, const struct wr_take *take, uint64_t us)
{
	uint64_t used = 0;

	for (size_t i = 0; i < m->stamp_count; i++)
		used += m->stamps[i] + take->period_us > us;
	for (size_t i = 0; i < m->lease_count; i++)
		if (m->leases[i].ends_us + take->period_us > us)
			used += m->leases[i].out;
	return used;
}

static uint64_t window_used(const struct model *m, const struct wr_take *take, uint64_t us)
{
	uint64_t window = us / take->period_us, left = take->period_us - us % take->period_us;
	uint64_t now = window == m->window ? m->count[0] : 0;
	uint64_t before = window == m->window       ? m->count[1]
			  : window == m->window + 1 ? m->count[0]
						    : 0;

	if (take->algorithm == WEIR_FIXED_WINDOW)
		return now;
	return now + (uint64_t)((unsigned __int128)left * before / take->period_us);
}

static uint64_t used_at(const struct model *m, const struct wr_take *take, uint64_t us)
{
	if (is_window(take))
		return window_used(m, take, us);
	return take->algorithm == WEIR_SLIDING_LOG ? log_used(m, take, us)
						   : bucket_used(m, take, us);
}

/* Returns the time until at most `allowed` units are used. */
static uint64_t wait_for(const struct model *m, const struct wr_take *take, uint64_t allowed,
			 uint64_t now_us)
{
	uint64_t low = 0, high = 1;

	if (used_at(m, take, now_us) <= allowed)
		return 0;
	while (used_at(m, take, now_us + high) > allowed)
		high *= 2;
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (used_at(m, take, now_us + middle) <= allowed)
			high = middle;
		else
			low = middle;
	}
	return high;
}

/* ---- changes ---- */

/* Adds n stamps. There may be more stamps than the limit if the limit was lowered, because it may
 * be raised again. */
static void add_stamps(struct model *m, uint64_t n, uint64_t us)
{
	while (n--) {
		assert(m->stamp_count < MODEL_STAMPS);
		m->stamps[m->stamp_count++] = us;
	}
	for (size_t i = 1; i < m->stamp_count; i++)
		for (size_t k = i; k > 0 && m->stamps[k - 1] > m->stamps[k]; k--) {
			uint64_t stamp = m->stamps[k];

			m->stamps[k] = m->stamps[k - 1];
			m->stamps[k - 1] = stamp;
		}
}

static void add_units(struct model *m, const struct wr_take *take, uint64_t n, uint64_t now_us)
{
	if (is_window(take))
		m->count[0] += n;
	else if (take->algorithm == WEIR_SLIDING_LOG)
		add_stamps(m, n, now_us);
	else
		m->backlog += (__int128)n * take->period_us;
}

static void give_units(struct model *m, const struct wr_take *take, uint64_t n, bool this_window)
{
	uint64_t here = n < m->count[0] ? n : m->count[0];

	if (take->algorithm == WEIR_SLIDING_LOG) {
		m->stamp_count -= n < m->stamp_count ? n : m->stamp_count;
	} else if (is_window(take)) {
		m->count[0] -= here;
		if (take->algorithm == WEIR_SLIDING_COUNTER && !this_window)
			m->count[1] -= n - here < m->count[1] ? n - here : m->count[1];
	} else {
		m->backlog -= (__int128)n * take->period_us;
		m->backlog = m->backlog > 0 ? m->backlog : 0;
	}
}

/* Advances the state to now: refills the bucket, moves to the current window, drops expired
 * stamps. */
static void come_to(struct model *m, const struct wr_take *take, uint64_t now_us)
{
	uint64_t window = now_us / take->period_us;
	size_t count = 0;

	if (take->algorithm == WEIR_TOKEN_BUCKET) {
		m->backlog = backlog_at(m, take, now_us);
		m->at_us = now_us;
	}
	if (window != m->window) {
		m->count[1] = window == m->window + 1 ? m->count[0] : 0;
		m->count[0] = 0;
		m->window = window;
	}
	for (size_t i = 0; i < m->stamp_count; i++)
		if (m->stamps[i] + take->period_us > now_us)
			m->stamps[count++] = m->stamps[i];
	m->stamp_count = count;
}

static void burn_ended(struct model *m, const struct wr_take *take, uint64_t now_us)
{
	size_t count = 0;

	for (size_t i = 0; i < m->lease_count; i++) {
		struct model_lease *lease = &m->leases[i];

		if (lease->ends_us > now_us) {
			m->leases[count++] = *lease;
			continue;
		}
		m->burnt += lease->out;
		if (take->algorithm == WEIR_SLIDING_LOG &&
		    lease->ends_us + take->period_us > now_us)
			add_stamps(m, lease->out, lease->ends_us);
	}
	m->lease_count = count;
}

/* ---- a call ---- */

static struct model_lease *find_lease(struct model *m, uint64_t holder)
{
	for (size_t i = 0; i < m->lease_count; i++)
		if (m->leases[i].holder == holder)
			return &m->leases[i];
	return NULL;
}

static struct model_lease *new_lease(struct model *m, uint64_t holder)
{
	assert(m->lease_count < MODEL_HOLDERS);
	m->leases[m->lease_count] = (struct model_lease){.holder = holder};
	return &m->leases[m->lease_count++];
}

/* Returns the holder's lease. If the model has another lease of this holder, that lease loses its
 * holder. */
static struct model_lease *recognize(struct model *m, const struct wr_redis_lease_call *call,
				     bool *known)
{
	struct model_lease *own = find_lease(m, call->holder);

	*known = call->after == 0 || (own && own->seq == call->after);
	if (own && own->seq != call->after) {
		if (is_window(&call->take))
			m->burnt += own->out, own->out = 0;
		own->holder = 0;
		own = NULL;
	}
	return own ? own : new_lease(m, call->holder);
}

static void settle_lease(struct model *m, const struct wr_redis_lease_call *call,
			 struct model_lease *own, uint64_t now_us)
{
	uint64_t spent = call->spent < own->out ? call->spent : own->out;
	uint64_t returned = call->returned < own->out - spent ? call->returned : own->out - spent;

	if (call->take.algorithm == WEIR_SLIDING_LOG)
		add_stamps(m, spent, now_us);
	else
		give_units(m, &call->take, returned, true);
	own->out -= spent + returned;
	m->spent += spent;
	m->returned += returned;
}

static void take_units(struct model *m, const struct wr_take *t, uint64_t now_us,
		       struct wr_taken *taken)
{
	uint64_t used = used_at(m, t, now_us), capacity = capacity_of(t);
	uint64_t n = t->cost > 0 ? (uint64_t)t->cost : t->cost < 0 ? (uint64_t)-t->cost : 1;
	uint64_t fit = used + n <= capacity ? (capacity - used) / n : 0;
	uint64_t times = t->times ? t->times : 1;

	fit = t->cost < 0 ? 1 : fit < times ? fit : times;
	if (t->cost > 0)
		add_units(m, t, n * fit, now_us);
	else if (t->cost < 0)
		give_units(m, t, n, false);
	/* Leaves room for lent units: not all returned units may come back. */
	come_to(m, t, now_us);
	taken->admitted = fit > 0;
	taken->admitted_times = (uint32_t)fit;
	taken->taken = fit > 0 && t->cost > 0;
	if (fit < times)
		/* The exact time is computed below. */
		taken->retry_after_us = n > capacity ? WR_TAKE_NEVER : 1;
}

static uint64_t ttl_of(const struct wr_redis_lease_call *call, uint64_t now_us)
{
	uint64_t ttl = wr_redis_lease_ttl_us(&call->take), period_us = call->take.period_us;

	if (is_window(&call->take) && period_us - now_us % period_us < ttl)
		ttl = period_us - now_us % period_us;
	return call->ttl_us && call->ttl_us < ttl ? call->ttl_us : ttl;
}

static uint32_t units_left(const struct model *m, const struct wr_take *t, uint64_t now_us)
{
	uint64_t used = used_at(m, t, now_us);

	return used < capacity_of(t) ? (uint32_t)(capacity_of(t) - used) : 0;
}

static void grant_units(struct model *m, const struct wr_redis_lease_call *call,
			struct model_lease *own, uint64_t now_us, struct wr_leased *answer)
{
	uint64_t ttl = ttl_of(call, now_us);
	uint32_t chunk = units_left(m, &call->take, now_us) / (2 * (call->nodes ? call->nodes : 1));

	chunk = chunk < call->wanted ? chunk : call->wanted;
	if (chunk >= 2 && ttl > 0)
		answer->granted = chunk;
	if (call->take.algorithm != WEIR_SLIDING_LOG)
		add_units(m, &call->take, answer->granted, now_us);
	own->out += answer->granted;
	own->seq = call->seq;
	own->ends_us = now_us + ttl > own->ends_us ? now_us + ttl : own->ends_us;
	answer->ttl_us = own->out ? ttl : 0;
	m->granted += answer->granted;
}

static void fill_waits(const struct model *m, const struct wr_take *t, uint64_t now_us,
		       struct wr_taken *taken)
{
	uint64_t n = t->cost > 0 ? (uint64_t)t->cost : t->cost < 0 ? (uint64_t)-t->cost : 1;

	taken->limit = capacity_of(t);
	taken->remaining = units_left(m, t, now_us);
	if (taken->retry_after_us == 1)
		taken->retry_after_us = wait_for(m, t, capacity_of(t) - n, now_us);
	taken->reset_after_us = wait_for(m, t, 0, now_us);
	taken->now_us = now_us;
}

struct wr_leased model_call(struct model *m, const struct wr_redis_lease_call *call,
			    uint64_t now_us)
{
	struct wr_leased answer = {.known = true};
	struct model_lease *own;

	own = call->holder ? find_lease(m, call->holder) : NULL;
	own = own && own->ends_us > now_us ? own : NULL;
	if (own && own->seq == call->seq) {
		answer = own->answer;
		answer.ttl_us = own->out ? own->ends_us - now_us : 0;
		return answer;
	}
	if (own && own->seq > call->seq)
		return (struct wr_leased){
			.taken = {.now_us = now_us, .limit = capacity_of(&call->take)}};
	come_to(m, &call->take, now_us);
	burn_ended(m, &call->take, now_us);
	if (call->holder) {
		own = recognize(m, call, &answer.known);
		settle_lease(m, call, own, now_us);
	}
	take_units(m, &call->take, now_us, &answer.taken);
	if (call->holder)
		grant_units(m, call, own, now_us, &answer);
	fill_waits(m, &call->take, now_us, &answer.taken);
	if (own)
		own->answer = answer;
	return answer;
}
