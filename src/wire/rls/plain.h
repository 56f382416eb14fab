/* A fast codec for plain messages of RLS: requests and responses that have only the usual fields,
 * each at most once, in any order. protobuf-c handles all other messages (unknown or repeated
 * fields, headers, metadata). Tests compare the two codecs. The fast codec saves a twelfth of the
 * cost of a call. */
#ifndef WR_WIRE_RLS_PLAIN_H
#define WR_WIRE_RLS_PLAIN_H

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include <weir/rules.h>

#include "wire/memory.h"

/* Reads a plain request. Its texts point into `bytes`. Returns NULL if the request is not plain or
 * does not fit into `memory`. */
Pb__RateLimitRequest *wr_rls_read_plain(struct weir_str bytes, struct wr_rls_memory *memory);

/* Returns whether a response has statuses and no other fields. */
bool wr_rls_is_plain(const Pb__RateLimitResponse *response);

/* Returns the packed size of a plain response. */
size_t wr_rls_size_plain(const Pb__RateLimitResponse *response);

/* Packs a plain response into `out`, which has room for wr_rls_size_plain() bytes. */
void wr_rls_pack_plain(const Pb__RateLimitResponse *response, uint8_t *out);

#endif
