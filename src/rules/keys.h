/* All keys of a rule file: their names, the maps that they belong in, and whether
 * envoyproxy/ratelimit has them. The reader, the guesses for misspelled keys, the JSON Schema and
 * the documentation are checked against this table. */
#ifndef WR_RULES_KEYS_H
#define WR_RULES_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* Kinds of map. X(enum, bit, name in messages) */
#define WR_RULES_MAPS(X)                                                                           \
	X(WR_IN_ROOT, 1, "the top level of the file")                                              \
	X(WR_IN_DESCRIPTOR, 2, "a descriptor")                                                     \
	X(WR_IN_LIMIT, 4, "a limit")                                                               \
	X(WR_IN_REPLACES, 8, "an entry of `replaces`")                                             \
	X(WR_IN_CANDIDATE, 16, "an entry of `candidates`")                                         \
	X(WR_IN_SOFT, 32, "`soft`")                                                                \
	X(WR_IN_RESPONSE, 64, "`response`")                                                        \
	X(WR_IN_REQUEST, 128, "an entry of `requests`")                                            \
	X(WR_IN_WHEN, 256, "`when`")                                                               \
	X(WR_IN_PART, 512, "an entry of `descriptor`")                                             \
	X(WR_IN_DEFER, 1024, "`defer`")                                                            \
	X(WR_IN_COST, 2048, "`cost`")                                                              \
	X(WR_IN_RESERVE, 4096, "`reserve`")                                                        \
	X(WR_IN_ACTUAL, 8192, "`actual`")                                                          \
	X(WR_IN_COUNT, 16384, "`count`")                                                           \
	X(WR_IN_BAN, 32768, "`ban`")

enum wr_rules_map {
#define WR_RULES_MAP_ENUM(name, bit, text) name = (bit),
	WR_RULES_MAPS(WR_RULES_MAP_ENUM)
#undef WR_RULES_MAP_ENUM
};

#define WR_IN_ANY_LIMIT (WR_IN_LIMIT | WR_IN_CANDIDATE)
#define WR_IN_ANY_COST (WR_IN_COST | WR_IN_RESERVE | WR_IN_ACTUAL)

