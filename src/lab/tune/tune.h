/* Finds limits and bursts in what the clients of a log do.
 *
 *   struct wr_lab_tune_opts opts = {.untouched_ppm = 999000, .unit = WR_LAB_UNIT_COUNT};
 *   struct wr_lab_tune *tune;
 *
 *   if (wr_lab_tune_open(&opts, &tune, &error) < 0)
 *           …
 *   while ((record = wr_lab_log_next(log)) != NULL)
 *           if (wr_lab_tune_feed(tune, record, &error) < 0)
 *                   …
 *   if (wr_lab_tune_end(tune, &error) < 0)
 *           …
 *   …                                  // wr_lab_tune_report()
 *   wr_lab_tune_close(tune);
 *
 * The routes are entries of `requests:`: those of given rules, or entries that tune makes from the
 * paths of the log (tune_routes.h). In both cases the production code decides which entries match a
 * request and which key it has, so the limits fit what the same entries will count in production.
 *
 * Memory: up to WR_LAB_TUNE_PAIRS demands of about 700 bytes, and up to 128 MiB of requests while
 * routes are being found. */
#ifndef WR_LAB_TUNE_TUNE_H
#define WR_LAB_TUNE_TUNE_H

#include "base/buffer.h"
#include "lab/log/log.h"
#include "lab/report/timeline.h"
#include "lab/tune/client.h"
#include "lab/tune/demand.h"
#include "lab/tune/span.h"
#include "rules/rules.h"

#define WR_LAB_TUNE_PAIRS 131072u            /* the bound of demands: clients times routes */
#define WR_LAB_TUNE_LEARN 262144u            /* routes are found in this number of requests */
#define WR_LAB_TUNE_LEARN_BYTES (128u << 20) /* or in this many bytes of requests */
#define WR_LAB_TUNE_BURST 5u    /* the smallest burst that is proposed: fewer requests say little */
#define WR_LAB_TUNE_CLIENTS 20u /* a route with fewer clients gets no limit of its own */
#define WR_LAB_TUNE_LEVELS 6u   /* largest number of levels in a report */
#define WR_LAB_TUNE_OUTLIERS 20u /* clients that stand out, with their reasons */
#define WR_LAB_PPM 1000000u

struct wr_lab_tune;

struct wr_lab_tune_opts {
	/* Sources of rule files that identify a client: "identity,masked_remote_address". "user"
	 * and "address" are accepted for these two. "all": all requests are one client. NULL: the
	 * address. Not used with `rules`. */
	const char *key;
	const struct weir_rules
		*rules;         /* the entries of `requests:` are the routes; NULL: find them */
	const char *domain;     /* of the rules; NULL: the only one that has `requests:` */
	enum wr_lab_unit unit;  /* WR_LAB_UNIT_COUNT: any */
	uint32_t untouched_ppm; /* this many of a million clients stay untouched */
	bool without_outliers;  /* limits do not consider clients that stand out */
	uint32_t pair_max;      /* 0 means WR_LAB_TUNE_PAIRS */
};

/* A token bucket. */
struct wr_lab_tune_limit {
	uint32_t rate;    /* index in report.rates */
	uint32_t need;    /* the smallest burst that leaves enough clients untouched */
	uint32_t burst;   /* `need`, rounded up to a round number, and at least WR_LAB_TUNE_BURST */
	uint64_t spared;  /* clients that need at most `need` */
	uint64_t touched; /* clients that need more than `burst` */
};

/* The limits that leave a given part of the clients of a route untouched. */
struct wr_lab_tune_level {
	uint32_t untouched_ppm;
	uint64_t spared;                   /* number of clients that have to stay untouched */
	uint64_t peaks[WR_LAB_UNIT_COUNT]; /* limit of a fixed window of each unit */
	uint32_t bursts[WR_LAB_RATES];     /* burst of a token bucket of each rate, not rounded */
	bool usable;                       /* there is a `best` limit */
	struct wr_lab_tune_limit best;     /* the one with the least units per horizon */
};

/* Why a route has no limit in the proposed rules. */
enum wr_lab_tune_reason {
	WR_LAB_PROPOSED,
	WR_LAB_FEW_CLIENTS, /* fewer than WR_LAB_TUNE_CLIENTS */
	WR_LAB_NOT_TIGHTER, /* more than half of what the limit for all requests admits */
	WR_LAB_NO_LIMIT,    /* no rate and burst are within the bounds of rule files */
};

