/* The engine: decides requests by rules and a table.
 *
 *   struct weir_engine *engine;
 *   _Alignas(max_align_t) char memory[WEIR_ASK_BYTES];
 *   struct weir_ask *ask;
 *   struct weir_result result = {.size = sizeof result};
 *
 *   if (weir_engine_new(table, rules, NULL, &engine) < 0)    // once
 *           …
 *   weir_ask_init(memory, sizeof memory, engine, domain, &ask);
 *   weir_ask_http(ask, &view);                  // or weir_ask_add for each descriptor
 *   verdict = weir_ask_decide(ask, weir_now_ns());
 *   weir_ask_result(ask, &result);
 *   if (verdict < 0)                            // an error, for example WEIR_ETIME
 *           …
 *   else if (verdict == WEIR_ADMIT)
 *           …                                   // pass the request on
 *   else if (verdict == WEIR_DELAY)
 *           …                                   // pass the request on after result.delay_ns
 *   else                                        // WEIR_REFUSE, WEIR_DEFER
 *           …                                   // respond with result.http_status,
 *                                               // weir_ask_headers and weir_ask_body
 *   weir_ask_done(ask);
 *
 * GUARANTEES
 *   All or none  A request takes from every limit that is enforced for it, or from none. Limits in
 *                shadow or quota mode are counted if the enforced limits admit the request. If a
 *                request names a counter twice, the counter is charged once with the summed cost.
 *   Rules        A request is decided by the rules that were in force at weir_ask_init. A set of
 *                rules is freed when no request uses it any more.
 *   Memory       A decision allocates nothing. An ask lives in the caller's memory and must not be
 *                moved.
 *   Clock        The caller passes the time. The engine reads CLOCK_BOOTTIME only for rules with
 *                `consistency: lease` or `eventual`.
 *   Threads      Any number of threads may use one engine at once. An ask belongs to one thread at
 *                a time.
 *   Fork         A child process may use the engine that it inherited. Call weir_watch_start after
 *                the fork, because a fork does not copy threads.
 *
 * An engine without WEIR_ENGINE_CENTRAL decides every rule in the table, and weir_ask_decide never
 * returns WEIR_WAIT. Programs that carry questions to a central store, or queue deferred requests,
 * also need weir/host.h. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include <weir/algo.h>
#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_table;
struct weir_engine;
struct weir_ask;

#define WEIR_DESCRIPTORS_MAX 32 /* maximum number of descriptors of one ask */
#define WEIR_ASK_BYTES 28672    /* enough memory for an ask; weir_ask_size returns the exact size */

/* ---- engine ---- */

enum weir_engine_flags {
	/* There is a central store for rules whose `consistency` is not `local`. */
	WEIR_ENGINE_CENTRAL = 1,
	WEIR_ENGINE_NO_STATS = 2, /* the engine writes no statistics; for simulations */
};

/* How lists of top keys (weir/stats.h) show the keys of clients, which may be personal data. */
enum weir_engine_keys {
	WEIR_KEYS_TEXT,   /* a list shows its first ten keys as text, cut at 64 bytes */
	WEIR_KEYS_HASHED, /* a list shows hashes of keys, computed with the table's secret */
	WEIR_KEYS_HIDDEN, /* a list shows no keys */
};

/* A caller compiled against an older header passes a smaller `size`. Options that are not within
 * the first `size` bytes have their defaults. A larger `size` is accepted if the bytes that the
 * library does not know are zero. */
struct weir_engine_opts {
	uint32_t size;  /* sizeof(struct weir_engine_opts) */
	uint32_t flags; /* enum weir_engine_flags */
	/* The secret for the hashes in questions to the central store: WEIR_SECRET_BYTES bytes,
	 * equal on all nodes. NULL: not known yet; weir_engine_fleet (weir/host.h) can set it. */
	const uint8_t *fleet_secret;
	uint64_t now_ns; /* time at which the first rules come into force */
	/* An admitted request counts as near_limit in the statistics if more than this percentage
	 * of the limit is used. 0 means 80. */
	uint32_t near_percent;
	/* enum weir_engine_keys. With HASHED or HIDDEN, weir_engine_new erases the texts of keys
	 * that are already in the table. */
	uint32_t keys;
	/* Name of this process in weir_hosts_each, for example "nginx". At most 23 bytes; may be
	 * NULL. */
	const char *host;
	/* Number of nodes in the fleet, used until weir_fleet_note sets the number. 0 means 1. */
	uint32_t fleet_size;
	uint32_t reserved;
};

