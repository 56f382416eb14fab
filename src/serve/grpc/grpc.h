/* The gRPC listener: each connection is an HTTP/2 session of nghttp2, each of its streams a
 * call. */
#ifndef WR_SERVE_GRPC_GRPC_H
#define WR_SERVE_GRPC_GRPC_H

#include "serve/settings.h"
#include "net/stream.h"
#include "wire/rls/rls.h"

struct wr_grpc_loop;

extern const struct wr_protocol wr_grpc_protocol;

/* Frees the state that the sessions of a loop share. NULL is fine. */
void wr_grpc_loop_free(struct wr_grpc_loop *shared);

/* The options of RLS responses, over gRPC and as JSON. */
struct wr_rls_options wr_grpc_rls_options(const struct wr_settings *settings);

#endif
