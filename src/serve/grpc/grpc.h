/* gRPC on a stream: an HTTP/2 session of nghttp2 each, whose streams are calls. */
#ifndef WR_SERVE_GRPC_GRPC_H
#define WR_SERVE_GRPC_GRPC_H

#include "serve/settings.h"
#include "net/stream.h"
#include "wire/rls/rls.h"

struct wr_grpc_loop;

extern const struct wr_protocol wr_grpc_protocol;

/* What the sessions of a loop share. NULL is fine. */
void wr_grpc_loop_free(struct wr_grpc_loop *shared);

/* What answers of RLS have in them, over gRPC and as JSON. */
struct wr_rls_options wr_grpc_rls_options(const struct wr_settings *settings);

#endif
