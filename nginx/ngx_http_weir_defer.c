
#include "ngx_http_weir_defer.h"


/*
 * Deferred requests. If the limits of a request say "on_limit: defer", the
 * phase handler calls ngx_http_weir_defer() instead of refusing the request.
 * The body is copied to memory, the request is sent to the queue of "weir
 * serve", and the client gets 202 when the queue has stored the request. If
 * any of this fails, the request is refused, and X-Weir-Not-Deferred contains
 * the reason as one word. The states are:
 *
 *   READING    the body is being read; if the client closes the connection,
 *              nothing is queued
 *   DEFERRING  the request was sent to the queue; even if the client closes
 *              the connection, the request can be delivered
 *   ANSWERED   the queue has replied, or will not reply any more
 */


/*
 * ms. If a reply has not come this long after the timeout of its command, the
 * link counts as lost.
 */
#define NGX_HTTP_WEIR_QUEUE_SILENCE  10000
#define NGX_HTTP_WEIR_QUEUE_PING     30000   /* ms between two PINGs */
#define NGX_HTTP_WEIR_QUEUE_HEADS    (4 * 1024 * 1024)


ngx_http_weir_link_t  ngx_http_weir_queue_link;

static ngx_msec_t  ngx_http_weir_queue_pinged;

/* number of bytes that this worker has reserved for bodies */
static size_t  ngx_http_weir_bodies;


static void ngx_http_weir_defer_body_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_weir_defer_reply_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply);


static void
ngx_http_weir_defer_link_up(void)
{
    ngx_http_weir_queue_pinged = ngx_current_msec;

    ngx_http_weir_link_works(&ngx_http_weir_queue_link);
}


/* sends PING, because the service would close an idle connection */

static void
ngx_http_weir_defer_link_poll(void)
{
    ngx_str_t  ping = ngx_string("PING");

    if (ngx_current_msec - ngx_http_weir_queue_pinged
        < NGX_HTTP_WEIR_QUEUE_PING)
    {
        return;
    }

    ngx_http_weir_queue_pinged = ngx_current_msec;

    if (ngx_http_weir_queue_link.npending == 0) {
        (void) ngx_http_weir_link_send(&ngx_http_weir_queue_link, &ping, 1,
                                       NULL, NULL);
    }
}


ngx_int_t
ngx_http_weir_defer_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_link_opts_t  opts;

    if (wmcf->queue.name.len == 0) {
        return NGX_OK;
    }

    opts.peer = wmcf->queue;
    opts.key = wmcf->link_key;
    opts.directive = "weir_queue";
    opts.fallback = "requests are refused instead of deferred";
    opts.silence = NGX_HTTP_WEIR_QUEUE_SILENCE;

    /*
     * The send buffer has room for the bodies and the heads of all pending
     * requests. The bodies need at most queue_bodies bytes in total. The rest
     * of the buffer is for the heads.
     */

    opts.out_max = 2 * wmcf->queue_bodies + NGX_HTTP_WEIR_QUEUE_HEADS;
    opts.up = ngx_http_weir_defer_link_up;
    opts.poll = ngx_http_weir_defer_link_poll;
    opts.lost = NULL;

    return ngx_http_weir_link_init(cycle, &ngx_http_weir_queue_link, &opts);
}


void
ngx_http_weir_defer_exit(void)
{
    ngx_http_weir_link_close(&ngx_http_weir_queue_link);
}


/*
 * Returns true if the request is allowed to be deferred: a queue is
 * configured, "weir_dry_run" is off, and the method is POST, PUT, PATCH or
 * DELETE.
 */

ngx_uint_t
ngx_http_weir_may_defer(ngx_http_request_t *r)
{
    ngx_http_weir_loc_conf_t   *wlcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);
    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    return wmcf->queue.name.len && !wlcf->dry_run
           && (r->method & (NGX_HTTP_POST|NGX_HTTP_PUT|NGX_HTTP_PATCH
                            |NGX_HTTP_DELETE));
}


