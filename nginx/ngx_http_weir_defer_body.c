
#include "ngx_http_weir_defer.h"


#define NGX_HTTP_WEIR_BODY_FIRST  16384  /* of a body of unknown length */


/*
 * Bodies of requests that are kept. They are never written to a disk, whatever
 * client_body_buffer_size says: as they come, nginx hands over what it has, and
 * it is copied to memory that outlives the request.
 */


/*
 * Whether the body is still to be read, or all of it is in what was read. An
 * error page may have led here from a location that discarded the body, or
 * sent it on as it came.
 */

ngx_uint_t
ngx_http_weir_body_is_there(ngx_http_request_t *r)
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


/* NGX_DECLINED: it is larger than it may be */

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


/* takes what has been read */

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
            return NGX_DECLINED; /* somebody else has written it to a disk */
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
