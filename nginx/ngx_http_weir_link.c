
#include "ngx_http_weir_module.h"


/*
 * A connection of a worker to the socket of "weir serve": one for questions to
 * the central store, one for requests that are put off. Commands go out as
 * RESP, all of a turn of the loop in one write; replies come back in the same
 * order. It is opened when the worker begins, and again whenever it is lost.
 * Nothing here waits.
 */


#define NGX_HTTP_WEIR_LINK_OUT      65536
#define NGX_HTTP_WEIR_LINK_SPARE    (1024 * 1024) /* kept when it is empty */
#define NGX_HTTP_WEIR_LINK_IN       65536
#define NGX_HTTP_WEIR_LINK_CONNECT  1000   /* ms */
#define NGX_HTTP_WEIR_LINK_BACK     50     /* ms until it is tried again, */
#define NGX_HTTP_WEIR_LINK_BACK_MAX 2000   /* and each time twice as long */


static void ngx_http_weir_link_open(ngx_http_weir_link_t *link);
static void ngx_http_weir_link_retry(ngx_event_t *ev);
static void ngx_http_weir_link_read(ngx_event_t *rev);
static void ngx_http_weir_link_write(ngx_event_t *wev);


/* one worker tells; the others whisper */

static ngx_uint_t
ngx_http_weir_link_level(ngx_uint_t level)
{
    return ngx_worker == 0 ? level : NGX_LOG_INFO;
}


ngx_int_t
ngx_http_weir_link_init(ngx_cycle_t *cycle, ngx_http_weir_link_t *link,
    const ngx_http_weir_link_use_t *use)
{
    ngx_memzero(link, sizeof(ngx_http_weir_link_t));

    link->use = *use;
    link->in = ngx_alloc(NGX_HTTP_WEIR_LINK_IN, cycle->log);
    link->out = ngx_alloc(NGX_HTTP_WEIR_LINK_OUT, cycle->log);

    if (link->in == NULL || link->out == NULL) {
        return NGX_ERROR;
    }

    link->out_size = NGX_HTTP_WEIR_LINK_OUT;
    link->back = NGX_HTTP_WEIR_LINK_BACK;

    link->quiet = *cycle->log;
    link->quiet.log_level = NGX_LOG_EMERG;

    link->timer.handler = ngx_http_weir_link_retry;
    link->timer.data = link;
    link->timer.log = cycle->log;
    link->timer.cancelable = 1;

    ngx_http_weir_link_open(link);

    return NGX_OK;
}


/* large commands leave no large buffer behind */