/* Makes an engine. On success the engine owns the rules. The table must outlive the engine. If
 * `rules` is NULL, every domain is unknown until the first weir_engine_swap. `opts` may be NULL.
 * Returns 0, WEIR_EINVAL or WEIR_EMEMORY. */
WEIR_API int weir_engine_new(struct weir_table *table, struct weir_rules *rules,
			     const struct weir_engine_opts *opts, struct weir_engine **engine);

/* Frees the engine and its rules. Every ask and every watch must have ended. */
WEIR_API void weir_engine_free(struct weir_engine *engine);

/* Puts rules into force for requests that begin after this call, and increments the generation. A
 * counter is kept if the new rules have a limit with the same key, algorithm, period and identity
 * (struct weir_limit). On success the engine owns the rules. The call allocates and takes time
 * proportional to the number of rules: do not call it on an event loop. Returns 0, WEIR_EINVAL or
 * WEIR_EMEMORY. */
WEIR_API int weir_engine_swap(struct weir_engine *engine, struct weir_rules *rules,
			      uint64_t now_ns);

/* Records that new rules could not be loaded, with the reason in `text`. The rules in force stay.
 * weir_engine_info and weir_hosts_each report the failure. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_engine_load_failed(struct weir_engine *engine, const char *text, uint64_t now_ns);

/* A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * the fields up to `generation`. */
struct weir_engine_info {
	uint32_t size;       /* sizeof(struct weir_engine_info), set by the caller */
	uint32_t held;       /* number of older sets of rules that requests still use */
	uint64_t generation; /* number of the rules in force, from 1; 0: no rules yet */
	uint64_t hash;       /* hash of the rules, see weir_rules_info */
	uint64_t loaded_ns;
	uint64_t loads_good, loads_failed;
	uint64_t failed_ns; /* time of the latest load if that load failed, otherwise 0 */
	char error[1024];   /* the first errors of the failed load, as text */
};

/* Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_engine_info(struct weir_engine *engine, struct weir_engine_info *info);

/* ---- watching rule files ---- */

struct weir_watch;

/* The result of a load. */
struct weir_load {
	uint32_t size;        /* sizeof(struct weir_load) in the library's version */
	int rc;               /* 0, or the error of weir_rules_load */
	uint64_t generation;  /* generation of the rules in force after the load */
	uint64_t hash;        /* hash of the rules in force after the load */
	uint64_t duration_ns; /* how long the load lasted */
	/* Errors and warnings of the load; valid until the callback returns. The library sets
	 * errors->size to its own size of the struct. */
	const struct weir_errors *errors;
};

enum weir_watch_flags {
	/* weir_watch_start starts no thread; the program calls weir_watch_look (weir/host.h)
	 * instead. This flag is meant for processes with a single thread, because a second thread
	 * makes every system call on a file descriptor slower. */
	WEIR_WATCH_BY_HOST = 1,
};

/* A smaller or larger `size` is handled as in struct weir_engine_opts. */
struct weir_watch_opts {
	uint32_t size;  /* sizeof(struct weir_watch_opts) */
	uint32_t flags; /* enum weir_watch_flags */
	/* Called by the thread that watches the files, after each load that puts rules into force
	 * or fails. It is not called for a failure with the same errors as the previous load,
	 * unless weir_watch_poke requested the load. May be NULL. */
	void (*loaded)(void *context, const struct weir_load *load);
	void *context;
	uint64_t (*now_ns)(void *context); /* returns the time; NULL: CLOCK_REALTIME is read */
};

/* Starts a thread that loads the rules at `path` within a second after their files have changed on
 * disk: a file was written or renamed, or a symbolic link on the path was changed. The thread also
 * calls weir_tick (weir/stats.h). Rules with errors do not come into force. `seen` is the set of
 * rules that the program has already loaded from `path`; if `seen` is NULL, the thread loads at
 * once. The thread blocks all signals. `opts` may be NULL. Returns 0, WEIR_EINVAL, WEIR_EMEMORY or
 * WEIR_ESYS. */
