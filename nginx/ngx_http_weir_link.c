
#include "ngx_http_weir_module.h"


/*
 * A worker's connection to the Unix socket of "weir serve", and the list of
 * requests that are pending on the connection. The module has two links: one
 * for questions to the central store, one for deferred requests.
 *
 * Commands are sent in RESP. All commands of one event loop iteration are sent
 * with one write. The service replies in the order of the commands, so a reply
 * belongs to the first entry of the list. An entry stays in the list until its
 * reply is read or the link is lost, also if its deadline has passed or its
 * client has closed the connection. All deadlines of a link are equally long,
 * so the list is sorted by deadline too.
 *
 * A lost link is opened again after NGX_HTTP_WEIR_LINK_RETRY ms. The delay
 * doubles with each further failure. The actual delay is chosen at random
 * between 50% and 100% of it.
 */


#define NGX_HTTP_WEIR_LINK_OUT        65536
/* a larger send buffer is freed when it is empty */
#define NGX_HTTP_WEIR_LINK_OUT_KEEP   (1024 * 1024)
#define NGX_HTTP_WEIR_LINK_IN         65536
#define NGX_HTTP_WEIR_LINK_CONNECT    1000  /* ms */
#define NGX_HTTP_WEIR_LINK_POLL       1000  /* ms */
#define NGX_HTTP_WEIR_LINK_RETRY      50    /* ms */
#define NGX_HTTP_WEIR_LINK_RETRY_MAX  2000  /* ms */


static void ngx_http_weir_link_open(ngx_http_weir_link_t *link);
static void ngx_http_weir_link_lose(ngx_http_weir_link_t *link,
    const char *reason, ngx_err_t err);
static void ngx_http_weir_link_retry_handler(ngx_event_t *ev);
static void ngx_http_weir_link_deadline_handler(ngx_event_t *ev);
static void ngx_http_weir_link_poll_handler(ngx_event_t *ev);
static void ngx_http_weir_link_read_handler(ngx_event_t *rev);
static void ngx_http_weir_link_write_handler(ngx_event_t *wev);


/* lowers the log level in all workers but the first to "info" */

static ngx_uint_t
ngx_http_weir_link_log_level(ngx_uint_t level)
{
    return ngx_worker == 0 ? level : NGX_LOG_INFO;
}


ngx_int_t
ngx_http_weir_link_init(ngx_cycle_t *cycle, ngx_http_weir_link_t *link,
    const ngx_http_weir_link_opts_t *opts)
{
    ngx_memzero(link, sizeof(ngx_http_weir_link_t));

    link->opts = *opts;
    link->in = ngx_alloc(NGX_HTTP_WEIR_LINK_IN, cycle->log);
    link->out = ngx_alloc(NGX_HTTP_WEIR_LINK_OUT, cycle->log);

    if (link->in == NULL || link->out == NULL) {
        return NGX_ERROR;
    }

    link->out_size = NGX_HTTP_WEIR_LINK_OUT;
    link->retry_delay = NGX_HTTP_WEIR_LINK_RETRY;

    ngx_queue_init(&link->pending);

    link->quiet_log = *cycle->log;
    link->quiet_log.log_level = NGX_LOG_EMERG;

    link->retry.handler = ngx_http_weir_link_retry_handler;
    link->retry.data = link;
    link->retry.log = cycle->log;
    link->retry.cancelable = 1;

    link->poll.handler = ngx_http_weir_link_poll_handler;
    link->poll.data = link;
    link->poll.log = cycle->log;
    link->poll.cancelable = 1;

    link->deadline.handler = ngx_http_weir_link_deadline_handler;
    link->deadline.data = link;
    link->deadline.log = cycle->log;

    ngx_http_weir_link_open(link);

    return NGX_OK;
}


/*
 * Called if the buffer is empty. Replaces a large buffer by a buffer of the
 * first size.
 */

static void
ngx_http_weir_link_reset_out(ngx_http_weir_link_t *link)
{
    u_char  *out;

    link->out_sent = 0;
    link->out_len = 0;

    if (link->out_size <= NGX_HTTP_WEIR_LINK_OUT_KEEP) {
        return;
    }

    out = ngx_alloc(NGX_HTTP_WEIR_LINK_OUT, ngx_cycle->log);
    if (out == NULL) {
        return;
    }

    ngx_free(link->out);
    link->out = out;
    link->out_size = NGX_HTTP_WEIR_LINK_OUT;
}


/* ---- pending requests ---- */


/*
 * Calls the handler of an entry. A handler is called only once. If it is
 * called at the deadline, it may set another handler for a late reply.
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

    return ngx_queue_data(ngx_queue_head(&link->pending),
                          ngx_http_weir_pending_t, queue);
}


/* settles and removes the first entry; NGX_ERROR if the list is empty */