static void
ngx_http_weir_deferral_release(ngx_http_weir_deferral_t *d)
{
    ngx_http_weir_bodies -= d->reserved;
    d->reserved = 0;

    wr_buf_free(&d->body);
}


static void
ngx_http_weir_deferral_free(ngx_http_weir_deferral_t *d)
{
    ngx_http_weir_deferral_release(d);

    if (d->block) {
        ngx_http_weir_ask_done(d->block);
    }

    ngx_free(d);
}


/*
 * Reserves memory for the body. The length of a chunked body is unknown, so
 * max_body is reserved for it. Returns NULL, or the reason why the request is
 * refused.
 */

static const char *
ngx_http_weir_deferral_reserve(ngx_http_request_t *r,
    ngx_http_weir_deferral_t *d, size_t max_body)
{
    off_t                       len;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    len = r->headers_in.content_length_n;

    if (len > (off_t) max_body) {
        return "too_large";
    }

    if (len < 0) {
        len = r->headers_in.chunked ? (off_t) max_body : 0;
    }

    if ((size_t) len > wmcf->queue_bodies - ngx_http_weir_bodies) {
        return "busy";
    }

    d->reserved = len;
    ngx_http_weir_bodies += d->reserved;
    wr_buf_init(&d->body, d->reserved);

    return NULL;
}


/*
 * Returns true if the request is authenticated or needs no authentication. A
 * deferred request is delivered without authentication, so it has to be
 * authenticated before it is deferred.
 *
 * A location with "weir_auth off" needs no authentication. For a location that
 * neither has nor inherits "weir_auth", the result depends on the other
 * locations of the server. If none of them has "weir_auth", returns true. If
 * one has, returns false, because a redirect might lead to that location. A
 * deferred request is not redirected, so it would bypass that authentication.
 */

static ngx_uint_t
ngx_http_weir_defer_is_authenticated(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_loc_conf_t  *wlcf;
    ngx_http_weir_srv_conf_t  *wscf;

    if (ctx->auth) {
        return ngx_http_weir_is_accepted(ctx);
    }

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    wscf = ngx_http_get_module_srv_conf(r, ngx_http_weir_module);

    return wlcf->auth_uri.data != NULL || !wscf->auth;
}


/* returns NULL, or the reason why the request cannot be deferred */

static const char *
ngx_http_weir_defer_prepare(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    const char                *why_not;
    struct weir_deferral       deferral;
    ngx_http_weir_deferral_t  *d;

    if (!ngx_http_weir_defer_is_authenticated(r, ctx)) {
        return "not_authenticated";
    }

    if (!ngx_http_weir_body_is_complete(r)) {
        return "no_body";
    }

    deferral.size = sizeof(deferral);

    if (weir_ask_deferral(block->ask, &deferral) != 0) {
        return "too_large";
    }

    if (deferral.in_time == 0) {
        return "too_late";
    }

    if (!ngx_http_weir_queue_link.up) {
        return "away";
    }

    d = ngx_calloc(sizeof(ngx_http_weir_deferral_t), r->connection->log);
    if (d == NULL) {
        return "busy";
    }

    why_not = ngx_http_weir_deferral_reserve(r, d, deferral.max_body);

    if (why_not) {
        ngx_free(d);
        return why_not;
    }

    d->block = block;
    d->ctx = ctx;
    ctx->deferral = d;

    return NULL;
}


/* continues a request that has the verdict WEIR_DEFER */

