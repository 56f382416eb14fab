/* The gRPC listener. Each connection is an HTTP/2 session of nghttp2, and each stream of the
 * session is a call. */
#ifndef WR_SERVE_GRPC_GRPC_H
#define WR_SERVE_GRPC_GRPC_H

#include "serve/settings.h"
#include "net/stream.h"
#include "wire/rls/rls.h"

struct wr_serve_grpc_loop;

extern const struct wr_protocol wr_serve_grpc_protocol;

/* Frees the state that the sessions of a loop share. NULL is allowed. */
void wr_serve_grpc_loop_free(struct wr_serve_grpc_loop *shared);

/* Returns the options of RLS responses, for gRPC and for JSON. */
struct wr_rls_options wr_serve_grpc_rls_options(const struct wr_settings *settings);

#endif