static ngx_int_t
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


static void
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


static void
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


/* ---- opening and losing the connection ---- */


/*
 * Closes the connection. Calls the handlers of all pending entries without a
 * reply.
 */

static void
ngx_http_weir_link_disconnect(ngx_http_weir_link_t *link)
{
    if (link->peer.connection) {
        ngx_close_connection(link->peer.connection);
        link->peer.connection = NULL;
    }

    if (link->retry.timer_set) {
        ngx_del_timer(&link->retry);
    }

    if (link->poll.timer_set) {
        ngx_del_timer(&link->poll);
    }

    link->up = 0;
    link->in_len = 0;

    ngx_http_weir_link_reset_out(link);

    while (link->npending) {
        (void) ngx_http_weir_link_settle_first(link, NULL);
    }
}


/*
 * Called if the worker exits. Sends the bytes that the socket accepts without
 * blocking.
 */

void
ngx_http_weir_link_close(ngx_http_weir_link_t *link)
{
    ngx_connection_t  *c;

    if (link->in == NULL) {
        return;
    }

    if (link->up && link->out_sent < link->out_len) {
        c = link->peer.connection;
        (void) c->send(c, link->out + link->out_sent,
                       link->out_len - link->out_sent);
    }

    ngx_http_weir_link_disconnect(link);

    ngx_free(link->in);
    ngx_free(link->out);

    ngx_memzero(link, sizeof(ngx_http_weir_link_t));
}


static void
ngx_http_weir_link_lose(ngx_http_weir_link_t *link, const char *reason,
    ngx_err_t err)
{
    ngx_msec_t  half;

    if (!link->loss_logged && !ngx_exiting) {
        ngx_log_error(ngx_http_weir_link_log_level(NGX_LOG_WARN),
                      ngx_cycle->log, err,
                      "weir: connection to \"%V\" of \"%s\" lost: %s; "
                      "until it is back, %s",
                      &link->opts.peer.name, link->opts.directive, reason,
                      link->opts.fallback);
    }

    link->loss_logged = 1;

    ngx_http_weir_link_disconnect(link);

    half = link->retry_delay / 2;
    ngx_add_timer(&link->retry, half + (ngx_msec_t) ngx_random() % (half + 1));

    link->retry_delay = ngx_min(link->retry_delay * 2,
                                NGX_HTTP_WEIR_LINK_RETRY_MAX);

    if (link->opts.lost) {
        link->opts.lost();
    }
}


/*
 * This timer limits the time of a connect, and it waits until the next
 * attempt.
 */

static void
ngx_http_weir_link_retry_handler(ngx_event_t *ev)
{
    ngx_http_weir_link_t  *link = ev->data;

    if (link->peer.connection) {
        ngx_http_weir_link_lose(link, "connect timed out", 0);
        return;
    }

    ngx_http_weir_link_open(link);
}


/* handles the reply to WEIR.LINK, which tells whether the key is right */

static ngx_int_t
ngx_http_weir_link_key_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    ngx_http_weir_link_t  *link;

    link = p->link;

    if (reply == NULL) {
        return NGX_OK;
    }

    if (reply->head.type == '+') {
        link->refusal_logged = 0;
        return NGX_OK;
    }

    if (!link->refusal_logged) {
        ngx_log_error(ngx_http_weir_link_log_level(NGX_LOG_ERR),
                      ngx_cycle->log, 0,
                      "weir: \"%V\" of \"%s\" refused the key of "
                      "\"weir_link_key\", which must be the key of "
                      "\"weir serve --link-key\": \"%*s\"",
                      &link->opts.peer.name, link->opts.directive,
                      reply->head.len, reply->head.data);
    }

    link->refusal_logged = 1;

    return NGX_DECLINED;
}


/*
 * Sends the key as the first command. After a wrong key the service refuses
 * all commands. The master process has read the key, and its workers inherit
 * it.
 */

static void
ngx_http_weir_link_connected(ngx_http_weir_link_t *link)
{
    ngx_str_t  words[2];

    if (link->retry.timer_set) {
        ngx_del_timer(&link->retry);
    }

    link->up = 1;

    ngx_str_set(&words[0], "WEIR.LINK");
    words[1] = link->opts.key;

    if (ngx_http_weir_link_send(link, words, 2, ngx_http_weir_link_key_handler,
                                NULL)
        == NULL)
    {
        ngx_http_weir_link_lose(link, "no memory", 0);
        return;
    }

    link->opts.up();

    ngx_add_timer(&link->poll, NGX_HTTP_WEIR_LINK_POLL);
}