ngx_int_t
ngx_http_weir_defer(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    ngx_int_t  rc;

    ctx->why_not = ngx_http_weir_defer_prepare(r, ctx, block);

    if (ctx->why_not) {
        (void) weir_ask_report_deferral(block->ask, ctx->why_not);
        return ngx_http_weir_conclude(r, ctx, block, WEIR_REFUSE);
    }

    ctx->state = NGX_HTTP_WEIR_READING;

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r,
                                           ngx_http_weir_defer_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        ngx_http_weir_defer_cancel(ctx);
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


/*
 * Hands the result to the phase handler, which continues the request. The
 * result is a refusal if why_not is set.
 */

static void
ngx_http_weir_defer_settle(ngx_http_weir_deferral_t *d)
{
    ngx_http_request_t     *r;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_block_t  *block;

    ctx = d->ctx;
    block = d->block;
    r = ctx->request;

    d->block = NULL;
    ngx_http_weir_deferral_release(d);

    /* remove the body, so that an error page for the refusal does not get it */

    if (r->request_body) {
        r->request_body->bufs = NULL;
    }

    r->headers_in.content_length_n = 0;
    r->headers_in.chunked = 0;

    ctx->why_not = d->why_not;
    ctx->verdict = weir_ask_report_deferral(block->ask, d->why_not);
    ctx->block = block;
    ctx->next = ngx_http_weir_conclude;
    ctx->state = NGX_HTTP_WEIR_ANSWERED;
}


static void
ngx_http_weir_defer_refuse(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const char *why_not)
{
    ctx->deferral->why_not = why_not;
    ngx_http_weir_defer_settle(ctx->deferral);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


static void
ngx_http_weir_defer_enqueue(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    const char                *why_not;
    ngx_http_weir_deferral_t  *d;

    d = ctx->deferral;

    /* release the bytes that were reserved for a chunked body but not used */

    ngx_http_weir_bodies -= d->reserved - d->body.len;
    d->reserved = d->body.len;

    why_not = ngx_http_weir_defer_send(r, ctx, d,
                                       ngx_http_weir_defer_reply_handler);

    if (why_not) {
        ngx_http_weir_defer_refuse(r, ctx, why_not);
        return;
    }

    /* the body is not needed any more, because the link has copied it */

    wr_buf_free(&d->body);

    ctx->state = NGX_HTTP_WEIR_DEFERRING;

    if (ngx_http_weir_park(r) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


/* called when a part of the body has been read */

static void
ngx_http_weir_defer_body_handler(ngx_http_request_t *r)
{
    ngx_int_t             rc;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    for ( ;; ) {
        rc = ngx_http_weir_body_collect(r, ctx->deferral);

        if (rc != NGX_OK) {
            ngx_http_weir_defer_refuse(r, ctx, rc == NGX_DECLINED
                                                   ? "too_large" : "busy");
            return;
        }

        if (!r->reading_body) {
            ngx_http_weir_defer_enqueue(r, ctx);
            return;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_weir_defer_cancel(ctx);
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            r->read_event_handler = ngx_http_weir_defer_body_handler;
            r->write_event_handler = ngx_http_request_empty_handler;
            return;
        }
    }
}


static ngx_int_t
ngx_http_weir_defer_reply_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    ngx_http_request_t        *r;
    ngx_http_weir_deferral_t  *d;

    d = p->data;
    d->pending = 0;

    ngx_http_weir_defer_read_reply(d, reply);

    if (d->ctx == NULL) {
        (void) weir_ask_report_deferral(d->block->ask, d->why_not);
        ngx_http_weir_deferral_free(d);
        return NGX_OK;
    }

    r = d->ctx->request;

    ngx_http_weir_defer_settle(d);

    ngx_post_event(r->connection->write, &ngx_posted_events);

    return NGX_OK;
}


/*
 * Called when the request ends. If the command WEIR.DEFER is still pending,
 * ctx->deferral is freed later, when the queue replies. Only then is it known
 * whether the request counts as deferred.
 */

void
ngx_http_weir_defer_cancel(ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_deferral_t  *d;

    d = ctx->deferral;
    ctx->deferral = NULL;

    if (ctx->state == NGX_HTTP_WEIR_READING
        || ctx->state == NGX_HTTP_WEIR_DEFERRING)
    {
        ctx->state = NGX_HTTP_WEIR_DONE;
    }

    if (d->pending) {
        d->ctx = NULL;
        return;
    }

    ngx_http_weir_deferral_free(d);
}
