
#include "ngx_http_weir_link.h"


/*
 * A worker's connection to the Unix socket of "weir serve". The module has two
 * links: one for questions to the central store, one for deferred requests.
 *
 * A lost link is opened again after NGX_HTTP_WEIR_LINK_RETRY ms. The delay
 * doubles with each further failure, up to NGX_HTTP_WEIR_LINK_RETRY_MAX ms.
 * The actual delay is random: from 50% to 100% of this delay.
 */


#define NGX_HTTP_WEIR_LINK_CONNECT    1000  /* ms */
#define NGX_HTTP_WEIR_LINK_RETRY      50    /* ms */
#define NGX_HTTP_WEIR_LINK_RETRY_MAX  2000  /* ms */


static void ngx_http_weir_link_open(ngx_http_weir_link_t *link);
static void ngx_http_weir_link_retry_handler(ngx_event_t *ev);


/*
 * Returns the level at which a message is logged: the given level in the first
 * worker, and "info" in all other workers. So the message appears only once at
 * the given level.
 */

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
    if (link->in == NULL) {
        return NGX_ERROR;
    }

    wr_buf_init(&link->out, opts->out_max);

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
 * Closes the connection. Calls the handlers of all pending commands without a
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
 * Closes the link when the worker exits. Sends as many bytes of the buffer as
 * the socket accepts without blocking.
 */

void
ngx_http_weir_link_close(ngx_http_weir_link_t *link)
{
    ngx_connection_t  *c;

    if (link->in == NULL) {
        return;
    }

    if (link->up && link->out_sent < link->out.len) {
        c = link->peer.connection;
        (void) c->send(c, (u_char *) link->out.ptr + link->out_sent,
                       link->out.len - link->out_sent);
    }

    ngx_http_weir_link_disconnect(link);

    ngx_free(link->in);
    wr_buf_free(&link->out);

    ngx_memzero(link, sizeof(ngx_http_weir_link_t));
}


void
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
 * Called when the timer "retry" fires. If a connect is in progress, the
 * connect has timed out. Otherwise the next connect is due.
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


/* handles the reply to WEIR.LINK: "+", or an error if the link key is wrong */

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
 * Sends the link key, as the first command. If the link key is wrong, the
 * service refuses all commands. The master process has read the link key, and
 * its workers inherit it.
 */

void
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
 * Called when the service has replied correctly, so the link works. Resets the
 * retry delay and loss_logged, so that the next loss of the link is logged.
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
