
#ifndef NGX_HTTP_WEIR_CENTRAL_H_INCLUDED
#define NGX_HTTP_WEIR_CENTRAL_H_INCLUDED


#include "ngx_http_weir_module.h"


typedef struct {
    ngx_http_weir_main_conf_t  *conf;    /* NULL: no "weir_central" */
    ngx_http_weir_link_t        link;

    ngx_queue_t                 held;    /* requests that wait for the secret */
    ngx_event_t                 start;   /* set until they are released */

    u_char                     *reports; /* not sent yet: */
    size_t                      reports_len; /* length, bytes, length, ... */

    unsigned                    ready:1; /* the link has sent the secret */
    unsigned                    secret_pending:1;
    unsigned                    refusal_logged:1;
    unsigned                    drop_logged:1;
    unsigned                    exiting:1;
} ngx_http_weir_central_t;


extern ngx_http_weir_central_t  ngx_http_weir_central;

/* one question or report, before it is copied to the link */
extern u_char  ngx_http_weir_question[WEIR_QUESTION_MAX];


/* central_report */

void ngx_http_weir_central_send_report(const u_char *report, size_t len);
void ngx_http_weir_central_send_held_reports(void);
void ngx_http_weir_central_free_reports(void);


#endif /* NGX_HTTP_WEIR_CENTRAL_H_INCLUDED */