struct wr_lab_tune_route {
	const char *name; /* value in the rules: "post-wp-login-php"; "": all requests */
	const char *text; /* for people: "POST /wp-login.php" */
	bool is_static;
	uint64_t requests, units;
	uint64_t clients;                  /* in the sample */
	uint64_t considered;               /* of these, clients that the limits consider */
	uint64_t peak_second, peak_minute; /* most units of all clients together */
	uint64_t peak_clients;             /* most clients in one minute; of the sample */
	/* Habits. Bursts are those of wr_lab_demand_largest(); 1: no bursts. */
	uint64_t burst_half; /* half of the clients have no larger burst */
	uint64_t burst_most; /* nine of ten clients have no larger burst */
	/* Median of the mean pauses of clients within a visit; 0: no pauses of more than 2 s. */
	double pause_s;
	double pace; /* median of the requests per minute of clients, while they are active */
	struct wr_lab_tune_level levels[WR_LAB_TUNE_LEVELS];
	enum wr_lab_tune_reason reason;
	struct wr_lab_tune_limit limit; /* the proposed limit, if reason is WR_LAB_PROPOSED */
	/* The best limit at the same level for the clients that do not stand out. */
	bool usual_usable;
	struct wr_lab_tune_limit usual;
};

struct wr_lab_tune_outlier {
	const struct wr_lab_tune_client *client;
	enum wr_lab_kind kind;
};

struct wr_lab_tune_report {
	uint64_t requests;   /* requests of the log */
	uint64_t no_request; /* lines without a request */
	uint64_t malformed;  /* requests that weir cannot count */
	uint64_t exempt;     /* `allow: true` */
	uint64_t no_key;     /* requests without the key */
	uint64_t other;      /* requests that are on no route except all requests */
	uint64_t first_ns, last_ns;
	uint64_t length_ns; /* without long gaps and strays, see span.h */
	/* Requests whose times are far before or after the others, so they may be wrong. */
	struct wr_lab_strays early, late;
	bool costs;           /* the log has costs other than 1 */
	uint64_t clients;     /* in the sample */
	unsigned sample_bits; /* the sample has one of 2^sample_bits clients; 0: all */
	uint64_t
		considered; /* clients that the limits consider: all, or those that do not stand out */
	uint64_t touched;     /* of these, clients that the proposed limits together touch */
	uint64_t touched_max; /* the largest number that `untouched_ppm` permits */
	uint32_t untouched_ppm;
	enum wr_lab_unit unit;
	uint64_t horizon_ns; /* limits are compared by the units that a client can send in it */
	struct wr_lab_rate rates[WR_LAB_RATES];
	size_t level_count;
	size_t level; /* index of the level with `untouched_ppm` */
	/* The limits were loosened, because together they touched too many clients. */
	bool loosened;
	const struct wr_lab_tune_route *routes; /* the busiest first; all requests before them */
	size_t route_count;
	uint64_t kinds[WR_LAB_KIND_COUNT];                         /* clients of each kind */
	struct wr_lab_tune_outlier outliers[WR_LAB_TUNE_OUTLIERS]; /* most requests first */
	size_t outlier_count;
	const struct wr_lab_timeline *timeline; /* track 0: requests */
};

/* Makes a tune. Returns 0, or an error with the option and the remedy in its text. The caller keeps
 * opts->rules until wr_lab_tune_close(). */
int wr_lab_tune_open(const struct wr_lab_tune_opts *opts, struct wr_lab_tune **tune,
		     struct weir_error *error);
void wr_lab_tune_close(struct wr_lab_tune *tune);

/* Adds a request. The times of records do not go back. Returns 0 or WEIR_EMEMORY. */
int wr_lab_tune_feed(struct wr_lab_tune *tune, const struct wr_lab_record *record,
		     struct weir_error *error);

/* Chooses the limits. Returns 0 or WEIR_EMEMORY. */
int wr_lab_tune_end(struct wr_lab_tune *tune, struct weir_error *error);

/* Returns the report, which belongs to the tune. Called after wr_lab_tune_end(). */
const struct wr_lab_tune_report *wr_lab_tune_report(const struct wr_lab_tune *tune);

/* Writes the proposed rules as YAML, with a comment for each number. With `shadow`, the rules are in
 * shadow mode. Called after wr_lab_tune_end(). */
void wr_lab_tune_yaml(const struct wr_lab_tune *tune, bool shadow, struct wr_buf *yaml);

/* Fills x[] with bursts in rising order and y[] with the per cent of clients that a token bucket of
 * this rate and burst touches. Returns the number of points, at most `max`. */
size_t wr_lab_tune_curve(const struct wr_lab_tune *tune, size_t route, size_t rate, double *x,
			 double *y, size_t max);

/* Returns the units that a client can send within `horizon_ns` from a full bucket, rounded up. */
uint64_t wr_lab_tune_cost(const struct wr_lab_rate *rate, uint32_t burst, uint64_t horizon_ns);

/* Rounds up to a number with few digits: 1 to 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, … */
uint32_t wr_lab_tune_round(uint32_t number);

/* Returns how many of `clients` have to stay untouched: untouched_ppm of a million, rounded up. */
uint64_t wr_lab_tune_spared(uint64_t clients, uint32_t untouched_ppm);

/* Describes in words how the clients of a route behave: "bursts: …" or "steady, …". */
void wr_lab_tune_words(const struct wr_lab_tune_route *route, char *text, size_t cap);

#endif
