/* The table of all diagnostics of rule files, and the list in which diagnostics are collected.
 *
 * X(id, severity, text). Each %s of the text takes the next argument. Arguments come from the rule
 * file, so they are cut at a maximum length, and their control characters are made visible. For
 * each id, test/rules/fixtures has a file with that name. */
#ifndef WR_RULES_DIAG_H
#define WR_RULES_DIAG_H

#include "base/arena.h"
#include "rules/rules.h"

#define WR_DIAGNOSTICS(X)                                                                          \
	/* files */                                                                                \
	X(cannot_read, ERROR, "cannot read this: %s")                                              \
	X(no_rule_files, ERROR, "there is no file here that ends in .yaml, .yml or .json")         \
	X(other_file, WARNING, "not read, because the name does not end in .yaml, .yml or .json")  \
	X(file_too_large, ERROR,                                                                   \
	  "larger than %s bytes, the most that rule files may have together")                      \
	X(directory_too_deep, ERROR, "directories are read to a depth of %s")                      \
	/* YAML */                                                                                 \
	X(yaml_syntax, ERROR, "not YAML: %s")                                                      \
	X(yaml_too_deep, ERROR, "nested deeper than %s levels")                                    \
	X(yaml_too_large, ERROR, "more than %s values, with aliases spelled out; split the file")  \
	X(yaml_alias_loop, ERROR, "the alias *%s stands inside of what it names")                  \
	X(yaml_alias_unknown, ERROR, "there is no anchor &%s before this alias")                   \
	X(yaml_key_type, ERROR, "a key must be text")                                              \
	X(yaml_merge, ERROR, "<< takes a map or a list of maps")                                   \
	X(yaml_more_documents, WARNING, "only the first document of a file is read")               \
	X(yaml_duplicate_key, WARNING, "'%s' is here twice; the last one counts")                  \
	/* diagnostics about wrong keys, and about values of a wrong type */                       \
	X(root_type, ERROR, "a rule file is a map with domain and descriptors, not %s")            \
	X(wrong_type, ERROR, "%s takes %s, not %s")                                                \
	X(unknown_key, ERROR, "unknown key '%s' in %s")                                            \
	X(unknown_key_guess, ERROR, "unknown key '%s' in %s; did you mean '%s'?")                  \
	X(misplaced_key, ERROR, "'%s' does not belong in %s; it goes into %s")                     \
	X(idle_key, WARNING, "'%s' has no meaning in %s")                                          \
	X(unknown_word, ERROR, "unknown %s '%s'; it is one of %s")                                 \
	X(unknown_word_guess, ERROR, "unknown %s '%s'; did you mean '%s'?")                        \
	X(bad_number, ERROR, "%s takes a whole number from %s to %s")                              \
	X(bad_duration, ERROR, "'%s' is not a duration such as 250ms, 30s, 5m, 3h or 1w")          \
	X(bad_share, ERROR, "%s takes a share such as 10% or 2.5%, at most %s")                    \
	X(text_too_long, ERROR, "%s is longer than %s bytes")                                      \
	X(zero_byte, ERROR, "%s holds a zero byte")                                                \
	X(empty_list, ERROR, "%s needs at least one entry")                                        \
	X(too_many, ERROR, "more than %s %s")                                                      \
	/* descriptors */                                                                          \
	X(empty_domain, ERROR, "a rule file needs a domain")                                       \
	X(no_descriptors, WARNING, "domain '%s' has no descriptors: nothing in it is limited")     \
	X(empty_key, ERROR, "a descriptor needs a key")                                            \
	X(duplicate_descriptor, ERROR, "descriptor %s is here twice; the first is at %s")          \
	X(descriptors_too_deep, ERROR, "descriptors nested deeper than %s")                        \
	X(value_and_cidr, ERROR, "a descriptor has a value or a cidr list, not both")              \
	X(bad_cidr, ERROR, "'%s' is not an address or prefix such as 10.0.0.0/8 or 2001:db8::/32") \
	X(cidr_host_bits, ERROR, "'%s' has bits set behind its prefix length; the prefix is %s")   \
	X(share_without_wildcard, ERROR,                                                           \
	  "share_threshold takes a value with * or a cidr list; '%s' has one counter anyway")      \
	X(idle_share, WARNING,                                                                     \
	  "share_threshold has no effect: there is no rate_limit here or below")                   \
	X(idle_flag, WARNING, "%s has no effect without a rate_limit in this descriptor")          \
	X(idle_value_to_metric, WARNING, "value_to_metric has no effect beside detailed_metric")   \
	X(unreachable_rule, WARNING, "never reached: the value %s at %s matches first")            \
	/* limits */                                                                               \
	X(limit_and_limits, ERROR,                                                                 \
	  "rate_limit and rate_limits in one descriptor; put all into rate_limits")                \
	X(no_span, ERROR, "a limit needs one of unit, period and calendar")                        \
	X(two_spans, ERROR, "%s beside %s; a limit has exactly one of unit, period and calendar")  \
	X(calendar_algorithm, ERROR, "calendar works with fixed_window, not with %s; use period")  \
	X(timezone_without_calendar, ERROR,                                                        \
	  "timezone goes with calendar; unit and period have none")                                \
	X(unknown_timezone, ERROR,                                                                 \
	  "no time zone '%s' on this machine; names look like Europe/Berlin")                      \
	X(damaged_timezone, ERROR, "the file of time zone '%s' is damaged")                        \
	X(wrong_algorithm, ERROR, "%s works with %s, not with %s")                                 \
	X(soft_without_mode, ERROR, "soft takes effect with mode: soft; add it")                   \
	X(mode_without_soft, ERROR, "mode: soft needs soft: {overshoot: 20%, for: 30s}")           \
	X(soft_incomplete, ERROR, "soft needs both overshoot and for")                             \
	X(soft_ceiling, ERROR, "limit and overshoot together are more than %s")                    \
	X(wrong_consistency, ERROR, "%s does not work with %s; use %s")                            \
	X(idle_lease, WARNING,                                                                     \
	  "with %s nothing is leased: Redis is asked each time, as by strict; leave one out")      \
	X(unlimited_with, ERROR, "%s beside unlimited: there is nothing to count")                 \
	X(unlimited_number, WARNING, "requests_per_unit has no effect beside unlimited")           \
	X(unlimited_in_list, ERROR,                                                                \
	  "unlimited stands alone: the other limits here would go on counting")                    \
	X(no_requests_per_unit, WARNING,                                                           \
	  "without requests_per_unit every request is refused; write 0 if that is meant")          \
	X(alike_limits, ERROR, "two limits here count alike (%s); give each a name of its own")    \
	X(empty_replaces, ERROR, "an entry of replaces needs a name")                              \
	X(replaces_itself, ERROR, "'%s' is a limit of this very descriptor")                       \
	X(replaces_nothing, WARNING, "no limit in domain '%s' has the name '%s'")                  \
	X(unusable_limit, ERROR, "%s")                                                             \
	X(bad_content_type, ERROR, "'%s' is not a media type such as application/json")            \
	X(defer_without_on_limit, ERROR, "defer takes effect with on_limit: defer; add it")        \
	X(defer_count_rejected, ERROR,                                                             \
	  "count_rejected would charge each try to deliver; leave it out with on_limit: defer")    \
	X(defer_never, WARNING,                                                                    \
	  "requests_per_unit 0 admits nothing, now or later: nothing is deferred")                 \
	X(defer_too_old, WARNING,                                                                  \
	  "one request in %s is admitted, and none is kept for longer than %s: most will be "      \
	  "refused; raise max_age of defer")                                                       \
	X(defer_safe_method, WARNING,                                                              \
	  "only POST, PUT, PATCH and DELETE are deferred: %s is refused here")                     \
	X(bad_size, ERROR, "%s takes a size such as 64K or 1M, from %s to %s")                     \
	X(bad_max_age, ERROR, "max_age takes a duration from %s to %s")                            \
	X(bad_field_name, ERROR, "'%s' is not the name of a header field")                         \
	X(hop_by_hop_field, ERROR,                                                                 \
	  "'%s' is about one connection, and is never delivered later; leave it out")              \
	/* requests */                                                                             \
	X(empty_request, ERROR, "an entry of requests needs a descriptor or allow: true")          \
	X(allow_and_descriptor, ERROR, "allow: true makes no descriptor; use two entries")         \
	X(value_or_from, ERROR, "an entry of a descriptor has either value or from")               \
	X(needs_from, ERROR, "%s has no meaning without from")                                     \
	X(needs_mask, ERROR, "%s has no meaning without from: masked_remote_address")              \
	X(default_and_deny, ERROR, "default beside missing: deny; which shall it be?")             \
	X(unknown_source, ERROR,                                                                   \
	  "unknown source '%s'; there are remote_address, masked_remote_address, header.NAME, "    \
	  "query.NAME, cookie.NAME, path, path.PART, method, host and identity")                   \
	X(unknown_source_guess, ERROR, "unknown source '%s'; did you mean '%s'?")                  \
	X(unknown_part, ERROR, "no path in the when of this entry has a part {%s}")                \
	X(bad_path, ERROR, "'%s' is not a path: %s")                                               \
	X(bad_method, ERROR, "'%s' is not a method")                                               \
	X(bad_host, ERROR, "'%s' is not a host; write example.com or *.example.com, without port") \
	X(unmatched_request, WARNING, "no rule in domain '%s' limits this descriptor")             \
	X(unmade_descriptor, WARNING, "no entry of requests in domain '%s' makes this descriptor") \
	X(can_omit, WARNING,                                                                       \
	  "a client that leaves out %s is not limited here; add remote_address, default or "       \
	  "missing: deny")                                                                         \
	X(host_only, WARNING,                                                                      \
	  "a client that sends another Host is not limited here; add an entry without host, or "   \
	  "serve these hosts only")                                                                \
	X(host_exempts, WARNING,                                                                   \
	  "every client that sends this Host is exempt; add remote_address to when, or refuse "    \
	  "this Host at the proxy")                                                                \
	X(can_exceed, WARNING,                                                                     \
	  "a request can have %s descriptors and meet %s limits here; one with more than 32 or "   \
	  "64 is refused")                                                                         \
	X(can_forge, WARNING,                                                                      \
	  "a client that makes up %s gets a new counter each time; take identity, or limit "       \
	  "remote_address as well")

