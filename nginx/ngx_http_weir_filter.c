
#include "ngx_http_weir_module.h"


/*
 * The header filter adds the header fields that a decision has saved. The body
 * filter shows the body to the reader of a request that is settled by its
 * body. nginx calls it after the filter that reads files into memory, and
 * before the filters that change a body.
 */


static ngx_int_t ngx_http_weir_filter_init(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_weir_filter_module_ctx = {
    NULL,                                  /* preconfiguration */
    ngx_http_weir_filter_init,             /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    NULL,                                  /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_weir_filter_module = {
    NGX_MODULE_V1,
    &ngx_http_weir_filter_module_ctx,      /* module context */
    NULL,                                  /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static ngx_uint_t
ngx_http_weir_is_field(ngx_http_weir_ctx_t *ctx, ngx_str_t *name)
{
    ngx_uint_t  i;

    for (i = 0; i < ctx->nfields; i++) {
        if (ngx_http_weir_same_name(name, ctx->fields[i].key.data,
                                    ctx->fields[i].key.len))
        {
            return 1;
        }
    }

    return 0;
}


/* removes fields of the upstream that have the same names as saved fields */

static void
ngx_http_weir_drop_fields(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].hash && ngx_http_weir_is_field(ctx, &h[i].key)) {
                h[i].hash = 0;
            }
        }
    }
}


ngx_int_t
ngx_http_weir_add_field(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));
    h->hash = 1;
    h->key = *name;
    h->value = *value;

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t            i;
    ngx_http_weir_ctx_t  *ctx;

    if (r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL) {
        return ngx_http_next_header_filter(r);
    }

    if (ctx->settling && ctx->reads_body) {
        ngx_http_weir_settle_header(r, ctx);
    }

    if (ctx->nfields == 0) {
        return ngx_http_next_header_filter(r);
    }

    ngx_http_weir_drop_fields(r, ctx);

    for (i = 0; i < ctx->nfields; i++) {
        if (ngx_http_weir_add_field(r, &ctx->fields[i].key,
                                    &ctx->fields[i].value)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return ngx_http_next_header_filter(r);
}


/*
 * Settles the request as soon as its whole response has been sent. nginx can
 * end the request later: it first reads the rest that the client sends.
 */

static ngx_int_t
ngx_http_weir_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t             rc;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_weir_module);

    if (ctx == NULL || ctx->settling == NULL) {
        return ngx_http_next_body_filter(r, in);
    }

    ngx_http_weir_settle_body(ctx, in);

    rc = ngx_http_next_body_filter(r, in);

    if (rc == NGX_OK && ctx->body_ended && ctx->settling && !r->buffered
        && !r->connection->buffered && r->postponed == NULL)
    {
        ngx_http_weir_settle(r, ctx);
    }

    return rc;
}


static ngx_int_t
ngx_http_weir_filter_init(ngx_conf_t *cf)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_weir_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_weir_body_filter;

    return NGX_OK;
}
