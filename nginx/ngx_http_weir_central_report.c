
#include "ngx_http_weir_central.h"


/*
 * Reports to the central store, with the command WEIR.TELL. A report contains
 * units that requests took or gave back without asking the store. Called when
 * an ask ends. While the link is down or full, reports are held in a buffer
 * and sent later.
 */


#define NGX_HTTP_WEIR_REPORTS_SIZE  (1024 * 1024)


/* sends held reports when few commands are pending on the link */

static ngx_int_t
ngx_http_weir_central_report_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    if (reply && p->link->npending <= NGX_HTTP_WEIR_PENDING_MAX / 4) {
        ngx_http_weir_central_send_held_reports();
    }

    return NGX_OK;
}


static ngx_http_weir_pending_t *
ngx_http_weir_central_tell(const u_char *report, size_t len)
{
    ngx_str_t  words[2];

    ngx_str_set(&words[0], "WEIR.TELL");
    words[1].data = (u_char *) report;
    words[1].len = len;

    return ngx_http_weir_link_send(&ngx_http_weir_central.link, words, 2,
                                   ngx_http_weir_central_report_handler, NULL);
}


void
ngx_http_weir_central_send_report(const u_char *report, size_t len)
{
    u_char                   *p;
    ngx_http_weir_central_t  *central;

    if (ngx_http_weir_central_tell(report, len)) {
        return;
    }

    central = &ngx_http_weir_central;

    if (central->reports == NULL) {
        central->reports = ngx_alloc(NGX_HTTP_WEIR_REPORTS_SIZE,
                                     ngx_cycle->log);
    }

    if (central->reports == NULL
        || central->reports_len + sizeof(size_t) + len
           > NGX_HTTP_WEIR_REPORTS_SIZE)
    {
        if (!central->drop_logged) {
            ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                          "weir: reports to \"%V\" of \"weir_central\" are "
                          "dropped: %d bytes of reports wait already",
                          &central->conf->central.name,
                          NGX_HTTP_WEIR_REPORTS_SIZE);
        }

        central->drop_logged = 1;
        return;
    }

    p = central->reports + central->reports_len;
    p = ngx_cpymem(p, &len, sizeof(size_t));
    p = ngx_cpymem(p, report, len);

    central->reports_len = p - central->reports;
}


/*
 * Sends the reports in the buffer. Half of the pending list stays free for
 * questions.
 */

void
ngx_http_weir_central_send_held_reports(void)
{
    size_t                    len;
    u_char                   *p, *last;
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (central->reports == NULL) {
        return;
    }

    p = central->reports;
    last = p + central->reports_len;

    while (p < last && central->link.npending < NGX_HTTP_WEIR_PENDING_MAX / 2)
    {
        ngx_memcpy(&len, p, sizeof(size_t));

        if (ngx_http_weir_central_tell(p + sizeof(size_t), len) == NULL) {
            break;
        }

        p += sizeof(size_t) + len;
    }

    if (p == last) {
        ngx_http_weir_central_free_reports();
        return;
    }

    central->reports_len = last - p;
    ngx_memmove(central->reports, p, central->reports_len);
}


void
ngx_http_weir_central_free_reports(void)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (central->reports) {
        ngx_free(central->reports);
    }

    central->reports = NULL;
    central->reports_len = 0;
    central->drop_logged = 0;
}


/* sends the reports of an ask that ends, at most one of each kind */

void
ngx_http_weir_central_report(struct weir_ask *ask)
{
    int         n;
    ngx_uint_t  i;

    if (ngx_http_weir_central.conf == NULL) {
        return;
    }

    for (i = 0; i < 2; i++) {
        n = weir_ask_question(ask, ngx_http_weir_question,
                              sizeof(ngx_http_weir_question));
        if (n <= 0) {
            return;
        }

        ngx_http_weir_central_send_report(ngx_http_weir_question, n);
    }
}
