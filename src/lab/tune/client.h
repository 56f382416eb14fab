/* What one client does, over all of its requests, and the clients that stand out by it: scanners,
 * monitors, broken retry loops, crawlers and guessers of passwords. */
#ifndef WR_LAB_TUNE_CLIENT_H
#define WR_LAB_TUNE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/log/log.h"

/* X(enum, name, rule). The first kind whose rule is met is used. */
#define WR_LAB_KINDS(X)                                                                            \
	X(WR_LAB_GUESSER, "login guesser",                                                         \
	  "at least 20 requests, half of all, to one path were refused with 401 or 403, or were "  \
	  "POSTs to a path for logins")                                                            \
	X(WR_LAB_RETRIER, "retry loop",                                                            \
	  "at least 20 requests, half of all, repeat the request before within 2 seconds of an "   \
	  "error")                                                                                 \
	X(WR_LAB_SCANNER, "scanner",                                                               \
	  "at least 20 different paths, and two thirds of the responses say 4xx")                  \
	X(WR_LAB_MONITOR, "monitor",                                                               \
	  "at least 50 requests, nine tenths for one path, and three quarters of them repeat "     \
	  "with "                                                                                  \
	  "the same period, to within a tenth")                                                    \
	X(WR_LAB_CRAWLER, "crawler",                                                               \
	  "at least 50 requests and a user agent that says bot, crawler or spider; or at least "   \
	  "100 different paths, a tenth of its requests, read one by one, with hardly any static " \
	  "files")                                                                                 \
	X(WR_LAB_HEAVY, "heavy user", "at least a twentieth of all requests of the log")

enum wr_lab_kind {
	WR_LAB_USUAL, /* the client does not stand out */
#define WR_LAB_KIND_ENUM(name, text, rule) name,
	WR_LAB_KINDS(WR_LAB_KIND_ENUM)
#undef WR_LAB_KIND_ENUM
		WR_LAB_KIND_COUNT
};

#define WR_LAB_CLIENT_NAME 72 /* bytes of a name, with the zero byte; longer names are cut */
#define WR_LAB_CLIENT_PATH 64
#define WR_LAB_CLIENT_AGENT 64
#define WR_LAB_PATH_WORDS 8u /* 512 bits, for an estimate of the number of paths */

/* The path that most requests have, by the majority vote of Boyer and Moore: `votes` is positive at
 * the end if one path has more than half of the requests. `count` counts since the path became the
 * candidate, so it is a lower bound. */
struct wr_lab_favourite {
	uint64_t hash, votes, count;
	char path[WR_LAB_CLIENT_PATH]; /* method and path */
};

#define WR_LAB_LAGS 4u

/* Finds equal periods. A monitor that checks from several places with one address sends a few
 * requests per period, so each lag is tried: lag k compares a request with the k-th request before
 * it. */
struct wr_lab_rhythm {
	uint64_t times_ns[WR_LAB_LAGS];  /* of the latest requests, the newest first */
	uint64_t period_ns[WR_LAB_LAGS]; /* the latest period of each lag */
	uint64_t equal[WR_LAB_LAGS];     /* periods that equal the period before them */
	uint64_t equal_ns[WR_LAB_LAGS];  /* their sum */
};

struct wr_lab_tune_client {
	uint64_t hash;
	uint32_t renumber; /* for tune_clients.c */
	uint32_t last_status;
	uint64_t requests;
	uint64_t first_ns, last_ns;
	uint64_t denied;       /* responses with 401 or 403 */
	uint64_t missing;      /* responses with 404 or 410 */
	uint64_t errors;       /* responses with 4xx */
	uint64_t failures;     /* responses with 5xx */
	uint64_t statics;      /* requests for static files */
	uint64_t alone;        /* requests with a pause of more than 2 seconds before them */
	uint64_t last_request; /* hash of method and target */
	uint64_t retries;      /* the same request again, soon after an error */
	struct wr_lab_rhythm rhythm;
	uint64_t path_bits[WR_LAB_PATH_WORDS];
	struct wr_lab_favourite usual; /* of all requests */
	struct wr_lab_favourite login; /* of requests that a guesser sends */
	char name[WR_LAB_CLIENT_NAME];
	char agent[WR_LAB_CLIENT_AGENT]; /* the first user agent */
};

/* Adds a request. */
void wr_lab_client_add(struct wr_lab_tune_client *client, const struct wr_lab_record *record);

/* Returns the estimated number of different paths. */
uint64_t wr_lab_client_paths(const struct wr_lab_tune_client *client);

/* Returns the kind of the client. `requests` is the number of requests of the log, `clients` the
 * number of clients. */
enum wr_lab_kind wr_lab_client_kind(const struct wr_lab_tune_client *client, uint64_t requests,
				    uint64_t clients);

const char *wr_lab_kind_name(enum wr_lab_kind kind);
const char *wr_lab_kind_rule(enum wr_lab_kind kind);

/* Writes the reason in words: "96 % of 1,035 requests for HEAD /, every 60 s". */
void wr_lab_client_reason(const struct wr_lab_tune_client *client, enum wr_lab_kind kind,
			  char *text, size_t cap);

#endif