WEIR_API int weir_watch_start(struct weir_engine *engine, const char *path,
			      const struct weir_rules *seen, const struct weir_watch_opts *opts,
			      struct weir_watch **watch);

/* Requests a load, as SIGHUP does, even if the files have not changed. With WEIR_WATCH_BY_HOST the
 * next weir_watch_look loads the rules. May be called in a signal handler. */
WEIR_API void weir_watch_poke(struct weir_watch *watch);

/* Ends the watch and frees it. Waits for a load in progress. `watch` may be NULL. */
WEIR_API void weir_watch_stop(struct weir_watch *watch);

/* ---- one request ---- */

enum weir_verdict {
	WEIR_ADMIT = 1,
	WEIR_REFUSE = 2,
	WEIR_DELAY = 3, /* admitted; the request must wait for result.delay_ns */
	/* Refused, and every limit that refused has `on_limit: defer`. A program that queues
	 * requests queues this request and responds 202. Other programs treat this verdict as
	 * WEIR_REFUSE. */
	WEIR_DEFER = 4,
	/* Not decided: the central store must be asked, see weir/host.h. */
	WEIR_WAIT = 5,
};

/* Returns the number of bytes that an ask needs, at most WEIR_ASK_BYTES. */
WEIR_API size_t weir_ask_size(void);

/* Begins a request in `memory`, which must be aligned for any object. `domain` is not used after
 * the call. After success, the caller must call weir_ask_done at the end of the request. Returns 0,
 * WEIR_EINVAL, or WEIR_EROOM if `size` is smaller than weir_ask_size(). */
WEIR_API int weir_ask_init(void *memory, size_t size, struct weir_engine *engine,
			   struct weir_str domain, struct weir_ask **ask);

/* Sets the cost of all descriptors that are added later without a cost of their own. Without this
 * call their cost is 1. */
WEIR_API int weir_ask_hits(struct weir_ask *ask, int64_t hits);

#define WEIR_HITS_UNSET INT64_MIN /* the descriptor has no cost of its own */

/* Sets the time at which an earlier request took its units. Descriptors with negative costs give
 * these units back. The units are given back to the window or bucket that counted them at that
 * time, or not at all. A sliding window log gives back its newest entries at or before this time, so
 * the caller passes a time shortly after the take. A time that is a little wrong can belong to another
 * window, so a program that keeps its asks calls weir_ask_cancel or weir_ask_settle instead. With
 * WEIR_TAKEN_UNKNOWN, the units are given back to the present window. If the window in which they
 * were taken has ended, this admits more requests than the limit. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_taken_at(struct weir_ask *ask, uint64_t taken_ns);

#define WEIR_TAKEN_UNKNOWN UINT64_MAX

/* Adds a descriptor with its cost. A cost of 0 takes nothing, a negative cost gives units back. A
 * request with a negative cost needs weir_ask_taken_at, or weir_ask_decide returns WEIR_EINVAL.
 * `override` is a limit that came with the request, or NULL. An override applies instead of the
 * rules, is checked by this call, and needs a domain that exists. The arguments are not used after
 * the call. Returns 0, WEIR_EINVAL, or WEIR_ELIMIT if the override is not usable.
 *
 * A request with more than WEIR_DESCRIPTORS_MAX descriptors, or with more than WEIR_NEEDS_MAX
 * limits, cannot be counted. For such a request weir_ask_add returns 0, and weir_ask_decide refuses
 * the request: with 429, or with the status of the first rule whose limits did not fit. */
WEIR_API int weir_ask_add(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			  const struct weir_limit *override, int64_t hits);

/* Adds the descriptors that the entries under `requests:` of the domain make from an HTTP request.
 * If an entry has a `cost`, it applies instead of the hits of weir_ask_hits, unless these are 0 or
 * negative. Returns 0 or WEIR_EINVAL. If the request cannot be read or counted, weir_ask_decide refuses it:
 * with 400 if its target is malformed or the request is too large, with 429 if too many limits
 * apply. */
WEIR_API int weir_ask_http(struct weir_ask *ask, const struct weir_http_view *view);

