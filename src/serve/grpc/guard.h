/* Limits abuse of HTTP/2: a bucket of points for each connection.
 *
 * Frames that ask for nothing cost a few points, and calls that are reset cost more. A call with a
 * response gives points back, so a client that makes calls may reset, ping and update windows as
 * proxies do under load. A client that does nothing else is disconnected after 2,000 resets or
 * 10,000 pings at once, or 400 resets and 2,000 pings a second. */
#ifndef WR_SERVE_GRPC_GUARD_H
#define WR_SERVE_GRPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_GUARD_POINTS 20000
#define WR_GUARD_POINTS_PER_MS 4
#define WR_GUARD_BYTES_A_POINT 64 /* of frames that nghttp2 ignores */

enum wr_guard_cost {
	WR_GUARD_WINDOW = 1,      /* WINDOW_UPDATE */
	WR_GUARD_EMPTY = 2,       /* PING, empty DATA, others */
	WR_GUARD_UNFINISHED = 10, /* a stream that was reset, by either side */
	WR_GUARD_SETTINGS = 20,
	WR_GUARD_HEADERS = 200, /* header fields above the limit */
	WR_GUARD_ANSWERED = 10, /* given back for a call with a response */
};

struct wr_grpc_guard {
	int32_t points;
	uint64_t at_ms; /* when points were last added for time */
	/* Bytes received less the frames that nghttp2 reported: the unfinished frame, and frames
	 * that nghttp2 ignores, such as PRIORITY and unknown types. */
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

/* nghttp2 has reported a frame of so many bytes, with its head. */
static inline void wr_grpc_guard_known(struct wr_grpc_guard *guard, size_t bytes)
{
	guard->unknown_bytes -= (int64_t)bytes;
}

/* Called once for each input of `bytes`. Returns whether the connection may stay open. */
bool wr_grpc_guard_passes(struct wr_grpc_guard *guard, size_t bytes, uint64_t now_ms);

#endif
