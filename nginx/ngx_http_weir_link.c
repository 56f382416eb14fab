
#include "ngx_http_weir_module.h"


/*
 * The connection of a worker to the socket of "weir serve", which asks the
 * central store. Commands go out as RESP, all of a turn of the loop in one
 * write; replies come back in the same order. It is opened when the worker
 * begins, and again whenever it is lost. Nothing here waits.
 */


#define NGX_HTTP_WEIR_LINK_OUT      65536
#define NGX_HTTP_WEIR_LINK_OUT_MAX  (4 * 1024 * 1024)
#define NGX_HTTP_WEIR_LINK_IN       65536
#define NGX_HTTP_WEIR_LINK_LINE     512    /* longest line of a reply */
#define NGX_HTTP_WEIR_LINK_BULK     16384  /* longest bulk of a reply */
#define NGX_HTTP_WEIR_LINK_CONNECT  1000   /* ms */
#define NGX_HTTP_WEIR_LINK_BACK     50     /* ms until it is tried again, */
#define NGX_HTTP_WEIR_LINK_BACK_MAX 2000   /* and each time twice as long */


typedef struct {
    ngx_peer_connection_t       peer;
    ngx_log_t                   quiet;   /* what is to be told is told here */
    ngx_http_weir_main_conf_t  *conf;

    ngx_event_t                 timer;   /* tries again, or gives up */
    ngx_msec_t                  back;

    u_char                     *out;
    size_t                      out_size;
    size_t                      out_sent;
    size_t                      out_len;

    u_char                     *in;
    size_t                      in_len;

    unsigned                    up:1;
    unsigned                    missed:1; /* its loss was told */
    unsigned                    worked:1;
} ngx_http_weir_link_t;


static void ngx_http_weir_link_open(void);
static void ngx_http_weir_link_retry(ngx_event_t *ev);
static void ngx_http_weir_link_read(ngx_event_t *rev);
static void ngx_http_weir_link_write(ngx_event_t *wev);


static ngx_http_weir_link_t  ngx_http_weir_link;


/* one worker tells; the others whisper */

static ngx_uint_t
ngx_http_weir_link_level(ngx_uint_t level)
{
    return ngx_worker == 0 ? level : NGX_LOG_INFO;
}


ngx_int_t
ngx_http_weir_link_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    ngx_memzero(link, sizeof(ngx_http_weir_link_t));

    link->in = ngx_alloc(NGX_HTTP_WEIR_LINK_IN, cycle->log);
    link->out = ngx_alloc(NGX_HTTP_WEIR_LINK_OUT, cycle->log);

    if (link->in == NULL || link->out == NULL) {
        return NGX_ERROR;
    }

    link->out_size = NGX_HTTP_WEIR_LINK_OUT;
    link->conf = wmcf;
    link->back = NGX_HTTP_WEIR_LINK_BACK;

    link->quiet = *cycle->log;
    link->quiet.log_level = NGX_LOG_EMERG;

    link->timer.handler = ngx_http_weir_link_retry;
    link->timer.data = link;
    link->timer.log = cycle->log;
    link->timer.cancelable = 1;

    ngx_http_weir_link_open();

    return NGX_OK;
}


static void
ngx_http_weir_link_disconnect(void)
{
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    if (link->peer.connection) {
        ngx_close_connection(link->peer.connection);
        link->peer.connection = NULL;
    }

    link->up = 0;
    link->out_sent = 0;
    link->out_len = 0;
    link->in_len = 0;
}


/* the worker ends; what can be sent without waiting is sent */

void
ngx_http_weir_link_close(void)
{
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    if (link->up && link->out_sent < link->out_len) {
        c = link->peer.connection;
        (void) c->send(c, link->out + link->out_sent,
                       link->out_len - link->out_sent);
    }

    if (link->timer.timer_set) {
        ngx_del_timer(&link->timer);
    }

    ngx_http_weir_link_disconnect();

    if (link->in) {
        ngx_free(link->in);
    }

    if (link->out) {
        ngx_free(link->out);
    }

    ngx_memzero(link, sizeof(ngx_http_weir_link_t));
}


void
ngx_http_weir_link_lose(const char *why, ngx_err_t err)
{
    ngx_msec_t             wait;
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    ngx_http_weir_link_disconnect();

    if (!link->missed && !ngx_exiting) {
        ngx_log_error(ngx_http_weir_link_level(NGX_LOG_WARN),
                      ngx_cycle->log, err,
                      "weir: \"%V\" of \"weir_central\" %s; until it is back "
                      "its rules do as their on_store_failure says",
                      &link->conf->central.name, why);
    }

    link->missed = 1;

    wait = link->back / 2 + (ngx_msec_t) ngx_random() % (link->back / 2 + 1);
    link->back = ngx_min(link->back * 2, NGX_HTTP_WEIR_LINK_BACK_MAX);

    ngx_add_timer(&link->timer, wait);

    ngx_http_weir_central_lost();
}


static void
ngx_http_weir_link_retry(ngx_event_t *ev)
{
    if (ngx_http_weir_link.peer.connection) {
        ngx_http_weir_link_lose("does not accept", 0);
        return;
    }

    ngx_http_weir_link_open();
}


static void
ngx_http_weir_link_connected(void)
{
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    if (link->timer.timer_set) {
        ngx_del_timer(&link->timer);
    }

    link->up = 1;

    ngx_http_weir_central_up();
}


