/* The state that the gRPC sessions of a loop share. The first connection of a loop allocates it. */
#include "serve/grpc/session.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/str.h"

struct wr_rls_options wr_serve_grpc_rls_options(const struct wr_settings *settings)
{
	struct wr_rls_options rls = {.dynamic_metadata = settings->dynamic_metadata,
				     .bodies = settings->rls_bodies,
				     .profile = WEIR_PROFILE_NONE};

	if (settings->rls_profile)
		rls.profile = weir_profile_by_name(wr_str(settings->rls_profile));
	rls.profile_headers = rls.profile != WEIR_PROFILE_NONE;
	if (settings->rls_headers) {
		rls.limit_header = settings->limit_header;
		rls.remaining_header = settings->remaining_header;
		rls.reset_header = settings->reset_header;
	}
	return rls;
}

/* Makes the options of nghttp2. Its limit on resets is only a second defence: guard.c limits resets
 * too, and knows which calls had a response. */
static int make_option(nghttp2_option **option)
{
	if (nghttp2_option_new(option) != 0)
		return WEIR_EMEMORY;
	nghttp2_option_set_no_closed_streams(*option, 1);
	nghttp2_option_set_max_outbound_ack(*option, 256);
	nghttp2_option_set_max_settings(*option, 16);
	nghttp2_option_set_max_continuations(*option, 4);
	nghttp2_option_set_stream_reset_rate_limit(*option, 10000, 2000);
	return 0;
}

static int init_loop(struct wr_serve_grpc_loop *shared, struct wr_loop *loop)
{
	int rc = wr_rls_memory_init(&shared->memory, WR_GRPC_SCRATCH_BYTES);

	wr_list_init(&shared->sessions);

	shared->rls = wr_serve_grpc_rls_options(wr_loop_settings(loop));
	if (rc == 0)
		rc = wr_grpc_inflater_new(&shared->inflater);
	if (rc == 0)
		rc = wr_reflection_new(&shared->reflection);
	if (rc == 0)
		rc = wr_serve_grpc_callbacks_new(&shared->callbacks);
	return rc == 0 ? make_option(&shared->option) : rc;
}

struct wr_serve_grpc_loop *wr_serve_grpc_loop_of(struct wr_loop *loop)
{
	struct wr_serve_grpc_loop *shared = loop->grpc;

	if (shared)
		return shared;
	shared = calloc(1, sizeof *shared);
	if (!shared)
		return NULL;
	if (init_loop(shared, loop) != 0) {
		wr_serve_grpc_loop_free(shared);
		return NULL;
	}
	loop->grpc = shared;
	return shared;
}

void wr_serve_grpc_loop_free(struct wr_serve_grpc_loop *shared)
{
	if (!shared)
		return;
	wr_assert(wr_list_is_empty(&shared->sessions) && shared->bytes == 0);
	wr_serve_grpc_free_spare(shared);
	nghttp2_option_del(shared->option);
	nghttp2_session_callbacks_del(shared->callbacks);
	wr_reflection_free(shared->reflection);
	wr_grpc_inflater_free(shared->inflater);
	wr_rls_memory_free(&shared->memory);
	free(shared);
}