static void
ngx_http_weir_link_sent(ngx_http_weir_link_t *link)
{
    u_char  *out;

    link->out_sent = 0;
    link->out_len = 0;

    if (link->out_size <= NGX_HTTP_WEIR_LINK_SPARE) {
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


static void
ngx_http_weir_link_disconnect(ngx_http_weir_link_t *link)
{
    if (link->peer.connection) {
        ngx_close_connection(link->peer.connection);
        link->peer.connection = NULL;
    }

    link->up = 0;
    link->proving = 0;
    link->in_len = 0;

    ngx_http_weir_link_sent(link);
}


/* the worker ends; what can be sent without waiting is sent */

void
ngx_http_weir_link_close(ngx_http_weir_link_t *link)
{
    ngx_connection_t  *c;

    if (link->up && link->out_sent < link->out_len) {
        c = link->peer.connection;
        (void) c->send(c, link->out + link->out_sent,
                       link->out_len - link->out_sent);
    }

    if (link->timer.timer_set) {
        ngx_del_timer(&link->timer);
    }

    ngx_http_weir_link_disconnect(link);

    if (link->in) {
        ngx_free(link->in);
    }

    if (link->out) {
        ngx_free(link->out);
    }

    ngx_memzero(link, sizeof(ngx_http_weir_link_t));
}


void
ngx_http_weir_link_lose(ngx_http_weir_link_t *link, const char *why,
    ngx_err_t err)
{
    ngx_msec_t  wait;

    ngx_http_weir_link_disconnect(link);

    if (!link->missed && !ngx_exiting) {
        ngx_log_error(ngx_http_weir_link_level(NGX_LOG_WARN),
                      ngx_cycle->log, err,
                      "weir: \"%V\" of \"%s\" %s; until it is back %s",
                      &link->use.name, link->use.directive, why,
                      link->use.without);
    }

    link->missed = 1;

    wait = link->back / 2 + (ngx_msec_t) ngx_random() % (link->back / 2 + 1);
    link->back = ngx_min(link->back * 2, NGX_HTTP_WEIR_LINK_BACK_MAX);

    ngx_add_timer(&link->timer, wait);

    link->use.lost();
}


static void
ngx_http_weir_link_retry(ngx_event_t *ev)
{
    ngx_http_weir_link_t  *link = ev->data;

    if (link->peer.connection) {
        ngx_http_weir_link_lose(link, "does not accept", 0);
        return;
    }

    ngx_http_weir_link_open(link);
}


/*
 * The other end believes what it is told by whoever has the key, which the
 * master has read and its workers inherit. It is shown first; what is sent
 * behind it is refused or lost where the key is not accepted.
 */

static void
ngx_http_weir_link_connected(ngx_http_weir_link_t *link)
{
    ngx_str_t  words[2];

    if (link->timer.timer_set) {
        ngx_del_timer(&link->timer);
    }

    link->up = 1;
    link->proving = 1;

    ngx_str_set(&words[0], "WEIR.LINK");
    words[1] = link->use.key;

    /* a buffer that is empty has room for it */

    (void) ngx_http_weir_link_send(link, words, 2);

    link->use.up();
}


static ngx_int_t
ngx_http_weir_link_proved(ngx_http_weir_link_t *link,
    ngx_http_weir_reply_t *reply)
{
    if (reply->head.type != '+') {

        if (!link->denied) {
            ngx_log_error(ngx_http_weir_link_level(NGX_LOG_ERR),
                          ngx_cycle->log, 0,
                          "weir: \"%V\" of \"%s\" does not accept the key of "
                          "\"weir_link_key\": \"%*s\"",
                          &link->use.name, link->use.directive,
                          reply->head.len, reply->head.data);
        }

        link->denied = 1;
        return NGX_DECLINED;
    }

    link->proving = 0;
    link->denied = 0;

    return NGX_OK;
}


static void
ngx_http_weir_link_open(ngx_http_weir_link_t *link)
{
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_peer_connection_t  *pc;

    pc = &link->peer;

    ngx_memzero(pc, sizeof(ngx_peer_connection_t));

    pc->sockaddr = link->use.sockaddr;
    pc->socklen = link->use.socklen;
    pc->name = &link->use.name;
    pc->get = ngx_event_get_peer;
    pc->log = &link->quiet;
    pc->log_error = NGX_ERROR_ERR;

    rc = ngx_event_connect_peer(pc);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_http_weir_link_lose(link, "cannot be connected to",
                                ngx_socket_errno);
        return;
    }

    c = pc->connection;
    c->data = link;
    c->read->handler = ngx_http_weir_link_read;
    c->write->handler = ngx_http_weir_link_write;

    if (rc == NGX_OK) {
        ngx_http_weir_link_connected(link);
        return;
    }

    ngx_add_timer(&link->timer, NGX_HTTP_WEIR_LINK_CONNECT);
}


/* it does what it is for: told once, and the next loss is told again */

void
ngx_http_weir_link_works(ngx_http_weir_link_t *link)
{
    link->back = NGX_HTTP_WEIR_LINK_BACK;

    if (link->missed) {
        ngx_log_error(ngx_http_weir_link_level(NGX_LOG_NOTICE),
                      ngx_cycle->log, 0,
                      "weir: \"%V\" of \"%s\" is back",
                      &link->use.name, link->use.directive);

    } else if (!link->worked) {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "weir: \"%V\" of \"%s\" is there",
                      &link->use.name, link->use.directive);
    }

    link->missed = 0;
    link->worked = 1;
}


