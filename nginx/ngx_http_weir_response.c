
#include "ngx_http_weir_module.h"


/* Responds to refused requests: with an error page or a body from libweir. */


#define NGX_HTTP_WEIR_BODY  1024


/* returns true if nginx would redirect this status to an error page */

static ngx_uint_t
ngx_http_weir_has_error_page(ngx_http_request_t *r, ngx_uint_t status)
{
    ngx_uint_t                 i;
    ngx_http_err_page_t       *pages;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (clcf->error_pages == NULL || r->uri_changes <= 1) {
        return 0;
    }

    pages = clcf->error_pages->elts;

    for (i = 0; i < clcf->error_pages->nelts; i++) {
        if (pages[i].status == (ngx_int_t) status) {
            return 1;
        }
    }

    return 0;
}


/*
 * Makes the body and its content type. The texts are copied: they belong to
 * the rules, and the rules can be freed when the ask ends.
 */

static ngx_int_t
ngx_http_weir_make_body(ngx_http_request_t *r, const struct weir_ask *ask,
    ngx_str_t *body, ngx_str_t *content_type)
{
    int              type, n, room;
    struct weir_str  ct;
    struct weir_str  name = { "accept", 6 };
    struct weir_str  accept = { NULL, 0 };

    (void) ngx_http_weir_find_client_header(r, name, &accept, 1);

    type = weir_body_type(accept);
    room = NGX_HTTP_WEIR_BODY;

    for (;;) {
        body->data = ngx_pnalloc(r->pool, room);
        if (body->data == NULL) {
            return NGX_ERROR;
        }

        n = weir_ask_body(ask, type, (char *) body->data, room, &ct);
        if (n < 0) {
            return NGX_ERROR;
        }

        if (n <= room) {
            break;
        }

        room = n;
    }

    body->len = n;

    return ngx_http_weir_copy_str(r->pool, ct, content_type);
}


/* responds to a refused request; returns the code of a phase handler */

ngx_int_t
ngx_http_weir_refuse(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    const struct weir_ask *ask)
{
    ngx_str_t                 content_type;
    ngx_uint_t                status;
    struct weir_result        result;
    ngx_http_complex_value_t  body;

    result.size = sizeof(result);
    (void) weir_ask_result(ask, &result);

    status = result.http_status;
    ctx->refused = status;

    /* remove the status of an earlier error whose error page led here */

    r->err_status = 0;

    if (ngx_http_weir_has_error_page(r, status)) {
        r->error_page = 0;
        return status;
    }

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    if (ngx_http_weir_make_body(r, ask, &body.value, &content_type) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_finalize_request(
        r, ngx_http_send_response(r, status, &content_type, &body));

    return NGX_DONE;
}
