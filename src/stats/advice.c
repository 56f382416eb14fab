/* Computes advice on rules from their statistics. Called by `weir advise` and the web interface. */
#include "stats/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/words.h"

#define SECOND_NS 1000000000ull
#define SECONDS_LEAST 60u /* seconds of known history needed for WR_ADVICE_BURSTS */
#define PERCENT 100u

const char *const wr_advice_names[] = {
#define ADVICE_NAME(name, text, when) [name] = (text),
	WR_ADVICES(ADVICE_NAME)
#undef ADVICE_NAME
};

/* ---- writing a piece of advice ---- */

static void add_number(struct wr_advice *advice, const char *name, uint64_t value)
{
	advice->numbers[advice->number_count++] = (struct wr_advice_number){name, value};
}

__attribute__((format(printf, 2, 3))) static void write_text(struct wr_advice *advice,
							     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(advice->text, sizeof advice->text, format, args);
	va_end(args);
}

static void propose_limit(struct wr_advice *advice, const struct wr_stats_limit_view *limit)
{
	char yaml[200];

	wr_stats_limit_yaml(limit, yaml, sizeof yaml);
	snprintf(advice->yaml, sizeof advice->yaml, "rate_limit: %s", yaml);
}

static void propose_candidate(struct wr_advice *advice, const struct wr_stats_limit_view *limit,
			      const struct wr_stats_limit_view *candidate)
{
	char own[128], other[128];

	wr_stats_limit_yaml(limit, own, sizeof own);
	wr_stats_limit_yaml(candidate, other, sizeof other);
	own[strcspn(own, "}")] = '\0';
	snprintf(advice->yaml, sizeof advice->yaml, "rate_limit: %s, candidates: [%s]}", own,
		 other);
}

/* ---- numbers ---- */

static uint64_t refusals(const struct weir_stat *stat)
{
	return stat->refused + stat->deferred + stat->shadowed;
}

static uint64_t requests(const struct weir_stat *stat)
{
	return stat->admitted + refusals(stat);
}

static uint64_t percent_of(uint64_t part, uint64_t whole)
{
	return whole ? (part * PERCENT + whole / 2) / whole : 0;
}

/* The count of a top key is an estimate. Returns a lower bound of the true count. */
static uint64_t least_count(const struct weir_top_key *key)
{
	uint64_t over = key->over + key->noise;

	return key->count > over ? key->count - over : 0;
}

static const struct weir_top_key *find_key(const struct weir_top_key *keys, size_t count,
					   uint64_t hash)
{
	for (size_t i = 0; i < count; i++)
		if (keys[i].hash == hash)
			return &keys[i];
	return NULL;
}

