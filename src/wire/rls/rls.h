/* Envoy's rate limit service (RLS): reads a request message, adds its descriptors to an ask, and
 * writes the response message from the decided ask.
 *
 *   request = wr_rls_read(bytes, memory, &error);      // or NULL
 *   wr_rls_check(request, &error);
 *   … an ask for wr_rls_domain(request) …
 *   wr_rls_ask(request, ask, memory, &error);
 *   verdict = … decide, wait …
 *   wr_rls_answer(ask, verdict, request, options, memory);
 *
 * Texts may have any bytes: a value that is not UTF-8, or that has a zero byte, gets a counter like
 * any other value. The texts of a response are always UTF-8, because Envoy lets a request pass if
 * Envoy cannot read the response.
 *
 * Functions that return int return 0, or on failure an enum wr_grpc_code; `error` then has this
 * code and a text. */
#ifndef WR_WIRE_RLS_RLS_H
#define WR_WIRE_RLS_RLS_H

#include <stdbool.h>

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include <weir/engine.h>

#include "wire/memory.h"

/* Options for responses. If all options are zero, responses are those of Envoy's ratelimit with its
 * default settings. */
struct wr_rls_options {
	bool dynamic_metadata; /* responses have dynamic_metadata, which metadata.c makes */
	bool bodies; /* every refusal has a body; false: only if the rule's `response` has one */
	bool profile_headers; /* responses have the header fields of `profile` */
	int profile;          /* enum weir_profile */
	/* Names of the three header fields of Envoy's ratelimit. NULL: that field is not sent. */
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

/* Unpacks a request. Its texts point into `bytes`, which must outlive the request. On failure
 * returns NULL; the code in `error` is INVALID_ARGUMENT (the bytes are not such a message) or
 * RESOURCE_EXHAUSTED (the message does not fit into `memory`). */
Pb__RateLimitRequest *wr_rls_read(struct weir_str bytes, struct wr_rls_memory *memory,
				  struct weir_error *error);

/* Checks that the request has a domain and a descriptor, and that each limit in a descriptor has a
 * valid unit. Returns 0 or INVALID_ARGUMENT. */
int wr_rls_check(const Pb__RateLimitRequest *request, struct weir_error *error);

/* Adds the descriptors of a request to a new ask. The caller has checked the request with
 * wr_rls_check. Returns 0, FAILED_PRECONDITION (no rules have been loaded), INVALID_ARGUMENT or
 * RESOURCE_EXHAUSTED. */
int wr_rls_ask(const Pb__RateLimitRequest *request, struct weir_ask *ask,
	       struct wr_rls_memory *memory, struct weir_error *error);

/* An entry with this key marks a request that reports units which were already used. It is not part
 * of the descriptor. The protocol has no such field, and Envoy's call after the end of a stream
 * (apply_on_stream_done) looks like any other call. */
#define WR_RLS_CHARGE_KEY "weir.charge"

/* Returns whether a descriptor of the request has the mark. The units of such a request are charged
 * with wr_ask_charge. */
bool wr_rls_charges(const Pb__RateLimitRequest *request);

/* Writes the response to a decided ask into `memory`. The response points to texts of the ask.
 * `verdict` is the verdict that the callback `done` of struct wr_pending received. In shadow mode
 * it is WEIR_ADMIT even if statuses are over their limits. WEIR_DELAY means that the delay is
 * longer than the client can wait, so the request is refused. `request` is used only for
 * dynamic_metadata. Returns NULL if the response does not fit into `memory`. */
Pb__RateLimitResponse *wr_rls_answer(struct weir_ask *ask, int verdict,
				     const Pb__RateLimitRequest *request,
				     const struct wr_rls_options *options,
				     struct wr_rls_memory *memory);

/* wr_rls_size returns the size of the packed response; wr_rls_pack writes the packed response. */
size_t wr_rls_size(const Pb__RateLimitResponse *response);
void wr_rls_pack(const Pb__RateLimitResponse *response, uint8_t *out);

/* Returns the `dynamic_metadata` of a response, or NULL if there is not enough memory. Defined in
 * metadata.c. */
Pb__Struct *wr_rls_metadata(const struct weir_ask *ask, const Pb__RateLimitRequest *request,
			    struct wr_rls_memory *memory);

#endif
