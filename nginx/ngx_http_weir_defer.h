
#ifndef NGX_HTTP_WEIR_DEFER_H_INCLUDED
#define NGX_HTTP_WEIR_DEFER_H_INCLUDED


#include "ngx_http_weir_link.h"


/* length of a ticket, in hexadecimal digits */
#define NGX_HTTP_WEIR_TICKET  32


/*
 * A request that is being deferred. While its command WEIR.DEFER is pending,
 * this struct can outlive the request.
 */

struct ngx_http_weir_deferral_s {
    ngx_http_weir_block_t   *block;      /* NULL: it is in ctx->block now */
    ngx_http_weir_ctx_t     *ctx;        /* NULL: the client has disconnected */

    struct wr_buf            body;       /* copy of the body until it is sent */
    /* number of bytes that count against "bodies=" of "weir_queue" */
    size_t                   reserved;

    unsigned                 pending:1;  /* WEIR.DEFER sent, no reply yet */
    /*
     * set if fewer than max_waiting requests can be delivered within max_age:
     * then max_age limits the length of the line
     */
    unsigned                 age_bound:1;

    const char              *why_not;    /* NULL: the request is queued */
    u_char                   reason[32];
    u_char                   ticket[NGX_HTTP_WEIR_TICKET];
    uint64_t                 position;
    uint64_t                 expected_ns;
};


extern ngx_http_weir_link_t  ngx_http_weir_queue_link;


/* defined in defer_body.c */

ngx_uint_t ngx_http_weir_body_is_complete(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_body_collect(ngx_http_request_t *r,
    ngx_http_weir_deferral_t *d);

/* defined in defer_command.c */

const char *ngx_http_weir_defer_send(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_pt handler);
void ngx_http_weir_defer_read_reply(ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_t *reply);

#endif /* NGX_HTTP_WEIR_DEFER_H_INCLUDED */
