
#ifndef NGX_HTTP_WEIR_LINK_H_INCLUDED
#define NGX_HTTP_WEIR_LINK_H_INCLUDED


#include "ngx_http_weir_module.h"

#include "base/buffer.h"


/* types and functions of reply.c */

#define NGX_HTTP_WEIR_REPLY_PARTS  4

typedef struct {
    u_char   type;                       /* RESP type: + - : $ * or _ (null) */
    u_char  *data;
    size_t   len;
} ngx_http_weir_part_t;

typedef struct {
    ngx_http_weir_part_t   head;
    /* elements, if the reply is an array */
    ngx_http_weir_part_t   parts[NGX_HTTP_WEIR_REPLY_PARTS];
    ngx_uint_t             nparts;
    u_char                *end;
} ngx_http_weir_reply_t;

ngx_int_t ngx_http_weir_reply_parse(u_char *p, u_char *last,
    ngx_http_weir_reply_t *reply);

/* types and functions of link.c and link_command.c */

#define NGX_HTTP_WEIR_PENDING_MAX  4096
#define NGX_HTTP_WEIR_LINK_IN      65536  /* size of the receive buffer */
#define NGX_HTTP_WEIR_LINK_POLL    1000   /* ms */

typedef struct ngx_http_weir_link_s     ngx_http_weir_link_t;
typedef struct ngx_http_weir_pending_s  ngx_http_weir_pending_t;

/*
 * Handles a reply. reply is NULL if the deadline has passed (p->late is set)
 * or the link is lost. If the handler returns another code than NGX_OK, the
 * link is closed.
 */

typedef ngx_int_t (*ngx_http_weir_reply_pt)(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply);

struct ngx_http_weir_pending_s {
    ngx_queue_t               queue;
    ngx_http_weir_link_t     *link;
    ngx_http_weir_reply_pt    handler;   /* NULL: the reply is discarded */
    void                     *data;
    ngx_msec_t                sent;
    unsigned                  timed:1;   /* has a deadline, not passed yet */
    unsigned                  late:1;    /* the deadline has passed */
};

typedef struct {
    ngx_http_weir_peer_t      peer;
    ngx_str_t                 key;
    const char               *directive;
    /* text for the log: how requests are treated while the link is lost */
    const char               *fallback;
    /*
     * ms. If a reply has not come this long after the timeout of its command,
     * the link counts as lost.
     */
    ngx_msec_t                silence;
    size_t                    out_max;   /* maximum bytes in the send buffer */

    void                    (*up)(void);
    void                    (*poll)(void); /* called every second */
    void                    (*lost)(void);
} ngx_http_weir_link_opts_t;

struct ngx_http_weir_link_s {
    ngx_http_weir_link_opts_t opts;

    ngx_peer_connection_t     peer;
    /*
     * The log that nginx uses for the connection. Its level is "emerg", so that
     * nginx logs no errors of the connection. This module logs them itself.
     */
    ngx_log_t                 quiet_log;

    /* timer: starts the next connect, or ends a connect that takes too long */
    ngx_event_t               retry;
    ngx_msec_t                retry_delay;
    ngx_event_t               poll;

    ngx_queue_t               pending;   /* commands, in the order of sending */
    ngx_uint_t                npending;
    ngx_uint_t                ntimed;
    ngx_event_t               deadline;  /* timer for the first timed command */

    struct wr_buf             out;
    size_t                    out_sent;  /* sent bytes of the send buffer */

    u_char                   *in;
    size_t                    in_len;

    unsigned                  up:1;
    unsigned                  overdue:1; /* the first command is late */
    unsigned                  refusal_logged:1;
    unsigned                  loss_logged:1;
    unsigned                  up_logged:1;
};

ngx_int_t ngx_http_weir_link_init(ngx_cycle_t *cycle,
    ngx_http_weir_link_t *link, const ngx_http_weir_link_opts_t *opts);
void ngx_http_weir_link_close(ngx_http_weir_link_t *link);
ngx_http_weir_pending_t *ngx_http_weir_link_send(ngx_http_weir_link_t *link,
    const ngx_str_t *words, ngx_uint_t n, ngx_http_weir_reply_pt handler,
    void *data);
void ngx_http_weir_link_works(ngx_http_weir_link_t *link);

/* shared by link.c and link_command.c */

void ngx_http_weir_link_lose(ngx_http_weir_link_t *link, const char *reason,
    ngx_err_t err);
void ngx_http_weir_link_connected(ngx_http_weir_link_t *link);
void ngx_http_weir_link_reset_out(ngx_http_weir_link_t *link);
ngx_int_t ngx_http_weir_link_settle_first(ngx_http_weir_link_t *link,
    ngx_http_weir_reply_t *reply);
void ngx_http_weir_link_deadline_handler(ngx_event_t *ev);
void ngx_http_weir_link_poll_handler(ngx_event_t *ev);
void ngx_http_weir_link_read_handler(ngx_event_t *rev);
void ngx_http_weir_link_write_handler(ngx_event_t *wev);


#endif /* NGX_HTTP_WEIR_LINK_H_INCLUDED */
