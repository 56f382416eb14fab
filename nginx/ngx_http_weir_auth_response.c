
#include "ngx_http_weir_module.h"


/*
 * Reads the response of an authentication service: the identity of the client
 * or, if the service refuses the request, the challenge (WWW-Authenticate).
 */


static void
ngx_http_weir_auth_find_identity(ngx_http_weir_loc_conf_t *wlcf,
    ngx_http_weir_ctx_t *ctx)
{
    ngx_str_t        *names;
    ngx_uint_t        i;
    ngx_table_elt_t  *h;

    names = wlcf->auth_headers->elts;

    for (i = 0; i < wlcf->auth_headers->nelts; i++) {
        h = ngx_http_weir_auth_header(ctx, names[i].data, names[i].len);

        if (h && h->value.len) {
            ctx->identity = h->value;
            return;
        }
    }
}


/*
 * Sets ctx->identity to the value of the directive "weir_identity". Without
 * this directive, the identity comes from the response of the authentication
 * service. If the location has "weir_auth" and the service has not accepted the
 * request, the identity is empty in both cases.
 */

ngx_int_t
ngx_http_weir_identify(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    ngx_str_null(&ctx->identity);

    if (wlcf->auth_uri.len) {
        if (!ngx_http_weir_is_accepted(ctx)) {
            return NGX_OK;
        }

        ngx_http_weir_auth_find_identity(wlcf, ctx);
    }

    if (wlcf->identity == NULL) {
        return NGX_OK;
    }

    return ngx_http_complex_value(r, wlcf->identity, &ctx->identity);
}


static ngx_uint_t
ngx_http_weir_is_challenge(ngx_table_elt_t *h)
{
    return h->hash
           && ngx_http_weir_same_name(&h->key, "WWW-Authenticate",
                                      sizeof("WWW-Authenticate") - 1);
}


/*
 * Copies all WWW-Authenticate fields of the service's response to the response
 * for the client. Removes the fields of another service that were copied
 * before a redirect.
 */

static ngx_int_t
ngx_http_weir_auth_copy_challenge(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx)
{
    ngx_uint_t           i;
    ngx_list_part_t     *part;
    ngx_table_elt_t     *h, *from;
    ngx_http_request_t  *sr;

    sr = ctx->auth->request;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_weir_is_challenge(&h[i])) {
                h[i].hash = 0;
            }
        }
    }

    for (part = &sr->headers_out.headers.part; part; part = part->next) {
        from = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (!ngx_http_weir_is_challenge(&from[i])) {
                continue;
            }

            h = ngx_list_push(&r->headers_out.headers);
            if (h == NULL) {
                return NGX_ERROR;
            }

            *h = from[i];
        }
    }

    return NGX_OK;
}


/*
 * Returns the result of authentication as the code of a phase handler. If the
 * service has accepted the request or was not asked, the code is NGX_DECLINED.
 * Otherwise it is the status for the client.
 */

ngx_int_t
ngx_http_weir_auth_pass(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    if (ctx->auth == NULL || ngx_http_weir_is_accepted(ctx)) {
        return NGX_DECLINED;
    }

    if (ctx->auth->status < NGX_HTTP_INTERNAL_SERVER_ERROR
        && ngx_http_weir_auth_copy_challenge(r, ctx) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ctx->auth->status;
}


/*
 * Finds a header field by its name, which is in lower case. "_" in the name
 * also matches "-", because names of variables have no "-".
 */

static ngx_table_elt_t *
ngx_http_weir_find_field(ngx_list_t *list, const u_char *name, size_t len)
{
    u_char            ch;
    size_t            n;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &list->part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].hash == 0 || h[i].key.len != len) {
                continue;
            }

            for (n = 0; n < len; n++) {
                ch = ngx_tolower(h[i].key.data[n]);

                if (ch != name[n] && !(ch == '-' && name[n] == '_')) {
                    break;
                }
            }

            if (n == len) {
                return &h[i];
            }
        }
    }

    return NULL;
}


/* returns a header field of the service's response; name is in lower case */

ngx_table_elt_t *
ngx_http_weir_auth_header(ngx_http_weir_ctx_t *ctx, const u_char *name,
    size_t len)
{
    ngx_table_elt_t     *h;
    ngx_http_request_t  *sr;

    if (ctx->auth == NULL || !ctx->auth->done) {
        return NULL;
    }

    sr = ctx->auth->request;

    h = ngx_http_weir_find_field(&sr->headers_out.headers, name, len);

    if (h == NULL && sr->upstream) {
        h = ngx_http_weir_find_field(&sr->upstream->headers_in.headers, name,
                                     len);
    }

    return h;
}
