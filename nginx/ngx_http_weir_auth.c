
#include "ngx_http_weir_module.h"


static ngx_int_t ngx_http_weir_auth_looked(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);
static ngx_int_t ngx_http_weir_auth_made_sure(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);
static ngx_int_t ngx_http_weir_auth_start(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
static ngx_int_t ngx_http_weir_auth_done(ngx_http_request_t *r, void *data,
    ngx_int_t rc);


static ngx_uint_t
ngx_http_weir_auth_same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || ngx_memcmp(a->data, b->data, a->len) == 0);
}


/* what the location's service has answered to this request; NULL: not asked */

static ngx_http_weir_auth_t *
ngx_http_weir_auth_find(ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_http_weir_auth_t  *auth;

    for (auth = ctx->auths; auth; auth = auth->next) {
        if (ngx_http_weir_auth_same(&auth->uri, &wlcf->auth_uri)
            && ngx_http_weir_auth_same(&auth->args, &wlcf->auth_args))
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
 * The service is asked only for requests that limits would let pass: a flood
 * is refused before it. A look at those that hold for whoever it is costs
 * nothing; what it says is made sure of by a real decision, which is taken
 * back if it turns out better.
 */

ngx_int_t
ngx_http_weir_auth_begin(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_block_t     *block;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    /* an error page of a service that failed: it is not asked again */

    ctx->auth = ngx_http_weir_auth_find(ctx, wlcf);

    if (ctx->auth) {
        r->error_page = 1;
        return ngx_http_weir_auth_pass(r, ctx);
    }

    /* a request that is refused may be gone when this returns */

    ctx->state = NGX_HTTP_WEIR_DONE;

    if (wlcf->dry_run) {
        return ngx_http_weir_auth_start(r, ctx);
    }

    ctx->probing = 1;
    block = ngx_http_weir_ask(r, ctx, 0);
    ctx->probing = 0;

    if (block == NULL) {
        return ctx->unfit ? ngx_http_weir_unasked(r, ctx)
                          : ngx_http_weir_auth_start(r, ctx);
    }

    return ngx_http_weir_decide(r, ctx, block, ngx_http_weir_auth_looked);
}


/* what is to be put off is not refused: but who it is has to be known first */

static ngx_uint_t
ngx_http_weir_is_over_limit(ngx_http_weir_block_t *block, int verdict)
{
    struct weir_status  status;

    status.size = sizeof(status);

    return verdict == WEIR_REFUSE
           && weir_ask_tightest(block->ask, &status) == 0;
}


static ngx_int_t
ngx_http_weir_auth_looked(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
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

    return ngx_http_weir_decide(r, ctx, block, ngx_http_weir_auth_made_sure);
}


static ngx_int_t
ngx_http_weir_auth_made_sure(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
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

    rc = ngx_http_weir_note(r, ctx, block->ask, verdict) == NGX_OK
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

    ps->handler = ngx_http_weir_auth_done;
    ps->data = auth;

    if (ngx_http_subrequest(r, &auth->uri, &auth->args, &sr, ps,
                            NGX_HTTP_SUBREQUEST_WAITED)
        != NGX_OK)
    {
        return NULL;
    }

    /* the client's body is neither sent along nor announced */

    sr->request_body = ngx_pcalloc(r->pool, sizeof(ngx_http_request_body_t));
    if (sr->request_body == NULL) {
        return NULL;
    }

    sr->headers_in.content_length = NULL;
    sr->headers_in.content_length_n = -1;
    sr->headers_in.chunked = 0;
    sr->header_only = 1;

    /*
     * An error page is no answer of the service. "error_page 502 =200 ..." of
     * the server would authenticate everybody while the service is down.
     */

    sr->error_page = 1;

    return sr;
}


/*
 * The request ends while its service is asked, for the client has left. It is
 * counted like one that the service refused: otherwise clients that leave at
 * once could ask the service without end.
 */

static void
ngx_http_weir_auth_abandoned(void *data)
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

    ctx->decided_ns = ngx_http_weir_now();
    verdict = weir_ask_decide(block->ask, ctx->decided_ns);

    if (verdict == WEIR_WAIT) {
        ngx_http_weir_central_charge(block, ctx->decided_ns);
        return;
    }

    if (verdict == WEIR_DEFER) {
        (void) weir_ask_report_deferral(block->ask, "not_authenticated");
    }

    ngx_http_weir_ask_done(block);
}


/* a request that is not counted yet is counted wherever it is answered */

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

    /* the pool's cleanups are too late: by then it is no request any more */

    cln->handler = ngx_http_weir_auth_abandoned;
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
ngx_http_weir_auth_done(ngx_http_request_t *r, void *data, ngx_int_t rc)
{
    ngx_http_weir_auth_t  *auth = data;

    auth->done = 1;

    return rc;
}


/*
 * Whether the answer comes from a location whose requests the service is to
 * accept first. It is then no answer of the service: "try_files" or "location
 * /" of a server without the service's location would authenticate everybody.
 */

static ngx_uint_t
ngx_http_weir_auth_is_circular(ngx_http_weir_auth_t *auth)
{
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_weir_loc_conf_t  *wlcf;

    clcf = ngx_http_get_module_loc_conf(auth->request, ngx_http_core_module);
    wlcf = ngx_http_get_module_loc_conf(auth->request, ngx_http_weir_module);

    return wlcf->domain.len
           && ngx_http_weir_auth_same(&auth->uri, &wlcf->auth_uri)
           && !clcf->internal
           && !ngx_http_weir_is_auth_location(clcf, wlcf);
}


/* what the client is told, 200 standing for a yes */

static ngx_uint_t
ngx_http_weir_auth_status(ngx_http_request_t *r, ngx_http_weir_auth_t *auth)
{
    ngx_uint_t  status;

    status = auth->request->headers_out.status;

    if (ngx_http_weir_auth_is_circular(auth)) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "weir: \"%V\" of \"weir_auth\" led to a location that "
                      "has the same \"weir_auth\": the service needs a "
                      "location of its own, or \"weir_auth off\" there",
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
                  "weir: \"%V\" of \"weir_auth\" answered %ui, which is "
                  "neither 2xx nor 401 nor 403",
                  &auth->uri, status);

    return auth->request->upstream ? NGX_HTTP_BAD_GATEWAY
                                   : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/* what the location's service said, to a request that is counted */

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

    /* who failed is counted as somebody unknown from that address */

    return ngx_http_weir_limit(r, ctx);
}


/*
 * Authentication is the location's that answers: a request that was decided
 * before and has come to another one is shown to the service of that one,
 * but not counted again. One that limits refused is shown to nobody: a flood
 * would reach the service by way of an error page.
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

    /* another error page of the same status would lead here again */

    if (auth == NULL || auth->status != NGX_HTTP_OK) {
        r->error_page = 1;
    }

    if (auth == NULL) {
        return ctx->refused;
    }

    ctx->auth = auth;

    return ngx_http_weir_auth_apply(r, ctx);
}
