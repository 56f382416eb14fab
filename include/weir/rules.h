/* Rules: YAML files, compiled for decisions.
 *
 *   struct weir_rules *rules;
 *   struct weir_errors errors = {.size = sizeof errors};
 *
 *   if (weir_rules_load("/etc/weir/rules", &rules, &errors) != 0)
 *           for (size_t i = 0; i < errors.count; i++) {
 *                   char text[1024];
 *                   weir_diagnostic_text(&errors.items[i], text, sizeof text);
 *                   fputs(text, stderr);            // rules.yaml:3:5: error: unknown key …
 *           }
 *   weir_errors_free(&errors);
 *
 * Loaded rules never change, so any number of threads may read them at once. weir_rules_load reads
 * files and allocates: do not call it on an event loop. The other calls do not allocate. Rule files
 * are not trusted: size, depth, count and aliases are bounded. */
#ifndef WEIR_RULES_H
#define WEIR_RULES_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text without a terminating zero. It may contain any byte. */
struct weir_str {
	const char *ptr;
	size_t len;
};

/* One entry of a descriptor. `source` names the part of an HTTP request from which the value was
 * taken, if there are several such parts. The user "10.0.0.1" and the address 10.0.0.1 then have
 * different counters. It is empty in descriptors of weir_ask_add. Rules ignore it. */
struct weir_entry {
	struct weir_str key;
	struct weir_str value;
	struct weir_str source;
};

struct weir_header {
	struct weir_str name;
	struct weir_str value;
};

/* An HTTP request before any decoding. The library decodes it, so that all programs use the same
 * counters.
 *
 * Header fields are an array or a callback. The callback gets a name in lower case, compares it
 * without regard to case, writes up to `max` values of fields with that name in the order of the
 * request, and returns the number of such fields.
 *
 * A smaller `size` is accepted from older callers, as for struct weir_engine_opts. */
struct weir_http_view {
	uint32_t size;    /* sizeof(struct weir_http_view) */
	uint8_t peer_len; /* 4 or 16; 0: unknown, as on a Unix socket */
	uint8_t reserved[3];
	uint8_t peer[16]; /* network order */
	struct weir_str method;
	struct weir_str target; /* as in the request line: /path?query, or http://host/path?query */
	struct weir_str host;   /* Host or :authority, raw */
	struct weir_str identity; /* the authenticated user; empty: none */
	const struct weir_header *headers;
	size_t header_count;
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
};

enum weir_severity {
	WEIR_WARNING = 1, /* the rules work, but probably not as intended */
	WEIR_ERROR = 2,   /* the rules are not usable */
};

/* One error or warning. */
struct weir_diagnostic {
	uint32_t severity; /* enum weir_severity */
	uint32_t line;     /* from 1; 0: the file as a whole */
	uint32_t column;   /* from 1, in characters */
	uint32_t width;    /* characters to underline, at least 1 */
	const char *id;    /* stable name: "unknown_key" */
	const char *file;
	const char *text;   /* what is wrong, and what would be right */
	const char *source; /* the line itself; "" when there is none */
};

/* All errors and warnings of one load. Set `size` and zero the rest. Always call
 * weir_errors_free afterwards. */
struct weir_errors {
	uint32_t size;
	uint32_t errors;
	uint32_t warnings;
	uint32_t dropped; /* how many are not in `items` */
	size_t count;
	const struct weir_diagnostic *items; /* by file, then line */
	void *memory;
};

struct weir_rules;

/* Loads a file, or a directory with its subdirectories: files whose names end in .yaml, .yml or
 * .json, in name order, without names that begin with a dot. The caller owns *rules. `errors` may
 * be NULL. Returns 0 (there may be warnings), WEIR_ERULES (`errors` has the reasons), WEIR_EMEMORY
 * or WEIR_EINVAL. On an error *rules is NULL. */
WEIR_API int weir_rules_load(const char *path, struct weir_rules **rules,
			     struct weir_errors *errors);
WEIR_API void weir_rules_free(struct weir_rules *rules);

/* Whether names, sizes or times of the files have changed since they were loaded. */
WEIR_API int weir_rules_changed(const struct weir_rules *rules);

/* A hash of the names, sizes and times that weir_rules_changed compares. A program can save it
 * after a failed load, so that it reports each broken file once. 0: the path does not exist. */
WEIR_API uint64_t weir_rules_fingerprint(const char *path);

struct weir_rules_info {
	uint32_t size; /* sizeof(struct weir_rules_info), set by the caller */
	uint32_t files;
	uint32_t domains;
	uint32_t descriptors;
	uint32_t limits;
	uint32_t requests;   /* entries of `requests:` */
	uint64_t hash;       /* of names and contents; equal on two machines with equal rules */
	uint64_t bytes;      /* memory held */
	uint64_t generation; /* as given to weir_rules_stamp */
	uint64_t loaded_ns;
	uint64_t logs; /* limits and candidates with sliding_window_log, see WEIR_OPEN_LOGS */
};

WEIR_API int weir_rules_info(const struct weir_rules *rules, struct weir_rules_info *info);

struct weir_domain_info {
	uint32_t size;     /* sizeof(struct weir_domain_info), set by the caller */
	uint32_t requests; /* entries of its `requests:` */
	struct weir_str name;
};

/* Domain `i`, in file order, from 0. Returns 0, WEIR_EINVAL, or WEIR_ENOENT: no more domains. */
WEIR_API int weir_rules_domain(const struct weir_rules *rules, size_t i,
			       struct weir_domain_info *info);

/* Sets the generation and the time when the rules came into force. Call it before other threads use
 * the rules. weir_engine_swap calls it. */
WEIR_API void weir_rules_stamp(struct weir_rules *rules, uint64_t generation, uint64_t loaded_ns);

/* Writes the diagnostic in the format that people and editors read:
 *
 *   rules.yaml:3:5: error: unknown key 'untis'; did you mean 'unit'?
 *       untis: minute
 *       ^~~~~
 *
 * Returns its length; if it is larger than `cap` - 1, the text was cut. */
WEIR_API size_t weir_diagnostic_text(const struct weir_diagnostic *diagnostic, char *text,
				     size_t cap);

WEIR_API void weir_errors_free(struct weir_errors *errors);

#ifdef __cplusplus
}
#endif
#endif
