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

/* One entry of a descriptor. If several parts of an HTTP request can provide the value, `source`
 * names the part that provided it. So the user "10.0.0.1" and the address 10.0.0.1 have different
 * counters. Callers of weir_ask_add leave `source` empty. Rules do not match `source`. */
struct weir_entry {
	struct weir_str key;
	struct weir_str value;
	struct weir_str source;
};

struct weir_header {
	struct weir_str name;
	struct weir_str value;
};

/* Says whether the host knows the length of a request's body when the request arrives. */
enum weir_length {
	WEIR_LENGTH_UNKNOWN = 0, /* the host cannot tell; `request.bytes` is its `default` */
	WEIR_LENGTH_KNOWN = 1,   /* body_bytes is the length; 0: there is no body */
	/* The body is chunked, so its length is known only when it has been received. body_bytes is
	 * the longest body that the host accepts, or 0 if there is no maximum. `request.bytes` is
	 * the smaller one of body_bytes and `max` until the host settles the ask with the length,
	 * see struct weir_outcome (weir/host.h). */
	WEIR_LENGTH_LATER = 2,
};

/* An HTTP request before any decoding. The library decodes it, so that all programs use the same
 * counters.
 *
 * Header fields are passed as an array (`headers`) or by a callback (`header`). The callback gets a
 * name in lower case and compares it with the names of the fields without regard to case. It writes
 * up to `max` values of fields with this name, in the order of the request, and returns the number
 * of such fields.
 *
 * A smaller or larger `size` is handled as in struct weir_engine_opts. */
struct weir_http_view {
	uint32_t size;    /* sizeof(struct weir_http_view) */
	uint8_t peer_len; /* bytes of `peer`: 4 or 16; 0: unknown, as on a Unix socket */
	uint8_t reserved[3];
	uint8_t peer[16]; /* IP address of the client in network byte order */
	struct weir_str method;
	struct weir_str target; /* as in the request line: /path?query, or http://host/path?query */
	struct weir_str host;   /* value of Host or :authority, not decoded */
	struct weir_str identity; /* the authenticated user; empty: no user */
	const struct weir_header *headers;
	size_t header_count;
	size_t (*header)(void *context, struct weir_str name, struct weir_str *values, size_t max);
	void *context;
	uint64_t body_bytes; /* length of the body, for `request.bytes` */
	uint32_t body_known; /* enum weir_length: body_bytes is a length or a maximum */
	uint32_t reserved_end;
};

enum weir_severity {
	WEIR_WARNING = 1, /* the rules work, but probably not as intended */
	WEIR_ERROR = 2,   /* the rules are not usable */
};

/* One error or warning. */
struct weir_diagnostic {
	uint32_t severity; /* enum weir_severity */
	uint32_t line;     /* line number from 1; 0: the file as a whole */
	uint32_t column;   /* column in characters, from 1 */
	uint32_t width;    /* number of characters to underline, at least 1 */
	const char *id;    /* stable name of the kind of diagnostic: "unknown_key" */
	const char *file;
	const char *text;   /* the message: what is wrong, and how to correct it */
	const char *source; /* text of the line in the file; "" if there is no line */
};

/* All errors and warnings of one load. The caller sets `size`, zeroes the rest, and always calls
 * weir_errors_free afterwards. A larger `size` is handled as in struct weir_info (weir/weir.h).
 * `size` must include all fields up to `memory`. */
struct weir_errors {
	uint32_t size; /* sizeof(struct weir_errors), set by the caller */
	uint32_t errors;
	uint32_t warnings;
	uint32_t dropped; /* number of errors and warnings that are not in `items` */
	size_t count;
	const struct weir_diagnostic *items; /* sorted by file, then by line */
	void *memory;
};

struct weir_rules;

/* Loads the rules from a file, or from a directory with its subdirectories. In a directory, files
 * whose names end in .yaml, .yml or .json are loaded in name order; names that begin with a dot are
 * skipped. The caller owns *rules. `errors` may be NULL. Returns 0 (there may be warnings),
 * WEIR_ERULES (`errors` has the reasons), WEIR_EMEMORY or WEIR_EINVAL. On an error *rules is NULL.
 */
WEIR_API int weir_rules_load(const char *path, struct weir_rules **rules,
			     struct weir_errors *errors);
WEIR_API void weir_rules_free(struct weir_rules *rules);

/* Returns whether names, sizes or time stamps (mtime, ctime) of the rule files have changed since
 * the load. */
WEIR_API int weir_rules_changed(const struct weir_rules *rules);

/* Returns a hash of the names, sizes and time stamps (mtime, ctime) of the files at `path`, or 0 if
 * the path does not exist. A program can save the hash after a failed load and report the next
 * failure only if the hash has changed. */
WEIR_API uint64_t weir_rules_fingerprint(const char *path);

/* A smaller or larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include
 * the fields up to `requests`. */
struct weir_rules_info {
	uint32_t size; /* sizeof(struct weir_rules_info), set by the caller */
	uint32_t files;
	uint32_t domains;
	uint32_t descriptors;
	uint32_t limits;
	uint32_t requests;   /* number of entries under `requests:` */
	uint64_t hash;       /* hash of the names and contents of the rule files */
	uint64_t bytes;      /* bytes of memory that the rules use */
	uint64_t generation; /* the number that weir_rules_stamp has set */
	uint64_t loaded_ns;
	uint64_t logs; /* number of limits and candidates that are sliding window logs */
};

/* Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_rules_info(const struct weir_rules *rules, struct weir_rules_info *info);

/* A larger `size` is handled as in struct weir_info (weir/weir.h). `size` must include all fields
 * up to `name`. */
struct weir_domain_info {
	uint32_t size;     /* sizeof(struct weir_domain_info), set by the caller */
	uint32_t requests; /* number of entries under the domain's `requests:` */
	struct weir_str name;
};

/* Reads domain `i`. Domains are numbered from 0 in file order. Returns 0, WEIR_EINVAL, or
 * WEIR_ENOENT if there is no domain `i`. */
WEIR_API int weir_rules_domain(const struct weir_rules *rules, size_t i,
			       struct weir_domain_info *info);

/* Stores in the rules their generation and the time at which they came into force. Call it before
 * other threads use the rules. weir_engine_swap calls it. */
WEIR_API void weir_rules_stamp(struct weir_rules *rules, uint64_t generation, uint64_t loaded_ns);

/* Writes the diagnostic in the format that people and editors read:
 *
 *   rules.yaml:3:5: error: unknown key 'untis' in a limit; did you mean `unit`?
 *       untis: minute
 *       ^~~~~
 *
 * Returns the length of the whole text; if it is larger than `cap` - 1, the text was cut. */
WEIR_API size_t weir_diagnostic_text(const struct weir_diagnostic *diagnostic, char *text,
				     size_t cap);

WEIR_API void weir_errors_free(struct weir_errors *errors);

#ifdef __cplusplus
}
#endif
#endif
