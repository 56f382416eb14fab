/* Shared by the files of a replay: replay.c, replay_open.c, replay_settle.c, replay_text.c and
 * replay_notes.c. */
#ifndef WR_LAB_REPLAY_INNER_H
#define WR_LAB_REPLAY_INNER_H

#include "base/heap.h"
#include "lab/replay/replay.h"
#include "lab/replay/descriptor.h"
#include "lab/replay/keys.h"
#include "limiter/ask.h"
#include "rules/http.h"

#define WR_LAB_OPEN_MAX 4096u /* maximum number of requests that wait for their responses */
#define WR_LAB_NAMES_MAX 16u
#define WR_LAB_DESCRIPTORS_MAX 8u

/* A request, from its decision to its settlement. An ask cannot be moved, so a request keeps its
 * memory until it is settled. */
struct wr_lab_open {
	_Alignas(max_align_t) char memory[WEIR_ASK_BYTES];
	struct weir_ask *ask;
	uint64_t client; /* hash of the client */
	struct weir_outcome outcome;
	uint64_t end_ns; /* end of the response */
	struct wr_heap_node node;
	struct wr_lab_open *next; /* in the list of unused ones */
};

/* A header field that the rules need. */
struct wr_lab_name {
	struct weir_str name; /* in the rules */
	uint64_t found;       /* number of requests that have the field */
	uint64_t asked;
};

struct wr_lab_replay {
	struct weir_table *table;
	struct weir_engine *engine;
	const struct weir_rules *rules; /* the engine owns them */
	const struct wr_node *domain;
	struct wr_lab_descriptor descriptors[WR_LAB_DESCRIPTORS_MAX];
	size_t descriptor_count;

	const struct wr_lab_record *record; /* the record that is being decided */
	/* An HTTP request, and its record. It may be that of the next record already. */
	struct weir_http_view view;
	const struct wr_lab_record *viewed;
	/* The request of the next record, which was begun early, or NULL. */
	struct wr_lab_open *prepared;
	const struct wr_lab_record *prepared_record;

	struct wr_lab_replay_report report;
	struct wr_lab_replay_limit *limits;
	size_t limit_count;
	uint32_t *by_policy;     /* index of a limit, by wr_ask_need.policy */
	struct wr_lab_keys keys; /* a group for each limit, and one for clients */
	struct wr_lab_top top;   /* the same groups: refused keys */
	struct wr_lab_algorithms *algorithms;
	bool timelines;
	uint32_t timeline_count;
	struct wr_lab_timeline *timeline;

	struct wr_heap open; /* requests that wait for the end of their response */
	struct wr_lab_open *unused;
	uint32_t open_count; /* number of struct wr_lab_open that were made */

	struct wr_lab_name names[WR_LAB_NAMES_MAX];
	size_t name_count;
	bool saw_client, saw_status, saw_duration; /* some record has one */

	char http_memory[WR_HTTP_MEMORY];
};

/* The mark of refused keys in `keys`. */
#define WR_LAB_MARK_REFUSED 1u

/* replay.c: makes replay->view the request of a record. */
void wr_lab_replay_fill_view(struct wr_lab_replay *replay, const struct wr_lab_record *record);

/* replay_settle.c: makes memory for `count` more requests. Returns false if there is no memory. */
bool wr_lab_replay_make_open(struct wr_lab_replay *replay, unsigned count);

/* replay_settle.c: returns memory for a request. */
struct wr_lab_open *wr_lab_replay_begin(struct wr_lab_replay *replay, uint64_t now_ns);

/* replay_settle.c: ends the request after its decision. If it has something to settle, and the log
 * has its duration, it stays open until the end of its response. */
void wr_lab_replay_finish(struct wr_lab_replay *replay, struct wr_lab_open *open);

/* replay_settle.c: ends the request without settling it. */
void wr_lab_replay_drop(struct wr_lab_replay *replay, struct wr_lab_open *open);

/* replay_settle.c: settles the requests whose responses ended at or before now_ns. */
void wr_lab_replay_settle_due(struct wr_lab_replay *replay, uint64_t now_ns);

/* replay_settle.c: frees all requests. */
void wr_lab_replay_free_open(struct wr_lab_replay *replay);

/* replay_settle.c: returns the units that a request takes from a limit in the end, as far as the log
 * tells. */
int64_t wr_lab_replay_cost(const struct wr_lab_record *record, const struct weir_ask *ask,
			   const struct wr_ask_need *need);

/* replay_text.c: writes the values of the key of a need, separated by WEIR_TOP_BETWEEN. Values that
 * the rule itself contains are left out. Returns the length of the text, at most `cap`. */
size_t wr_lab_replay_key_text(struct wr_lab_replay *replay, const struct weir_ask *ask,
			      const struct wr_ask_need *need, char *text, size_t cap);

/* replay_notes.c: the callback `header` of struct weir_http_view. Notes which fields the log has.
 * The context is the replay. */
size_t wr_lab_replay_header(void *context, struct weir_str name, struct weir_str *values,
			    size_t max);

/* replay_notes.c: writes the notes of the report. */
void wr_lab_replay_write_notes(struct wr_lab_replay *replay);

#endif
