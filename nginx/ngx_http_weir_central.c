
#include "ngx_http_weir_module.h"


/*
 * Requests whose limits a central store keeps wait here for its answer. What
 * is asked over the link is answered in the same order, so a list of what is
 * under way tells whose an answer is:
 *
 *   a request     it waits, and goes on when the answer comes, when the time
 *                 is up, or when the link is lost
 *   an ask alone  its client has left; what the answer grants is given back
 *   neither       its time is up, or it is only told something; the answer
 *                 is thrown away
 *
 * All wait equally long, so the list is in the order of their ends too. While
 * the first one is overdue nobody else is asked: they would wait behind it.
 */


#define NGX_HTTP_WEIR_CENTRAL_POLL     1000  /* ms between looks at the link */
#define NGX_HTTP_WEIR_CENTRAL_SILENCE  2000  /* ms after which it is given up */
#define NGX_HTTP_WEIR_CENTRAL_MAX      4096  /* commands without an answer */
#define NGX_HTTP_WEIR_CENTRAL_KEPT     (1024 * 1024) /* bytes */


typedef enum {
    NGX_HTTP_WEIR_FLEET = 0,             /* asks for the fleet's secret */
    NGX_HTTP_WEIR_TELL,                  /* what the store is to be told */
    NGX_HTTP_WEIR_QUESTION
} ngx_http_weir_command_e;


struct ngx_http_weir_pending_s {
    ngx_queue_t              queue;
    ngx_http_weir_command_e  command;
    ngx_http_weir_ctx_t     *ctx;        /* that waits, or NULL */
    ngx_http_weir_block_t   *block;      /* its ask, or NULL */
    ngx_msec_t               sent;
    unsigned                 late:1;
};


typedef struct {
    ngx_http_weir_main_conf_t  *conf;    /* NULL: there is no store */

    ngx_queue_t                 pending;
    ngx_uint_t                  npending;
    ngx_uint_t                  nwaiting; /* those with an ask */

    ngx_queue_t                 held;    /* requests: see greeting */

    ngx_event_t                 timeout; /* of the first of these */
    ngx_event_t                 poll;

    u_char                     *kept;    /* what waits for the link: */
    size_t                      kept_len; /* length, bytes, length, bytes */

    unsigned                    greeting:1; /* a worker's first moments */
    unsigned                    ready:1; /* this link has told the secret */
    unsigned                    overdue:1;
    unsigned                    asked:1; /* for the secret */
    unsigned                    denied:1; /* it, and that told */
    unsigned                    full:1;  /* some was lost, and that told */
} ngx_http_weir_central_t;


static void ngx_http_weir_central_expire(ngx_event_t *ev);
static void ngx_http_weir_central_poll(ngx_event_t *ev);


static ngx_http_weir_central_t  ngx_http_weir_central;

static u_char  ngx_http_weir_question[WEIR_QUESTION_MAX];


ngx_int_t
ngx_http_weir_central_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    ngx_memzero(central, sizeof(ngx_http_weir_central_t));
    ngx_queue_init(&central->pending);
    ngx_queue_init(&central->held);

    if (wmcf->central.name.len == 0) {
        return NGX_OK;
    }

    central->conf = wmcf;

    central->timeout.handler = ngx_http_weir_central_expire;
    central->timeout.data = central;
    central->timeout.log = cycle->log;

    central->poll.handler = ngx_http_weir_central_poll;
    central->poll.data = central;
    central->poll.log = cycle->log;
    central->poll.cancelable = 1;

    central->greeting = 1;
    ngx_add_timer(&central->timeout, wmcf->central.timeout);

    return ngx_http_weir_link_init(cycle, wmcf);
}


/* ---- a worker's first moments ---- */


/* whoever it may turn out to be */

static ngx_uint_t
ngx_http_weir_central_concerns(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_uint_t              concerns;
    ngx_http_weir_block_t  *block;

    ctx->probing = 1;
    block = ngx_http_weir_ask(r, ctx, 1);
    ctx->probing = 0;

    if (block == NULL) {
        return 0;
    }

    concerns = weir_ask_central(block->ask) == 1;
    ngx_http_weir_ask_done(block);

    return concerns;
}


/*
 * A new worker does not know the fleet's secret before the link has told it.
 * So that a reload does not look like a store that has failed, requests that
 * need the store wait for it, no longer than they would for an answer.
 */

ngx_uint_t
ngx_http_weir_central_hold(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (!central->greeting || !ngx_http_weir_central_concerns(r, ctx)
        || ngx_http_weir_park(r) != NGX_OK)
    {
        return 0;
    }

    ctx->state = NGX_HTTP_WEIR_HELD;
    ngx_queue_insert_tail(&central->held, &ctx->queue);

    return 1;
}


void
ngx_http_weir_central_let_go(ngx_http_weir_ctx_t *ctx)
{
    ngx_queue_remove(&ctx->queue);
    ctx->state = NGX_HTTP_WEIR_NEW;
}


