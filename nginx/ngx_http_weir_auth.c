
#include "ngx_http_weir_module.h"


/*
 * Authentication ("weir_auth"). The module sends a subrequest to the
 * authentication service, which accepts or refuses the client's request.
 * Authentication begins before the request is counted. If the request is
 * redirected to a location with another service, that service is asked too.
 */


static ngx_int_t ngx_http_weir_auth_probed(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);
static ngx_int_t ngx_http_weir_auth_counted(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);
static ngx_int_t ngx_http_weir_auth_start(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
static ngx_int_t ngx_http_weir_auth_post_handler(ngx_http_request_t *r,
    void *data, ngx_int_t rc);


/*
 * Finds the response of the authentication service that "weir_auth" names for
 * this location. Returns NULL if this service has not been asked about the
 * request.
 */

static ngx_http_weir_auth_t *
ngx_http_weir_auth_find(ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_http_weir_auth_t  *auth;

    for (auth = ctx->auths; auth; auth = auth->next) {
        if (ngx_http_weir_equal(&auth->uri, &wlcf->auth_uri)
            && ngx_http_weir_equal(&auth->args, &wlcf->auth_args))
        {
            return auth;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_http_weir_is_accepted(ngx_http_weir_ctx_t *ctx)
{
    return ctx->auth && ctx->auth->status == NGX_HTTP_OK;
}


/*
 * Begins authentication. Limits that do not depend on the identity are checked
 * before the service is asked, so that a flood does not reach the service:
 *
 * 1. The first check counts nothing (hits 0). If no limit refuses the request,
 *    the service is asked, and there is no second check.
 * 2. Otherwise the second check counts the request as a request without an
 *    identity, so that a refusal is counted. If a limit refuses the
 *    request again, the client gets this refusal. If not, the units that the
 *    second check took are given back, and the service is asked.
 */

ngx_int_t
ngx_http_weir_auth_begin(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_block_t     *block;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    /*
     * If the service fails, ngx_http_weir_auth_failed() sets the state to NEW.
     * Then this function is called again in the location of the error page. If
     * that location has the same service, the service is not asked again.
     */

    ctx->auth = ngx_http_weir_auth_find(ctx, wlcf);

    if (ctx->auth) {
        r->error_page = 1;
        return ngx_http_weir_auth_pass(r, ctx);
    }

    /* set the state first: ngx_http_weir_decide() can free the request */

    ctx->state = NGX_HTTP_WEIR_DONE;

    if (wlcf->dry_run) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    ctx->probing = 1;
    block = ngx_http_weir_ask(r, ctx, 0);
    ctx->probing = 0;

    if (block == NULL) {
        return ctx->unfit ? ngx_http_weir_refuse_unfit(r, ctx)
                          : ngx_http_weir_auth_start(r, ctx);
    }

    return ngx_http_weir_decide(r, ctx, block, ngx_http_weir_auth_probed);
}


/*
 * Returns true if a limit has refused the request. WEIR_DEFER is not a
 * refusal: the request is authenticated first, and deferred after that.
 */

static ngx_uint_t
ngx_http_weir_is_over_limit(ngx_http_weir_block_t *block, int verdict)
{
    struct weir_status  status;

    status.size = sizeof(status);

    return verdict == WEIR_REFUSE
           && weir_ask_tightest(block->ask, &status) == 0;
}


static ngx_int_t
ngx_http_weir_auth_probed(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, int verdict)
{
    ngx_uint_t  over;

    if (block == NULL) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    over = ngx_http_weir_is_over_limit(block, verdict);
    ngx_http_weir_ask_done(block);

    if (!over) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    block = ngx_http_weir_ask(r, ctx, 1);
    if (block == NULL) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    return ngx_http_weir_decide(r, ctx, block, ngx_http_weir_auth_counted);
}


static ngx_int_t
ngx_http_weir_auth_counted(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, int verdict)
{
    ngx_int_t  rc;

    if (block == NULL) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    if (!ngx_http_weir_is_over_limit(block, verdict)) {
        (void) weir_ask_cancel(block->ask, ctx->decided_ns);
        ngx_http_weir_ask_done(block);

        return ngx_http_weir_auth_start(r, ctx);
    }

    rc = ngx_http_weir_save_decision(r, ctx, block->ask, verdict) == NGX_OK
             ? ngx_http_weir_refuse(r, ctx, block->ask)
             : NGX_HTTP_INTERNAL_SERVER_ERROR;

    ngx_http_weir_ask_done(block);

    return rc;
}


static ngx_http_request_t *
ngx_http_weir_auth_subrequest(ngx_http_request_t *r,
    ngx_http_weir_auth_t *auth)
{
    ngx_http_request_t          *sr;
    ngx_http_post_subrequest_t  *ps;

    ps = ngx_palloc(r->pool, sizeof(ngx_http_post_subrequest_t));
    if (ps == NULL) {
        return NULL;
    }

    ps->handler = ngx_http_weir_auth_post_handler;
    ps->data = auth;

    if (ngx_http_subrequest(r, &auth->uri, &auth->args, &sr, ps,
                            NGX_HTTP_SUBREQUEST_WAITED)
        != NGX_OK)
    {
        return NULL;
    }

    /* the service gets no request body */

    sr->request_body = ngx_pcalloc(r->pool, sizeof(ngx_http_request_body_t));
    if (sr->request_body == NULL) {
        return NULL;
    }

    sr->headers_in.content_length = NULL;
    sr->headers_in.content_length_n = -1;
    sr->headers_in.chunked = 0;
    sr->header_only = 1;

    /*
     * Error pages are off for the subrequest. Otherwise, with "error_page 502
     * =200 ...", every request would be accepted while the service is down.
     */

    sr->error_page = 1;

    return sr;
}


/*
 * Called if the client has closed the connection during the subrequest. The
 * request is counted as if the service had refused it. Otherwise a client that
 * closes its connections early could send any number of requests to the
 * service.
 */

static void
ngx_http_weir_auth_cleanup(void *data)
{
    ngx_http_weir_ctx_t  *ctx = data;

    int                     verdict;
    ngx_http_weir_block_t  *block;

    if (ctx->state != NGX_HTTP_WEIR_AUTHENTICATING || ctx->decided) {
        return;
    }

    ctx->state = NGX_HTTP_WEIR_DONE;
    ctx->decided = 1;
    ctx->auth = NULL;

    block = ngx_http_weir_ask(ctx->request, ctx, 1);
    if (block == NULL) {
        return;
    }

    ctx->decided_ns = wr_clock_wall_ns();
    verdict = weir_ask_decide(block->ask, ctx->decided_ns);

    if (verdict == WEIR_WAIT) {
        ngx_http_weir_central_charge(block, ctx->decided_ns);
        return;
    }

    if (verdict == WEIR_DEFER) {
        (void) weir_ask_report_deferral(block->ask, "not_authenticated");
    }

    ngx_http_weir_settle_unanswered(block);
}


/*
 * Called if authentication has failed because of a server error. If the
 * request has not been counted yet, its state becomes NEW, so that the
 * location of its error page can count the request.
 */

static ngx_int_t
ngx_http_weir_auth_failed(ngx_http_weir_ctx_t *ctx, ngx_int_t status)
{
    ctx->state = ctx->decided ? NGX_HTTP_WEIR_DONE : NGX_HTTP_WEIR_NEW;

    return status;
}


static ngx_int_t
ngx_http_weir_auth_start(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_cleanup_t        *cln;
    ngx_http_weir_auth_t      *auth;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    auth = ngx_pcalloc(r->pool, sizeof(ngx_http_weir_auth_t));
    cln = ngx_http_cleanup_add(r, 0);

    if (auth == NULL || cln == NULL) {
        return ngx_http_weir_auth_failed(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }

    /*
     * This is a cleanup of the request. A cleanup of its pool would run too
     * late, after the request has been freed.
     */

    cln->handler = ngx_http_weir_auth_cleanup;
    cln->data = ctx;

    auth->uri = wlcf->auth_uri;
    auth->args = wlcf->auth_args;
    auth->headers = wlcf->auth_headers;

    auth->request = ngx_http_weir_auth_subrequest(r, auth);
    if (auth->request == NULL) {
        return ngx_http_weir_auth_failed(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }

    auth->next = ctx->auths;
    ctx->auths = auth;
    ctx->auth = auth;
    ctx->state = NGX_HTTP_WEIR_AUTHENTICATING;

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_weir_auth_post_handler(ngx_http_request_t *r, void *data,
    ngx_int_t rc)
{
    ngx_http_weir_auth_t  *auth = data;

    auth->done = 1;

    return rc;
}


/*
 * Returns true if the subrequest came to a location that needs the same
 * authentication itself, such as a "location /" with the same "weir_auth". This
 * happens if the service has no location of its own. The response then comes
 * from that location, not from the service. It must not be used: weir does not
 * authenticate subrequests, so the location can respond 200 to each of them.
 */

static ngx_uint_t
ngx_http_weir_auth_is_circular(ngx_http_weir_auth_t *auth)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_weir_loc_conf_t  *wlcf;

    clcf = ngx_http_get_module_loc_conf(auth->request, ngx_http_core_module);
    wlcf = ngx_http_get_module_loc_conf(auth->request, ngx_http_weir_module);

    return wlcf->domain.len
           && ngx_http_weir_equal(&auth->uri, &wlcf->auth_uri)
           && !clcf->internal
           && !ngx_http_weir_is_auth_location(clcf, wlcf);
}


/* returns 200 if the service accepts, otherwise the status for the client */

static ngx_uint_t
ngx_http_weir_auth_status(ngx_http_request_t *r, ngx_http_weir_auth_t *auth)
{
    ngx_uint_t  status;

    status = auth->request->headers_out.status;

    if (ngx_http_weir_auth_is_circular(auth)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "weir: \"%V\" of \"weir_auth\" led to a location with "
                      "the same \"weir_auth\": add a location for the "
                      "service, or \"weir_auth off\" there",
                      &auth->uri);

        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (status >= NGX_HTTP_OK && status < NGX_HTTP_SPECIAL_RESPONSE) {
        return NGX_HTTP_OK;
    }

    if (status == NGX_HTTP_UNAUTHORIZED || status == NGX_HTTP_FORBIDDEN) {
        return status;
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "weir: \"%V\" of \"weir_auth\" responded with status %ui, "
                  "expected 2xx, 401 or 403",
                  &auth->uri, status);

    return auth->request->upstream ? NGX_HTTP_BAD_GATEWAY
                                   : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/* applies the response of the service to a counted request */

static ngx_int_t
ngx_http_weir_auth_apply(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    if (ngx_http_weir_is_accepted(ctx)
        && ngx_http_weir_identify(r, ctx) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_weir_auth_pass(r, ctx);
}


ngx_int_t
ngx_http_weir_auth_end(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_auth_t  *auth;

    auth = ctx->auth;

    if (!auth->done) {
        return NGX_AGAIN;
    }

    auth->status = ngx_http_weir_auth_status(r, auth);

    if (auth->status >= NGX_HTTP_INTERNAL_SERVER_ERROR) {
        return ngx_http_weir_auth_failed(ctx, auth->status);
    }

    if (ctx->decided) {
        ctx->state = NGX_HTTP_WEIR_DONE;
        return ngx_http_weir_auth_apply(r, ctx);
    }

    /* a request that the service refused is counted without an identity */

    return ngx_http_weir_limit(r, ctx);
}


/*
 * Called if a counted request was redirected. The service of the new location
 * also has to accept the request, but the request is not counted again. A
 * request that limits have refused is not sent to a service. Otherwise a flood
 * could reach the service through the error page for the refusal.
 */

ngx_int_t
ngx_http_weir_auth_again(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_auth_t      *auth;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (wlcf->auth_uri.len == 0) {
        return NGX_DECLINED;
    }

    auth = ngx_http_weir_auth_find(ctx, wlcf);

    if (auth == NULL && !ctx->refused) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    /*
     * Disable error pages to avoid a loop: the error page for this status could
     * be in a location that calls this function again.
     */

    if (auth == NULL || auth->status != NGX_HTTP_OK) {
        r->error_page = 1;
    }

    if (auth == NULL) {
        return ctx->refused;
    }

    ctx->auth = auth;

    return ngx_http_weir_auth_apply(r, ctx);
}
