
#include "ngx_http_weir_defer.h"


/*
 * Bodies of deferred requests. Each part is copied as soon as nginx has read
 * it, to memory that exists longer than the request. Bodies are never written
 * to a file, whatever the value of client_body_buffer_size is.
 */


/* first size of the buffer, in bytes, if the length of the body is unknown */
#define NGX_HTTP_WEIR_BODY_FIRST  16384


/*
 * Returns true if the body is still unread or all of it is in r->request_body.
 * It is neither if an error page has led here from a location that discarded
 * the body or proxied it without buffering.
 */

ngx_uint_t
ngx_http_weir_body_is_complete(ngx_http_request_t *r)
{
    off_t                     len;
    ngx_chain_t              *cl;
    ngx_table_elt_t          *h;
    ngx_http_request_body_t  *rb;

    h = r->headers_in.content_length;

    if (r->discard_body
        || (h && ngx_atoof(h->value.data, h->value.len)
                 != r->headers_in.content_length_n))
    {
        return 0;
    }

    rb = r->request_body;

    if (rb == NULL) {
        return 1;
    }

    len = 0;

    for (cl = rb->bufs; cl; cl = cl->next) {
        len += ngx_buf_size(cl->buf);
    }

    if (r->reading_body || rb->rest > 0) {
        return 0;
    }

    return r->headers_in.content_length_n < 0
               ? len == rb->received
               : len == r->headers_in.content_length_n;
}


/* makes room for len bytes; NGX_DECLINED if len is above max_body */

static ngx_int_t
ngx_http_weir_body_grow(ngx_http_request_t *r, ngx_http_weir_deferral_t *d,
    size_t len)
{
    size_t   size;
    u_char  *body;

    if (len > d->max) {
        return NGX_DECLINED;
    }

    if (len <= d->size) {
        return NGX_OK;
    }

    size = ngx_max(d->size, NGX_HTTP_WEIR_BODY_FIRST);

    if (r->headers_in.content_length_n > 0) {
        size = ngx_max(len, (size_t) r->headers_in.content_length_n);
    }

    while (size < len) {
        size *= 2;
    }

    size = ngx_min(size, d->max);

    body = ngx_alloc(size, r->connection->log);
    if (body == NULL) {
        return NGX_ERROR;
    }

    if (d->body) {
        ngx_memcpy(body, d->body, d->len);
        ngx_free(d->body);
    }

    d->body = body;
    d->size = size;

    return NGX_OK;
}


/* moves the parts that have been read from r->request_body to d->body */

ngx_int_t
ngx_http_weir_body_collect(ngx_http_request_t *r, ngx_http_weir_deferral_t *d)
{
    size_t        len;
    ngx_buf_t    *b;
    ngx_int_t     rc;
    ngx_chain_t  *cl, *next;

    if (r->request_body == NULL) {
        return NGX_OK;
    }

    for (cl = r->request_body->bufs; cl; cl = next) {
        next = cl->next;
        b = cl->buf;

        if (!ngx_buf_in_memory(b) && ngx_buf_size(b)) {
            /* another module has written this part of the body to a file */
            return NGX_DECLINED;
        }

        len = b->last - b->pos;
        rc = ngx_http_weir_body_grow(r, d, d->len + len);

        if (rc != NGX_OK) {
            return rc;
        }

        if (len) {
            ngx_memcpy(d->body + d->len, b->pos, len);
            d->len += len;
            b->pos = b->last;
        }

        r->request_body->bufs = next;
        ngx_free_chain(r->pool, cl);
    }

    return NGX_OK;
}
