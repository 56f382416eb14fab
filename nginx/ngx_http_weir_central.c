
#include "ngx_http_weir_central.h"


/*
 * Requests whose limits are counted in Redis (the central store). nginx sends a
 * question to "weir serve", which asks Redis. The phase handler parks the
 * request until the reply comes, the timeout is over, or the link to "weir
 * serve" is lost.
 *
 * If the client closes the connection before the reply comes, the ask stays
 * pending. Units that the reply grants are then given back.
 *
 * If the timeout is over before the reply comes, the request is decided without
 * Redis, and the question is saved. If the reply comes after that, Redis has
 * also counted the request. Then a report corrects the units in Redis, so that
 * each unit is counted once.
 *
 * While the reply to the first pending question is overdue, no further question
 * is sent.
 */


/*
 * ms. If a reply has not come this long after the timeout of its command, the
 * link counts as lost.
 */
#define NGX_HTTP_WEIR_CENTRAL_SILENCE  2000
#define NGX_HTTP_WEIR_CENTRAL_OUT      (4 * 1024 * 1024)
/* maximum size of the reports that wait to be sent, in bytes */
#define NGX_HTTP_WEIR_CENTRAL_REPORTS  (1024 * 1024)


static void ngx_http_weir_central_start_handler(ngx_event_t *ev);
static void ngx_http_weir_central_release_held(void);
static void ngx_http_weir_central_poll(void);
static void ngx_http_weir_central_lost(void);


ngx_http_weir_central_t  ngx_http_weir_central;

u_char  ngx_http_weir_question[WEIR_QUESTION_MAX];


ngx_int_t
ngx_http_weir_central_init(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    ngx_http_weir_central_t    *central;
    ngx_http_weir_link_opts_t   opts;

    central = &ngx_http_weir_central;

    ngx_memzero(central, sizeof(ngx_http_weir_central_t));
    ngx_queue_init(&central->held);
    wr_buf_init(&central->reports, NGX_HTTP_WEIR_CENTRAL_REPORTS);

    if (wmcf->central.name.len == 0) {
        return NGX_OK;
    }

    central->conf = wmcf;

    central->start.handler = ngx_http_weir_central_start_handler;
    central->start.log = cycle->log;

    ngx_add_timer(&central->start, wmcf->central.timeout);

    opts.peer = wmcf->central;
    opts.key = wmcf->link_key;
    opts.directive = "weir_central";
    opts.fallback = "rules follow their on_store_failure";
    opts.silence = NGX_HTTP_WEIR_CENTRAL_SILENCE;
    opts.out_max = NGX_HTTP_WEIR_CENTRAL_OUT;
    opts.up = ngx_http_weir_central_poll;
    opts.poll = ngx_http_weir_central_poll;
    opts.lost = ngx_http_weir_central_lost;

    return ngx_http_weir_link_init(cycle, &central->link, &opts);
}


/* ---- requests during the start of a worker ---- */


/*
 * Holds a request until the worker knows the fleet's secret, which is needed to
 * make the keys in Redis. A new worker does not know the secret until the
 * service has sent it. Requests that need Redis wait for the secret, at most
 * for the timeout of "weir_central". Without this wait, Redis would seem to
 * fail after every reload. Returns true if the request has to wait.
 */

ngx_uint_t
ngx_http_weir_central_hold(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    ngx_uint_t              needs_central;
    ngx_http_weir_block_t  *block;

    if (!ngx_http_weir_central.start.timer_set) {
        return 0;
    }

    ctx->probing = 1;
    block = ngx_http_weir_ask(r, ctx, 1);
    ctx->probing = 0;

    if (block == NULL) {
        return 0;
    }

    needs_central = (weir_ask_central(block->ask) == 1);
    ngx_http_weir_ask_done(block);

    if (!needs_central || ngx_http_weir_park(r) != NGX_OK) {
        return 0;
    }

    ctx->state = NGX_HTTP_WEIR_HELD;
    ngx_queue_insert_tail(&ngx_http_weir_central.held, &ctx->queue);

    return 1;
}


void
ngx_http_weir_central_release(ngx_http_weir_ctx_t *ctx)
{
    ngx_queue_remove(&ctx->queue);
    ctx->state = NGX_HTTP_WEIR_NEW;
}


