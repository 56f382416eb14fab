
#ifndef NGX_HTTP_WEIR_CENTRAL_H_INCLUDED
#define NGX_HTTP_WEIR_CENTRAL_H_INCLUDED


#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_CENTRAL_POLL     1000  /* ms between looks at the link */
#define NGX_HTTP_WEIR_CENTRAL_SILENCE  2000  /* ms after which it is given up */
#define NGX_HTTP_WEIR_CENTRAL_MAX      4096  /* commands without an answer */
#define NGX_HTTP_WEIR_CENTRAL_KEPT     (1024 * 1024) /* bytes */
#define NGX_HTTP_WEIR_CENTRAL_OUT      (4 * 1024 * 1024)


typedef enum {
    NGX_HTTP_WEIR_FLEET = 0,             /* asks for the fleet's secret */
    NGX_HTTP_WEIR_TELL,                  /* what the store is to be told */
    NGX_HTTP_WEIR_QUESTION
} ngx_http_weir_command_e;


struct ngx_http_weir_pending_s {
    ngx_queue_t              queue;
    ngx_http_weir_command_e  command;
    ngx_http_weir_ctx_t     *ctx;        /* that waits, or NULL */
    ngx_http_weir_block_t   *block;      /* its ask, or NULL */
    ngx_msec_t               sent;
    u_char                  *question;   /* of an ask that timed out, or NULL */
    size_t                   question_len;
    unsigned                 late:1;
};


typedef struct {
    ngx_http_weir_main_conf_t  *conf;    /* NULL: there is no store */
    ngx_http_weir_link_t        link;

    ngx_queue_t                 pending;
    ngx_uint_t                  npending;
    ngx_uint_t                  nwaiting; /* those with an ask */

    ngx_queue_t                 held;    /* requests: see greeting */

    ngx_event_t                 timeout; /* of the first of these */
    ngx_event_t                 poll;

    u_char                     *kept;    /* what waits for the link: */
    size_t                      kept_len; /* length, bytes, length, bytes */

    unsigned                    greeting:1; /* a worker's first moments */
    unsigned                    ready:1; /* this link has told the secret */
    unsigned                    overdue:1;
    unsigned                    asked:1; /* for the secret */
    unsigned                    denied:1; /* it, and that told */
    unsigned                    full:1;  /* some was lost, and that told */
} ngx_http_weir_central_t;


extern ngx_http_weir_central_t  ngx_http_weir_central;
extern u_char                   ngx_http_weir_question[WEIR_QUESTION_MAX];


/* central */

void ngx_http_weir_central_greeted(ngx_http_weir_central_t *central);
ngx_http_weir_pending_t *ngx_http_weir_central_send(
    ngx_http_weir_command_e command, const u_char *argument, size_t len);
void ngx_http_weir_central_remove(ngx_http_weir_pending_t *p);
ngx_http_weir_pending_t *ngx_http_weir_central_first(void);
void ngx_http_weir_central_settle(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply);

/* fleet: what the link calls, and a timer */

void ngx_http_weir_central_up(void);
ngx_int_t ngx_http_weir_central_reply(ngx_http_weir_reply_t *reply);
void ngx_http_weir_central_lost(void);
void ngx_http_weir_central_poll(ngx_event_t *ev);


#endif /* NGX_HTTP_WEIR_CENTRAL_H_INCLUDED */