enum wr_diag_id {
#define WR_DIAG_ENUM(id, severity, text) WR_D_##id,
	WR_DIAGNOSTICS(WR_DIAG_ENUM)
#undef WR_DIAG_ENUM
		WR_D_COUNT
};

struct wr_rules_file;

/* A location in a file. If `line` is 0, the file as a whole is meant. */
struct wr_rules_location {
	const struct wr_rules_file *file;
	uint32_t line;
	uint32_t column;
	uint32_t width;
};

/* Collects diagnostics into a struct weir_errors. A diagnostic is dropped if there is no memory, or
 * if there are too many diagnostics already. The number of dropped diagnostics is counted. */
struct wr_diags {
	struct weir_errors *errors;
	struct wr_arena *arena; /* the arena that holds the items and their texts */
	struct weir_diagnostic *items;
	uint32_t *file_order; /* for each item, the `index` of its file */
	size_t capacity;
	/* The line that was quoted most recently: its file, its number and its offset in the file.
	 * If the next line to quote comes later in the same file, the search for it starts
	 * there. */
	const struct wr_rules_file *seen_file;
	uint32_t seen_line;
	size_t seen_at;
};

/* Smallest `size` of a caller's struct weir_errors. weir_errors_free needs `memory`. */
#define WR_ERRORS_LEAST (offsetof(struct weir_errors, memory) + sizeof(void *))

int wr_diags_init(struct wr_diags *diags, struct weir_errors *errors);

/* Adds a diagnostic. `args` has as many strings as the text of the diagnostic has %s. */
void wr_diags_add(struct wr_diags *diags, enum wr_diag_id id, struct wr_rules_location at,
		  const struct weir_str *args);

/* Sorts the diagnostics by location. No diagnostic can be added afterwards. */
void wr_diags_finish(struct wr_diags *diags);

const char *wr_diag_name(enum wr_diag_id id);

#endif
