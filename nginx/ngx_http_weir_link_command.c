
#include "ngx_http_weir_link.h"


/*
 * Commands that a worker sends to "weir serve", and the list of pending
 * commands, whose replies have not come yet.
 *
 * Commands are sent in RESP. All commands of one event loop iteration are sent
 * with one write. The service replies in the order of the commands, so a reply
 * belongs to the first command of the list. A command stays in the list until
 * its reply is read or the link is lost, even if its deadline has passed or its
 * client has closed the connection. All commands of a link have the same
 * timeout, so the list is sorted by deadline too.
 */


/* an empty send buffer with more than this many bytes of memory is freed */
#define NGX_HTTP_WEIR_LINK_OUT_KEEP  (1024 * 1024)


/*
 * Calls the handler of a pending command and removes the handler, so that it is
 * called only once. A handler that is called at the deadline can set another
 * handler, which is called if the reply still comes.
 */

static ngx_int_t
ngx_http_weir_link_settle(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    ngx_http_weir_link_t    *link;
    ngx_http_weir_reply_pt   handler;

    link = p->link;

    if (p->timed) {
        p->timed = 0;
        link->ntimed--;

        /* remove the timer, because it would keep the worker from exiting */

        if (link->ntimed == 0 && link->deadline.timer_set) {
            ngx_del_timer(&link->deadline);
        }
    }

    handler = p->handler;
    p->handler = NULL;

    return handler ? handler(p, reply) : NGX_OK;
}


static ngx_http_weir_pending_t *
ngx_http_weir_link_first_pending(ngx_http_weir_link_t *link)
{
    if (ngx_queue_empty(&link->pending)) {
        return NULL;
    }

    /* clang does not see that ngx_queue_remove() unlinks freed commands */
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    return ngx_queue_data(ngx_queue_head(&link->pending),
                          ngx_http_weir_pending_t, queue);
}


/*
 * Calls the handler of the first pending command and removes the command from
 * the list. Returns the code of the handler, or NGX_ERROR if the list is empty.
 */

