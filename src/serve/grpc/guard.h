/* How much trouble a client may make: a bucket of points for each connection.
 *
 * Frames that ask for nothing cost a few points, calls that are not let finish cost more; a call
 * that was answered gives some back. A client that calls may therefore reset, ping and adjust
 * windows as proxies do under load, and one that does nothing else is sent away after 2,000 resets
 * or 10,000 pings at once, or 400 and 2,000 a second. */
#ifndef WR_SERVE_GRPC_GUARD_H
#define WR_SERVE_GRPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_GUARD_POINTS 20000
#define WR_GUARD_POINTS_PER_MS 4
#define WR_GUARD_BYTES_A_POINT 64 /* of frames that nghttp2 reads over */

enum wr_guard_cost {
	WR_GUARD_WINDOW = 1,      /* WINDOW_UPDATE */
	WR_GUARD_EMPTY = 2,       /* PING, empty DATA, others */
	WR_GUARD_UNFINISHED = 10, /* a stream that ended by a reset, ours or theirs */
	WR_GUARD_SETTINGS = 20,
	WR_GUARD_HEADERS = 200, /* header fields beyond the bound */
	WR_GUARD_ANSWERED = 10, /* given back for a call */
};

struct wr_grpc_guard {
	int32_t points;
	uint64_t at_ms; /* when points were last added for time */
	/* What has arrived, less the frames we were told of: the part of one that is under way, and
	 * what nghttp2 reads over, such as PRIORITY and frames of unknown types. */
	int64_t unknown_bytes;
};

void wr_grpc_guard_init(struct wr_grpc_guard *guard, uint64_t now_ms);

static inline void wr_grpc_guard_answered(struct wr_grpc_guard *guard)
{
	if (guard->points <= WR_GUARD_POINTS - WR_GUARD_ANSWERED)
		guard->points += WR_GUARD_ANSWERED;
}

static inline void wr_grpc_guard_charge(struct wr_grpc_guard *guard, enum wr_guard_cost cost)
{
	guard->points -= (int32_t)cost; /* one input has too few frames for this to overflow */
}

/* A frame that nghttp2 has told us of, its head included. */
static inline void wr_grpc_guard_known(struct wr_grpc_guard *guard, size_t bytes)
{
	guard->unknown_bytes -= (int64_t)bytes;
}

/* Once for each input, of so many bytes: whether the client may stay. */
bool wr_grpc_guard_passes(struct wr_grpc_guard *guard, size_t bytes, uint64_t now_ms);

#endif