/* X(enum, name, maps that may have the key, whether envoyproxy/ratelimit has the key) */
#define WR_KEYS(X)                                                                                 \
	X(DOMAIN, "domain", WR_IN_ROOT, true)                                                      \
	X(DESCRIPTORS, "descriptors", WR_IN_ROOT | WR_IN_DESCRIPTOR, true)                         \
	X(REQUESTS, "requests", WR_IN_ROOT, false)                                                 \
	X(KEY, "key", WR_IN_DESCRIPTOR | WR_IN_PART, true)                                         \
	X(VALUE, "value", WR_IN_DESCRIPTOR | WR_IN_PART, true)                                     \
	X(CIDR, "cidr", WR_IN_DESCRIPTOR, false)                                                   \
	X(RATE_LIMIT, "rate_limit", WR_IN_DESCRIPTOR, true)                                        \
	X(RATE_LIMITS, "rate_limits", WR_IN_DESCRIPTOR, false)                                     \
	X(SHADOW_MODE, "shadow_mode", WR_IN_DESCRIPTOR, true)                                      \
	X(QUOTA_MODE, "quota_mode", WR_IN_DESCRIPTOR, true)                                        \
	X(DETAILED_METRIC, "detailed_metric", WR_IN_DESCRIPTOR, true)                              \
	X(VALUE_TO_METRIC, "value_to_metric", WR_IN_DESCRIPTOR, true)                              \
	X(SHARE_THRESHOLD, "share_threshold", WR_IN_DESCRIPTOR, true)                              \
	X(METADATA, "metadata", WR_IN_DESCRIPTOR, true)                                            \
	X(UNIT, "unit", WR_IN_ANY_LIMIT, true)                                                     \
	X(REQUESTS_PER_UNIT, "requests_per_unit", WR_IN_ANY_LIMIT, true)                           \
	X(UNLIMITED, "unlimited", WR_IN_LIMIT, true)                                               \
	X(NAME, "name", WR_IN_ANY_LIMIT | WR_IN_REPLACES, true)                                    \
	X(REPLACES, "replaces", WR_IN_LIMIT, true)                                                 \
	X(ALGORITHM, "algorithm", WR_IN_ANY_LIMIT, false)                                          \
	X(PERIOD, "period", WR_IN_ANY_LIMIT, false)                                                \
	X(CALENDAR, "calendar", WR_IN_ANY_LIMIT, false)                                            \
	X(TIMEZONE, "timezone", WR_IN_ANY_LIMIT, false)                                            \
	X(BURST, "burst", WR_IN_ANY_LIMIT, false)                                                  \
	X(QUEUE_SIZE, "queue_size", WR_IN_ANY_LIMIT, false)                                        \
	X(MAX_WAIT, "max_wait", WR_IN_ANY_LIMIT, false)                                            \
	X(MODE, "mode", WR_IN_ANY_LIMIT, false)                                                    \
	X(SOFT, "soft", WR_IN_ANY_LIMIT, false)                                                    \
	X(COUNT_REJECTED, "count_rejected", WR_IN_ANY_LIMIT, false)                                \
	X(ON_FULL, "on_full", WR_IN_ANY_LIMIT, false)                                              \
	X(CONCURRENT, "concurrent", WR_IN_LIMIT, false)                                            \
	X(MAX_HOLD, "max_hold", WR_IN_LIMIT, false)                                                \
	X(MAX_DEBT, "max_debt", WR_IN_LIMIT, false)                                                \
	X(ON_EXPIRY, "on_expiry", WR_IN_LIMIT, false)                                              \
	X(ON_LIMIT, "on_limit", WR_IN_LIMIT, false)                                                \
	X(DEFER, "defer", WR_IN_LIMIT, false)                                                      \
	X(CONSISTENCY, "consistency", WR_IN_LIMIT, false)                                          \
	X(ON_STORE_FAILURE, "on_store_failure", WR_IN_LIMIT, false)                                \
	X(RESPONSE, "response", WR_IN_LIMIT, false)                                                \
	X(ENFORCE, "enforce", WR_IN_LIMIT, false)                                                  \
	X(BAN, "ban", WR_IN_ANY_LIMIT, false)                                                      \
	X(CANDIDATES, "candidates", WR_IN_LIMIT, false)                                            \
	X(OVERSHOOT, "overshoot", WR_IN_SOFT, false)                                               \
	X(FOR, "for", WR_IN_SOFT | WR_IN_BAN, false)                                               \
	X(AFTER, "after", WR_IN_BAN, false)                                                        \
	X(WITHIN, "within", WR_IN_BAN, false)                                                      \
	X(GROW, "grow", WR_IN_BAN, false)                                                          \
	X(SHIELD, "shield", WR_IN_BAN, false)                                                      \
	X(STATUS, "status", WR_IN_RESPONSE | WR_IN_COUNT, false)                                   \
	X(CONTENT_TYPE, "content_type", WR_IN_RESPONSE, false)                                     \
	X(BODY, "body", WR_IN_RESPONSE, false)                                                     \
	X(HEADERS, "headers", WR_IN_DEFER, false)                                                  \
	X(MAX_BODY, "max_body", WR_IN_DEFER, false)                                                \
	X(MAX_AGE, "max_age", WR_IN_DEFER, false)                                                  \
	X(MAX_TRIES, "max_tries", WR_IN_DEFER, false)                                              \
	X(MAX_WAITING, "max_waiting", WR_IN_DEFER, false)                                          \
	X(WHEN, "when", WR_IN_REQUEST, false)                                                      \
	X(ALLOW, "allow", WR_IN_REQUEST, false)                                                    \
	X(DESCRIPTOR, "descriptor", WR_IN_REQUEST, false)                                          \
	X(COST, "cost", WR_IN_REQUEST, false)                                                      \
	X(COUNT_BY, "count", WR_IN_REQUEST, false)                                                 \
	X(METHOD, "method", WR_IN_WHEN, false)                                                     \
	X(PATH, "path", WR_IN_WHEN, false)                                                         \
	X(HOST, "host", WR_IN_WHEN, false)                                                         \
	X(REMOTE_ADDRESS, "remote_address", WR_IN_WHEN, false)                                     \
	X(FROM, "from", WR_IN_PART | WR_IN_ANY_COST, false)                                        \
	X(DEFAULT, "default", WR_IN_PART | WR_IN_ANY_COST, false)                                  \
	X(MISSING, "missing", WR_IN_PART, false)                                                   \
	X(AMBIGUOUS, "ambiguous", WR_IN_PART, false)                                               \
	X(V4_PREFIX, "v4_prefix", WR_IN_PART, false)                                               \
	X(V6_PREFIX, "v6_prefix", WR_IN_PART, false)                                               \
	X(MAX, "max", WR_IN_ANY_COST | WR_IN_BAN, false)                                           \
	X(RESERVE, "reserve", WR_IN_COST, false)                                                   \
	X(ACTUAL, "actual", WR_IN_COST, false)                                                     \
	X(EXCEPT, "except", WR_IN_COUNT, false)

enum wr_rules_key_id {
#define WR_KEY_ENUM(id, name, maps, lyft) WR_KEY_##id,
	WR_KEYS(WR_KEY_ENUM)
#undef WR_KEY_ENUM
		WR_KEY_COUNT
};

struct wr_rules_key_info {
	struct weir_str name;
	uint32_t maps;
	bool lyft;
};

extern const struct wr_rules_key_info wr_keys[WR_KEY_COUNT];

/* Returns the name of a kind of map, for messages. */
const char *wr_rules_map_name(uint32_t kind);

#endif
