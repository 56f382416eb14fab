
#include "ngx_http_weir_module.h"


/*
 * Parks requests that a leaky bucket delays. The parked requests of one bucket
 * are the waiters of a struct ngx_http_weir_group_s, and continue in order. The
 * table, which all workers share, assigns to each request the time at which it
 * continues.
 */


/* ms; a timer runs at most this long, and then the clock is read again */
#define NGX_HTTP_WEIR_TIMER_MAX  60000
/*
 * ms. By the monotonic clock, a waiter continues at most this long after its
 * delay is over. So it does not wait longer if the wall clock is set back.
 */
#define NGX_HTTP_WEIR_GRACE      1000


struct ngx_http_weir_group_s {
    ngx_rbtree_node_t  node;             /* node.key is the id of the bucket */
    ngx_queue_t        waiters;          /* ctxs, sorted by due_ns */
    ngx_event_t        event;            /* timer for the first waiter */
};


static void ngx_http_weir_queue_timer_handler(ngx_event_t *ev);


static ngx_rbtree_t      ngx_http_weir_groups;
static ngx_rbtree_node_t ngx_http_weir_groups_sentinel;


void
ngx_http_weir_queue_init(void)
{
    ngx_rbtree_init(&ngx_http_weir_groups, &ngx_http_weir_groups_sentinel,
                    ngx_rbtree_insert_value);
}


static ngx_http_weir_group_t *
ngx_http_weir_queue_get_group(uint64_t bucket)
{
    ngx_rbtree_node_t      *node;
    ngx_http_weir_group_t  *group;

    node = ngx_http_weir_groups.root;

    while (node != &ngx_http_weir_groups_sentinel) {
        if (node->key == bucket) {
            return ngx_rbtree_data(node, ngx_http_weir_group_t, node);
        }

        node = (bucket < node->key) ? node->left : node->right;
    }

    group = ngx_calloc(sizeof(ngx_http_weir_group_t), ngx_cycle->log);
    if (group == NULL) {
        return NULL;
    }

    ngx_queue_init(&group->waiters);
    group->event.handler = ngx_http_weir_queue_timer_handler;
    group->event.data = group;
    group->event.log = ngx_cycle->log;
    group->node.key = bucket;
    ngx_rbtree_insert(&ngx_http_weir_groups, &group->node);

    return group;
}


static void
ngx_http_weir_queue_insert(ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_group_t *group)
{
    ngx_queue_t          *q;
    ngx_http_weir_ctx_t  *other;

    for (q = ngx_queue_last(&group->waiters);
         q != ngx_queue_sentinel(&group->waiters); q = ngx_queue_prev(q))
    {
        other = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

        if (other->due_ns <= ctx->due_ns) {
            break;
        }
    }

    ngx_queue_insert_after(q, &ctx->queue);
    ctx->group = group;
}


/* returns the ms until a waiter's timer has to fire; 0: the waiter is due */

static ngx_msec_t
ngx_http_weir_queue_left(ngx_http_weir_ctx_t *ctx, uint64_t now_ns)
{
    uint64_t        ms;
    ngx_msec_int_t  rest;

    rest = (ngx_msec_int_t) (ctx->latest - ngx_current_msec);

    if (ctx->due_ns <= now_ns || rest <= 0) {
        return 0;
    }

    ms = (ctx->due_ns - now_ns + 999999) / 1000000;
    ms = ngx_min(ms, (uint64_t) rest);

    return (ngx_msec_t) ngx_min(ms, NGX_HTTP_WEIR_TIMER_MAX);
}


/* sets the timer for the first waiter; frees `group` if it has no waiters */

static void
ngx_http_weir_queue_arm(ngx_http_weir_group_t *group, uint64_t now_ns)
{
    ngx_msec_t            left;
    ngx_http_weir_ctx_t  *first;

    if (group->event.timer_set) {
        ngx_del_timer(&group->event);
    }

    if (ngx_queue_empty(&group->waiters)) {
        ngx_rbtree_delete(&ngx_http_weir_groups, &group->node);
        ngx_free(group);
        return;
    }

    first = ngx_queue_data(ngx_queue_head(&group->waiters),
                           ngx_http_weir_ctx_t, queue);
    left = ngx_http_weir_queue_left(first, now_ns);

    ngx_add_timer(&group->event, left ? left : 1);
}


static void
ngx_http_weir_queue_remove(ngx_http_weir_ctx_t *ctx)
{
    ngx_queue_remove(&ctx->queue);
    ngx_http_weir_settle_later(ctx, ctx->block);

    ctx->block = NULL;
    ctx->group = NULL;
    ctx->state = NGX_HTTP_WEIR_RELEASED;
}