/* a timer would keep the worker from ending */

static void
ngx_http_weir_central_disarm(ngx_http_weir_central_t *central)
{
    if (central->nwaiting == 0 && !central->greeting
        && central->timeout.timer_set)
    {
        ngx_del_timer(&central->timeout);
    }
}


static void
ngx_http_weir_central_greeted(ngx_http_weir_central_t *central)
{
    ngx_queue_t          *q, *next;
    ngx_http_weir_ctx_t  *ctx;

    central->greeting = 0;
    ngx_http_weir_central_disarm(central);

    for (q = ngx_queue_head(&central->held);
         q != ngx_queue_sentinel(&central->held); q = next)
    {
        next = ngx_queue_next(q);
        ctx = ngx_queue_data(q, ngx_http_weir_ctx_t, queue);

        ngx_http_weir_central_let_go(ctx);
        ngx_post_event(ctx->request->connection->write, &ngx_posted_events);
    }
}


/* ---- what is under way ---- */


/* NULL: the command did not go out */

static ngx_http_weir_pending_t *
ngx_http_weir_central_send(ngx_http_weir_command_e command,
    const u_char *argument, size_t len)
{
    static const char  *names[] = { "WEIR.FLEET", "WEIR.TELL", "WEIR.ASK" };

    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;

    if (central->npending == NGX_HTTP_WEIR_CENTRAL_MAX) {
        return NULL;
    }

    p = ngx_calloc(sizeof(ngx_http_weir_pending_t), ngx_cycle->log);
    if (p == NULL) {
        return NULL;
    }

    if (ngx_http_weir_link_send(names[command], argument, len) != NGX_OK) {
        ngx_free(p);
        return NULL;
    }

    p->command = command;
    p->sent = ngx_current_msec;

    ngx_queue_insert_tail(&central->pending, &p->queue);
    central->npending++;

    return p;
}


static void
ngx_http_weir_central_remove(ngx_http_weir_pending_t *p)
{
    ngx_queue_remove(&p->queue);
    ngx_http_weir_central.npending--;

    ngx_free(p);
}


static ngx_http_weir_pending_t *
ngx_http_weir_central_first(void)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (ngx_queue_empty(&central->pending)) {
        return NULL;
    }

    return ngx_queue_data(ngx_queue_head(&central->pending),
                          ngx_http_weir_pending_t, queue);
}


/*
 * The store has decided, or will not: whoever waits goes on, and what was
 * granted to one who has left is given back.
 */

static void
ngx_http_weir_central_settle(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    int                     verdict;
    uint64_t                now_ns;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_block_t  *block;

    ctx = p->ctx;
    block = p->block;

    p->ctx = NULL;
    p->block = NULL;

    if (block == NULL) {
        return;
    }

    ngx_http_weir_central.nwaiting--;
    ngx_http_weir_central_disarm(&ngx_http_weir_central);

    now_ns = ngx_http_weir_now();
    verdict = WEIR_EFORMAT;

    if (reply && reply->type == '$') {
        verdict = weir_ask_answer(block->ask, reply->data, reply->len, now_ns);
    }

    if (verdict < 0) {
        verdict = weir_ask_store_failed(block->ask, now_ns);
    }

    if (ctx == NULL) {
        ngx_http_weir_ask_done(block);
        return;
    }

    ngx_http_weir_took(block->ask, ctx->decided_ns);

    ctx->pending = NULL;
    ctx->block = block;
    ctx->verdict = verdict;
    ctx->decided_ns = now_ns;
    ctx->state = NGX_HTTP_WEIR_ANSWERED;

    ngx_post_event(ctx->request->connection->write, &ngx_posted_events);
}


/* ---- asking ---- */


static ngx_uint_t
ngx_http_weir_central_may_ask(ngx_http_weir_central_t *central)
{
    return central->ready && !central->overdue;
}


/*
 * Parks a request whose ask waits for the store, until next() is called with
 * the verdict. What cannot be asked has failed, at once.
 */

