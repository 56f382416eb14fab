/* Gives back the units of reservations that expire without a commit. Called by pending.c and
 * loop.c. */
#include "serve/decide/expiry.h"

#include <stdlib.h>
#include <string.h>

#include "serve/decide/settling.h"
#include "serve/loop.h"

#define SWEEP_MAX 256 /* maximum number of reservations that one sweep gives back */

struct expiry {
	struct wr_heap_node node;
	uint64_t expires_ns;
	size_t len;
	char token[];
};

static struct expiry *expiry_of(const struct wr_heap_node *node)
{
	return wr_container_of(node, struct expiry, node);
}

static bool expires_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return expiry_of(a)->expires_ns < expiry_of(b)->expires_ns;
}

void wr_expiries_init(struct wr_expiries *expiries)
{
	*expiries = (struct wr_expiries){0};
	wr_heap_init(&expiries->heap, expires_before, WR_EXPIRIES_MAX);
}

void wr_expiries_free(struct wr_expiries *expiries)
{
	struct wr_heap_node *node;

	while ((node = wr_heap_pop(&expiries->heap)))
		free(expiry_of(node));
	wr_heap_free(&expiries->heap);
}

void wr_expiries_add(struct wr_expiries *expiries, struct weir_str token, uint64_t expires_ns)
{
	size_t size = sizeof(struct expiry) + token.len;
	struct expiry *expiry = NULL;

	if (size <= WR_EXPIRY_BYTES_MAX - expiries->bytes)
		expiry = malloc(size);
	if (!expiry)
		return;
	expiry->node = (struct wr_heap_node){0};
	expiry->expires_ns = expires_ns;
	expiry->len = token.len;
	memcpy(expiry->token, token.ptr, token.len);
	if (wr_heap_add(&expiries->heap, &expiry->node))
		expiries->bytes += size;
	else
		free(expiry);
}

/* Called when the units were given back, perhaps after an answer of Redis. */
static void on_refunded(struct wr_settling *settling)
{
	free(settling);
}

static void give_back(struct wr_loop *loop, const struct expiry *expiry)
{
	struct wr_settling *settling = calloc(1, sizeof *settling);

	if (settling)
		wr_settling_begin(settling, loop, WR_SETTLE_EXPIRY, 0,
				  (struct weir_str){expiry->token, expiry->len}, on_refunded);
}

void wr_expiries_sweep(struct wr_loop *loop)
{
	struct wr_expiries *expiries = &loop->expiries;
	struct wr_heap_node *node;
	uint64_t now_ns;

	if (!wr_heap_first(&expiries->heap))
		return;
	now_ns = wr_loop_now_ns(loop);
	for (int i = 0; i < SWEEP_MAX && (node = wr_heap_first(&expiries->heap)); i++) {
		struct expiry *expiry = expiry_of(node);

		if (expiry->expires_ns > now_ns)
			return;
		wr_heap_pop(&expiries->heap);
		expiries->bytes -= sizeof *expiry + expiry->len;
		give_back(loop, expiry);
		free(expiry);
	}
}
