
#include "ngx_http_weir_central.h"


/*
 * Reports to Redis (the central store), with the command WEIR.TELL. A report
 * contains units that requests took or gave back without asking Redis. A report
 * is sent when an ask ends. While the link is down or full, reports are held in
 * a buffer and sent later.
 */


/* sends the reports in the buffer when few commands are pending on the link */

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
ngx_http_weir_central_post(const u_char *report, size_t len)
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
    struct wr_buf            *reports;
    ngx_http_weir_central_t  *central;

    if (ngx_http_weir_central_post(report, len)) {
        return;
    }

    central = &ngx_http_weir_central;
    reports = &central->reports;

    /* reserve room for length and report at once: both fit, or neither */

    if (sizeof(size_t) + len <= reports->max - reports->len
        && wr_buf_reserve(reports, sizeof(size_t) + len))
    {
        (void) wr_buf_add(reports, &len, sizeof(size_t));
        (void) wr_buf_add(reports, report, len);

    } else if (!central->drop_logged) {
        central->drop_logged = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "weir: reports to \"%V\" of \"weir_central\" are "
                      "dropped: %uz bytes of reports wait already",
                      &central->conf->central.name, reports->len);
    }
}


/*
 * Sends reports from the buffer while fewer than half of
 * NGX_HTTP_WEIR_PENDING_MAX commands are pending. The other half is for
 * questions.
 */

void
ngx_http_weir_central_send_held_reports(void)
{
    size_t                    len, sent;
    u_char                   *p;
    struct wr_buf            *reports;
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;
    reports = &central->reports;

    for (sent = 0; sent < reports->len; sent += sizeof(size_t) + len) {
        p = (u_char *) reports->ptr + sent;
        ngx_memcpy(&len, p, sizeof(size_t));

        if (central->link.npending >= NGX_HTTP_WEIR_PENDING_MAX / 2
            || ngx_http_weir_central_post(p + sizeof(size_t), len) == NULL)
        {
            break;
        }
    }

    if (sent < reports->len) {
        wr_buf_drop(reports, sent);
        return;
    }

    wr_buf_free(reports);
    central->drop_logged = 0;
}


/*
 * Sends the reports of an ask that was decided, settled or cancelled. There are
 * at most three: units that are given back, units that were counted without
 * Redis, and units that a response cost beyond the reservation.
 */

void
ngx_http_weir_central_report(struct weir_ask *ask)
{
    int         n;
    ngx_uint_t  i;

    if (ngx_http_weir_central.conf == NULL) {
        return;
    }

    for (i = 0; i < 3; i++) {
        n = weir_ask_question(ask, ngx_http_weir_question,
                              sizeof(ngx_http_weir_question));
        if (n <= 0) {
            return;
        }

        ngx_http_weir_central_send_report(ngx_http_weir_question, n);
    }
}
