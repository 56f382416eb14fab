
#include "ngx_http_weir_defer.h"


/*
 * Requests that limits put off: the body is read into memory of its own, the
 * request goes to the queue of "weir serve", and when it is safe there the
 * client is told 202. Whatever is in the way of that is a refusal, with a word
 * that says why.
 *
 *   READING    the body is read; a client that leaves now has sent nothing
 *   DEFERRING  it was sent; a client that leaves now may find it delivered
 *   ANSWERED   it is known what became of it
 */


/* bodies of all requests that are being kept */

static size_t  ngx_http_weir_bodies;


static void ngx_http_weir_defer_body(ngx_http_request_t *r);
static void ngx_http_weir_defer_sent(void *data, ngx_http_weir_reply_t *reply);


/*
 * Whether there is anybody to keep it, and whether it is of a kind that is
 * worth it: one that changes something.
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

    if (d->body) {
        ngx_free(d->body);
        d->body = NULL;
    }
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


/* a length that is not told may be as large as it may */

static const char *
ngx_http_weir_deferral_reserve(ngx_http_request_t *r,
    ngx_http_weir_deferral_t *d)
{
    off_t                       len;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    len = r->headers_in.content_length_n;

    if (len > (off_t) d->max) {
        return "too_large";
    }

    if (len < 0) {
        len = r->headers_in.chunked ? (off_t) d->max : 0;
    }

    if ((size_t) len > wmcf->queue.bodies - ngx_http_weir_bodies) {
        return "busy";
    }

    d->reserved = len;
    ngx_http_weir_bodies += d->reserved;

    return NULL;
}


/*
 * Somebody whom nobody knows would pass for somebody when the request is
 * delivered. A location that does not say whether it wants authentication may
 * redirect to one that does, which the request will not come to any more.
 */

