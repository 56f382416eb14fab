
#include "ngx_http_weir_defer.h"


/*
 * Bodies of deferred requests. Each part is copied as soon as nginx has read
 * it, to memory that exists longer than the request. Bodies are never written
 * to a file, whatever the value of client_body_buffer_size is.
 */


/*
 * Returns true if the body is still unread or all of it is in r->request_body.
 * Returns false if the body is lost. This happens if another location has
 * discarded the body or proxied it without buffering, and the error page of
 * that location has led to this location.
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


/*
 * Moves the parts that have been read from r->request_body to d->body. Returns
 * NGX_DECLINED if the body is too large, or NGX_ERROR if there is no memory.
 */

ngx_int_t
ngx_http_weir_body_collect(ngx_http_request_t *r, ngx_http_weir_deferral_t *d)
{
    size_t        len;
    ngx_buf_t    *b;
    ngx_chain_t  *cl, *next;

    if (r->request_body == NULL) {
        return NGX_OK;
    }

    if (d->body.ptr == NULL && r->headers_in.content_length_n > 0) {
        (void) wr_buf_reserve(&d->body, r->headers_in.content_length_n);
    }

    for (cl = r->request_body->bufs; cl; cl = next) {
        next = cl->next;
        b = cl->buf;

        if (!ngx_buf_in_memory(b) && ngx_buf_size(b)) {
            /* another module has written this part of the body to a file */
            return NGX_DECLINED;
        }

        len = b->last - b->pos;

        if (!wr_buf_add(&d->body, b->pos, len)) {
            return d->body.failed == WEIR_EROOM ? NGX_DECLINED : NGX_ERROR;
        }

        b->pos = b->last;
        r->request_body->bufs = next;
        ngx_free_chain(r->pool, cl);
    }

    return NGX_OK;
}
