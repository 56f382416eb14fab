/* Implements the bucket of points of guard.h. Called by frames.c and session.c. */
#include "serve/grpc/guard.h"

#include "base/assert.h"

void wr_serve_grpc_guard_init(struct wr_serve_grpc_guard *guard, uint64_t now_ms)
{
	*guard = (struct wr_serve_grpc_guard){.points = WR_GUARD_POINTS, .at_ms = now_ms};
}

/* Adds `bytes` bytes of input to unknown_bytes, the number of bytes that nghttp2 has not reported
 * as frames. Charges points for unknown bytes above 32 KiB, the size of two large frames. Up to
 * 32 KiB are free of charge, because they can belong to a frame that has not arrived completely. */
static void charge_unknown(struct wr_serve_grpc_guard *guard, size_t bytes)
{
	int64_t most = 2 * 16384;

	guard->unknown_bytes += (int64_t)bytes;
	if (guard->unknown_bytes <= most)
		return;
	guard->points -= (int32_t)((guard->unknown_bytes - most) / WR_GUARD_BYTES_A_POINT);
	guard->unknown_bytes = most + (guard->unknown_bytes - most) % WR_GUARD_BYTES_A_POINT;
}

bool wr_serve_grpc_guard_passes(struct wr_serve_grpc_guard *guard, size_t bytes, uint64_t now_ms)
{
	uint64_t passed_ms = now_ms > guard->at_ms ? now_ms - guard->at_ms : 0;
	uint64_t lacking;

	wr_assert(guard->points <= WR_GUARD_POINTS);
	charge_unknown(guard, bytes);
	lacking = (uint64_t)(WR_GUARD_POINTS - guard->points);
	if (passed_ms > lacking / WR_GUARD_POINTS_PER_MS)
		guard->points = WR_GUARD_POINTS;
	else
		guard->points += (int32_t)(passed_ms * WR_GUARD_POINTS_PER_MS);
	guard->at_ms = now_ms;
	return guard->points > 0;
}
