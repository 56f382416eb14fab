/* Advice on rules, from their statistics: which limits are too tight, too loose or unused.
 *
 * The functions are pure: they turn numbers into sentences. A rule gets up to WR_ADVICE_MAX pieces
 * of advice. Each piece contains the numbers behind the advice, and may contain a proposed limit as
 * a line of a rule file. */
#ifndef WR_STATS_ADVICE_H
#define WR_STATS_ADVICE_H

#include <weir/stats.h>

/* X(enum, name, condition under which the advice is given) */
#define WR_ADVICES(X)                                                                              \
	X(WR_ADVICE_CANDIDATE, "candidate_better",                                                 \
	  "a candidate would have refused clearly fewer requests, and hardly any others")          \
	X(WR_ADVICE_TOO_TIGHT, "too_tight", "many refused clients exceed the limit only slightly") \
	X(WR_ADVICE_ONE_CLIENT, "one_client", "one client has most of the refusals")               \
	X(WR_ADVICE_BURSTS, "bursts", "most refusals are in few seconds")                          \
	X(WR_ADVICE_NOT_REACHED, "not_reached", "no client comes near the limit")                  \
	X(WR_ADVICE_NOT_MET, "not_met", "no request has matched the rule")

enum wr_advice_kind {
#define WR_ADVICE_ENUM(name, text, when) name,
	WR_ADVICES(WR_ADVICE_ENUM)
#undef WR_ADVICE_ENUM
};

/* Advice is given only if the statistics of the rule reach these minimums. */
#define WR_ADVICE_REQUESTS 1000u   /* requests needed for WR_ADVICE_NOT_REACHED */
#define WR_ADVICE_REFUSALS 100u    /* refusals needed for all advice about refusals */
#define WR_ADVICE_CLIENTS 8u       /* clients slightly above the limit, needed for TOO_TIGHT */
#define WR_ADVICE_LEAST_S 3600u    /* age of the rule needed for WR_ADVICE_NOT_REACHED */
#define WR_ADVICE_NOT_MET_S 86400u /* age of the rule needed for WR_ADVICE_NOT_MET */

/* The statistics of a rule. */
struct wr_advice_view {
	const struct weir_stat *stat;
	uint64_t now_ns;
	const struct weir_point *seconds; /* oldest first */
	size_t second_count;
	const struct weir_top_key *hot, *refused; /* largest count first */
	size_t hot_count, refused_count;
	uint64_t refused_total; /* number of refusals of all keys, also of those not in `refused` */
	const struct weir_candidate *candidates; /* candidates of this rule */
	size_t candidate_count;
};

#define WR_ADVICE_TEXT 320
#define WR_ADVICE_YAML 320
#define WR_ADVICE_NUMBERS 4
#define WR_ADVICE_MAX 5 /* maximum number of pieces of advice for one rule */

struct wr_advice {
	enum wr_advice_kind kind;
	const struct weir_top_key *key; /* the client that the advice is about, or NULL */
	char text[WR_ADVICE_TEXT];      /* a sentence, without the client's name */
	char yaml[WR_ADVICE_YAML];      /* the proposed limit for the rule file, or "" */
	struct wr_advice_number {
		const char *name;
		uint64_t value;
	} numbers[WR_ADVICE_NUMBERS];
	size_t number_count;
};

extern const char *const wr_advice_names[];

/* Writes the advice, the most important first. Returns the number of pieces. */
size_t wr_advise(const struct wr_advice_view *view, struct wr_advice advice[WR_ADVICE_MAX]);

/* ---- texts ---- */

/* The limit of a rule or a candidate, as the rule file states it. */
struct wr_stats_limit_view {
	uint32_t algorithm, limit, burst;
	uint64_t period_ns; /* 0: a calendar window */
};

/* Writes a limit as "token_bucket, 100 per 1m, burst 20". The part "100 per 1m" is left out if the
 * limit `like` has the same amount and period. `like` may be NULL. Returns `text`. */
const char *wr_stats_limit_words(const struct wr_stats_limit_view *limit,
				 const struct wr_stats_limit_view *like, char *text, size_t cap);

/* Writes the difference between a candidate and its rule: "212 fewer refusals, none more". Returns
 * `text`. */
const char *wr_stats_candidate_words(const struct weir_candidate *candidate, char *text,
				     size_t cap);

static inline struct wr_stats_limit_view wr_stat_limit(const struct weir_stat *stat)
{
	return (struct wr_stats_limit_view){stat->algorithm, stat->limit, stat->burst,
					    stat->period_ns};
}

static inline struct wr_stats_limit_view
wr_stats_candidate_limit(const struct weir_candidate *candidate)
{
	return (struct wr_stats_limit_view){candidate->algorithm, candidate->limit,
					    candidate->burst, candidate->period_ns};
}

#endif
