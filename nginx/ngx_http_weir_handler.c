
#include "ngx_http_weir_module.h"


/*
 * The handler of the PREACCESS phase, the contexts of requests, and parking. A
 * parked request waits for a reply or for the end of its delay, and does not
 * block the worker.
 */


#define NGX_HTTP_WEIR_FREE_CTXS_MAX  256


static ngx_http_weir_ctx_t  *ngx_http_weir_free_ctxs;
static ngx_uint_t            ngx_http_weir_nfree_ctxs;
static ngx_queue_t           ngx_http_weir_used_ctxs =
    { &ngx_http_weir_used_ctxs, &ngx_http_weir_used_ctxs };


static ngx_http_weir_ctx_t *
ngx_http_weir_alloc_ctx(ngx_log_t *log)
{
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_free_ctxs;

    if (ctx) {
        ngx_http_weir_free_ctxs = ctx->next_free;
        ngx_http_weir_nfree_ctxs--;

    } else {
        ctx = ngx_alloc(sizeof(ngx_http_weir_ctx_t), log);
        if (ctx == NULL) {
            return NULL;
        }
    }

    ngx_memzero(ctx, offsetof(ngx_http_weir_ctx_t, next_free));
    ngx_queue_insert_head(&ngx_http_weir_used_ctxs, &ctx->used);

    return ctx;
}


static void
ngx_http_weir_free_ctx(ngx_http_weir_ctx_t *ctx)
{
    ngx_queue_remove(&ctx->used);

    if (ngx_http_weir_nfree_ctxs == NGX_HTTP_WEIR_FREE_CTXS_MAX) {
        ngx_free(ctx);
        return;
    }

    ctx->next_free = ngx_http_weir_free_ctxs;
    ngx_http_weir_free_ctxs = ctx;
    ngx_http_weir_nfree_ctxs++;
}


/*
 * Settles the requests in progress of a worker that exits. These requests get
 * no response, or not the rest of it.
 */

void
ngx_http_weir_settle_ctxs(void)
{
    ngx_queue_t            *q;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_block_t  *block;

    for (q = ngx_queue_head(&ngx_http_weir_used_ctxs);
         q != ngx_queue_sentinel(&ngx_http_weir_used_ctxs);
         q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, used);
        block = ctx->settling;

        if (block) {
            ctx->settling = NULL;
            ngx_http_weir_settle_unanswered(block);
        }
    }
}


/*
 * Frees all ctxs. A worker that exits does not destroy the pools of requests
 * in progress, so the cleanups of these pools do not free the ctxs.
 */

void
ngx_http_weir_destroy_ctxs(void)
{
    ngx_queue_t          *q;
    ngx_http_weir_ctx_t  *ctx;

    q = ngx_queue_head(&ngx_http_weir_used_ctxs);

    while (q != ngx_queue_sentinel(&ngx_http_weir_used_ctxs)) {
        ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, used);
        q = ngx_queue_next(q);
        ngx_free(ctx);
    }

    ngx_queue_init(&ngx_http_weir_used_ctxs);

    while ((ctx = ngx_http_weir_free_ctxs) != NULL) {
        ngx_http_weir_free_ctxs = ctx->next_free;
        ngx_http_weir_nfree_ctxs--;
        ngx_free(ctx);
    }
}


static void
ngx_http_weir_cleanup(void *data)
{
    ngx_http_weir_ctx_t  *ctx = data;

    if (ctx->deferral && ctx->state != NGX_HTTP_WEIR_ANSWERED) {
        ngx_http_weir_defer_cancel(ctx);
    }

    switch (ctx->state) {

    case NGX_HTTP_WEIR_HELD:
        ngx_http_weir_central_release(ctx);
        break;

    case NGX_HTTP_WEIR_ASKING:
        ngx_http_weir_central_cancel(ctx);
        break;

    case NGX_HTTP_WEIR_ANSWERED:
        (void) weir_ask_cancel(ctx->block->ask, wr_clock_wall_ns());
        ngx_http_weir_ask_done(ctx->block);

        if (ctx->deferral) {
            ngx_http_weir_defer_cancel(ctx);
        }

        break;

    case NGX_HTTP_WEIR_WAITING:
        ngx_http_weir_queue_cancel(ctx);
        break;

    default:
        break;
    }

    if (ctx->settling) {
        ngx_http_weir_settle_unanswered(ctx->settling);
    }

    ngx_http_weir_free_ctx(ctx);
}


/*
 * Returns the ctx of a request. Internal redirects clear the module contexts
 * of a request, but not the cleanups of its pool, so the ctx is found again
 * through a cleanup. Subrequests use the ctx of the main request.
 */

ngx_http_weir_ctx_t *
ngx_http_weir_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_weir_ctx_t  *ctx;

    r = r->main;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weir_module);

    if (ctx == NULL && (r->internal || r->filter_finalize)) {

        for (cln = r->pool->cleanup; cln; cln = cln->next) {
            if (cln->handler == ngx_http_weir_cleanup) {
                ctx = cln->data;
                ngx_http_set_ctx(r, ctx, ngx_http_weir_module);
                break;
            }
        }
    }

    return ctx;
}


static ngx_http_weir_ctx_t *
ngx_http_weir_create_ctx(ngx_http_request_t *r, ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_weir_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    ctx = ngx_http_weir_alloc_ctx(r->connection->log);
    if (ctx == NULL) {
        return NULL;
    }

    ctx->request = r;
    ctx->domain = wlcf->domain;

    cln->handler = ngx_http_weir_cleanup;
    cln->data = ctx;
    ngx_http_set_ctx(r, ctx, ngx_http_weir_module);

    return ctx;
}