static void
ngx_http_weir_link_open(ngx_http_weir_link_t *link)
{
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_peer_connection_t  *pc;

    pc = &link->peer;

    ngx_memzero(pc, sizeof(ngx_peer_connection_t));

    pc->sockaddr = link->opts.peer.sockaddr;
    pc->socklen = link->opts.peer.socklen;
    pc->name = &link->opts.peer.name;
    pc->get = ngx_event_get_peer;
    pc->log = &link->quiet_log;
    pc->log_error = NGX_ERROR_ERR;

    rc = ngx_event_connect_peer(pc);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_http_weir_link_lose(link, "connect failed", ngx_socket_errno);
        return;
    }

    c = pc->connection;
    c->data = link;
    c->read->handler = ngx_http_weir_link_read_handler;
    c->write->handler = ngx_http_weir_link_write_handler;

    if (rc == NGX_OK) {
        ngx_http_weir_link_connected(link);
        return;
    }

    ngx_add_timer(&link->retry, NGX_HTTP_WEIR_LINK_CONNECT);
}


/*
 * Called if the service has replied correctly. From now on a loss of the link
 * is logged again.
 */

void
ngx_http_weir_link_works(ngx_http_weir_link_t *link)
{
    link->retry_delay = NGX_HTTP_WEIR_LINK_RETRY;

    if (link->loss_logged) {
        ngx_log_error(ngx_http_weir_link_log_level(NGX_LOG_NOTICE),
                      ngx_cycle->log, 0,
                      "weir: connection to \"%V\" of \"%s\" is back",
                      &link->opts.peer.name, link->opts.directive);

    } else if (!link->up_logged) {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "weir: connection to \"%V\" of \"%s\" is up",
                      &link->opts.peer.name, link->opts.directive);
    }

    link->loss_logged = 0;
    link->up_logged = 1;
}


/* ---- sending ---- */


static ngx_int_t
ngx_http_weir_link_reserve_out(ngx_http_weir_link_t *link, size_t len)
{
    size_t   size;
    u_char  *out;

    if (link->out_len + len <= link->out_size) {
        return NGX_OK;
    }

    if (link->out_sent) {
        link->out_len -= link->out_sent;
        ngx_memmove(link->out, link->out + link->out_sent, link->out_len);
        link->out_sent = 0;
    }

    for (size = link->out_size; size < link->out_len + len; size *= 2) {
        /* void */
    }

    if (size == link->out_size) {
        return NGX_OK;
    }

    if (size > link->opts.out_max) {
        return NGX_ERROR;
    }

    out = ngx_alloc(size, ngx_cycle->log);
    if (out == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(out, link->out, link->out_len);
    ngx_free(link->out);

    link->out = out;
    link->out_size = size;

    return NGX_OK;
}


/*
 * Sends a command of n words at the end of this event loop iteration. The
 * handler is called once: with the reply, or without a reply if the deadline
 * has passed or the link is lost. If data is NULL, no request waits for the
 * reply, and the command has no deadline. Returns NULL if the command cannot
 * be sent.
 */

ngx_http_weir_pending_t *
ngx_http_weir_link_send(ngx_http_weir_link_t *link, const ngx_str_t *words,
    ngx_uint_t n, ngx_http_weir_reply_pt handler, void *data)
{
    size_t                    size;
    u_char                   *out;
    ngx_uint_t                i;
    ngx_http_weir_pending_t  *p;

    size = 2 * NGX_INT64_LEN;

    for (i = 0; i < n; i++) {
        size += words[i].len + NGX_INT64_LEN;
    }

    if (!link->up || link->npending == NGX_HTTP_WEIR_PENDING_MAX
        || ngx_http_weir_link_reserve_out(link, size) != NGX_OK)
    {
        return NULL;
    }

    p = ngx_calloc(sizeof(ngx_http_weir_pending_t), ngx_cycle->log);
    if (p == NULL) {
        return NULL;
    }

    out = ngx_sprintf(link->out + link->out_len, "*%ui\r\n", n);

    for (i = 0; i < n; i++) {
        out = ngx_sprintf(out, "$%uz\r\n", words[i].len);

        if (words[i].len) {
            out = ngx_cpymem(out, words[i].data, words[i].len);
        }

        *out++ = CR;
        *out++ = LF;
    }

    link->out_len = out - link->out;

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


static void
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

    while (link->out_sent < link->out_len) {
        n = c->send(c, link->out + link->out_sent,
                    link->out_len - link->out_sent);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_weir_link_lose(link, "send failed", ngx_socket_errno);
            return;
        }

        link->out_sent += n;
    }

    if (link->out_sent == link->out_len) {
        ngx_http_weir_link_reset_out(link);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_weir_link_lose(link, "write event failed", 0);
    }
}


/* ---- replies ---- */


/* handles all complete replies; NGX_ERROR if the link was lost */

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


static void
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
