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
	X(cannot_read, ERROR, "cannot read this path: %s; check the path and its permissions")     \
	X(no_rule_files, ERROR,                                                                    \
	  "this directory contains no rule file; add a file whose name ends in .yaml, .yml "       \
	  "or .json")                                                                              \
	X(other_file, WARNING,                                                                     \
	  "this file is ignored, because its name does not end in .yaml, .yml or .json; "          \
	  "rename it if it contains rules")                                                        \
	X(file_too_large, ERROR,                                                                   \
	  "with this file, the rule files have more than %s bytes in total; remove some rules")    \
	X(directory_too_deep, ERROR,                                                               \
	  "this directory is too deep: at most %s levels of directories are read; move its "       \
	  "files up")                                                                              \
	/* YAML */                                                                                 \
	X(yaml_syntax, ERROR, "invalid YAML: %s")                                                  \
	X(yaml_too_deep, ERROR, "the values are nested deeper than %s levels; reduce the nesting") \
	X(yaml_too_large, ERROR,                                                                   \
	  "the file has more than %s values with all aliases expanded; split the file or use "     \
	  "fewer aliases")                                                                         \
	X(yaml_alias_loop, ERROR,                                                                  \
	  "the alias *%s refers to a value that contains it; remove the alias")                    \
	X(yaml_alias_unknown, ERROR,                                                               \
	  "no anchor &%s comes before this alias; add the anchor or correct the name")             \
	X(yaml_key_type, ERROR, "a key must be text, not a map or a list")                         \
	X(yaml_merge, ERROR, "`<<` must be a map or a list of maps")                               \
	X(yaml_more_documents, WARNING,                                                            \
	  "this document is ignored: only the first document of a file is read; move it to "       \
	  "another file")                                                                          \
	X(yaml_duplicate_key, WARNING,                                                             \
	  "duplicate key `%s`: only the last value is used; remove the others")                    \
	/* diagnostics about wrong keys, and about values of a wrong type */                       \
	X(root_type, ERROR, "the file %s; a rule file needs `domain` and `descriptors`")           \
	X(wrong_type, ERROR, "%s must be %s, not %s")                                              \
	X(unknown_key, ERROR, "unknown key '%s' in %s; correct its name or remove it")             \
	X(unknown_key_guess, ERROR, "unknown key '%s' in %s; did you mean `%s`?")                  \
	X(misplaced_key, ERROR, "key `%s` is not allowed in %s; move it into %s")                  \
	X(idle_key, WARNING, "key `%s` has no effect in %s; remove it")                            \
	X(unknown_word, ERROR, "`%s` has the unknown value '%s'; use one of: %s")                  \
	X(unknown_word_guess, ERROR, "`%s` has the unknown value '%s'; did you mean `%s`?")        \
	X(bad_number, ERROR, "`%s` must be a whole number from %s to %s, without quotes")          \
	X(bad_duration, ERROR,                                                                     \
	  "'%s' is not a valid duration; write a duration above 0 and up to 100 years, such "      \
	  "as 250ms, 30s, 5m, 3h or 1w")                                                           \
	X(bad_share, ERROR, "`%s` must be a percentage such as 10% or 2.5%, and at most %s")       \
	X(text_too_long, ERROR, "`%s` is too long; shorten it to at most %s bytes")                \
	X(zero_byte, ERROR, "`%s` contains a zero byte; remove the byte")                          \
	X(empty_list, ERROR, "`%s` is an empty list; add at least one entry")                      \
	X(too_many, ERROR, "at most %s %s are allowed; remove some")                               \
	/* descriptors */                                                                          \
	X(empty_domain, ERROR, "`domain` is missing or empty; add the name of a domain")           \
	X(no_descriptors, WARNING,                                                                 \
	  "domain '%s' has no descriptors, so it limits nothing; add `descriptors`")               \
	X(empty_key, ERROR, "`key` is missing or empty; add it")                                   \
	X(duplicate_descriptor, ERROR,                                                             \
	  "duplicate descriptor '%s'; merge it with the first one, at %s")                         \
	X(descriptors_too_deep, ERROR,                                                             \
	  "`descriptors` are nested deeper than %s levels; reduce the nesting")                    \
	X(value_and_cidr, ERROR, "`value` and `cidr` exclude each other; remove one")              \
	X(bad_cidr, ERROR,                                                                         \
	  "'%s' is not a valid address or prefix; write an address such as 192.0.2.7 or a "        \
	  "prefix such as 10.0.0.0/8 or 2001:db8::/32")                                            \
	X(cidr_host_bits, ERROR, "'%s' has bits set after its prefix length; did you mean '%s'?")  \
	X(share_without_wildcard, ERROR,                                                           \
	  "`share_threshold` works only with * in `key` or `value`, or with `cidr`, and "          \
	  "descriptor '%s' has neither; remove it or add one")                                     \
	X(idle_share, WARNING,                                                                     \
	  "`share_threshold` has no effect without a limit in this descriptor or below it; "       \
	  "add a limit or remove the key")                                                         \
	X(idle_flag, WARNING,                                                                      \
	  "`%s` has no effect without a limit in this descriptor; add a limit or remove the "      \
	  "key")                                                                                   \
	X(idle_value_to_metric, WARNING,                                                           \
	  "`value_to_metric` has no effect together with `detailed_metric`; remove it")            \
	X(unreachable_rule, WARNING,                                                               \
	  "this descriptor is never used, because the value '%s' at %s always matches first; "     \
	  "remove one of the two")                                                                 \
	/* limits */                                                                               \
	X(limit_and_limits, ERROR,                                                                 \
	  "`rate_limit` and `rate_limits` exclude each other; move all limits into "               \
	  "`rate_limits`")                                                                         \
	X(no_span, ERROR, "`unit`, `period` or `calendar` is missing; add one of them")            \
	X(two_spans, ERROR, "`%s` and `%s` exclude each other; remove one")                        \
	X(calendar_algorithm, ERROR,                                                               \
	  "`calendar` works only with `fixed_window`, not with `%s`; use `period` or change "      \
	  "`algorithm`")                                                                           \
	X(timezone_without_calendar, ERROR,                                                        \
	  "`timezone` works only with `calendar`, not with `unit` or `period`; remove it or "      \
	  "use `calendar`")                                                                        \
	X(unknown_timezone, ERROR,                                                                 \
	  "unknown time zone '%s'; write a name such as Europe/Berlin, or install the time "       \
	  "zone data (tzdata) on this machine")                                                    \
	X(damaged_timezone, ERROR,                                                                 \
	  "the file of time zone '%s' is unreadable or damaged; correct the name or "              \
	  "reinstall the time zone data (tzdata)")                                                 \
	X(wrong_algorithm, ERROR,                                                                  \
	  "`%s` works only with %s, not with `%s`; remove it or change `algorithm`")               \
	X(algorithm_concurrent, ERROR,                                                             \
	  "`algorithm: concurrent` is not a valid setting; write `concurrent` with a number "      \
	  "instead, for example `concurrent: 20`")                                                 \
	X(concurrent_with, ERROR, "`%s` and `concurrent` exclude each other; remove one")          \
	X(concurrent_without_hold, ERROR,                                                          \
	  "`max_hold` is missing, and `concurrent` needs it; add the longest time that a "         \
	  "request can take, for example `max_hold: 2m`")                                          \
	X(hold_without_concurrent, ERROR,                                                          \
	  "`max_hold` works only with `concurrent`; add `concurrent` or remove `max_hold`")        \
	X(bad_max_hold, ERROR, "`max_hold` must be a duration from %s to %s")                      \
	X(soft_without_mode, ERROR,                                                                \
	  "`soft` works only with `mode: soft`; add this mode or remove `soft`")                   \
	X(mode_without_soft, ERROR,                                                                \
	  "`soft` is missing, and `mode: soft` needs it; add it, for example `soft: "              \
	  "{overshoot: 20%, for: 30s}`")                                                           \
	X(soft_incomplete, ERROR,                                                                  \
	  "`overshoot` or `for` is missing, and `soft` needs both; add the missing key")           \
	X(soft_ceiling, ERROR,                                                                     \
	  "the limit or burst, increased by `overshoot`, is more than %s; reduce one of them")     \
	X(wrong_consistency, ERROR, "`consistency: %s` does not work with `%s`; use %s")           \
	X(idle_lease, WARNING,                                                                     \
	  "`consistency: lease` has no effect together with `%s`: Redis decides each "             \
	  "request, as with `strict`; remove one")                                                 \
	X(unlimited_with, ERROR, "`%s` and `unlimited` exclude each other; remove one")            \
	X(unlimited_number, WARNING,                                                               \
	  "`requests_per_unit` has no effect together with `unlimited`; remove it")                \
	X(unlimited_in_list, ERROR,                                                                \
	  "`unlimited` and the other limits of this descriptor exclude each other; remove one")    \
	X(no_requests_per_unit, WARNING,                                                           \
	  "`requests_per_unit` is missing, so this limit refuses every request; add it, with "     \
	  "the value 0 if this is intended")                                                       \
	X(alike_limits, ERROR,                                                                     \
	  "two limits have the same algorithm and period (%s); give each of them a different "     \
	  "`name`")                                                                                \
	X(empty_replaces, ERROR,                                                                   \
	  "an entry of `replaces` has no usable `name`; add the name of a limit")                  \
	X(replaces_itself, ERROR,                                                                  \
	  "`replaces` must not name '%s', a limit of the same descriptor; remove the entry")       \
	X(replaces_nothing, WARNING,                                                               \
	  "no limit in domain '%s' has the name '%s', which `replaces` refers to; correct "        \
	  "the name or remove the entry")                                                          \
	X(unusable_limit, ERROR, "this limit cannot be used: %s")                                  \
	X(bad_content_type, ERROR,                                                                 \
	  "'%s' is not a valid media type; write a type such as application/json")                 \
	X(defer_without_on_limit, ERROR,                                                           \
	  "`defer` works only with `on_limit: defer`; add this setting or remove `defer`")         \
	X(defer_count_rejected, ERROR,                                                             \
	  "`count_rejected` and `on_limit: defer` exclude each other, because each attempt "       \
	  "to deliver would be counted; remove one")                                               \
	X(defer_never, WARNING,                                                                    \
	  "`on_limit: defer` has no effect together with `requests_per_unit: 0`, because the "     \
	  "limit never admits a request; remove one")                                              \
	X(defer_too_old, WARNING,                                                                  \
	  "the limit admits one request every %s, but `max_age` is %s, so most requests are "      \
	  "refused instead of deferred; raise `max_age` in `defer`")                               \
	X(defer_safe_method, WARNING,                                                              \
	  "requests with the method %s are refused here, because only POST, PUT, PATCH and "       \
	  "DELETE are deferred; correct `method` if this is not intended")                         \
	X(bad_size, ERROR, "`%s` must be a size such as 64K or 1M, from %s to %s")                 \
	X(bad_max_age, ERROR, "`max_age` must be a duration from %s to %s")                        \
	X(bad_field_name, ERROR,                                                                   \
	  "'%s' is not a valid header name; write a name such as X-Request-Id")                    \
	X(hop_by_hop_field, ERROR,                                                                 \
	  "header '%s' cannot be stored with a deferred request; remove it")                       \
	X(ban_incomplete, ERROR,                                                                   \
	  "`after` or `for` is missing, and `ban` needs both; add the missing key, for example "   \
	  "`ban: {after: 50, within: 1m, for: 10m}`")                                              \
	X(bad_ban_duration, ERROR,                                                                 \
	  "`%s` of `ban` must be a duration of whole seconds from %s to %s")                       \
	X(ban_max_below_for, ERROR,                                                                \
	  "`max` (%s) is shorter than `for` (%s), the duration of the first ban; raise `max` or "  \
	  "lower `for`")                                                                           \
	X(ban_and_defer, ERROR,                                                                    \
	  "`ban` and `on_limit: defer` exclude each other, because each attempt to deliver "       \
	  "would be counted as a refusal; remove one")                                             \
	X(ban_of_quota, ERROR,                                                                     \
	  "`ban` and `quota_mode` exclude each other, because a request over a quota can be "      \
	  "admitted; remove one")                                                                  \
	X(ban_can_forge, ERROR,                                                                    \
	  "a client that sends the '%s' of another client gets that client banned, by the "        \
	  "descriptor at %s; add `remote_address` or `identity` to the descriptor as an entry of " \
	  "its own, or remove `ban`")                                                              \
	X(ban_of_everyone, ERROR,                                                                  \
	  "one client gets all other clients banned, because they share the counter of the "       \
	  "descriptor at %s; add `remote_address` or `identity` to the descriptor as an entry of " \
	  "its own, or remove `ban`")                                                              \
	X(ban_of_default, ERROR,                                                                   \
	  "one client without '%s' gets all such clients banned, because they share the counter "  \
	  "of `default` in the descriptor at %s; remove `default` or `ban`")                       \
	X(ban_of_shared, ERROR,                                                                    \
	  "one client gets all other clients banned, because they share a counter by "             \
	  "`share_threshold` (descriptor at %s); remove `share_threshold` or `ban`")               \
	X(ban_of_wide_prefix, ERROR,                                                               \
	  "one client gets its whole network banned, because the prefix in the descriptor at %s "  \
	  "is too short; raise `v4_prefix` to at least %s and `v6_prefix` to at least %s, or "     \
	  "remove `ban`")                                                                          \
	X(ban_of_network, WARNING,                                                                 \
	  "a ban refuses all clients of a network, because the descriptor at %s contains a "       \
	  "prefix; use `v4_prefix: 32` and `v6_prefix: 56` or longer prefixes")                    \
	X(ban_unproven, WARNING,                                                                   \
	  "no entry of `requests` makes this descriptor, so it is not checked whether a client "   \
	  "can forge '%s' and get another client banned; make sure that clients cannot choose "    \
	  "it, or add `remote_address` to the descriptor")                                         \
	X(ban_unchecked, ERROR,                                                                    \
	  "domain '%s' has too many rules and entries of `requests` to check whether a client "    \
	  "can get others banned; use fewer of them, or remove `ban`")                             \
	X(shield_without_address, ERROR,                                                           \
	  "`shield: true` needs the client's address, and the descriptor at %s has none; add "     \
	  "`remote_address` to it as an entry of its own, or remove `shield`")                     \
	X(shield_of_all, WARNING,                                                                  \
	  "weir shield blocks a banned address for every '%s', because packets have only the "     \
	  "address; remove `shield`, or remove '%s' from the descriptor")                          \
	/* requests */                                                                             \
	X(empty_request, ERROR,                                                                    \
	  "`descriptor` is missing or empty, and `allow: true` is not set; add one of them")       \
	X(allow_and_descriptor, ERROR,                                                             \
	  "`allow: true` and `descriptor` exclude each other; remove one, or use two entries")     \
	X(value_or_from, ERROR,                                                                    \
	  "an entry of `descriptor` needs exactly one of `value` and `from`; add or remove "       \
	  "one")                                                                                   \
	X(needs_from, ERROR, "`%s` works only with `from`; remove it or use `from`")               \
	X(needs_mask, ERROR,                                                                       \
	  "`%s` works only with `from: masked_remote_address`; remove it or use this source")      \
	X(default_and_deny, ERROR, "`default` and `missing: deny` exclude each other; remove one") \
	X(unknown_source, ERROR,                                                                   \
	  "'%s' is not a valid source; use one of: remote_address, masked_remote_address, "        \
	  "header.NAME, query.NAME, cookie.NAME, path, path.PART, method, host, identity")         \
	X(unknown_source_guess, ERROR, "'%s' is not a valid source; did you mean `%s`?")           \
	X(unknown_part, ERROR,                                                                     \
	  "no `path` in `when` of this entry contains {%s}; add this part to a path or "           \
	  "correct its name")                                                                      \
	X(allow_and_cost, ERROR, "`allow: true` and `%s` exclude each other; remove one")          \
	X(from_and_reserve, ERROR,                                                                 \
	  "`from` and `%s` exclude each other in `cost`; remove one, or move `from` into "         \
	  "`reserve`")                                                                             \
	X(cost_incomplete, ERROR,                                                                  \
	  "`%s` is missing, because `reserve` and `actual` work only together; add it, or use "    \
	  "a number or `from` if the cost is known when the request arrives")                      \
	X(no_cost_source, ERROR, "`from` is missing in `%s`; add a source such as %s")             \
	X(bare_source, ERROR, "`%s` must be a map if it has a source; write `%s: {from: %s}`")     \
	X(unknown_cost_source, ERROR,                                                              \
	  "'%s' is not a valid source of a cost; use one of: header.NAME, query.NAME, "            \
	  "request.bytes, response.header.NAME, response.bytes, response.status, "                 \
	  "response.time_ms, response.json.POINTER")                                               \
	X(bad_pointer, ERROR,                                                                      \
	  "'%s' is not a valid JSON pointer: %s; write a pointer such as /usage/total_tokens")     \
	X(cost_from_response, ERROR,                                                               \
	  "'%s' is not known when the request arrives; write `cost: {reserve: NUMBER, "            \
	  "actual: {from: %s}}`")                                                                  \
	X(reserve_from_response, ERROR,                                                            \
	  "'%s' is not known when the request arrives; use a number, header.NAME, query.NAME "     \
	  "or request.bytes in `reserve`")                                                         \
	X(actual_from_request, ERROR,                                                              \
	  "'%s' is known when the request arrives, so there is nothing to settle; write "          \
	  "`cost: {from: %s}`, or use a source that begins with response.")                        \
	X(bad_actual_default, ERROR,                                                               \
	  "`default` of `actual` must be `reserved` or a whole number from 0 to %s")               \
	X(default_above_max, ERROR,                                                                \
	  "`default` is larger than `max`; lower `default` or raise `max`")                        \
	X(status_or_except, ERROR,                                                                 \
	  "`count` needs exactly one of `status` and `except`; add or remove one")                 \
	X(bare_statuses, ERROR,                                                                    \
	  "`count` must be a map; write `count: {status: LIST}` for the statuses that are "        \
	  "charged, or `count: {except: LIST}` for the others")                                    \
	X(unknown_status, ERROR,                                                                   \
	  "'%s' is not an HTTP status; write a status from 100 to 599, or a class such as 5xx")    \
	X(count_nothing, WARNING,                                                                  \
	  "`count` selects no response, so a request with a response is never charged; correct "   \
	  "the list of statuses")                                                                  \
	X(count_everything, WARNING,                                                               \
	  "`count` selects every response, so it has no effect; correct the list of statuses or "  \
	  "remove `count`")                                                                        \
	X(bytes_without_max, WARNING,                                                              \
	  "`max` is missing, so a chunked request is charged as the longest body that nginx "      \
	  "accepts until its length is known; add `max`")                                          \
	X(bad_path, ERROR, "'%s' is not a valid path: %s")                                         \
	X(bad_method, ERROR, "'%s' is not a valid method; write a method such as GET")             \
	X(bad_host, ERROR,                                                                         \
	  "'%s' is not a valid host; write a host such as example.com or *.example.com, "          \
	  "without a port")                                                                        \
	X(unmatched_request, WARNING,                                                              \
	  "no limit in domain '%s' applies to the descriptor of this entry; add a limit or "       \
	  "correct the entry")                                                                     \
	X(unmade_descriptor, WARNING,                                                              \
	  "no entry of `requests` in domain '%s' makes this descriptor; add an entry or "          \
	  "remove the descriptor")                                                                 \
	X(can_omit, WARNING,                                                                       \
	  "a client that omits '%s' is not limited by this entry; add `remote_address` to "        \
	  "`from`, or add `default` or `missing: deny`")                                           \
	X(host_only, WARNING,                                                                      \
	  "a client that sends another Host is not limited by this entry; add an entry "           \
	  "without `host`, or serve only these hosts")                                             \
	X(host_exempts, WARNING,                                                                   \
	  "every client that sends this Host is exempt from limits; add `remote_address` to "      \
	  "`when`, or refuse this Host at the proxy")                                              \
	X(can_exceed, WARNING,                                                                     \
	  "a request can have %s descriptors and %s limits here, and a request with more "         \
	  "than 32 descriptors or 64 limits is refused; use fewer entries or limits")              \
	X(can_forge, WARNING,                                                                      \
	  "a client that sends a new '%s' with each request gets a new counter each time; "        \
	  "use `identity`, or add a limit by `remote_address`")                                    \
	X(settles_leaky, ERROR,                                                                    \
	  "`%s` does not work with the limit at %s, because the algorithm `leaky_bucket` cannot "  \
	  "be settled after the response; change `algorithm` or remove `%s`")                      \
	X(idle_cost, WARNING,                                                                      \
	  "`%s` has no effect, because no limit in domain '%s' applies to the descriptor of "      \
	  "this entry; add a limit or remove the key")                                             \
	X(cost_of_slots, WARNING,                                                                  \
	  "`%s` has no effect, because only `concurrent` limits apply to the descriptor of this "  \
	  "entry, and a request always takes one slot; add a rate limit or remove the key")        \
	X(can_choose_cost, WARNING,                                                                \
	  "a client that sends a small '%s' chooses its own cost; use a number, let only the "     \
	  "authentication service or the API set this value, or add a limit by "                   \
	  "`remote_address` or `identity` with a cost that clients cannot choose")                 \
	X(cost_too_large, WARNING,                                                                 \
	  "`%s` is %s, but the limit at %s admits at most %s at once, so such a request "          \
	  "is always refused; lower `%s` or raise the limit")

enum wr_diag_id {
#define WR_DIAG_ENUM(id, severity, text) WR_D_##id,
	WR_DIAGNOSTICS(WR_DIAG_ENUM)
#undef WR_DIAG_ENUM
		WR_D_COUNT
};

/* A diagnostic. Each %s of the text takes the next argument. */
struct wr_diag_row {
	const char *name;
	uint32_t severity; /* enum weir_severity */
	const char *text;
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

/* Like wr_diags_add(), for a diagnostic that is not in the table above. The row must stay valid as
 * long as the diagnostics. */
void wr_diags_add_row(struct wr_diags *diags, const struct wr_diag_row *row,
		      struct wr_rules_location at, const struct weir_str *args);

/* Sorts the diagnostics by location. No diagnostic can be added afterwards. */
void wr_diags_finish(struct wr_diags *diags);

const char *wr_diag_name(enum wr_diag_id id);

#endif