/* Makes a limit for weir_ask_add: `requests` per period. `unit` is the number of the period in
 * Envoy's RLS: second 1, minute 2, hour 3, day 4, month 5, year 6, week 7. Returns 0, WEIR_EINVAL,
 * or WEIR_ELIMIT if `unit` is another number. */
WEIR_API int weir_limit_per_unit(uint32_t requests, int unit, struct weir_limit *limit,
				 struct weir_error *error);

/* Decides the request. Returns an enum weir_verdict, WEIR_ETIME, or WEIR_EINVAL, for example if the
 * request was already decided. */
WEIR_API int weir_ask_decide(struct weir_ask *ask, uint64_t now_ns);

/* Gives back the units that the request took, as far as possible. Use this call if the client
 * disconnected before it was served. Call it after the verdict and before weir_ask_done. If the
 * verdict was WEIR_WAIT, the host can still call weir_ask_answer after this call. The next
 * weir_ask_question then writes a message that gives the units of this answer back. Returns 0,
 * WEIR_EINVAL or WEIR_ETIME. */
WEIR_API int weir_ask_cancel(struct weir_ask *ask, uint64_t now_ns);

/* Ends the request and releases the rules. Texts and headers of the ask are invalid afterwards.
 * `ask` may be NULL. */
WEIR_API void weir_ask_done(struct weir_ask *ask);

/* ---- the result ---- */

/* A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * `verdict`. */
struct weir_result {
	uint32_t size;        /* sizeof(struct weir_result), set by the caller */
	uint32_t verdict;     /* enum weir_verdict; 0: not decided yet */
	uint32_t http_status; /* 200; for a refusal 429, 400, 403 or the status in the rule */
	uint32_t descriptors; /* number of descriptors; weir_ask_status reads the status of each */
	uint64_t delay_ns;    /* with WEIR_DELAY: the longest delay of all limits */
	/* If refused: time until every limit that refused would admit the request. WEIR_NEVER:
	 * waiting does not help. */
	uint64_t retry_after_ns;
	uint64_t generation; /* generation of the rules that decided */
	/* If a ban refused the request: the end of the ban. 0: no ban; WEIR_NEVER: a ban for ever. */
	uint64_t banned_until_ns;
};

/* Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_ask_result(const struct weir_ask *ask, struct weir_result *result);

enum weir_status_code { /* numbers of Envoy's rate limit service (RLS) */
			WEIR_STATUS_OK = 1,
			WEIR_STATUS_OVER_LIMIT = 2,
};

enum weir_status_flags {
	WEIR_STATUS_LIMITED = 1,     /* a limit applies, so the fields after `flags` are set */
	WEIR_STATUS_UNLIMITED = 2,   /* the rule has `unlimited`; remaining is UINT32_MAX */
	WEIR_STATUS_WHITELISTED = 4, /* the rule has no limit */
	WEIR_STATUS_REPLACED = 8,    /* the `replaces` of another rule switched the limit off */
	/* The limit is counted but not enforced: the rule is in shadow mode, or its `enforce`
	 * excludes the key. */
	WEIR_STATUS_SHADOW = 16,
	WEIR_STATUS_WOULD_REFUSE = 32, /* set with SHADOW if the limit would have refused */
	/* Quota mode: quotas refuse a request only if each descriptor with quotas has an exhausted
	 * quota. */
	WEIR_STATUS_QUOTA = 64,
	WEIR_STATUS_OVERRIDE = 128, /* the limit came with the request */
	WEIR_STATUS_FAILED = 256,   /* the central store did not answer */
	WEIR_STATUS_BANNED = 512,   /* refused by an operator's ban, see weir/control.h */
	/* The limit is counted but not enforced, because an operator paused the rule. */
	WEIR_STATUS_PAUSED = 1024,
};

/* The decision for one descriptor. If several limits apply to the descriptor, the fields describe
 * the tightest of them, as defined at weir_ask_tightest.
 *
 * A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * `code` and `flags`. */