/* Rounds up to two significant digits: 1,234 becomes 1,300. */
static uint32_t round_up(uint64_t number)
{
	uint64_t unit = 1;

	while (number / unit >= 100)
		unit *= 10;
	number = (number + unit - 1) / unit * unit;
	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* ---- the kinds of advice: a function returns false if its advice does not apply ---- */

static bool is_clearly_better(const struct weir_candidate *candidate)
{
	/* The refusals of the rule. The candidate would refuse some of these requests, and admit
	 * the others. */
	uint64_t refused =
		candidate->would_refuse - candidate->refuses_more + candidate->admits_more;

	return refused >= WR_ADVICE_REFUSALS && candidate->admits_more >= refused / 10 &&
	       candidate->refuses_more <= candidate->admits_more / 20;
}

static bool advise_candidate(const struct wr_advice_view *view, struct wr_advice *advice)
{
	struct wr_stats_limit_view own = wr_stat_limit(view->stat), other;
	const struct weir_candidate *best = NULL;
	char words[128], difference[96];

	for (size_t i = 0; i < view->candidate_count; i++)
		if (is_clearly_better(&view->candidates[i]) &&
		    (!best || view->candidates[i].admits_more > best->admits_more))
			best = &view->candidates[i];
	if (!best)
		return false;
	other = wr_stats_candidate_limit(best);
	write_text(advice, "with %s: %s", wr_stats_limit_words(&other, &own, words, sizeof words),
		   wr_stats_candidate_words(best, difference, sizeof difference));
	add_number(advice, "requests", best->would_admit + best->would_refuse);
	add_number(advice, "fewer_refusals", best->admits_more);
	add_number(advice, "more_refusals", best->refuses_more);
	propose_limit(advice, &other);
	return true;
}

static int compare_factors(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Examines each client that is in both lists, hot keys and refused keys, and of whose requests some
 * were admitted. If at most half of its requests were refused, adds to factors[] the limit that
 * would admit all its requests, in per cent of the current limit. Otherwise counts the client in
 * *others. Sorts factors[] and returns the number of factors. */
static size_t find_clients_just_above(const struct wr_advice_view *view,
				      uint64_t factors[WEIR_TOP_KEYS], size_t *others)
{
	size_t count = 0;

	*others = 0;
	for (size_t i = 0; i < view->refused_count && i < WEIR_TOP_KEYS; i++) {
		const struct weir_top_key *refused = &view->refused[i];
		const struct weir_top_key *hot =
			find_key(view->hot, view->hot_count, refused->hash);

		if (!hot || hot->count <= refused->count)
			continue;
		if (refused->count * 2 <= hot->count)
			factors[count++] =
				(hot->count * PERCENT + hot->count - refused->count - 1) /
				(hot->count - refused->count);
		else
			(*others)++;
	}
	qsort(factors, count, sizeof *factors, compare_factors);
	return count;
}

static bool advise_too_tight(const struct wr_advice_view *view, struct wr_advice *advice)
{
	const struct weir_stat *stat = view->stat;
	struct wr_stats_limit_view limit = wr_stat_limit(stat);
	uint64_t factors[WEIR_TOP_KEYS] = {0}, factor;
	size_t others, count = find_clients_just_above(view, factors, &others);
	char words[WR_NUMBER_WORDS];

	if (refusals(stat) < WR_ADVICE_REFUSALS || count < WR_ADVICE_CLIENTS || count < 2 * others)
		return false;
	factor = factors[(count - 1) * 9 / 10];
	limit.limit = round_up((limit.limit * factor + PERCENT - 1) / PERCENT);
	if (limit.algorithm == WEIR_TOKEN_BUCKET)
		limit.burst = round_up((limit.burst * factor + PERCENT - 1) / PERCENT);
	wr_number_words(limit.limit, words);
	write_text(advice,
		   "%zu refused clients need only a little more than the limit; %s would be enough "
		   "for "
		   "nine of ten of them",
		   count, words);
	add_number(advice, "clients_just_above", count);
	add_number(advice, "clients_far_above", others);
	add_number(advice, "refused_percent", percent_of(refusals(stat), requests(stat)));
	add_number(advice, "limit_percent", factor);
	propose_limit(advice, &limit);
	return true;
}

/* Returns true if the list of hot keys has one key, and this key has no text. Then all clients
 * share one counter, or the rule has a single client without a text. In both cases advice about one
 * client would be useless. */
static bool is_for_all(const struct wr_advice_view *view)
{
	return view->hot_count == 1 && view->hot->text_len == 0;
}

static bool advise_one_client(const struct wr_advice_view *view, struct wr_advice *advice)
{
	const struct weir_top_key *key = view->refused;
	char count[WR_NUMBER_WORDS], total[WR_NUMBER_WORDS];

	if (view->refused_count == 0 || is_for_all(view) ||
	    view->refused_total < WR_ADVICE_REFUSALS || least_count(key) * 2 <= view->refused_total)
		return false;
	wr_number_words(least_count(key), count);
	wr_number_words(view->refused_total, total);
	write_text(advice, "one client has %s of the last %s refusals, %llu %%", count, total,
		   (unsigned long long)percent_of(least_count(key), view->refused_total));
	add_number(advice, "client_refusals", least_count(key));
	add_number(advice, "refusals", view->refused_total);
	add_number(advice, "clients_in_list", view->refused_count);
	advice->key = key;
	return true;
}

static int compare_refused(const void *a, const void *b)
{
	uint64_t x =
		((const struct weir_point *)a)->refused + ((const struct weir_point *)a)->shadowed;
	uint64_t y =
		((const struct weir_point *)b)->refused + ((const struct weir_point *)b)->shadowed;

	return x > y ? -1 : x < y;
}

/* Returns the smallest number of seconds that together contain four fifths of all refusals, or 0 if
 * there is not enough history or there are too few refusals. */
static size_t burst_seconds(const struct wr_advice_view *view, size_t *known, uint64_t *total)
{
	struct weir_point points[WEIR_HISTORY_SECONDS];
	uint64_t sum = 0;
	size_t seconds = 0;

	*known = 0;
	*total = 0;
	for (size_t i = 0; i < view->second_count && *known < WEIR_HISTORY_SECONDS; i++)
		if (view->seconds[i].known) {
			points[(*known)++] = view->seconds[i];
			*total += view->seconds[i].refused + view->seconds[i].shadowed;
		}
	if (*known < SECONDS_LEAST || *total < WR_ADVICE_REFUSALS)
		return 0;
	qsort(points, *known, sizeof *points, compare_refused);
	while (sum * 5 < *total * 4) {
		sum += points[seconds].refused + points[seconds].shadowed;
		seconds++;
	}
	return seconds;
}

/* Advises to try a token bucket as a candidate, if most refusals were in few seconds. A token
 * bucket that admits bursts might have admitted these requests. */
static bool advise_bursts(const struct wr_advice_view *view, struct wr_advice *advice)
{
	struct wr_stats_limit_view limit = wr_stat_limit(view->stat), candidate = limit;
	size_t known, seconds;
	uint64_t total;
	char words[128];

	if (view->candidate_count || limit.algorithm == WEIR_LEAKY_BUCKET || limit.period_ns == 0 ||
	    limit.limit == 0)
		return false;
	seconds = burst_seconds(view, &known, &total);
	if (seconds == 0 || seconds * 10 > known)
		return false;
	candidate.algorithm = WEIR_TOKEN_BUCKET;
	candidate.burst =
		round_up(2ull * (limit.algorithm == WEIR_TOKEN_BUCKET ? limit.burst : limit.limit));
	write_text(
		advice,
		"four of five refusals were in %zu of the last %zu seconds; try %s as a candidate",
		seconds, known, wr_stats_limit_words(&candidate, &limit, words, sizeof words));
	add_number(advice, "refusals", total);
	add_number(advice, "burst_seconds", seconds);
	add_number(advice, "seconds", known);
	propose_candidate(advice, &limit, &candidate);
	return true;
}

static uint64_t age_s(const struct wr_advice_view *view)
{
	uint64_t since_ns = view->stat->since_ns;

	return since_ns && view->now_ns > since_ns ? (view->now_ns - since_ns) / SECOND_NS : 0;
}

/* If no request used more than four fifths of the limit, advises to lower the limit to four fifths,
 * which would have admitted all requests. For a token bucket, advises to lower only the burst,
 * because its full rate may have been needed. */
static bool advise_not_reached(const struct wr_advice_view *view, struct wr_advice *advice)
{
	const struct weir_stat *stat = view->stat;
	struct wr_stats_limit_view limit = wr_stat_limit(stat);
	bool bucket = limit.algorithm == WEIR_TOKEN_BUCKET;
	uint32_t *capacity = bucket ? &limit.burst : &limit.limit;
	char count[WR_NUMBER_WORDS], lower[WR_NUMBER_WORDS];

	if (requests(stat) < WR_ADVICE_REQUESTS || refusals(stat) || stat->near_limit ||
	    stat->delayed || age_s(view) < WR_ADVICE_LEAST_S || *capacity < 5 ||
	    limit.algorithm == WEIR_LEAKY_BUCKET)
		return false;
	*capacity = (uint32_t)((uint64_t)*capacity * 4 / 5);
	wr_number_words(requests(stat), count);
	wr_number_words(*capacity, lower);
	write_text(
		advice,
		"none of %s requests came near the limit; %s%s would have refused no request and "
		"protects better",
		count, bucket ? "a burst of " : "", lower);
	add_number(advice, "requests", requests(stat));
	add_number(advice, "near_limit", 0);
	add_number(advice, "age_seconds", age_s(view));
	propose_limit(advice, &limit);
	return true;
}

static bool advise_not_met(const struct wr_advice_view *view, struct wr_advice *advice)
{
	if (requests(view->stat) || age_s(view) < WR_ADVICE_NOT_MET_S)
		return false;
	write_text(advice, "no request has matched the rule in %llu hours",
		   (unsigned long long)(age_s(view) / 3600));
	add_number(advice, "age_seconds", age_s(view));
	return true;
}

size_t wr_advise(const struct wr_advice_view *view, struct wr_advice advice[WR_ADVICE_MAX])
{
	static const struct {
		enum wr_advice_kind kind;
		bool (*advise)(const struct wr_advice_view *view, struct wr_advice *advice);
	} kinds[] = {
		{WR_ADVICE_CANDIDATE, advise_candidate},
		{WR_ADVICE_TOO_TIGHT, advise_too_tight},
		{WR_ADVICE_ONE_CLIENT, advise_one_client},
		{WR_ADVICE_BURSTS, advise_bursts},
		{WR_ADVICE_NOT_REACHED, advise_not_reached},
		{WR_ADVICE_NOT_MET, advise_not_met},
	};
	size_t count = 0;

	/* All advice is about requests per period, so it does not fit concurrent requests. */
	if (view->stat->flags & WEIR_STAT_UNLIMITED || view->stat->algorithm == 0 ||
	    view->stat->algorithm == WEIR_CONCURRENT)
		return 0;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds && count < WR_ADVICE_MAX; i++) {
		advice[count] = (struct wr_advice){.kind = kinds[i].kind};
		count += kinds[i].advise(view, &advice[count]);
	}
	return count;
}
