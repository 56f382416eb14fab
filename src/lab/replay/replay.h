/* Decides the requests of a log with the production code, and counts what each limit does.
 *
 *   struct wr_lab_replay_opts opts = {.memory_bytes = 64 << 20};
 *   struct wr_lab_replay *replay;
 *
 *   if (wr_lab_replay_open(rules, &opts, &replay, &error) < 0)
 *           …
 *   while ((record = wr_lab_log_next(log)) != NULL)
 *           wr_lab_replay_feed(replay, record, wr_lab_log_peek(log));
 *   wr_lab_replay_end(replay);
 *   …                                         // wr_lab_replay_report() and the functions below it
 *   wr_lab_replay_close(replay);
 *
 * A replay has an engine on a private table. The time of a decision is the time of the record, which
 * counts as the time of arrival. A request that is settled after its response (`cost`, `count`, a
 * slot of a concurrent limit) is settled at its time plus its duration; without a duration in the
 * log, it is settled at once.
 *
 * Apart from the table, the memory of a replay is bounded: about 60 MiB, plus 50 MiB if requests are
 * kept open until the end of their responses, plus 128 MiB if `algorithms` is set. */
#ifndef WR_LAB_REPLAY_REPLAY_H
#define WR_LAB_REPLAY_REPLAY_H

#include <weir/engine.h>

#include "lab/log/log.h"
#include "lab/replay/algorithms.h"
#include "lab/replay/top.h"
#include "lab/report/timeline.h"
#include "rules/rules.h"

struct wr_lab_replay;

struct wr_lab_replay_opts {
	const char *domain; /* NULL: the only domain that can be used */
	/* Descriptors that are made from fields of the log, instead of `requests:` in the rules:
	 * "remote_address=client,path=path" (replay_descriptor.h). */
	const char *const *descriptors;
	size_t descriptor_count;
	uint64_t memory_bytes; /* memory of the table; 0 means 64 MiB */
	bool algorithms;       /* compare the algorithms on each limit */
	bool timelines;        /* record the requests of each limit over time */
};

/* What became of a request. */
enum wr_lab_verdict {
	WR_LAB_NOT_DECIDED, /* the line has no complete request */
	WR_LAB_ADMITTED,    /* also if no limit applies */
	WR_LAB_REFUSED,     /* also if the request was deferred */
};

/* The requests of a log by their results. `requests` is the sum of the other numbers, except
 * `delayed`. */
struct wr_lab_replay_totals {
	uint64_t requests;
	/* Lines without a complete request, which the server answered itself. */
	uint64_t no_request;
	uint64_t exempt;    /* `allow: true` of an entry of `requests:` */
	uint64_t unlimited; /* no limit applies */
	uint64_t admitted;
	uint64_t refused;
	uint64_t deferred;
	/* Refused with status 400: the target has a control character, a fragment or an encoded zero
	 * byte. */
	uint64_t malformed;
	uint64_t missing;   /* refused, because `missing: deny` found no value in the log */
	uint64_t too_many;  /* refused, because too many limits apply to the request */
	uint64_t undecided; /* the time of the record cannot be used */
	uint64_t delayed;   /* part of `admitted` */
	uint64_t first_ns, last_ns;
};

/* What one limit did. `requests` is the sum of admitted, refused, deferred, would_refuse and
 * elsewhere. */
struct wr_lab_replay_limit {
	const struct wr_rules_limit *rule;
	uint64_t requests; /* requests to which the limit applies */
	uint64_t admitted;
	uint64_t refused;
	uint64_t deferred;
	/* Requests over the limit that were admitted: the rule is in shadow mode, its `enforce`
	 * excludes the key, or another quota admitted the request. */
	uint64_t would_refuse;
	uint64_t elsewhere; /* requests that another limit refused */
	uint64_t delayed;   /* part of `admitted` */
	uint64_t longest_wait_ns, longest_delay_ns;
	uint64_t never; /* refusals after which waiting does not help */
	/* Requests that hold a slot of a concurrent limit and have no duration in the log. */
	uint64_t no_duration;
	/* The current second, and the requests in it. */
	uint64_t second_s, second_offered, second_admitted;
	uint64_t peak_offered, peak_admitted; /* most requests within one second */
	/* Set by wr_lab_replay_end(). */
	uint64_t keys, keys_refused;      /* distinct keys; keys refused at least once */
	bool keys_exact;                  /* otherwise `keys` and `keys_refused` are estimates */
	struct wr_lab_timeline *timeline; /* NULL: not recorded; tracks: enum wr_lab_replay_track */
};

enum wr_lab_replay_track {
	WR_LAB_TRACK_ADMITTED,
	WR_LAB_TRACK_REFUSED, /* also requests that a rule in shadow mode would refuse */
	WR_LAB_TRACK_DEFERRED,
	WR_LAB_TRACK_ELSEWHERE, /* of a limit: requests that another limit refused */
};

#define WR_LAB_TIMELINES 32u /* number of limits with a timeline: the first ones with requests */

/* A note on something in the rules that the log cannot show. */
#define WR_LAB_NOTE 320u
#define WR_LAB_NOTES 32u

struct wr_lab_replay_report {
	struct wr_lab_replay_totals totals;
	struct weir_str domain;
	const struct wr_lab_replay_limit *limits; /* in file order */
	size_t limit_count;
	const struct wr_lab_timeline *timeline; /* all requests; NULL without opts.timelines */
	uint64_t clients, clients_refused;      /* distinct values of `client` in the records */
	bool clients_exact;
	/* Losses of the table because it was too small. */
	uint64_t evicted, log_evicted, log_approximate, log_full;
	uint64_t settled_early; /* responses that were settled early, because too many were open */
	char notes[WR_LAB_NOTES][WR_LAB_NOTE];
	size_t note_count;
};

/* Makes a replay. On success the replay owns the rules. Returns 0, or an error with the option and
 * the remedy in its text. */
int wr_lab_replay_open(struct weir_rules *rules, const struct wr_lab_replay_opts *opts,
		       struct wr_lab_replay **made, struct weir_error *error);
void wr_lab_replay_close(struct wr_lab_replay *replay);

/* Decides a request. The times of records do not go back. `next` is the record of the next call, if
 * it is known already, or NULL. The replay then loads the counters of the next request from memory
 * while it decides this one, which takes a quarter less time. */
enum wr_lab_verdict wr_lab_replay_feed(struct wr_lab_replay *replay,
				       const struct wr_lab_record *record,
				       const struct wr_lab_record *next);

/* Settles the requests that are still open, and completes the report. */
void wr_lab_replay_end(struct wr_lab_replay *replay);

/* Returns the report, which belongs to the replay. Called after wr_lab_replay_end(). */
const struct wr_lab_replay_report *wr_lab_replay_report(const struct wr_lab_replay *replay);

/* Finds the most refused keys of limit `at`, the most refused one first. Refusals in shadow mode
 * count too. Returns their number. */
size_t wr_lab_replay_top(const struct wr_lab_replay *replay, size_t at,
			 const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS]);

/* Finds the clients with the most refused requests, over all limits. */
size_t wr_lab_replay_top_clients(const struct wr_lab_replay *replay,
				 const struct wr_lab_top_key *found[WR_LAB_TOP_KEYS]);

/* Returns the comparison of algorithms for limit `at`. Returns NULL without opts.algorithms. */
const struct wr_lab_algorithms_limit *wr_lab_replay_algorithms(const struct wr_lab_replay *replay,
							       size_t at);

/* Returns a hash that identifies the client of a record. */
uint64_t wr_lab_replay_client(const struct wr_lab_record *record);

#endif
