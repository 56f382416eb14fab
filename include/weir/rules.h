/* Rules: files of YAML, compiled into something a decision can be looked up in.
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
 * Loaded rules never change: any number of threads may read them at once. Loading reads files,
 * allocates and takes its time; do it away from an event loop. Nothing else here allocates.
 * Rule files are not trusted: size, depth, count and aliases are bounded.
 */
#ifndef WEIR_RULES_H
#define WEIR_RULES_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text that need not end in a zero and may hold any byte. */
struct weir_str {
	const char *ptr;
	size_t len;
};

/* One entry of a descriptor. `source` is empty in descriptors that arrive ready made. An entry
 * made from an HTTP request says in it where the value came from when that could have been more
 * than one place: user 10.0.0.1 and the address 10.0.0.1 then have counters of their own. Rules
 * match key and value alone. */
struct weir_entry {
	struct weir_str key;
	struct weir_str value;
	struct weir_str source;
};

struct weir_header {
	struct weir_str name;
	struct weir_str value;
};

/* An HTTP request as its host sees it, before any decoding: all decoding is done here, so that
 * every host comes to the same counters.
 *
 * Header fields come as an array, or by a callback that gets the name in lower case, writes up to
 * `max` values of fields with that name (in any case) in the order of the request and returns how
 * many there are. */
struct weir_http_view {
	uint32_t size;    /* sizeof(struct weir_http_view) */
	uint8_t peer_len; /* 4 or 16; 0: unknown, as on a Unix socket */
	uint8_t reserved[3];
	uint8_t peer[16]; /* network order */
	struct weir_str method;
	struct weir_str target; /* as in the request line: /path?query, or http://host/path?query */
	struct weir_str host;   /* Host or :authority, raw */
	struct weir_str identity; /* what the host's authentication established; empty: nothing */
	const struct weir_header *headers;
	size_t header_count;
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
};

enum weir_severity {
	WEIR_WARNING = 1, /* the rules work, but probably not as meant */
	WEIR_ERROR = 2,   /* the rules are not usable */
};

/* One thing to say about the rules. */
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

/* All there is to say about one load. Set `size`, zero the rest; free it whatever came out. */
struct weir_errors {
	uint32_t size;
	uint32_t errors;
	uint32_t warnings;
	uint32_t dropped; /* more were found than are kept */
	size_t count;
	const struct weir_diagnostic *items; /* by file, then line */
	void *memory;
};

struct weir_rules;

/* Reads a file, or a directory with its subdirectories: names ending in .yaml, .yml or .json, in
 * name order; names that begin with a dot are left out. Returns 0 (there may be warnings),
 * WEIR_ERULES (errors say why), WEIR_EMEMORY or WEIR_EINVAL; *rules is NULL unless 0.
 * `errors` may be NULL. */
WEIR_API int weir_rules_load(const char *path, struct weir_rules **rules,
			     struct weir_errors *errors);
WEIR_API void weir_rules_free(struct weir_rules *rules);

/* Whether the files have changed since: looks at names, sizes and times, reads no content. */
WEIR_API int weir_rules_changed(const struct weir_rules *rules);

/* The number that weir_rules_changed compares. A host that failed to load keeps it, so as not to
 * report the same broken file once a second. 0: the path is not there. */
WEIR_API uint64_t weir_rules_fingerprint(const char *path);

struct weir_rules_info {
	uint32_t size; /* sizeof(struct weir_rules_info), set by the caller */
	uint32_t files;
	uint32_t domains;
	uint32_t descriptors;
	uint32_t limits;
	uint32_t requests;   /* entries of `requests:` */
	uint64_t hash;       /* of names and content: equal on two machines with equal rules */
	uint64_t bytes;      /* memory held */
	uint64_t generation; /* as given to weir_rules_stamp */
	uint64_t loaded_ns;
	uint64_t logs; /* limits and candidates that are sliding_window_log: see WEIR_OPEN_LOGS */
};

WEIR_API int weir_rules_info(const struct weir_rules *rules, struct weir_rules_info *info);

struct weir_domain_info {
	uint32_t size;     /* sizeof(struct weir_domain_info), set by the caller */
	uint32_t requests; /* entries of its `requests:` */
	struct weir_str name;
};

/* The i-th domain, in the order they were read; for (i = 0; …; i++). WEIR_ENOENT: no more. */
WEIR_API int weir_rules_domain(const struct weir_rules *rules, size_t i,
			       struct weir_domain_info *info);

/* Notes when this set came into force and its number in the sequence of sets. Before it is shared
 * with other threads; the library itself reads no clock. */
WEIR_API void weir_rules_stamp(struct weir_rules *rules, uint64_t generation, uint64_t loaded_ns);

/* The diagnostic as people and editors read it:
 *
 *   rules.yaml:3:5: error: unknown key 'untis'; did you mean 'unit'?
 *       untis: minute
 *       ^~~~~
 *
 * Returns its length; more than `cap` - 1 means it was cut. */
WEIR_API size_t weir_diagnostic_text(const struct weir_diagnostic *diagnostic, char *text,
				     size_t cap);

WEIR_API void weir_errors_free(struct weir_errors *errors);

#ifdef __cplusplus
}
#endif
#endif