static void
ngx_http_weir_central_release_held(void)
{
    ngx_http_weir_ctx_t      *ctx;
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (central->start.timer_set) {
        ngx_del_timer(&central->start);
    }

    while (!ngx_queue_empty(&central->held)) {
        ctx = ngx_queue_data(ngx_queue_head(&central->held),
                             ngx_http_weir_ctx_t, queue);

        wr_assert(ngx_queue_prev(&ctx->queue) == &central->held);
        ngx_http_weir_central_release(ctx);
        ngx_post_event(ctx->request->connection->write, &ngx_posted_events);
    }
}


static void
ngx_http_weir_central_start_handler(ngx_event_t *ev)
{
    ngx_http_weir_central_release_held();
}


/* ---- the fleet's secret ---- */


static ngx_int_t
ngx_http_weir_central_secret_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    int                       rc;
    ngx_http_weir_part_t     *head;
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;
    central->secret_pending = 0;

    if (reply == NULL) {
        return NGX_OK;
    }

    head = &reply->head;

    /* the service itself does not know the secret yet */

    if (head->type == '_'
        || (head->type == '-' && head->len >= 6
            && ngx_strncmp(head->data, "NOTYET", 6) == 0))
    {
        ngx_http_weir_central_release_held();
        return NGX_OK;
    }

    if (head->type == '-') {
        if (!central->refusal_logged) {
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "weir: \"%V\" of \"weir_central\" refused "
                          "WEIR.FLEET: \"%*s\"",
                          &central->conf->central.name, head->len, head->data);
        }

        central->refusal_logged = 1;
        ngx_http_weir_central_release_held();
        return NGX_OK;
    }

    if (head->type != '$' || head->len != WEIR_SECRET_BYTES) {
        return NGX_ERROR;
    }

    rc = weir_engine_fleet(central->conf->engine, head->data);

    if (rc != 0) {
        ngx_http_weir_failed(ngx_cycle->log, "weir_engine_fleet()", rc);
        return NGX_OK;
    }

    central->ready = 1;
    central->refusal_logged = 0;

    ngx_http_weir_central_release_held();
    ngx_http_weir_link_works(&central->link);

    return NGX_OK;
}


/* asks for the secret every second, because the secret can change */

static void
ngx_http_weir_central_poll(void)
{
    ngx_str_t                 word = ngx_string("WEIR.FLEET");
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (!central->secret_pending
        && ngx_http_weir_link_send(&central->link, &word, 1,
                                   ngx_http_weir_central_secret_handler, NULL))
    {
        central->secret_pending = 1;
    }

    ngx_http_weir_central_send_held_reports();
}


static void
ngx_http_weir_central_lost(void)
{
    ngx_http_weir_central.ready = 0;
    ngx_http_weir_central_release_held();
}


/* ---- questions ---- */


/*
 * Handles the reply to a question whose request was decided without Redis. See
 * the top of this file.
 */

static ngx_int_t
ngx_http_weir_central_late_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    int         n;
    ngx_str_t  *question;

    question = p->data;

    if (reply && reply->head.type == '$') {
        n = weir_question_late(question->data, question->len, reply->head.data,
                               reply->head.len);
        if (n > 0) {
            ngx_http_weir_central_send_report(question->data, n);
        }
    }

    ngx_free(question);

    return NGX_OK;
}


/*
 * Saves the question, because its reply can still come. If there is no memory
 * to save it, no report is sent when the reply comes. Then the units that Redis
 * took stay counted.
 */

static void
ngx_http_weir_central_await_late(ngx_http_weir_pending_t *p,
    struct weir_ask *ask)
{
    int         n;
    ngx_str_t  *question;

    n = weir_ask_question(ask, ngx_http_weir_question,
                          sizeof(ngx_http_weir_question));
    if (n <= 0) {
        return;
    }

    question = ngx_alloc(sizeof(ngx_str_t) + n, ngx_cycle->log);
    if (question == NULL) {
        return;
    }

    question->len = n;
    question->data = (u_char *) (question + 1);
    ngx_memcpy(question->data, ngx_http_weir_question, n);

    p->handler = ngx_http_weir_central_late_handler;
    p->data = question;
}


/*
 * Decides the ask by the reply. If the client is still connected, the request
 * continues.
 */

