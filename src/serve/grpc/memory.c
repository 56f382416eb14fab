/* The memory of gRPC sessions.
 *
 * The allocator of nghttp2 counts the bytes of each session. If a session would exceed its limit,
 * the allocation fails, which ends the session. Ordinary calls need far less than the limit; the
 * limit stops clients that make nghttp2 hold memory. Freed small blocks are kept for the next call,
 * because each call allocates the same dozen sizes. */
#include "serve/grpc/session.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "net/log.h"

#define STEP 16u
#define KEPT_PER_SIZE 4096u /* maximum number of free blocks of one size */
/* Memory is returned to the system only if shared->bytes_max is at least this, because malloc_trim
 * takes time. */
#define GIVE_BACK_BYTES (8u << 20)

/* The header in front of each memory block. While a block is free, the pool overwrites `room`. */
struct wr_serve_grpc_piece {
	size_t room;       /* size of the block */
	size_t size_class; /* room / STEP; 0: the block is too large for reuse */
};

_Static_assert(sizeof(struct wr_serve_grpc_piece) % STEP == 0,
	       "the memory behind the head is aligned");

static struct wr_serve_grpc_piece *piece_of(void *bytes)
{
	return (struct wr_serve_grpc_piece *)bytes - 1;
}

static void *alloc_counted(size_t size, void *user)
{
	struct wr_serve_grpc_session *session = user;
	size_t size_class = (size + STEP - 1) / STEP, room = size_class * STEP;
	struct wr_serve_grpc_piece *piece;

	if (size > WR_GRPC_H2_BYTES || session->h2_bytes > WR_GRPC_H2_BYTES - room)
		return NULL;
	if (size_class >= WR_GRPC_PIECE_SIZES)
		size_class = 0;
	piece = wr_pool_take(&session->shared->pieces[size_class], sizeof *piece + room);
	if (!piece)
		return NULL;
	piece->room = room;
	piece->size_class = size_class;
	session->h2_bytes += room;
	return piece + 1;
}

static void free_counted(void *bytes, void *user)
{
	struct wr_serve_grpc_session *session = user;
	struct wr_serve_grpc_piece *piece;

	wr_assert(!bytes || session->h2_bytes >= piece_of(bytes)->room);
	if (!bytes)
		return;
	piece = piece_of(bytes);
	session->h2_bytes -= piece->room;
	wr_pool_give(&session->shared->pieces[piece->size_class], piece,
		     piece->size_class ? KEPT_PER_SIZE : 0);
}

static void *calloc_counted(size_t many, size_t size, void *user)
{
	size_t len;
	void *bytes;

	if (__builtin_mul_overflow(many, size, &len))
		return NULL;
	bytes = alloc_counted(len, user);
	return bytes ? memset(bytes, 0, len) : NULL;
}

static void *realloc_counted(void *bytes, size_t size, void *user)
{
	void *more;

	if (bytes && size <= piece_of(bytes)->room)
		return bytes;
	more = alloc_counted(size, user);
	if (more && bytes) {
		memcpy(more, bytes, piece_of(bytes)->room);
		free_counted(bytes, user);
	}
	return more;
}

void wr_serve_grpc_mem_init(struct wr_serve_grpc_session *session)
{
	session->mem = (nghttp2_mem){session, alloc_counted, free_counted, calloc_counted,
				     realloc_counted};
}

void wr_serve_grpc_free_spare(struct wr_serve_grpc_loop *shared)
{
	wr_pool_free(&shared->spare);
	for (size_t i = 0; i < WR_GRPC_PIECE_SIZES; i++)
		wr_pool_free(&shared->pieces[i]);
}

/* ---- all sessions of a loop ---- */

/* Returns the session that uses the most memory for calls that wait for their client, or NULL if no
 * call waits for its client. Calls that wait for a decision do not count, because it is not
 * their client that delays them. */
static struct wr_serve_grpc_session *find_worst(const struct wr_serve_grpc_loop *shared)
{
	struct wr_serve_grpc_session *worst = NULL;
	size_t most = 0;

	for (struct wr_list *link = wr_list_first(&shared->sessions); link;
	     link = wr_list_after(&shared->sessions, link)) {
		struct wr_serve_grpc_session *s =
			wr_container_of(link, struct wr_serve_grpc_session, link);
		size_t waiting = s->owing_count + s->lasting;
		size_t share = s->open ? s->counted / s->open * waiting : 0;

		if (share > most && !wr_stream_ending(s->stream)) {
			most = share;
			worst = s;
		}
	}
	return worst;
}

static void close_worst(struct wr_serve_grpc_loop *shared)
{
	struct wr_serve_grpc_session *worst = find_worst(shared);

	if (!worst)
		return;
	wr_log_limited(&shared->crowded, WR_LOG_WARN,
		       "grpc: unfinished calls use more than %u MiB of memory; the connection with "
		       "the most unfinished calls (%u) was closed",
		       WR_GRPC_LOOP_BYTES >> 20, worst->owing_count + worst->lasting);
	worst->leaving = worst->counted;
	shared->leaving += worst->leaving;
	wr_stream_abort(worst->stream);
}

void wr_serve_grpc_account(struct wr_serve_grpc_session *session)
{
	struct wr_serve_grpc_loop *shared = session->shared;
	size_t now = session->open * sizeof(struct wr_serve_grpc_call) + session->room.held;

	wr_assert_magic(session, WR_GRPC_SESSION_MAGIC);
	wr_assert(shared->bytes >= session->counted);
	if (session->h2_bytes > WR_GRPC_H2_IDLE_BYTES)
		now += session->h2_bytes - WR_GRPC_H2_IDLE_BYTES;
	shared->bytes += now - session->counted;
	session->counted = now;
	if (shared->bytes > shared->bytes_max)
		shared->bytes_max = shared->bytes;
	if (__builtin_expect(shared->bytes > WR_GRPC_LOOP_BYTES + shared->leaving, 0))
		close_worst(shared);
}

void wr_serve_grpc_give_back(struct wr_serve_grpc_loop *shared)
{
	if (shared->bytes_max < GIVE_BACK_BYTES || shared->bytes > shared->bytes_max / 4)
		return;
	wr_serve_grpc_free_spare(shared);
	shared->bytes_max = shared->bytes;
	malloc_trim(0);
}