ngx_int_t
ngx_http_weir_central_ask(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next)
{
    int                       n;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;
    p = NULL;

    if (ngx_http_weir_central_may_ask(central)) {
        n = weir_ask_question(block->ask, ngx_http_weir_question,
                              sizeof(ngx_http_weir_question));
        if (n > 0) {
            p = ngx_http_weir_central_send(NGX_HTTP_WEIR_QUESTION,
                                           ngx_http_weir_question, n);
        }
    }

    if (p == NULL) {
        n = weir_ask_store_failed(block->ask, ctx->decided_ns);
        return next(r, ctx, block, n);
    }

    p->block = block;
    central->nwaiting++;

    if (!central->timeout.timer_set) {
        ngx_add_timer(&central->timeout, central->conf->central.timeout);
    }

    if (ngx_http_weir_park(r) != NGX_OK) {
        (void) weir_ask_cancel(block->ask, ctx->decided_ns);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    p->ctx = ctx;

    ctx->pending = p;
    ctx->next = next;
    ctx->state = NGX_HTTP_WEIR_ASKING;

    return NGX_AGAIN;
}


/* a client has left; what the answer grants is given back when it comes */

void
ngx_http_weir_central_leave(ngx_http_weir_ctx_t *ctx)
{
    ngx_http_weir_pending_t  *p;

    p = ctx->pending;

    (void) weir_ask_cancel(p->block->ask, ngx_http_weir_now());

    p->ctx = NULL;
    ctx->pending = NULL;
    ctx->state = NGX_HTTP_WEIR_DONE;
}


/* the store decided, but the client has left before it was told */

void
ngx_http_weir_central_forget(ngx_http_weir_ctx_t *ctx)
{
    (void) weir_ask_cancel(ctx->block->ask, ngx_http_weir_now());
    ngx_http_weir_ask_done(ctx->block);

    ctx->block = NULL;
    ctx->state = NGX_HTTP_WEIR_DONE;
}


/* those whose time is up go on without an answer */

static void
ngx_http_weir_central_expire(ngx_event_t *ev)
{
    ngx_queue_t              *q;
    ngx_msec_int_t            left;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = ev->data;

    ngx_http_weir_central_greeted(central);

    for (q = ngx_queue_head(&central->pending);
         q != ngx_queue_sentinel(&central->pending); q = ngx_queue_next(q))
    {
        p = ngx_queue_data(q, ngx_http_weir_pending_t, queue);

        left = (ngx_msec_int_t) (p->sent + central->conf->central.timeout
                                 - ngx_current_msec);
        if (left > 0) {
            if (p->block) {
                ngx_add_timer(ev, left);
                return;
            }

            continue;
        }

        if (p->command == NGX_HTTP_WEIR_QUESTION && !p->late) {
            p->late = 1;
            ngx_http_weir_central_settle(p, NULL);

            if (!central->overdue) {
                ngx_log_error(NGX_LOG_INFO, ev->log, 0,
                              "weir: no answer from \"%V\" of "
                              "\"weir_central\" within %Mms",
                              &central->conf->central.name,
                              central->conf->central.timeout);
            }

            central->overdue = 1;
        }
    }
}


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

static void
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
            ngx_http_weir_link_lose("does not answer", 0);
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
    return reply->type == '_'
           || (reply->type == '-' && reply->len >= 6
               && ngx_strncmp(reply->data, "NOTYET", 6) == 0);
}


/* another kind of server, or one that does not know this user */

static void
ngx_http_weir_central_denied(ngx_http_weir_central_t *central,
    ngx_http_weir_reply_t *reply)
{
    if (!central->denied) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "weir: \"%V\" of \"weir_central\" answers \"%*s\"",
                      &central->conf->central.name, reply->len, reply->data);
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

    if (reply->type == '-') {
        ngx_http_weir_central_denied(central, reply);
        return NGX_OK;
    }

    if (reply->type != '$' || reply->len != WEIR_SECRET_BYTES) {
        return NGX_ERROR;
    }

    rc = weir_engine_fleet(central->conf->engine, reply->data);

    if (rc != 0) {
        ngx_http_weir_failed(ngx_cycle->log, "weir_engine_fleet()", rc);
        return NGX_OK;
    }

    central->ready = 1;
    central->denied = 0;

    ngx_http_weir_central_greeted(central);
    ngx_http_weir_link_works();

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

    if (p == NULL) {
        return NGX_ERROR;
    }

    rc = NGX_OK;
    next = ngx_queue_next(&p->queue);

    if (p->command == NGX_HTTP_WEIR_FLEET) {
        rc = ngx_http_weir_central_fleet(central, reply);

    } else if (p->command == NGX_HTTP_WEIR_QUESTION) {
        ngx_http_weir_central_settle(p, reply);
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


/* the worker ends: those who still wait are given up */

void
ngx_http_weir_central_exit(void)
{
    ngx_queue_t              *q, *next;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;

    if (central->conf == NULL) {
        return;
    }

    for (q = ngx_queue_head(&central->pending);
         q != ngx_queue_sentinel(&central->pending); q = ngx_queue_next(q))
    {
        p = ngx_queue_data(q, ngx_http_weir_pending_t, queue);

        if (p->ctx) {
            ngx_http_weir_central_leave(p->ctx);
        }
    }

    for (q = ngx_queue_head(&central->held);
         q != ngx_queue_sentinel(&central->held); q = next)
    {
        next = ngx_queue_next(q);
        ngx_http_weir_central_let_go(
            ngx_queue_data(q, ngx_http_weir_ctx_t, queue));
    }

    ngx_http_weir_link_close();
    ngx_http_weir_central_lost();

    if (central->kept) {
        ngx_free(central->kept);
    }

    central->conf = NULL;
}
