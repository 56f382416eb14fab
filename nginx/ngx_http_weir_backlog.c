
#include "ngx_http_weir_defer.h"


/*
 * What is on its way to the queue of "weir serve", over a link of its own: an
 * answer may take as long as a disk. Answers come in the order of commands, so
 * a list of what is under way tells whose an answer is; whoever has left, or
 * was told that it took too long, is not in it any more, and what he sent is
 * carried out all the same.
 */


#define NGX_HTTP_WEIR_BACKLOG_MAX      4096  /* commands without an answer */
#define NGX_HTTP_WEIR_BACKLOG_HEADS    (4 * 1024 * 1024)
#define NGX_HTTP_WEIR_BACKLOG_POLL     30000 /* ms between looks at the link */
#define NGX_HTTP_WEIR_BACKLOG_SILENCE  10000 /* ms after which it is given up */


struct ngx_http_weir_errand_s {
    ngx_queue_t               queue;
    ngx_http_weir_errand_pt   done;
    void                     *data;      /* NULL: nobody waits */
    ngx_msec_t                sent;
    unsigned                  late:1;
};


typedef struct {
    ngx_http_weir_main_conf_t  *conf;    /* NULL: there is no queue */
    ngx_http_weir_link_t        link;

    ngx_queue_t                 errands;
    ngx_uint_t                  nerrands;

    ngx_event_t                 timeout; /* of the first that waits */
    ngx_event_t                 poll;
} ngx_http_weir_backlog_t;


static void ngx_http_weir_backlog_expire(ngx_event_t *ev);
static void ngx_http_weir_backlog_poll(ngx_event_t *ev);
static void ngx_http_weir_backlog_up(void);
static ngx_int_t ngx_http_weir_backlog_reply(ngx_http_weir_reply_t *reply);
static void ngx_http_weir_backlog_lost(void);


static ngx_http_weir_backlog_t  ngx_http_weir_backlog;


ngx_int_t
ngx_http_weir_backlog_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_backlog_t   *backlog;
    ngx_http_weir_link_use_t   use;

    backlog = &ngx_http_weir_backlog;

    ngx_memzero(backlog, sizeof(ngx_http_weir_backlog_t));
    ngx_queue_init(&backlog->errands);

    if (wmcf->queue.name.len == 0) {
        return NGX_OK;
    }

    backlog->conf = wmcf;

    backlog->timeout.handler = ngx_http_weir_backlog_expire;
    backlog->timeout.data = backlog;
    backlog->timeout.log = cycle->log;

    backlog->poll.handler = ngx_http_weir_backlog_poll;
    backlog->poll.data = backlog;
    backlog->poll.log = cycle->log;
    backlog->poll.cancelable = 1;

    use.name = wmcf->queue.name;
    use.sockaddr = wmcf->queue.sockaddr;
    use.socklen = wmcf->queue.socklen;
    use.key = wmcf->link_key;
    use.directive = "weir_queue";
    use.without = "nothing is deferred but refused";

    /* what waits to be sent is counted among the bodies */

    use.out_max = 2 * wmcf->queue.bodies + NGX_HTTP_WEIR_BACKLOG_HEADS;
    use.up = ngx_http_weir_backlog_up;
    use.reply = ngx_http_weir_backlog_reply;
    use.lost = ngx_http_weir_backlog_lost;

    return ngx_http_weir_link_init(cycle, &backlog->link, &use);
}


ngx_uint_t
ngx_http_weir_backlog_is_up(void)
{
    return ngx_http_weir_backlog.link.up;
}


/*
 * Sends a command; done() is called once with its answer, or with NULL when
 * there will be none in time. NULL: it does not go out.
 */

ngx_http_weir_errand_t *
ngx_http_weir_backlog_send(const ngx_str_t *words, ngx_uint_t n,
    ngx_http_weir_errand_pt done, void *data)
{
    ngx_http_weir_errand_t   *errand;
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    if (backlog->nerrands == NGX_HTTP_WEIR_BACKLOG_MAX) {
        return NULL;
    }

    errand = ngx_calloc(sizeof(ngx_http_weir_errand_t), ngx_cycle->log);
    if (errand == NULL) {
        return NULL;
    }

    if (ngx_http_weir_link_send(&backlog->link, words, n) != NGX_OK) {
        ngx_free(errand);
        return NULL;
    }

    errand->done = done;
    errand->data = data;
    errand->sent = ngx_current_msec;

    ngx_queue_insert_tail(&backlog->errands, &errand->queue);
    backlog->nerrands++;

    if (!backlog->timeout.timer_set) {
        ngx_add_timer(&backlog->timeout, backlog->conf->queue.timeout);
    }

    return errand;
}


