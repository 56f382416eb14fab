
#include "ngx_http_weir_module.h"


/*
 * Settles requests. Some requests cost what their response tells, and some
 * hold a slot of a limit on concurrent requests. Such a request keeps its ask
 * until the response has been sent, or until the request has ended in another
 * way. Then the ask is settled once, by the response that the client got.
 *
 * If a cost is in the body of the response, a reader sees each buffer of the
 * body before the buffer is sent. The body is not buffered.
 */


/*
 * Asks the upstream for a response that is not compressed, because the reader
 * cannot read a compressed body. The field is changed in the list of fields,
 * which the upstream gets. nginx itself uses headers_in.accept_encoding, so
 * gzip for the client still works: that field gets a copy of the old value.
 */

static void
ngx_http_weir_ask_identity(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h, *copy;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (!ngx_http_weir_same_name(&h[i].key, "accept-encoding",
                                         sizeof("accept-encoding") - 1))
            {
                continue;
            }

#if (NGX_HTTP_GZIP || NGX_HTTP_HEADERS)
            if (r->headers_in.accept_encoding == &h[i]) {
                copy = ngx_palloc(r->pool, sizeof(ngx_table_elt_t));
                if (copy == NULL) {
                    return;
                }

                *copy = h[i];
                r->headers_in.accept_encoding = copy;
            }
#endif

            ngx_str_set(&h[i].value, "identity");
        }
    }
}


/*
 * Called when a request has been admitted and continues with the next phases.
 * Ends the ask, or keeps it until the response has been sent.
 */

void
ngx_http_weir_settle_later(ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block)
{
    int  flags;

    flags = weir_ask_settles(block->ask);

    if (flags <= 0) {
        ngx_http_weir_ask_done(block);
        return;
    }

    /* reports about the decision do not wait for the response */

    ngx_http_weir_central_report(block->ask);

    ctx->settling = block;
    ctx->reads_body = (flags & WEIR_SETTLE_BODY) != 0;

    if (ctx->reads_body) {
        ngx_http_weir_ask_identity(ctx->request);
    }
}


/* logs, at most once a minute, that a body cannot be read */

static void
ngx_http_weir_log_encoded(ngx_http_request_t *r)
{
    static time_t  last;

    if (last && ngx_time() - last < 60) {
        return;
    }

    last = ngx_time();

    ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                  "weir: the response has the content encoding \"%V\", so its "
                  "cost cannot be read, and the default of the rule counts",
                  &r->headers_out.content_encoding->value);
}


/*
 * Called with the header of a response. Makes a reader if a cost is in the
 * body. The copy filter then reads buffers in files into memory.
 */

void
ngx_http_weir_settle_header(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    int               rc;
    ngx_table_elt_t  *encoding;

    ctx->reader = NULL;

    encoding = r->headers_out.content_encoding;

    if (encoding && encoding->hash && encoding->value.len
        && !ngx_http_weir_same_name(&encoding->value, "identity",
                                    sizeof("identity") - 1))
    {
        ngx_http_weir_log_encoded(r);
        return;
    }

    rc = weir_ask_reader(ctx->settling->ask,
                         ngx_http_weir_reader_memory(ctx->settling),
                         WEIR_READER_BYTES,
                         ngx_http_weir_str(&r->headers_out.content_type),
                         &ctx->reader);
    if (rc != 0) {
        ctx->reader = NULL;
        return;
    }

    r->filter_need_in_memory = 1;
}


/* passes the buffers of a body to the reader; notes the end of the response */

void
ngx_http_weir_settle_body(ngx_http_weir_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    for (cl = in; cl; cl = cl->next) {
        b = cl->buf;

        if (ctx->reader && ngx_buf_in_memory(b) && b->pos < b->last) {
            (void) weir_reader_feed(ctx->reader, b->pos, b->last - b->pos);
        }

        if (b->last_buf) {
            ctx->body_ended = 1;
        }
    }
}


/* ---- the response ---- */


static size_t
ngx_http_weir_find_in_list(ngx_list_t *list, struct weir_str name,
    struct weir_str *values, size_t max)
{
    size_t            n;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    n = 0;

    for (part = &list->part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].hash == 0
                || !ngx_http_weir_same_name(&h[i].key, name.ptr, name.len))
            {
                continue;
            }

            if (n < max) {
                values[n] = ngx_http_weir_str(&h[i].value);
            }

            n++;
        }
    }

    return n;
}


