/* Envoy's rate limit service: a message in, descriptors into an ask; the decided ask, a message
 * out.
 *
 *   request = wr_rls_read(bytes, memory, &error);      // or NULL
 *   wr_rls_check(request, &error);
 *   … an ask for wr_rls_domain(request) …
 *   wr_rls_ask(request, ask, memory, &error);
 *   verdict = … decide, wait …
 *   wr_rls_answer(ask, verdict, request, options, memory);
 *
 * Texts are bytes: a value that is not UTF-8, or has a zero byte, has a counter of its own. A
 * response is always UTF-8: Envoy lets every request pass if it cannot read the response.
 *
 * Functions that return int return 0 or an enum wr_grpc_code; `error` then has the code and a
 * text. */
#ifndef WR_WIRE_RLS_RLS_H
#define WR_WIRE_RLS_RLS_H

#include <stdbool.h>

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include <weir/engine.h>

#include "wire/memory.h"

/* Options for responses; all zero is the default of Envoy's ratelimit. */
struct wr_rls_options {
	bool dynamic_metadata; /* responses carry the request and the metadata of its rules */
	bool bodies;           /* every refusal has a body; otherwise only rules with `response` */
	bool profile_headers;  /* adds the header fields of `profile`, as the gateway does */
	int profile;           /* enum weir_profile */
	/* Names of the three header fields of Envoy's ratelimit; NULL: not sent. */
	const char *limit_header;
	const char *remaining_header;
	const char *reset_header;
};

static inline struct weir_str wr_rls_text(ProtobufCBinaryData text)
{
	return (struct weir_str){(const char *)text.data, text.len};
}

static inline struct weir_str wr_rls_domain(const Pb__RateLimitRequest *request)
{
	return wr_rls_text(request->domain);
}

/* Unpacks a request. Texts point into `bytes`, which must outlive the request. Returns NULL and
 * INVALID_ARGUMENT (no such message) or RESOURCE_EXHAUSTED (it does not fit into `memory`). */
Pb__RateLimitRequest *wr_rls_read(struct weir_str bytes, struct wr_rls_memory *memory,
				  struct weir_error *error);

/* Checks that the request names a domain, has a descriptor, and has units in its overrides.
 * INVALID_ARGUMENT. */
int wr_rls_check(const Pb__RateLimitRequest *request, struct weir_error *error);

/* Adds the descriptors of a checked request to a new ask. FAILED_PRECONDITION: there are no rules
 * yet. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int wr_rls_ask(const Pb__RateLimitRequest *request, struct weir_ask *ask,
	       struct wr_rls_memory *memory, struct weir_error *error);

/* Makes the response to a decided ask, in `memory`. It points to texts of the ask. `verdict` is
 * that of wr_pending's `done`: WEIR_ADMIT with statuses over the limit is shadow mode; WEIR_DELAY
 * means that the client cannot wait so long, and is refused. `request` is only for
 * dynamic_metadata. Returns NULL if it does not fit. */
Pb__RateLimitResponse *wr_rls_answer(struct weir_ask *ask, int verdict,
				     const Pb__RateLimitRequest *request,
				     const struct wr_rls_options *options,
				     struct wr_rls_memory *memory);

/* The size of the packed response, and packing it. */
size_t wr_rls_size(const Pb__RateLimitResponse *response);
void wr_rls_pack(const Pb__RateLimitResponse *response, uint8_t *out);

/* metadata.c: the content of `dynamic_metadata`. Returns NULL if it does not fit. */
Pb__Struct *wr_rls_metadata(const struct weir_ask *ask, const Pb__RateLimitRequest *request,
			    struct wr_rls_memory *memory);

#endif
