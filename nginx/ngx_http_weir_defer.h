
#ifndef NGX_HTTP_WEIR_DEFER_H_INCLUDED
#define NGX_HTTP_WEIR_DEFER_H_INCLUDED


#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_TICKET  32         /* hexadecimal digits */


/* a request that is being deferred; outlives the request once it is sent */

struct ngx_http_weir_deferral_s {
    ngx_http_weir_block_t   *block;      /* NULL: handed back to the ctx */
    ngx_http_weir_ctx_t     *ctx;        /* NULL: the client has disconnected */

    u_char                  *body;       /* a copy; NULL when it is sent */
    size_t                   size;
    size_t                   len;
    size_t                   max;
    size_t                   reserved;   /* of "bodies=" of "weir_queue" */

    unsigned                 pending:1;  /* sent, and not replied to */
    unsigned                 age_bound:1; /* max_age allows fewer to wait
                                             than max_waiting does */

    const char              *why_not;    /* NULL: it is queued */
    u_char                   reason[32];
    u_char                   ticket[NGX_HTTP_WEIR_TICKET];
    uint64_t                 position;
    uint64_t                 expected_ns;
};


extern ngx_http_weir_link_t  ngx_http_weir_queue_link;


/* defer_body */

ngx_uint_t ngx_http_weir_body_is_complete(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_body_collect(ngx_http_request_t *r,
    ngx_http_weir_deferral_t *d);

/* defer_command */

const char *ngx_http_weir_defer_send(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_pt handler);
void ngx_http_weir_defer_read_reply(ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_t *reply);

#endif /* NGX_HTTP_WEIR_DEFER_H_INCLUDED */