static ngx_uint_t
ngx_http_weir_is_parked(ngx_http_weir_ctx_t *ctx)
{
    return ctx->state == NGX_HTTP_WEIR_HELD
           || ctx->state == NGX_HTTP_WEIR_ASKING
           || ctx->state == NGX_HTTP_WEIR_DEFERRING
           || ctx->state == NGX_HTTP_WEIR_WAITING;
}


/* continues with the phases if the request is no longer parked */

static void
ngx_http_weir_unpark_handler(ngx_http_request_t *r)
{
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ngx_http_weir_is_parked(ctx)) {
        if (ngx_handle_write_event(r->connection->write, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        }

        return;
    }

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


/*
 * Parks a request. While the request is parked, nothing is read from the
 * client, but a closed connection is detected. To continue a parked request,
 * the caller changes the state and posts the write event of the connection.
 */

ngx_int_t
ngx_http_weir_park(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    rev = r->connection->read;

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_weir_unpark_handler;

    /*
     * If the client has already closed the connection, no further event comes,
     * so the read event is posted here.
     */

    if (rev->ready || rev->pending_eof) {
        ngx_post_event(rev, &ngx_posted_events);
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_weir_handler(ngx_http_request_t *r)
{
    ngx_http_weir_ctx_t       *ctx;
    ngx_http_weir_block_t     *block;
    ngx_http_weir_loc_conf_t  *wlcf;

    /* a subrequest is part of its main request and is not counted */

    if (r != r->main) {
        return NGX_DECLINED;
    }

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (wlcf->domain.len == 0) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL) {
        ctx = ngx_http_weir_create_ctx(r, wlcf);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    switch (ctx->state) {

    case NGX_HTTP_WEIR_NEW:
        if (ngx_http_weir_central_hold(r, ctx)) {
            return NGX_AGAIN;
        }

        ctx->auth = NULL;

        if (wlcf->auth_uri.len) {
            return ngx_http_weir_auth_begin(r, ctx);
        }

        return ngx_http_weir_limit(r, ctx);

    case NGX_HTTP_WEIR_AUTHENTICATING:
        return ngx_http_weir_auth_end(r, ctx);

    case NGX_HTTP_WEIR_HELD:
    case NGX_HTTP_WEIR_ASKING:
    case NGX_HTTP_WEIR_READING:
    case NGX_HTTP_WEIR_DEFERRING:
    case NGX_HTTP_WEIR_WAITING:
        return NGX_AGAIN;

    case NGX_HTTP_WEIR_ANSWERED:
        ctx->state = NGX_HTTP_WEIR_DONE;
        block = ctx->block;
        ctx->block = NULL;
        return ctx->next(r, ctx, block, ctx->verdict);

    case NGX_HTTP_WEIR_RELEASED:
        ctx->state = NGX_HTTP_WEIR_DONE;
        return ngx_http_weir_auth_pass(r, ctx);

    default: /* NGX_HTTP_WEIR_DONE: a decided request was redirected */
        return ngx_http_weir_auth_again(r, ctx);
    }
}


/*
 * Carries out a verdict. The verdict WEIR_DEFER means here that the request
 * has been queued.
 */

ngx_int_t
ngx_http_weir_conclude(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, int verdict)
{
    ngx_int_t  rc;

    if (ngx_http_weir_save_decision(r, ctx, block->ask, verdict) != NGX_OK) {
        ngx_http_weir_settle_later(ctx, block);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (ctx->result == NGX_HTTP_WEIR_DELAYED) {
        return ngx_http_weir_queue_wait(r, ctx, block);
    }

    switch (ctx->result) {

    case NGX_HTTP_WEIR_REFUSED:
        rc = ngx_http_weir_refuse(r, ctx, block->ask);
        break;

    case NGX_HTTP_WEIR_DEFERRED:
        rc = ngx_http_weir_send_accepted(r, ctx->deferral);
        break;

    default:
        ngx_http_weir_settle_later(ctx, block);
        return ngx_http_weir_auth_pass(r, ctx);
    }

    ngx_http_weir_ask_done(block);

    return rc;
}


static ngx_int_t
ngx_http_weir_apply_verdict(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, int verdict)
{
    if (block == NULL) {
        return ngx_http_weir_auth_pass(r, ctx);
    }

    if (verdict == WEIR_DEFER) {
        return ngx_http_weir_defer(r, ctx, block);
    }

    return ngx_http_weir_conclude(r, ctx, block, verdict);
}


/*
 * Called if a request has no ask. If the descriptors of the request could not
 * be made (ctx->unfit), refuses the request. If weir itself has failed, lets
 * the request pass.
 */

ngx_int_t
ngx_http_weir_refuse_unfit(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (!ctx->unfit || wlcf->dry_run) {
        return ngx_http_weir_auth_pass(r, ctx);
    }

    ctx->result = NGX_HTTP_WEIR_REFUSED;
    ctx->retry_after_ns = WEIR_NEVER;
    ctx->refused = NGX_HTTP_SERVICE_UNAVAILABLE;

    return NGX_HTTP_SERVICE_UNAVAILABLE;
}


/* decides and counts a request */

ngx_int_t
ngx_http_weir_limit(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_block_t  *block;

    ctx->state = NGX_HTTP_WEIR_DONE;
    ctx->decided = 1;

    if (ngx_http_weir_identify(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    block = ngx_http_weir_ask(r, ctx, 1);
    if (block == NULL) {
        return ngx_http_weir_refuse_unfit(r, ctx);
    }

    return ngx_http_weir_decide(r, ctx, block, ngx_http_weir_apply_verdict);
}
