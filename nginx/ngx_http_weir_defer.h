
#ifndef NGX_HTTP_WEIR_DEFER_H_INCLUDED
#define NGX_HTTP_WEIR_DEFER_H_INCLUDED


#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_TICKET  32         /* hexadecimal digits */


/* backlog */

typedef struct ngx_http_weir_errand_s  ngx_http_weir_errand_t;

typedef void (*ngx_http_weir_errand_pt)(void *data,
    ngx_http_weir_reply_t *reply);

ngx_uint_t ngx_http_weir_backlog_is_up(void);
ngx_http_weir_errand_t *ngx_http_weir_backlog_send(const ngx_str_t *words,
    ngx_uint_t n, ngx_http_weir_errand_pt done, void *data);
void ngx_http_weir_backlog_forget(ngx_http_weir_errand_t *errand);


/* a request that is being kept */

struct ngx_http_weir_deferral_s {
    ngx_http_weir_block_t   *block;      /* its ask, until it has a verdict */
    ngx_http_weir_ctx_t     *ctx;        /* NULL: its client has left */
    ngx_http_weir_errand_t  *errand;     /* NULL: not sent yet */

    u_char                  *body;       /* of its own, not the request's */
    size_t                   size;
    size_t                   len;
    size_t                   max;
    size_t                   reserved;   /* of the bodies a worker may have */

    ngx_uint_t               late;       /* age bounds its line, not max_waiting */

    const char              *why_not;    /* NULL: it was kept */
    u_char                   reason[32];
    u_char                   ticket[NGX_HTTP_WEIR_TICKET];
    uint64_t                 position;
    uint64_t                 expected_ns;
};


/* body */

ngx_uint_t ngx_http_weir_body_is_there(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_body_collect(ngx_http_request_t *r,
    ngx_http_weir_deferral_t *d);

/* words */

const char *ngx_http_weir_words_send(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_deferral_t *d,
    ngx_http_weir_errand_pt done);
void ngx_http_weir_words_read(ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_t *reply);

#endif /* NGX_HTTP_WEIR_DEFER_H_INCLUDED */
