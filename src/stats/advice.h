/* Whether the rules are right: what their numbers say, and what to change.
 *
 * Pure: numbers in, sentences out. A rule may get several pieces of advice or none. Each names the
 * numbers behind it, and the limit it proposes as a line of a rule file. */
#ifndef WR_STATS_ADVICE_H
#define WR_STATS_ADVICE_H

#include <weir/stats.h>

/* X(enum, name, when it is given) */
#define WR_ADVICES(X)                                                                              \
	X(WR_ADVICE_CANDIDATE, "candidate_better",                                                 \
	  "a candidate would have refused clearly fewer, and hardly anybody else")                 \
	X(WR_ADVICE_TOO_TIGHT, "too_tight", "many clients are refused that are just above")        \
	X(WR_ADVICE_ONE_CLIENT, "one_client", "most refusals are one client's")                    \
	X(WR_ADVICE_BURSTS, "bursts", "refusals fall into few seconds")                            \
	X(WR_ADVICE_NOT_REACHED, "not_reached", "nobody comes near the limit")                     \
	X(WR_ADVICE_NOT_MET, "not_met", "no request has met the rule")

enum wr_advice_kind {
#define WR_ADVICE_ENUM(name, text, when) name,
	WR_ADVICES(WR_ADVICE_ENUM)
#undef WR_ADVICE_ENUM
};

/* When numbers are enough to speak of. */
#define WR_ADVICE_REQUESTS 1000u   /* for "nobody comes near" */
#define WR_ADVICE_REFUSALS 100u    /* for everything about refusals */
#define WR_ADVICE_CLIENTS 8u       /* that are just above */
#define WR_ADVICE_LEAST_S 3600u    /* a rule has been in force, for "nobody comes near" */
#define WR_ADVICE_NOT_MET_S 86400u /* … for "no request has met it" */

/* What is known of a rule. */
struct wr_advice_view {
	const struct weir_stat *stat;
	uint64_t now_ns;
	const struct weir_point *seconds; /* oldest first */
	size_t second_count;
	const struct weir_top_key *hot, *refused; /* largest first */
	size_t hot_count, refused_count;
	uint64_t refused_total;                  /* of all keys, faded as the list is */
	const struct weir_candidate *candidates; /* of this rule */
	size_t candidate_count;
};

#define WR_ADVICE_TEXT 320
#define WR_ADVICE_YAML 320
#define WR_ADVICE_NUMBERS 4
#define WR_ADVICE_MAX 5 /* of one rule */

struct wr_advice {
	enum wr_advice_kind kind;
	const struct weir_top_key *key; /* the client it is about, or NULL */
	char text[WR_ADVICE_TEXT];      /* a sentence, without that client's name */
	char yaml[WR_ADVICE_YAML];      /* a limit for the rule file; "" if there is none to give */
	struct wr_advice_number {
		const char *name;
		uint64_t value;
	} numbers[WR_ADVICE_NUMBERS];
	size_t number_count;
};

extern const char *const wr_advice_names[];

/* Fills in advice, the weightiest first, and returns how many pieces. */
size_t wr_advise(const struct wr_advice_view *view, struct wr_advice advice[WR_ADVICE_MAX]);

/* ---- in words ---- */

/* A limit's numbers; of a rule or of a candidate. */
struct wr_limit_view {
	uint32_t algorithm, limit, burst;
	uint64_t period_ns; /* 0: a calendar's window */
};

/* "token_bucket, 100 per 1m, burst 20"; without "100 per 1m" if `like` has the same. `like` may be
 * NULL. Returns text. */
const char *wr_limit_words(const struct wr_limit_view *limit, const struct wr_limit_view *like,
			   char *text, size_t cap);

/* "212 fewer refusals, none more". Returns text. */
const char *wr_candidate_words(const struct weir_candidate *candidate, char *text, size_t cap);

static inline struct wr_limit_view wr_stat_limit(const struct weir_stat *stat)
{
	return (struct wr_limit_view){stat->algorithm, stat->limit, stat->burst, stat->period_ns};
}

static inline struct wr_limit_view wr_candidate_limit(const struct weir_candidate *candidate)
{
	return (struct wr_limit_view){candidate->algorithm, candidate->limit, candidate->burst,
				      candidate->period_ns};
}

#endif
