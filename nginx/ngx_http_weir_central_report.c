
#include "ngx_http_weir_central.h"


/*
 * What the central store is told, and what comes over the link to it: answers,
 * and the fleet's secret.
 */


/* ---- telling ---- */


/* what cannot be told now waits for the link */

static void
ngx_http_weir_central_keep(const u_char *bytes, size_t len)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (central->kept == NULL) {
        central->kept = ngx_alloc(NGX_HTTP_WEIR_CENTRAL_KEPT, ngx_cycle->log);
    }

    if (central->kept == NULL
        || central->kept_len + sizeof(size_t) + len
           > NGX_HTTP_WEIR_CENTRAL_KEPT)
    {
        if (!central->full) {
            ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                          "weir: there is no room to keep all that \"%V\" "
                          "of \"weir_central\" is to be told",
                          &central->conf->central.name);
        }

        central->full = 1;
        return;
    }

    ngx_memcpy(central->kept + central->kept_len, &len, sizeof(size_t));
    central->kept_len += sizeof(size_t);

    ngx_memcpy(central->kept + central->kept_len, bytes, len);
    central->kept_len += len;
}


/* what has become of a request, if the store is to know */

void
ngx_http_weir_central_tell(struct weir_ask *ask)
{
    int         n;
    ngx_uint_t  i;

    if (ngx_http_weir_central.conf == NULL) {
        return;
    }

    /* one message of each kind at most */

    for (i = 0; i < 2; i++) {
        n = weir_ask_question(ask, ngx_http_weir_question,
                              sizeof(ngx_http_weir_question));

        if (n <= 0) {
            return;
        }

        if (ngx_http_weir_central_send(NGX_HTTP_WEIR_TELL,
                                       ngx_http_weir_question, n)
            == NULL)
        {
            ngx_http_weir_central_keep(ngx_http_weir_question, n);
        }
    }
}


/*
 * The answer to an ask that timed out. The request was decided without the
 * store, and is reported if it was admitted, so units that the store took are
 * settled against that report or given back.
 */

static void
ngx_http_weir_central_late(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    int  n;

    if (p->question == NULL || reply->head.type != '$') {
        return;
    }

    n = weir_question_late(p->question, p->question_len, reply->head.data,
                           reply->head.len);
    if (n <= 0) {
        return;
    }

    if (ngx_http_weir_central_send(NGX_HTTP_WEIR_TELL, p->question, n)
        == NULL)
    {
        ngx_http_weir_central_keep(p->question, n);
    }
}


/* half of the places stay free for questions */

static void
ngx_http_weir_central_send_kept(ngx_http_weir_central_t *central)
{
    size_t   len;
    u_char  *p, *last;

    if (central->kept == NULL) {
        return;
    }

    p = central->kept;
    last = p + central->kept_len;

    while (p < last && central->npending < NGX_HTTP_WEIR_CENTRAL_MAX / 2) {
        ngx_memcpy(&len, p, sizeof(size_t));
        p += sizeof(size_t);

        if (ngx_http_weir_central_send(NGX_HTTP_WEIR_TELL, p, len) == NULL) {
            p -= sizeof(size_t);
            break;
        }

        p += len;
    }

    central->kept_len = last - p;

    if (central->kept_len) {
        ngx_memmove(central->kept, p, central->kept_len);
        return;
    }

    ngx_free(central->kept);
    central->kept = NULL;
    central->full = 0;
}


/* ---- the link ---- */


static void
ngx_http_weir_central_ask_fleet(ngx_http_weir_central_t *central)
{
    if (!central->asked
        && ngx_http_weir_central_send(NGX_HTTP_WEIR_FLEET, NULL, 0))
    {
        central->asked = 1;
    }
}


void
ngx_http_weir_central_up(void)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    ngx_http_weir_central_ask_fleet(central);
    ngx_http_weir_central_send_kept(central);

    ngx_add_timer(&central->poll, NGX_HTTP_WEIR_CENTRAL_POLL);
}


/* the secret may change; and a link that says nothing at all is none */

