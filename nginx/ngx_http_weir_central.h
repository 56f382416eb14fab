
#ifndef NGX_HTTP_WEIR_CENTRAL_H_INCLUDED
#define NGX_HTTP_WEIR_CENTRAL_H_INCLUDED


#include "ngx_http_weir_link.h"


typedef struct {
    ngx_http_weir_main_conf_t  *conf;    /* NULL: weir_central is off */
    ngx_http_weir_link_t        link;

    ngx_queue_t                 held;    /* requests in state HELD */
    /*
     * timer: requests are held until it fires or the fleet's secret is
     * known
     */
    ngx_event_t                 start;

    /* reports that were not sent yet, each as its length and its bytes */
    struct wr_buf               reports;

    unsigned                    ready:1; /* the service has sent the secret */
    unsigned                    secret_pending:1;
    unsigned                    refusal_logged:1;
    unsigned                    drop_logged:1;
    unsigned                    exiting:1;
} ngx_http_weir_central_t;


extern ngx_http_weir_central_t  ngx_http_weir_central;

/* buffer for one question or report, until it is copied to the link */
extern u_char  ngx_http_weir_question[WEIR_QUESTION_MAX];


/* defined in central_report.c */

void ngx_http_weir_central_send_report(const u_char *report, size_t len);
void ngx_http_weir_central_send_held_reports(void);


#endif /* NGX_HTTP_WEIR_CENTRAL_H_INCLUDED */