struct weir_status {
	uint32_t size;  /* sizeof(struct weir_status), set by the caller */
	uint32_t code;  /* enum weir_status_code */
	uint32_t flags; /* enum weir_status_flags */
	uint32_t requests_per_unit;
	uint32_t unit;      /* RLS's number for the period (weir_limit_per_unit); 0: no number */
	uint32_t remaining; /* units that remain; a refused request needs more */
	uint32_t limit; /* `remaining` of an unused key, for example the burst of a token bucket */
	/* Seconds until the window ends or the bucket is full, rounded up, at least 1. */
	uint32_t reset_s;
	uint64_t period_ns;
	struct weir_str name; /* `name` of the limit in the rule file, or empty */
	/* The limit's name in statistics; empty with WEIR_STATUS_OVERRIDE. */
	struct weir_str rule;
	struct weir_str metadata; /* the rule's metadata as a JSON object, or empty */
	struct weir_decision decision;
};

/* Reads the status of descriptor `at`. Descriptors are numbered from 0 in the order in which they
 * were added. Texts belong to the rules and are valid until weir_ask_done. Returns 0, or
 * WEIR_EINVAL if the ask is not decided or has no such descriptor. */
WEIR_API int weir_ask_status(const struct weir_ask *ask, size_t at, struct weir_status *status);

/* Reads the status of the tightest enforced limit, without metadata. A limit that refused is
 * tighter than a limit that admitted. Otherwise the limit with fewer units remaining is tighter. If
 * the remaining units are equal, the limit with the longer wait is tighter. Returns 0, WEIR_EINVAL,
 * or WEIR_ENOENT if no enforced limit applies. */
WEIR_API int weir_ask_tightest(const struct weir_ask *ask, struct weir_status *status);

/* ---- HTTP ---- */

/* X(enum, number, name). A profile is a set of header fields of a response:
 *   x       X-Ratelimit-Limit, X-Ratelimit-Remaining, RateLimit-Policy, RateLimit; a refusal also
 *           has X-Ratelimit-Retry-After and Retry-After
 *   ietf    RateLimit-Policy, RateLimit; a refusal also has Retry-After
 *   github  x-ratelimit-limit, -remaining, -used, -reset (epoch seconds), -resource; a refusal also
 *           has retry-after
 *   none    no fields
 * A refusal always has Cache-Control: no-store. */
#define WEIR_PROFILES(X)                                                                           \
	X(WEIR_PROFILE_X, 0, "x")                                                                  \
	X(WEIR_PROFILE_IETF, 1, "ietf")                                                            \
	X(WEIR_PROFILE_GITHUB, 2, "github")                                                        \
	X(WEIR_PROFILE_NONE, 3, "none")

enum weir_profile {
#define WEIR_PROFILE_ENUM(name, number, text) name = (number),
	WEIR_PROFILES(WEIR_PROFILE_ENUM)
#undef WEIR_PROFILE_ENUM
};

/* Returns the enum weir_profile with this name, or -1 if no profile has this name. */
WEIR_API int weir_profile_by_name(struct weir_str name);

/* Writes the header fields of the response into the ask. Returns the number of fields, or
 * WEIR_EINVAL if the ask is not decided. */
WEIR_API int weir_ask_headers(struct weir_ask *ask, int profile);

/* Reads header field `i`, counted from 0. Names are constants. Values are valid until the next
 * weir_ask_headers or weir_ask_done. Returns 0, or WEIR_EINVAL if there is no such field. */
WEIR_API int weir_ask_header(const struct weir_ask *ask, size_t i, struct weir_str *name,
			     struct weir_str *value);

enum weir_body {
	WEIR_BODY_PROBLEM = 0, /* application/problem+json, RFC 9457 */
	WEIR_BODY_TEXT = 1,
	WEIR_BODY_HTML = 2,
};

/* Returns the enum weir_body that a client with this Accept header prefers. An empty header accepts
 * every type. */
WEIR_API int weir_body_type(struct weir_str accept);

/* Writes the body of a refusal, without a terminating zero, and sets *content_type. If the rule has
 * a `response` with a body or a content type, the response is used and `type` is ignored. Returns
 * the length of the body; if the length is larger than `cap`, the body was cut. Returns WEIR_EINVAL
 * if the request was not refused. */
WEIR_API int weir_ask_body(const struct weir_ask *ask, int type, char *body, size_t cap,
			   struct weir_str *content_type);

#ifdef __cplusplus
}
#endif
#endif