/* nobody waits for it any more */

void
ngx_http_weir_backlog_forget(ngx_http_weir_errand_t *errand)
{
    errand->data = NULL;
}


static void
ngx_http_weir_backlog_settle(ngx_http_weir_errand_t *errand,
    ngx_http_weir_reply_t *reply)
{
    void  *data;

    data = errand->data;
    errand->data = NULL;

    if (data) {
        errand->done(data, reply);
    }
}


static void
ngx_http_weir_backlog_remove(ngx_http_weir_errand_t *errand)
{
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    ngx_queue_remove(&errand->queue);
    backlog->nerrands--;
    ngx_free(errand);

    /* a timer would keep the worker from ending */

    if (backlog->nerrands == 0 && backlog->timeout.timer_set) {
        ngx_del_timer(&backlog->timeout);
    }
}


/* those whose time is up; a link that says nothing at all is none */

static void
ngx_http_weir_backlog_expire(ngx_event_t *ev)
{
    ngx_msec_t                age;
    ngx_queue_t              *q, *next;
    ngx_http_weir_errand_t   *errand;
    ngx_http_weir_backlog_t  *backlog;

    backlog = ev->data;

    for (q = ngx_queue_head(&backlog->errands);
         q != ngx_queue_sentinel(&backlog->errands); q = next)
    {
        next = ngx_queue_next(q);
        errand = ngx_queue_data(q, ngx_http_weir_errand_t, queue);
        age = ngx_current_msec - errand->sent;

        if (age < backlog->conf->queue.timeout) {
            ngx_add_timer(ev, backlog->conf->queue.timeout - age);
            return;
        }

        if (age >= backlog->conf->queue.timeout
                   + NGX_HTTP_WEIR_BACKLOG_SILENCE)
        {
            ngx_http_weir_link_lose(&backlog->link, "does not answer", 0);
            return;
        }

        if (!errand->late) {
            errand->late = 1;
            ngx_http_weir_backlog_settle(errand, NULL);
        }
    }

    if (backlog->nerrands) {
        ngx_add_timer(ev, NGX_HTTP_WEIR_BACKLOG_SILENCE);
    }
}


static void
ngx_http_weir_backlog_up(void)
{
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    ngx_http_weir_link_works(&backlog->link);

    ngx_add_timer(&backlog->poll, NGX_HTTP_WEIR_BACKLOG_POLL);
}


/* a link that is never used would be closed as idle; nobody waits for this */

static void
ngx_http_weir_backlog_poll(ngx_event_t *ev)
{
    ngx_str_t                 ping = ngx_string("PING");
    ngx_http_weir_backlog_t  *backlog;

    backlog = ev->data;

    if (backlog->nerrands == 0) {
        (void) ngx_http_weir_backlog_send(&ping, 1, NULL, NULL);
    }

    ngx_add_timer(ev, NGX_HTTP_WEIR_BACKLOG_POLL);
}


/* NGX_ERROR: nothing was asked for */

static ngx_int_t
ngx_http_weir_backlog_reply(ngx_http_weir_reply_t *reply)
{
    ngx_http_weir_errand_t   *errand;
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    if (ngx_queue_empty(&backlog->errands)) {
        return NGX_ERROR;
    }

    errand = ngx_queue_data(ngx_queue_head(&backlog->errands),
                            ngx_http_weir_errand_t, queue);

    ngx_http_weir_backlog_settle(errand, reply);
    ngx_http_weir_backlog_remove(errand);

    return NGX_OK;
}


/* nobody will be answered any more */

static void
ngx_http_weir_backlog_lost(void)
{
    ngx_queue_t              *q, *next;
    ngx_http_weir_errand_t   *errand;
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    for (q = ngx_queue_head(&backlog->errands);
         q != ngx_queue_sentinel(&backlog->errands); q = next)
    {
        next = ngx_queue_next(q);
        errand = ngx_queue_data(q, ngx_http_weir_errand_t, queue);

        ngx_http_weir_backlog_settle(errand, NULL);
        ngx_http_weir_backlog_remove(errand);
    }

    if (backlog->poll.timer_set) {
        ngx_del_timer(&backlog->poll);
    }
}


/* the worker ends, and all of its requests have ended before */

void
ngx_http_weir_backlog_exit(void)
{
    ngx_http_weir_backlog_t  *backlog;

    backlog = &ngx_http_weir_backlog;

    if (backlog->conf == NULL) {
        return;
    }

    ngx_http_weir_backlog_lost();
    ngx_http_weir_link_close(&backlog->link);

    backlog->conf = NULL;
}
