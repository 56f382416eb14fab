/* Reads what the header fields of a response say about rate limits.
 *
 *   struct weir_ratelimit told = {.size = sizeof told};
 *   struct weir_header fields[] = {{{"Retry-After", 11}, {"2", 1}}};
 *
 *   if (weir_ratelimit_parse(fields, 1, 429, now_ns, &told) == 0 && told.wait_ns)
 *           wait(told.wait_ns);                              // 2,000,000,000 ns
 *
 * The parser reads no clock, allocates nothing and reads any bytes safely. A field that it cannot
 * read is skipped, and the other fields still count. The result points into the given fields.
 *
 * FIELDS
 *   field, and an example of its value                        | what it sets
 *   ----------------------------------------------------------+-----------------------------------
 *   Retry-After: 3                                            | wait 3 s
 *   Retry-After: 0.25                                         | wait 250 ms
 *   Retry-After: Wed, 21 Oct 2026 07:28:00 GMT                | wait: that time minus `Date`
 *   Retry-After: 3, 5                                         | wait 5 s
 *   Retry-After-Ms: 1500                                      | wait 1.5 s
 *   X-RateLimit-Retry-After: 3     X-Retry-In: 1.2s           | wait 3 s, 1.2 s
 *   RateLimit-Policy: "a";q=100;w=60                          | "a": limit 100, window 60 s
 *   RateLimit: "a";r=50;t=30                                  | "a": remaining 50, reset 30 s
 *   RateLimit: limit=100, remaining=50, reset=30              | all three (draft 7)
 *   RateLimit-Limit: 100, 100;w=60     RateLimit-Reset: 30    | limit 100, window 60 s, reset 30 s
 *   X-RateLimit-Limit: 10, 10;w=1;name="ip"                   | limit 10; "ip": 10, window 1 s
 *   X-RateLimit-Reset: 30                                     | reset in 30 s
 *   X-RateLimit-Reset: 1900000000                             | reset at that second since 1970
 *   X-RateLimit-Reset: 1900000000.5                           | reset half a second later
 *   X-RateLimit-Reset: 1900000000000                          | reset at that millisecond
 *   X-RateLimit-Reset: 2026-10-21T07:28:00Z                   | reset at that time
 *   X-RateLimit-Reset-After: 0.5                              | reset 500 ms
 *   X-RateLimit-Limit-Tokens: 90000                           | tokens: limit 90000
 *   X-RateLimit-Reset-Tokens: 6m0s                            | tokens: reset 360 s
 *   Anthropic-RateLimit-Tokens-Remaining: 7                   | tokens: remaining 7
 *   X-Shopify-Shop-Api-Call-Limit: 32/40                      | limit 40, remaining 8
 *
 * A number in X-RateLimit-Reset is a number of seconds from now if it is below 10^9 (the year 2001),
 * a number of milliseconds since 1970 if it is at least 10^11, and otherwise a number of seconds
 * since 1970. `X-Rate-Limit-…` and `X-User-Limit-24Hour-…` are read like `X-RateLimit-…`.
 *
 * Times since 1970 and dates are compared with the response's `Date`, so that the clock of the
 * client does not matter. Without `Date` they are compared with now_ns. A time in the past is a
 * wait of 0. Years after 2500 are read as 2500.
 *
 * A proxy can join the fields that tell a wait into a list, such as `Retry-After: 3, 5`. Its
 * longest wait counts, as it does if there are several fields.
 *
 * A response with `Age` above 0 comes from a cache: only its wait is read. */
#ifndef WEIR_RATELIMIT_H
#define WEIR_RATELIMIT_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_RATELIMIT_POLICIES_MAX 16u
#define WEIR_RATELIMIT_FIELDS_MAX 256u /* header fields beyond these are not read */
#define WEIR_RATELIMIT_VALUE_MAX 4096u /* longer values are not read */
/* Longest wait, reset and window: a year of 366 days. Longer ones are shortened to it. */
#define WEIR_RATELIMIT_TIME_MAX_NS (366ull * 86400 * 1000000000)

/* What a policy counts. */
enum weir_ratelimit_unit {
	WEIR_RATELIMIT_REQUESTS = 0,
	WEIR_RATELIMIT_BYTES = 1,
	WEIR_RATELIMIT_TOKENS = 2,
	WEIR_RATELIMIT_CONCURRENT = 3,
	WEIR_RATELIMIT_OTHER = 4, /* a unit that the parser does not know */
};

/* The kind of header field that a policy comes from. */
enum weir_ratelimit_form {
	WEIR_RATELIMIT_IETF = 1,   /* RateLimit and RateLimit-Policy as lists, drafts 8 and later */
	WEIR_RATELIMIT_DRAFT7 = 2, /* RateLimit: limit=…, remaining=…, reset=… */
	WEIR_RATELIMIT_DRAFT3 = 3, /* RateLimit-Limit, -Remaining, -Reset */
	WEIR_RATELIMIT_X = 4,      /* X-RateLimit-… and its other spellings */
	WEIR_RATELIMIT_VENDOR = 5, /* Anthropic-RateLimit-…, X-Shopify-… */
};

/* Bits of weir_ratelimit_policy.has. */
enum weir_ratelimit_has {
	WEIR_RATELIMIT_HAS_LIMIT = 1,
	WEIR_RATELIMIT_HAS_REMAINING = 2,
	WEIR_RATELIMIT_HAS_WINDOW = 4,
	WEIR_RATELIMIT_HAS_RESET = 8,
};

struct weir_ratelimit_policy {
	/* The name that the server gave to the policy, as in the field, without quotes and with its
	 * escapes. Empty: the server gave no name. */
	struct weir_str name;
	uint8_t unit; /* enum weir_ratelimit_unit */
	uint8_t form; /* enum weir_ratelimit_form */
	uint8_t has;  /* enum weir_ratelimit_has: which of the four fields below are set */
	uint8_t reserved[5];
	uint64_t limit;     /* units per window */
	uint64_t remaining; /* units that can still be used */
	uint64_t window_ns;
	/* Time from now_ns until more units are available. Many servers send the time until all
	 * units are available, and the fields do not tell the two apart. */
	uint64_t reset_ns;
};

/* The caller sets `size`. A caller compiled against an older header passes a smaller `size` and
 * gets fewer fields. */
struct weir_ratelimit {
	uint32_t size;    /* sizeof(struct weir_ratelimit) */
	uint32_t refused; /* 1: the response refuses the request because of a limit */
	/* Time from now_ns before which the client should send nothing more to this server. It
	 * comes from Retry-After and the fields like it; the largest one counts. If the response
	 * refuses the request and has none of these fields, it is the longest reset of the policies
	 * with 0 remaining units. 0: the server told no wait. */
	uint64_t wait_ns;
	uint32_t count;  /* number of policies */
	uint32_t cached; /* 1: the response comes from a cache, so `count` is 0 */
	struct weir_ratelimit_policy policies[WEIR_RATELIMIT_POLICIES_MAX];
};

/* Reads the header fields of a response with this status. A response refuses the request if its
 * status is 429, or if its status is 403 or 503 and a policy has 0 remaining units, or 403 and it
 * has a Retry-After. Policies beyond WEIR_RATELIMIT_POLICIES_MAX are not read. Returns 0,
 * WEIR_EINVAL (NULL, or the size is invalid) or WEIR_ETIME. */
WEIR_API int weir_ratelimit_parse(const struct weir_header *fields, size_t count, int status,
				  uint64_t now_ns, struct weir_ratelimit *result);

#ifdef __cplusplus
}
#endif
#endif