void
ngx_http_weir_central_poll(ngx_event_t *ev)
{
    ngx_msec_t                age;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *first;

    central = ev->data;
    first = ngx_http_weir_central_first();

    if (first) {
        age = ngx_current_msec - first->sent;

        if (age > central->conf->central.timeout
                  + NGX_HTTP_WEIR_CENTRAL_SILENCE)
        {
            ngx_http_weir_link_lose(&central->link, "does not answer", 0);
            return;
        }
    }

    ngx_http_weir_central_ask_fleet(central);
    ngx_http_weir_central_send_kept(central);

    ngx_add_timer(ev, NGX_HTTP_WEIR_CENTRAL_POLL);
}


/* the service does not know the secret itself yet */

static ngx_uint_t
ngx_http_weir_central_not_yet(ngx_http_weir_reply_t *reply)
{
    return reply->head.type == '_'
           || (reply->head.type == '-' && reply->head.len >= 6
               && ngx_strncmp(reply->head.data, "NOTYET", 6) == 0);
}


/* another kind of server, or one that does not know this user */

static void
ngx_http_weir_central_denied(ngx_http_weir_central_t *central,
    ngx_http_weir_reply_t *reply)
{
    if (!central->denied) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "weir: \"%V\" of \"weir_central\" answers \"%*s\"",
                      &central->conf->central.name, reply->head.len,
                      reply->head.data);
    }

    central->denied = 1;

    ngx_http_weir_central_greeted(central);
}


static ngx_int_t
ngx_http_weir_central_fleet(ngx_http_weir_central_t *central,
    ngx_http_weir_reply_t *reply)
{
    int  rc;

    central->asked = 0;

    if (ngx_http_weir_central_not_yet(reply)) {
        ngx_http_weir_central_greeted(central);
        return NGX_OK;
    }

    if (reply->head.type == '-') {
        ngx_http_weir_central_denied(central, reply);
        return NGX_OK;
    }

    if (reply->head.type != '$' || reply->head.len != WEIR_SECRET_BYTES) {
        return NGX_ERROR;
    }

    rc = weir_engine_fleet(central->conf->engine, reply->head.data);

    if (rc != 0) {
        ngx_http_weir_failed(ngx_cycle->log, "weir_engine_fleet()", rc);
        return NGX_OK;
    }

    central->ready = 1;
    central->denied = 0;

    ngx_http_weir_central_greeted(central);
    ngx_http_weir_link_works(&central->link);

    return NGX_OK;
}


/* NGX_ERROR: not what was asked for */

ngx_int_t
ngx_http_weir_central_reply(ngx_http_weir_reply_t *reply)
{
    ngx_int_t                 rc;
    ngx_queue_t              *next;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;

    p = ngx_http_weir_central_first();

    if (p == NULL || reply->head.type == '*') {
        return NGX_ERROR;
    }

    rc = NGX_OK;
    next = ngx_queue_next(&p->queue);

    if (p->command == NGX_HTTP_WEIR_FLEET) {
        rc = ngx_http_weir_central_fleet(central, reply);

    } else if (p->command == NGX_HTTP_WEIR_QUESTION) {
        ngx_http_weir_central_settle(p, reply);
        ngx_http_weir_central_late(p, reply);
    }

    ngx_http_weir_central_remove(p);

    if (central->npending == NGX_HTTP_WEIR_CENTRAL_MAX / 4) {
        ngx_http_weir_central_send_kept(central);
    }

    if (next == ngx_queue_sentinel(&central->pending)) {
        central->overdue = 0;

    } else {
        p = ngx_queue_data(next, ngx_http_weir_pending_t, queue);
        central->overdue = central->overdue && p->late;
    }

    return rc;
}


/* nobody will be answered any more */

void
ngx_http_weir_central_lost(void)
{
    ngx_queue_t              *q, *next;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;

    for (q = ngx_queue_head(&central->pending);
         q != ngx_queue_sentinel(&central->pending); q = next)
    {
        next = ngx_queue_next(q);
        p = ngx_queue_data(q, ngx_http_weir_pending_t, queue);

        ngx_http_weir_central_settle(p, NULL);
        ngx_http_weir_central_remove(p);
    }

    ngx_http_weir_central_greeted(central);

    central->ready = 0;
    central->overdue = 0;
    central->asked = 0;

    if (central->poll.timer_set) {
        ngx_del_timer(&central->poll);
    }
}
