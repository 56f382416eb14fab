
#include "ngx_http_weir_central.h"


/*
 * Requests whose limits a central store keeps wait here for its answer. What
 * is asked over the link is answered in the same order, so a list of what is
 * under way tells whose an answer is:
 *
 *   a request     it waits, and goes on when the answer comes, when the time
 *                 is up, or when the link is lost
 *   an ask alone  its client has left; what the answer grants is given back,
 *                 unless it is to be counted all the same
 *   a question    the ask timed out and was decided without the store; if the
 *                 answer says that the store took units, the store is told so
 *                 and counts them once
 *   none          the store is only told something; the answer is thrown away
 *
 * All wait equally long, so the list is in the order of their ends too. While
 * the first one is overdue nobody else is asked: they would wait behind it.
 */


static void ngx_http_weir_central_expire(ngx_event_t *ev);


ngx_http_weir_central_t  ngx_http_weir_central;

u_char  ngx_http_weir_question[WEIR_QUESTION_MAX];


ngx_int_t
ngx_http_weir_central_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_central_t   *central;
    ngx_http_weir_link_use_t   use;

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

    use.name = wmcf->central.name;
    use.sockaddr = wmcf->central.sockaddr;
    use.socklen = wmcf->central.socklen;
    use.key = wmcf->link_key;
    use.directive = "weir_central";
    use.without = "its rules do as their on_store_failure says";
    use.out_max = NGX_HTTP_WEIR_CENTRAL_OUT;
    use.up = ngx_http_weir_central_up;
    use.reply = ngx_http_weir_central_reply;
    use.lost = ngx_http_weir_central_lost;

    return ngx_http_weir_link_init(cycle, &central->link, &use);
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


void
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

ngx_http_weir_pending_t *
ngx_http_weir_central_send(ngx_http_weir_command_e command,
    const u_char *argument, size_t len)
{
    static ngx_str_t  names[] = {
        ngx_string("WEIR.FLEET"), ngx_string("WEIR.TELL"),
        ngx_string("WEIR.ASK")
    };

    ngx_str_t                 words[2];
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

    words[0] = names[command];
    words[1].data = (u_char *) argument;
    words[1].len = len;

    if (ngx_http_weir_link_send(&central->link, words, len ? 2 : 1)
        != NGX_OK)
    {
        ngx_free(p);
        return NULL;
    }

    p->command = command;
    p->sent = ngx_current_msec;

    ngx_queue_insert_tail(&central->pending, &p->queue);
    central->npending++;

    return p;
}


void
ngx_http_weir_central_remove(ngx_http_weir_pending_t *p)
{
    ngx_queue_remove(&p->queue);
    ngx_http_weir_central.npending--;

    if (p->question) {
        ngx_free(p->question);
    }

    ngx_free(p);
}


ngx_http_weir_pending_t *
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

void
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

    if (reply && reply->head.type == '$') {
        verdict = weir_ask_answer(block->ask, reply->head.data,
                                  reply->head.len, now_ns);
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


/* NULL: the ask cannot go out, the store has failed */

static ngx_http_weir_pending_t *
ngx_http_weir_central_question(ngx_http_weir_block_t *block)
{
    int                       n;
    ngx_http_weir_central_t  *central;
    ngx_http_weir_pending_t  *p;

    central = &ngx_http_weir_central;

    if (!ngx_http_weir_central_may_ask(central)) {
        return NULL;
    }

    n = weir_ask_question(block->ask, ngx_http_weir_question,
                          sizeof(ngx_http_weir_question));
    if (n <= 0) {
        return NULL;
    }

    p = ngx_http_weir_central_send(NGX_HTTP_WEIR_QUESTION,
                                   ngx_http_weir_question, n);
    if (p == NULL) {
        return NULL;
    }

    p->block = block;
    central->nwaiting++;

    if (!central->timeout.timer_set) {
        ngx_add_timer(&central->timeout, central->conf->central.timeout);
    }

    return p;
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
    ngx_http_weir_pending_t  *p;

    p = ngx_http_weir_central_question(block);

    if (p == NULL) {
        n = weir_ask_store_failed(block->ask, ctx->decided_ns);
        return next(r, ctx, block, n);
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


/* has a request counted that nobody waits for any more; takes the block */

void
ngx_http_weir_central_charge(ngx_http_weir_block_t *block, uint64_t now_ns)
{
    if (ngx_http_weir_central_question(block) == NULL) {
        (void) weir_ask_store_failed(block->ask, now_ns);
        ngx_http_weir_ask_done(block);
    }
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


/*
 * Keeps a copy of the question, which a late answer is held against. Without
 * memory, units that the store takes late stay counted there.
 */

static void
ngx_http_weir_central_keep_question(ngx_http_weir_pending_t *p)
{
    int  n;

    n = weir_ask_question(p->block->ask, ngx_http_weir_question,
                          sizeof(ngx_http_weir_question));
    if (n <= 0) {
        return;
    }

    p->question = ngx_alloc(n, ngx_cycle->log);
    if (p->question == NULL) {
        return;
    }

    ngx_memcpy(p->question, ngx_http_weir_question, n);
    p->question_len = n;
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
            ngx_http_weir_central_keep_question(p);
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

    ngx_http_weir_link_close(&central->link);
    ngx_http_weir_central_lost();

    if (central->kept) {
        ngx_free(central->kept);
    }

    central->conf = NULL;
}