static ngx_int_t
ngx_http_weir_link_reserve(ngx_http_weir_link_t *link, size_t len)
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

    if (size > link->use.out_max) {
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
 * A command and its arguments. Goes out when this turn of the loop has no more
 * to say. NGX_ERROR: there is no room, and nothing of it goes out.
 */

ngx_int_t
ngx_http_weir_link_send(ngx_http_weir_link_t *link, const ngx_str_t *words,
    ngx_uint_t n)
{
    size_t             size;
    u_char            *p;
    ngx_uint_t         i;
    ngx_connection_t  *c;

    size = 2 * NGX_INT64_LEN;

    for (i = 0; i < n; i++) {
        size += words[i].len + NGX_INT64_LEN;
    }

    if (!link->up || ngx_http_weir_link_reserve(link, size) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(link->out + link->out_len, "*%ui\r\n", n);

    for (i = 0; i < n; i++) {
        p = ngx_sprintf(p, "$%uz\r\n", words[i].len);

        if (words[i].len) {
            p = ngx_cpymem(p, words[i].data, words[i].len);
        }

        *p++ = CR;
        *p++ = LF;
    }

    link->out_len = p - link->out;

    c = link->peer.connection;

    if (c->write->ready) {
        ngx_post_event(c->write, &ngx_posted_events);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_link_test_connect(ngx_connection_t *c)
{
    int                    err;
    socklen_t              len;
    ngx_http_weir_link_t  *link;

    link = c->data;

    err = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_http_weir_link_lose(link, "cannot be connected to", err);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_weir_link_write(ngx_event_t *wev)
{
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    c = wev->data;
    link = c->data;

    if (!link->up) {
        if (ngx_http_weir_link_test_connect(c) != NGX_OK) {
            return;
        }

        ngx_http_weir_link_connected(link);
    }

    while (link->out_sent < link->out_len) {
        n = c->send(c, link->out + link->out_sent,
                    link->out_len - link->out_sent);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_weir_link_lose(link, "was lost", ngx_socket_errno);
            return;
        }

        link->out_sent += n;
    }

    if (link->out_sent == link->out_len) {
        ngx_http_weir_link_sent(link);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_weir_link_lose(link, "was lost", 0);
    }
}


/* all replies that are whole; NGX_ERROR: the connection was given up */

static ngx_int_t
ngx_http_weir_link_replies(ngx_http_weir_link_t *link)
{
    u_char                 *p, *last;
    ngx_int_t               rc;
    ngx_http_weir_reply_t   reply;

    p = link->in;
    last = link->in + link->in_len;

    for ( /* void */ ; p < last; p = reply.end) {
        rc = ngx_http_weir_reply_parse(p, last, &reply);

        if (rc == NGX_OK) {
            rc = link->proving ? ngx_http_weir_link_proved(link, &reply)
                               : link->use.reply(&reply);
        }

        if (rc == NGX_AGAIN) {
            break;
        }

        if (rc == NGX_DECLINED) {
            ngx_http_weir_link_lose(link, "does not accept the key", 0);
            return NGX_ERROR;
        }

        if (rc != NGX_OK) {
            ngx_http_weir_link_lose(link, "answers what makes no sense", 0);
            return NGX_ERROR;
        }
    }

    link->in_len = last - p;
    ngx_memmove(link->in, p, link->in_len);

    return NGX_OK;
}


static void
ngx_http_weir_link_read(ngx_event_t *rev)
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
            ngx_http_weir_link_lose(link, "has closed the connection", 0);
            return;
        }

        if (n < 0) {
            ngx_http_weir_link_lose(link, "was lost", ngx_socket_errno);
            return;
        }

        link->in_len += n;

        if (ngx_http_weir_link_replies(link) != NGX_OK) {
            return;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_weir_link_lose(link, "was lost", 0);
    }
}