static ngx_uint_t
ngx_http_weir_defer_is_known(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
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


/* NULL: it can be begun with; or why it cannot be kept */

static const char *
ngx_http_weir_defer_begin(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    const char                *why;
    struct weir_deferral       deferral;
    ngx_http_weir_deferral_t  *d;

    if (!ngx_http_weir_defer_is_known(r, ctx)) {
        return "not_authenticated";
    }

    if (!ngx_http_weir_body_is_there(r)) {
        return "no_body";
    }

    deferral.size = sizeof(deferral);

    if (weir_ask_deferral(block->ask, &deferral) != 0) {
        return "too_large";
    }

    if (deferral.in_time == 0) {
        return "too_late";
    }

    if (!ngx_http_weir_backlog_is_up()) {
        return "away";
    }

    d = ngx_calloc(sizeof(ngx_http_weir_deferral_t), r->connection->log);
    if (d == NULL) {
        return "busy";
    }

    d->max = deferral.max_body;

    why = ngx_http_weir_deferral_reserve(r, d);

    if (why) {
        ngx_free(d);
        return why;
    }

    d->block = block;
    d->ctx = ctx;
    ctx->deferral = d;

    return NULL;
}


/* in place of an answer to a request that its limits put off */

ngx_int_t
ngx_http_weir_defer(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    ngx_int_t   rc;

    ctx->why_not = ngx_http_weir_defer_begin(r, ctx, block);

    if (ctx->why_not) {
        (void) weir_ask_report_deferral(block->ask, ctx->why_not);
        return ngx_http_weir_conclude(r, ctx, block, WEIR_REFUSE);
    }

    ctx->state = NGX_HTTP_WEIR_READING;

    r->request_body_no_buffering = 1;

    rc = ngx_http_read_client_request_body(r, ngx_http_weir_defer_body);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        ngx_http_weir_defer_leave(ctx);
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


/* whoever answers in place of a refusal, an error page, finds no body */

static void
ngx_http_weir_defer_empty(ngx_http_request_t *r)
{
    if (r->request_body) {
        r->request_body->bufs = NULL;
    }

    r->headers_in.content_length_n = 0;
    r->headers_in.chunked = 0;
}


/* it is known what becomes of it: the phase handler goes on with it */

static void
ngx_http_weir_defer_settle(ngx_http_weir_deferral_t *d)
{
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_block_t  *block;

    ctx = d->ctx;
    block = d->block;

    d->block = NULL;
    ngx_http_weir_deferral_release(d);

    ngx_http_weir_defer_empty(ctx->request);

    ctx->why_not = d->why_not;
    ctx->verdict = weir_ask_report_deferral(block->ask, d->why_not);
    ctx->block = block;
    ctx->next = ngx_http_weir_conclude;
    ctx->state = NGX_HTTP_WEIR_ANSWERED;
}


/* the body could not be read, or there was too much of it */

static void
ngx_http_weir_defer_give_up(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const char *why)
{
    ctx->deferral->why_not = why;
    ngx_http_weir_defer_settle(ctx->deferral);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
}


static void
ngx_http_weir_defer_hand_over(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    const char                *why;
    ngx_http_weir_deferral_t  *d;

    d = ctx->deferral;

    /* a body of unknown length is not as large as it may be */

    ngx_http_weir_bodies -= d->reserved - d->len;
    d->reserved = d->len;

    why = ngx_http_weir_words_send(r, ctx, d, ngx_http_weir_defer_sent);

    if (why) {
        ngx_http_weir_defer_give_up(r, ctx, why);
        return;
    }

    /* what was sent is the link's */

    ngx_free(d->body);
    d->body = NULL;

    ctx->state = NGX_HTTP_WEIR_DEFERRING;

    if (ngx_http_weir_park(r) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


/* more of the body may have come, or all of it */

static void
ngx_http_weir_defer_body(ngx_http_request_t *r)
{
    ngx_int_t             rc;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    for ( ;; ) {
        rc = ngx_http_weir_body_collect(r, ctx->deferral);

        if (rc != NGX_OK) {
            ngx_http_weir_defer_give_up(r, ctx, rc == NGX_DECLINED
                                                    ? "too_large" : "busy");
            return;
        }

        if (!r->reading_body) {
            ngx_http_weir_defer_hand_over(r, ctx);
            return;
        }

        rc = ngx_http_read_unbuffered_request_body(r);

        if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
            ngx_http_weir_defer_leave(ctx);
            ngx_http_finalize_request(r, rc);
            return;
        }

        if (rc == NGX_AGAIN && r->request_body->bufs == NULL) {
            r->read_event_handler = ngx_http_weir_defer_body;
            r->write_event_handler = ngx_http_request_empty_handler;
            return;
        }
    }
}


/* the queue has answered, or it will not; the client may have left */

static void
ngx_http_weir_defer_sent(void *data, ngx_http_weir_reply_t *reply)
{
    ngx_http_weir_deferral_t  *d = data;

    ngx_http_request_t        *r;

    d->errand = NULL;

    ngx_http_weir_words_read(d, reply);

    if (d->ctx == NULL) {
        (void) weir_ask_report_deferral(d->block->ask, d->why_not);
        ngx_http_weir_deferral_free(d);
        return;
    }

    r = d->ctx->request;

    ngx_http_weir_defer_settle(d);

    ngx_post_event(r->connection->write, &ngx_posted_events);
}


/* the request ends, for its client has left or has been answered */

void
ngx_http_weir_defer_leave(ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_deferral_t  *d;

    d = ctx->deferral;
    ctx->deferral = NULL;

    if (ctx->state == NGX_HTTP_WEIR_READING
        || ctx->state == NGX_HTTP_WEIR_DEFERRING)
    {
        ctx->state = NGX_HTTP_WEIR_DONE;
    }

    if (d->errand) {
        d->ctx = NULL; /* the answer is waited for, to be counted */
        return;
    }

    ngx_http_weir_deferral_free(d);
}
