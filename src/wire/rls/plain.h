/* The two messages of every decision, coded by hand where they are plain: the fields that clients
 * send and we answer day in, day out, each once and in any order. Anything else about them (unknown
 * fields, a field twice, headers, metadata) is protobuf-c's, which tests hold this against. It is
 * worth its lines: a twelfth of what a call costs. */
#ifndef WR_WIRE_RLS_PLAIN_H
#define WR_WIRE_RLS_PLAIN_H

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include <weir/rules.h>

#include "wire/memory.h"

/* The request, its texts within `bytes`; NULL: not plain, or there is no memory. */
Pb__RateLimitRequest *wr_rls_read_plain(struct weir_str bytes, struct wr_rls_memory *memory);

/* Whether a response is statuses alone. */
bool wr_rls_is_plain(const Pb__RateLimitResponse *response);

/* The size of a plain response. */
size_t wr_rls_size_plain(const Pb__RateLimitResponse *response);

/* Writes as many bytes as wr_rls_size_plain said. */
void wr_rls_pack_plain(const Pb__RateLimitResponse *response, uint8_t *out);

#endif