ngx_int_t
ngx_http_weir_link_settle_first(ngx_http_weir_link_t *link,
    ngx_http_weir_reply_t *reply)
{
    ngx_int_t                 rc;
    ngx_http_weir_pending_t  *p;

    p = ngx_http_weir_link_first_pending(link);

    if (p == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_http_weir_link_settle(p, reply);

    ngx_queue_remove(&p->queue);
    link->npending--;
    ngx_free(p);

    p = ngx_http_weir_link_first_pending(link);
    link->overdue = link->overdue && p && p->late;

    return rc;
}


void
ngx_http_weir_link_deadline_handler(ngx_event_t *ev)
{
    ngx_queue_t              *q;
    ngx_msec_int_t            left;
    ngx_http_weir_link_t     *link;
    ngx_http_weir_pending_t  *p;

    link = ev->data;

    for (q = ngx_queue_head(&link->pending);
         q != ngx_queue_sentinel(&link->pending); q = ngx_queue_next(q))
    {
        p = ngx_queue_data(q, ngx_http_weir_pending_t, queue);

        if (!p->timed) {
            continue;
        }

        left = (ngx_msec_int_t) (p->sent + link->opts.peer.timeout
                                 - ngx_current_msec);
        if (left > 0) {
            ngx_add_timer(ev, left);
            return;
        }

        if (!link->overdue) {
            ngx_log_error(NGX_LOG_INFO, ev->log, 0,
                          "weir: no reply from \"%V\" of \"%s\" within %Mms",
                          &link->opts.peer.name, link->opts.directive,
                          link->opts.peer.timeout);
        }

        link->overdue = 1;
        p->late = 1;

        (void) ngx_http_weir_link_settle(p, NULL);
    }
}


void
ngx_http_weir_link_poll_handler(ngx_event_t *ev)
{
    ngx_http_weir_link_t     *link;
    ngx_http_weir_pending_t  *p;

    link = ev->data;
    p = ngx_http_weir_link_first_pending(link);

    if (p
        && ngx_current_msec - p->sent
           > link->opts.peer.timeout + link->opts.silence)
    {
        ngx_http_weir_link_lose(link, "no reply", 0);
        return;
    }

    link->opts.poll();

    ngx_add_timer(ev, NGX_HTTP_WEIR_LINK_POLL);
}


/* ---- sending ---- */


/*
 * Called if all bytes of the buffer have been sent or the link is lost. Frees a
 * large buffer.
 */

void
ngx_http_weir_link_reset_out(ngx_http_weir_link_t *link)
{
    link->out_sent = 0;

    if (link->out.cap > NGX_HTTP_WEIR_LINK_OUT_KEEP) {
        wr_buf_free(&link->out);

    } else {
        wr_buf_clear(&link->out);
    }
}


/* returns room for len bytes at the end of the send buffer, or NULL */

static u_char *
ngx_http_weir_link_reserve_out(ngx_http_weir_link_t *link, size_t len)
{
    if (link->out_sent && len >= link->out.cap - link->out.len) {
        wr_buf_drop(&link->out, link->out_sent);
        link->out_sent = 0;
    }

    return len > link->out.max - link->out.len
               ? NULL : (u_char *) wr_buf_reserve(&link->out, len);
}


/*
 * Sends a command, which consists of n strings, at the end of this event loop
 * iteration. The handler is called once: with the reply, or without a reply if
 * the deadline has passed or the link is lost. If data is NULL, no request
 * waits for the reply, and the command has no deadline. Returns NULL if the
 * command cannot be sent.
 */

ngx_http_weir_pending_t *
ngx_http_weir_link_send(ngx_http_weir_link_t *link, const ngx_str_t *words,
    ngx_uint_t n, ngx_http_weir_reply_pt handler, void *data)
{
    size_t                    size;
    u_char                   *out, *first;
    ngx_uint_t                i;
    ngx_http_weir_pending_t  *p;

    size = 2 * NGX_INT64_LEN;

    for (i = 0; i < n; i++) {
        size += words[i].len + NGX_INT64_LEN;
    }

    if (!link->up || link->npending == NGX_HTTP_WEIR_PENDING_MAX) {
        return NULL;
    }

    first = ngx_http_weir_link_reserve_out(link, size);
    if (first == NULL) {
        return NULL;
    }

    p = ngx_calloc(sizeof(ngx_http_weir_pending_t), ngx_cycle->log);
    if (p == NULL) {
        return NULL;
    }

    out = ngx_sprintf(first, "*%ui\r\n", n);

    for (i = 0; i < n; i++) {
        out = ngx_sprintf(out, "$%uz\r\n", words[i].len);

        if (words[i].len) {
            out = ngx_cpymem(out, words[i].data, words[i].len);
        }

        *out++ = CR;
        *out++ = LF;
    }

    wr_buf_commit(&link->out, out - first);

    if (link->peer.connection->write->ready) {
        ngx_post_event(link->peer.connection->write, &ngx_posted_events);
    }

    p->link = link;
    p->handler = handler;
    p->data = data;
    p->sent = ngx_current_msec;

    ngx_queue_insert_tail(&link->pending, &p->queue);
    link->npending++;

    if (data) {
        p->timed = 1;
        link->ntimed++;

        if (!link->deadline.timer_set) {
            ngx_add_timer(&link->deadline, link->opts.peer.timeout);
        }
    }

    return p;
}


void
ngx_http_weir_link_write_handler(ngx_event_t *wev)
{
    int                    err;
    ssize_t                n;
    socklen_t              len;
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    c = wev->data;
    link = c->data;

    if (!link->up) {
        err = 0;
        len = sizeof(int);

        if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len)
            == -1)
        {
            err = ngx_socket_errno;
        }

        if (err) {
            ngx_http_weir_link_lose(link, "connect failed", err);
            return;
        }

        ngx_http_weir_link_connected(link);

        if (!link->up) {
            return;
        }
    }

    while (link->out_sent < link->out.len) {
        n = c->send(c, (u_char *) link->out.ptr + link->out_sent,
                    link->out.len - link->out_sent);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_weir_link_lose(link, "send failed", ngx_socket_errno);
            return;
        }

        link->out_sent += n;
    }

    if (link->out_sent == link->out.len) {
        ngx_http_weir_link_reset_out(link);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_weir_link_lose(link, "write event failed", 0);
    }
}


/* ---- replies ---- */


/*
 * Handles all complete replies in the receive buffer. After an invalid reply,
 * closes the link and returns NGX_ERROR.
 */

static ngx_int_t
ngx_http_weir_link_read_replies(ngx_http_weir_link_t *link)
{
    u_char                 *p, *last;
    ngx_int_t               rc;
    ngx_http_weir_reply_t   reply;

    p = link->in;
    last = link->in + link->in_len;

    for ( /* void */ ; p < last; p = reply.end) {
        rc = ngx_http_weir_reply_parse(p, last, &reply);

        if (rc == NGX_AGAIN) {
            break;
        }

        if (rc == NGX_OK) {
            rc = ngx_http_weir_link_settle_first(link, &reply);
        }

        if (rc != NGX_OK) {
            ngx_http_weir_link_lose(link, rc == NGX_DECLINED ? "key refused"
                                                             : "invalid reply",
                                    0);
            return NGX_ERROR;
        }
    }

    link->in_len = last - p;
    ngx_memmove(link->in, p, link->in_len);

    return NGX_OK;
}


void
ngx_http_weir_link_read_handler(ngx_event_t *rev)
{
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    c = rev->data;
    link = c->data;

    for (;;) {
        n = c->recv(c, link->in + link->in_len,
                    NGX_HTTP_WEIR_LINK_IN - link->in_len);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == 0) {
            ngx_http_weir_link_lose(link, "closed by the service", 0);
            return;
        }

        if (n < 0) {
            ngx_http_weir_link_lose(link, "recv failed", ngx_socket_errno);
            return;
        }

        link->in_len += n;

        if (ngx_http_weir_link_read_replies(link) != NGX_OK) {
            return;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_weir_link_lose(link, "read event failed", 0);
    }
}