static ngx_int_t
ngx_http_weir_central_reply_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    int                     verdict;
    uint64_t                now_ns;
    ngx_http_weir_ctx_t    *ctx;
    ngx_http_weir_block_t  *block;

    block = p->data;

    if (p->late) {
        ngx_http_weir_central_await_late(p, block->ask);
    }

    ctx = block->ctx;

    if (ngx_http_weir_central.exiting && ctx) {
        ngx_http_weir_central_cancel(ctx);
        ctx = NULL;
    }

    now_ns = wr_clock_wall_ns();
    verdict = WEIR_EFORMAT;

    if (reply && reply->head.type == '$') {
        verdict = weir_ask_answer(block->ask, reply->head.data,
                                  reply->head.len, now_ns);
    }

    if (verdict < 0) {
        verdict = weir_ask_store_failed(block->ask, now_ns);
    }

    if (ctx == NULL) {
        ngx_http_weir_settle_unanswered(block);

    } else {
        ngx_http_weir_record_latency(block->ask, ctx->decided_ns);

        ctx->verdict = verdict;
        ctx->decided_ns = now_ns;
        ctx->state = NGX_HTTP_WEIR_ANSWERED;

        ngx_post_event(ctx->request->connection->write, &ngx_posted_events);
    }

    return reply && reply->head.type == '*' ? NGX_ERROR : NGX_OK;
}


/*
 * Sends the question. Returns NGX_DECLINED if it cannot be sent. The caller
 * then decides the request as if Redis had failed.
 */

static ngx_int_t
ngx_http_weir_central_send_question(ngx_http_weir_block_t *block,
    ngx_http_weir_ctx_t *ctx)
{
    int                       n;
    ngx_str_t                 words[2];
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (!central->ready || central->link.overdue) {
        return NGX_DECLINED;
    }

    n = weir_ask_question(block->ask, ngx_http_weir_question,
                          sizeof(ngx_http_weir_question));
    if (n <= 0) {
        return NGX_DECLINED;
    }

    ngx_str_set(&words[0], "WEIR.ASK");
    words[1].data = ngx_http_weir_question;
    words[1].len = n;

    block->ctx = ctx;

    return ngx_http_weir_link_send(&central->link, words, 2,
                                   ngx_http_weir_central_reply_handler, block)
           ? NGX_OK : NGX_DECLINED;
}


/*
 * Sends the question of an ask and parks the request. The phase handler calls
 * next() when the verdict is known. If the question cannot be sent, the request
 * is not parked, and next() is called at once.
 */

ngx_int_t
ngx_http_weir_central_ask(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next)
{
    int  verdict;

    if (ngx_http_weir_central_send_question(block, ctx) != NGX_OK) {
        verdict = weir_ask_store_failed(block->ask, ctx->decided_ns);
        return next(r, ctx, block, verdict);
    }

    ctx->block = block;
    ctx->next = next;
    ctx->state = NGX_HTTP_WEIR_ASKING;

    if (ngx_http_weir_park(r) != NGX_OK) {
        ngx_http_weir_central_cancel(ctx);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_AGAIN;
}


/*
 * Counts a request whose client has closed the connection: sends the question
 * of its ask. The ask ends when the reply comes, the timeout is over, or the
 * link is lost. If the question cannot be sent, the ask ends at once. When the
 * ask ends, its memory (`block`) is freed.
 */

void
ngx_http_weir_central_charge(ngx_http_weir_block_t *block, uint64_t now_ns)
{
    if (ngx_http_weir_central_send_question(block, NULL) != NGX_OK) {
        (void) weir_ask_store_failed(block->ask, now_ns);
        ngx_http_weir_settle_unanswered(block);
    }
}


/* called if the client has closed the connection; the question stays pending */

void
ngx_http_weir_central_cancel(ngx_http_weir_ctx_t *ctx)
{
    (void) weir_ask_cancel(ctx->block->ask, wr_clock_wall_ns());

    ctx->block->ctx = NULL;
    ctx->block = NULL;
    ctx->state = NGX_HTTP_WEIR_DONE;
}


void
ngx_http_weir_central_exit(void)
{
    ngx_http_weir_central_t  *central;

    central = &ngx_http_weir_central;

    if (central->conf == NULL) {
        return;
    }

    central->exiting = 1;

    ngx_http_weir_central_release_held();
    ngx_http_weir_link_close(&central->link);
    wr_buf_free(&central->reports);

    central->conf = NULL;
}