static void
ngx_http_weir_link_open(void)
{
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_http_weir_link_t   *link;
    ngx_peer_connection_t  *pc;

    link = &ngx_http_weir_link;
    pc = &link->peer;

    ngx_memzero(pc, sizeof(ngx_peer_connection_t));

    pc->sockaddr = link->conf->central.sockaddr;
    pc->socklen = link->conf->central.socklen;
    pc->name = &link->conf->central.name;
    pc->get = ngx_event_get_peer;
    pc->log = &link->quiet;
    pc->log_error = NGX_ERROR_ERR;

    rc = ngx_event_connect_peer(pc);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_http_weir_link_lose("cannot be connected to", ngx_socket_errno);
        return;
    }

    c = pc->connection;
    c->data = link;
    c->read->handler = ngx_http_weir_link_read;
    c->write->handler = ngx_http_weir_link_write;

    if (rc == NGX_OK) {
        ngx_http_weir_link_connected();
        return;
    }

    ngx_add_timer(&link->timer, NGX_HTTP_WEIR_LINK_CONNECT);
}


/* it does what it is for: told once, and the next loss is told again */

void
ngx_http_weir_link_works(void)
{
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    link->back = NGX_HTTP_WEIR_LINK_BACK;

    if (link->missed) {
        ngx_log_error(ngx_http_weir_link_level(NGX_LOG_NOTICE),
                      ngx_cycle->log, 0,
                      "weir: \"%V\" of \"weir_central\" is back",
                      &link->conf->central.name);

    } else if (!link->worked) {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "weir: \"%V\" of \"weir_central\" is there",
                      &link->conf->central.name);
    }

    link->missed = 0;
    link->worked = 1;
}


static ngx_int_t
ngx_http_weir_link_reserve(size_t len)
{
    size_t                 size;
    u_char                *out;
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

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

    if (size > NGX_HTTP_WEIR_LINK_OUT_MAX) {
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
 * A command of one argument, or of none if it has no length. Goes out when
 * this turn of the loop has no more to say. NGX_ERROR: there is no room, and
 * nothing of it goes out.
 */

ngx_int_t
ngx_http_weir_link_send(const char *name, const u_char *argument, size_t len)
{
    size_t                 size;
    u_char                *p;
    ngx_connection_t      *c;
    ngx_http_weir_link_t  *link;

    link = &ngx_http_weir_link;

    size = len + ngx_strlen(name) + 64;

    if (!link->up || ngx_http_weir_link_reserve(size) != NGX_OK) {
        return NGX_ERROR;
    }

    p = link->out + link->out_len;

    p = ngx_sprintf(p, "*%d\r\n$%uz\r\n%s\r\n", len ? 2 : 1,
                    ngx_strlen(name), name);

    if (len) {
        p = ngx_sprintf(p, "$%uz\r\n", len);
        p = ngx_cpymem(p, argument, len);
        p = ngx_cpymem(p, "\r\n", 2);
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
    int        err;
    socklen_t  len;

    err = 0;
    len = sizeof(int);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_http_weir_link_lose("cannot be connected to", err);
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

        ngx_http_weir_link_connected();
    }

    while (link->out_sent < link->out_len) {
        n = c->send(c, link->out + link->out_sent,
                    link->out_len - link->out_sent);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            ngx_http_weir_link_lose("was lost", ngx_socket_errno);
            return;
        }

        link->out_sent += n;
    }

    if (link->out_sent == link->out_len) {
        link->out_sent = 0;
        link->out_len = 0;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_weir_link_lose("was lost", 0);
    }
}


/*
 * One reply. NGX_AGAIN: it is not whole yet; NGX_ERROR: it is none. A null is
 * a reply of type '_', whichever way it is written.
 */

static ngx_int_t
ngx_http_weir_link_parse(u_char *p, u_char *last, ngx_http_weir_reply_t *reply)
{
    u_char   *eol;
    ssize_t   len;

    eol = ngx_strlchr(p, last, CR);

    if (eol == NULL || eol + 1 == last) {
        return last - p > NGX_HTTP_WEIR_LINK_LINE ? NGX_ERROR : NGX_AGAIN;
    }

    if (eol[1] != LF || eol == p || eol - p > NGX_HTTP_WEIR_LINK_LINE) {
        return NGX_ERROR;
    }

    reply->type = *p;
    reply->data = p + 1;
    reply->len = eol - p - 1;
    reply->end = eol + 2;

    if (*p == '+' || *p == '-' || *p == ':' || *p == '_') {
        return NGX_OK;
    }

    if (*p != '$') {
        return NGX_ERROR;
    }

    if (reply->len == 2 && ngx_strncmp(reply->data, "-1", 2) == 0) {
        reply->type = '_';
        return NGX_OK;
    }

    len = ngx_atosz(reply->data, reply->len);

    if (len == NGX_ERROR || len > NGX_HTTP_WEIR_LINK_BULK) {
        return NGX_ERROR;
    }

    reply->data = reply->end;
    reply->len = len;
    reply->end += len + 2;

    if (reply->end > last) {
        return NGX_AGAIN;
    }

    return reply->end[-2] == CR && reply->end[-1] == LF ? NGX_OK : NGX_ERROR;
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
        rc = ngx_http_weir_link_parse(p, last, &reply);

        if (rc == NGX_OK) {
            rc = ngx_http_weir_central_reply(&reply);
        }

        if (rc == NGX_AGAIN) {
            break;
        }

        if (rc != NGX_OK) {
            ngx_http_weir_link_lose("answers what makes no sense", 0);
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
            ngx_http_weir_link_lose("has closed the connection", 0);
            return;
        }

        if (n < 0) {
            ngx_http_weir_link_lose("was lost", ngx_socket_errno);
            return;
        }

        link->in_len += n;

        if (ngx_http_weir_link_replies(link) != NGX_OK) {
            return;
        }
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_weir_link_lose("was lost", 0);
    }
}