/*
 * Finds the fields of the response with this name. If the client got no such
 * field, finds the fields of the upstream, because "proxy_hide_header" can hide
 * the cost from the client.
 */

static size_t
ngx_http_weir_find_response_header(void *data, struct weir_str name,
    struct weir_str *values, size_t max)
{
    ngx_http_request_t  *r = data;

    size_t               n;

    n = ngx_http_weir_find_in_list(&r->headers_out.headers, name, values, max);

    if (n == 0 && r->upstream && r->upstream->headers_in.headers.part.elts) {
        n = ngx_http_weir_find_in_list(&r->upstream->headers_in.headers, name,
                                       values, max);
    }

    return n;
}


/*
 * Returns the status of the response, or 0 if the client got none: it has
 * closed the connection, or nginx has.
 */

static ngx_uint_t
ngx_http_weir_response_status(ngx_http_request_t *r)
{
    if (!r->header_sent
        || r->headers_out.status == NGX_HTTP_CLIENT_CLOSED_REQUEST)
    {
        return 0;
    }

    return r->err_status ? r->err_status : r->headers_out.status;
}


/* returns the time since the request has arrived, as $request_time does */

static uint64_t
ngx_http_weir_request_ns(ngx_http_request_t *r)
{
    ngx_time_t      *tp;
    ngx_msec_int_t   ms;

    tp = ngx_timeofday();

    ms = (ngx_msec_int_t) ((tp->sec - r->start_sec) * 1000
                           + (ngx_msec_int_t) (tp->msec - r->start_msec));

    return ms > 0 ? (uint64_t) ms * 1000000 : 0;
}


static void
ngx_http_weir_settle_ask(struct weir_ask *ask, struct weir_outcome *outcome)
{
    int  rc;

    outcome->size = sizeof(struct weir_outcome);

    rc = weir_ask_settle_outcome(ask, outcome, wr_clock_wall_ns());

    if (rc != 0) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "weir: weir_ask_settle_outcome() failed: %s",
                      weir_strerror(rc));
    }
}


/*
 * Settles a request by its response, when the response has been sent or the
 * request ends.
 */

void
ngx_http_weir_settle(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx)
{
    off_t                   sent, len;
    struct weir_outcome     outcome;
    ngx_http_weir_block_t  *block;

    block = ctx->settling;
    ctx->settling = NULL;

    ngx_memzero(&outcome, sizeof(struct weir_outcome));

    outcome.status = ngx_http_weir_response_status(r);
    outcome.incomplete = r->connection->error || r->connection->timedout;

    sent = r->connection->sent - (off_t) r->header_size;
    outcome.bytes = sent > 0 ? sent : 0;

    len = r->headers_in.chunked ? ngx_http_weir_chunked_length(r) : -1;
    outcome.request_known = len >= 0;
    outcome.request_bytes = ngx_max(len, 0);

    outcome.time_ns = ngx_http_weir_request_ns(r);
    outcome.header = ngx_http_weir_find_response_header;
    outcome.context = r;

    if (ctx->reader) {
        (void) weir_reader_end(ctx->reader);
        outcome.reader = ctx->reader;
        ctx->reader = NULL;
    }

    ngx_http_weir_settle_ask(block->ask, &outcome);

    ctx->settled = 1;
    (void) weir_ask_cost(block->ask, &ctx->cost, &ctx->actual);

    ngx_http_weir_ask_done(block);
}


/*
 * Ends the ask of a request that gets no response. If the request was admitted,
 * it stays charged, and its slots are given back.
 */

void
ngx_http_weir_settle_unanswered(ngx_http_weir_block_t *block)
{
    struct weir_outcome  outcome;

    if (weir_ask_settles(block->ask) > 0) {
        ngx_memzero(&outcome, sizeof(struct weir_outcome));
        ngx_http_weir_settle_ask(block->ask, &outcome);
    }

    ngx_http_weir_ask_done(block);
}


/*
 * The handler of the LOG phase, which every request reaches when it ends. It
 * runs before the access log is written.
 */

ngx_int_t
ngx_http_weir_log_handler(ngx_http_request_t *r)
{
    ngx_http_weir_ctx_t  *ctx;

    if (r != r->main) {
        return NGX_OK;
    }

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx && ctx->settling) {
        ngx_http_weir_settle(r, ctx);
    }

    return NGX_OK;
}