ngx_int_t
ngx_http_weir_queue_wait(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    ngx_http_weir_group_t       *group;
    struct weir_queue_position   position;

    position.size = sizeof(position);
    group = NULL;

    if (weir_ask_queue_position(block->ask, &position) == 0) {
        group = ngx_http_weir_queue_get_group(position.queue);
    }

    if (group == NULL || ngx_http_weir_park(r) != NGX_OK) {
        (void) weir_ask_cancel(block->ask, ctx->decided_ns);
        ngx_http_weir_ask_done(block);

        if (group) {
            ngx_http_weir_queue_arm(group, ctx->decided_ns);
        }

        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_time_update(); /* ngx_current_msec can be outdated */

    ctx->state = NGX_HTTP_WEIR_WAITING;
    ctx->block = block;
    ctx->due_ns = position.due_ns;
    ctx->latest = ngx_current_msec + (ngx_msec_t) (ctx->delay_ns / 1000000)
                  + NGX_HTTP_WEIR_GRACE;

    ngx_http_weir_queue_insert(ctx, group);
    ngx_http_weir_queue_arm(group, ctx->decided_ns);

    return NGX_AGAIN;
}


/*
 * Releases the waiters that are due. A timer can fire a little early, so
 * due_ns is checked.
 */

static void
ngx_http_weir_queue_timer_handler(ngx_event_t *ev)
{
    uint64_t                now_ns;
    ngx_queue_t            *q, *next;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_group_t  *group;

    group = ev->data;
    now_ns = wr_clock_wall_ns();

    for (q = ngx_queue_head(&group->waiters);
         q != ngx_queue_sentinel(&group->waiters); q = next)
    {
        next = ngx_queue_next(q);
        ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

        if (ngx_http_weir_queue_left(ctx, now_ns)) {
            break;
        }

        ngx_http_weir_queue_remove(ctx);
        ngx_post_event(ctx->request->connection->write, &ngx_posted_events);
    }

    ngx_http_weir_queue_arm(group, now_ns);
}


/*
 * Called after the position of a request has changed. If several leaky buckets
 * delay the request, it is a waiter of the bucket with the longest delay. This
 * can be a different bucket now. Then the request joins the waiters of that
 * bucket.
 */

static void
ngx_http_weir_queue_move(ngx_http_weir_ctx_t *ctx, uint64_t now_ns)
{
    ngx_http_weir_group_t       *group;
    struct weir_queue_position   position;

    position.size = sizeof(position);

    if (weir_ask_queue_position(ctx->block->ask, &position) != 0) {
        return;
    }

    ctx->due_ns = position.due_ns;
    ctx->delay_ns = position.due_ns > ctx->decided_ns
                        ? position.due_ns - ctx->decided_ns : 0;

    if (position.queue == ctx->group->node.key) {
        return;
    }

    group = ngx_http_weir_queue_get_group(position.queue);
    if (group == NULL) {
        /* no memory: the request stays a waiter of the old bucket */
        return;
    }

    ngx_queue_remove(&ctx->queue);
    ngx_http_weir_queue_insert(ctx, group);
    ngx_http_weir_queue_arm(group, now_ns);
}


/*
 * Called if the client has closed the connection. The request swaps positions
 * with each waiter behind it, so that these waiters move forward. Then the
 * request gives back the position that it has reached.
 */

void
ngx_http_weir_queue_cancel(ngx_http_weir_ctx_t *ctx)
{
    uint64_t                now_ns;
    ngx_queue_t            *q, *next;
    ngx_http_weir_ctx_t    *waiter;
    ngx_http_weir_group_t  *group;

    group = ctx->group;
    now_ns = wr_clock_wall_ns();

    for (q = ngx_queue_next(&ctx->queue);
         q != ngx_queue_sentinel(&group->waiters); q = next)
    {
        next = ngx_queue_next(q);
        waiter = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

        if (weir_ask_swap_positions(ctx->block->ask, waiter->block->ask) != 0) {
            break;
        }

        ngx_http_weir_queue_move(waiter, now_ns);
    }

    (void) weir_ask_cancel(ctx->block->ask, now_ns);

    ngx_http_weir_queue_remove(ctx);
    ngx_http_weir_queue_arm(group, now_ns);
}


/* gives back the positions of all waiters, the last waiter of a bucket first */

void
ngx_http_weir_queue_exit(void)
{
    uint64_t                now_ns;
    ngx_queue_t            *q, *prev;
    ngx_rbtree_node_t      *node;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_group_t  *group;

    now_ns = wr_clock_wall_ns();

    for (;;) {
        node = ngx_http_weir_groups.root;

        if (node == NULL || node == &ngx_http_weir_groups_sentinel) {
            return;
        }

        group = ngx_rbtree_data(node, ngx_http_weir_group_t, node);

        for (q = ngx_queue_last(&group->waiters);
             q != ngx_queue_sentinel(&group->waiters); q = prev)
        {
            prev = ngx_queue_prev(q);
            ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

            (void) weir_ask_cancel(ctx->block->ask, now_ns);
            ngx_http_weir_queue_remove(ctx);
        }

        ngx_http_weir_queue_arm(group, now_ns);
    }
}
