/* Limits abuse of HTTP/2. Each connection has a bucket of points and is closed when the points are
 * used up.
 *
 * Frames that are not part of a call cost a few points, and calls that are reset cost more. A call
 * with a response gives points back, so a client that makes calls can reset, ping and update
 * windows as often as proxies do under load. A client without calls is disconnected after 2,000
 * resets or 10,000 pings at once, or if it sends more than 400 resets or 2,000 pings a second. */
#ifndef WR_SERVE_GRPC_GUARD_H
#define WR_SERVE_GRPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WR_GUARD_POINTS 20000
#define WR_GUARD_POINTS_PER_MS 4
#define WR_GUARD_BYTES_A_POINT 64 /* frames that nghttp2 ignores cost one point per 64 bytes */

enum wr_guard_cost {
	WR_GUARD_WINDOW = 1,      /* cost of a WINDOW_UPDATE */
	WR_GUARD_EMPTY = 2,       /* cost of a PING, an empty DATA frame, or an unknown frame */
	WR_GUARD_UNFINISHED = 10, /* cost of a stream that the client or this server has reset */
	WR_GUARD_SETTINGS = 20,
	WR_GUARD_HEADERS = 200, /* cost of header fields above WR_GRPC_HEADER_BYTES */
	WR_GUARD_ANSWERED = 10, /* points given back for a call with a response */
};

struct wr_serve_grpc_guard {
	int32_t points;
	uint64_t at_ms; /* time at which the bucket was last refilled */
	/* Number of bytes received minus the bytes of frames that nghttp2 reported. The difference
	 * belongs to the unfinished frame and to frames that nghttp2 ignores, such as PRIORITY and
	 * unknown types. */
	int64_t unknown_bytes;
};

void wr_serve_grpc_guard_init(struct wr_serve_grpc_guard *guard, uint64_t now_ms);

static inline void wr_serve_grpc_guard_answered(struct wr_serve_grpc_guard *guard)
{
	if (guard->points <= WR_GUARD_POINTS - WR_GUARD_ANSWERED)
		guard->points += WR_GUARD_ANSWERED;
}

static inline void wr_serve_grpc_guard_charge(struct wr_serve_grpc_guard *guard,
					      enum wr_guard_cost cost)
{
	/* `points` cannot overflow: it is checked after each input, and the frames of one input
	 * cost far less than INT32_MAX. */
	guard->points -= (int32_t)cost;
}

/* Called when nghttp2 has reported a frame. Subtracts the size of the frame from unknown_bytes.
 * `bytes` includes the frame header. */
static inline void wr_serve_grpc_guard_known(struct wr_serve_grpc_guard *guard, size_t bytes)
{
	guard->unknown_bytes -= (int64_t)bytes;
}

/* Called once for each input of `bytes` bytes. Returns whether the connection is allowed to stay
 * open. */
bool wr_serve_grpc_guard_passes(struct wr_serve_grpc_guard *guard, size_t bytes, uint64_t now_ms);

#endif
