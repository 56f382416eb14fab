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
 * Texts are taken as bytes: a value that is not UTF-8, or holds a zero, has a counter of its own.
 * An answer is always UTF-8, because a client that cannot read it lets everything pass.
 *
 * Functions that return int say 0 or an enum wr_grpc_code; `error` then has code and text. */
#ifndef WR_WIRE_RLS_RLS_H
#define WR_WIRE_RLS_RLS_H

#include <stdbool.h>

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include <weir/engine.h>

#include "wire/memory.h"

/* What operators may choose about answers; all zero is what the reference does by default. */
struct wr_rls_options {
	bool dynamic_metadata; /* the request and its rules' metadata go along */
	bool bodies;          /* every refusal has a body; otherwise those by a rule's `response` */
	bool profile_headers; /* fields of `profile` are added, as the gateway has them */
	int profile;          /* enum weir_profile */
	/* Names of the reference's three fields; NULL: not sent. */
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

/* Texts may be within `bytes`, which must last as long as the request.
 * NULL: INVALID_ARGUMENT, not such a message; or RESOURCE_EXHAUSTED, it unfolds to too much. */
Pb__RateLimitRequest *wr_rls_read(struct weir_str bytes, struct wr_rls_memory *memory,
				  struct weir_error *error);

/* Whether the request itself is one: it names a domain, has a descriptor, and its overrides have
 * units. INVALID_ARGUMENT. */
int wr_rls_check(const Pb__RateLimitRequest *request, struct weir_error *error);

/* Adds the descriptors of a checked request to a new ask. FAILED_PRECONDITION: there are no rules
 * yet. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int wr_rls_ask(const Pb__RateLimitRequest *request, struct weir_ask *ask,
	       struct wr_rls_memory *memory, struct weir_error *error);

/* The answer to a decided ask, in `memory`; texts of the ask are used and not copied. `verdict` is
 * what struct wr_pending says: WEIR_ADMIT although the statuses are over is shadow mode; WEIR_DELAY
 * is a wait that the client does not have, and refused. `request` is for dynamic_metadata alone.
 * NULL: it does not fit. */
Pb__RateLimitResponse *wr_rls_answer(struct weir_ask *ask, int verdict,
				     const Pb__RateLimitRequest *request,
				     const struct wr_rls_options *options,
				     struct wr_rls_memory *memory);

/* The bytes of an answer: how many, and written. */
size_t wr_rls_size(const Pb__RateLimitResponse *response);
void wr_rls_pack(const Pb__RateLimitResponse *response, uint8_t *out);

/* metadata.c: what `dynamic_metadata` holds. NULL: it does not fit. */
Pb__Struct *wr_rls_metadata(const struct weir_ask *ask, const Pb__RateLimitRequest *request,
			    struct wr_rls_memory *memory);

#endif
