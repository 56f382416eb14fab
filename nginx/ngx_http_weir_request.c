
#include "ngx_http_weir_module.h"


/*
 * Translates a request for libweir: makes a struct weir_ask with the
 * descriptors of the request. Called by the phase handler and by
 * authentication.
 */


#define NGX_HTTP_WEIR_FREE_BLOCKS_MAX  64
/* offset of the ask in the memory of an ngx_http_weir_block_t */
#define NGX_HTTP_WEIR_BLOCK_HEAD                                              \
    ngx_align(sizeof(ngx_http_weir_block_t), NGX_CPU_CACHE_LINE)
/*
 * s; the warning about a resized table is delayed by this time, because the
 * warning is not needed if nginx is reloaded meanwhile
 */
#define NGX_HTTP_WEIR_MOVED_DELAY      5

/*
 * The identity in the first check of a request that is not authenticated yet.
 * No client can have this identity, and no units are taken from the counters
 * of this identity.
 */
#define NGX_HTTP_WEIR_ANY_IDENTITY  "\377weir\377somebody"


/* offset of the reader's memory, which follows the ask */
#define NGX_HTTP_WEIR_BLOCK_READER                                            \
    ngx_align(NGX_HTTP_WEIR_BLOCK_HEAD + WEIR_ASK_BYTES, NGX_CPU_CACHE_LINE)


static ngx_http_weir_block_t *ngx_http_weir_free_blocks;
static ngx_uint_t             ngx_http_weir_nfree_blocks;


static ngx_http_weir_block_t *
ngx_http_weir_get_block(ngx_log_t *log)
{
    ngx_http_weir_block_t  *block;

    block = ngx_http_weir_free_blocks;

    if (block) {
        ngx_http_weir_free_blocks = block->next;
        ngx_http_weir_nfree_blocks--;
        return block;
    }

    return ngx_memalign(NGX_CPU_CACHE_LINE,
                        NGX_HTTP_WEIR_BLOCK_READER + WEIR_READER_BYTES, log);
}


/* returns WEIR_READER_BYTES of memory, which are valid until the ask ends */

void *
ngx_http_weir_reader_memory(ngx_http_weir_block_t *block)
{
    return (u_char *) block + NGX_HTTP_WEIR_BLOCK_READER;
}


/* sends the reports of an ask, ends the ask and frees `block`, its memory */

void
ngx_http_weir_ask_done(ngx_http_weir_block_t *block)
{
    ngx_http_weir_central_report(block->ask);

    weir_ask_done(block->ask);

    if (ngx_http_weir_nfree_blocks == NGX_HTTP_WEIR_FREE_BLOCKS_MAX) {
        ngx_free(block);
        return;
    }

    block->next = ngx_http_weir_free_blocks;
    ngx_http_weir_free_blocks = block;
    ngx_http_weir_nfree_blocks++;
}


void
ngx_http_weir_destroy_blocks(void)
{
    ngx_http_weir_block_t  *block;

    while ((block = ngx_http_weir_free_blocks) != NULL) {
        ngx_http_weir_free_blocks = block->next;
        ngx_http_weir_nfree_blocks--;
        ngx_free(block);
    }
}


/* logs a failure, at most once a minute */

static void
ngx_http_weir_log_failure(ngx_log_t *log, ngx_uint_t level, time_t *last,
    const char *call, const char *effect, int rc)
{
    if (*last && ngx_time() - *last < 60) {
        return;
    }

    *last = ngx_time();

    ngx_log_error(level, log, 0, "weir: %s failed, %s: %s", call, effect,
                  weir_strerror(rc));
}


/* logs a failure of weir itself */

void
ngx_http_weir_failed(ngx_log_t *log, const char *call, int rc)
{
    static time_t  last;

    ngx_http_weir_log_failure(log, NGX_LOG_ALERT, &last, call,
                              "requests pass unlimited", rc);
}


/* logs a failure that a client can cause */

static void
ngx_http_weir_unfit(ngx_log_t *log, const char *call, int rc)
{
    static time_t  last;

    ngx_http_weir_log_failure(log, NGX_LOG_ERR, &last, call,
                              "the request is refused", rc);
}


struct weir_str
ngx_http_weir_str(const ngx_str_t *s)
{
    struct weir_str  out;

    out.ptr = (char *) s->data;
    out.len = s->len;

    return out;
}


/* copies a text of libweir to the pool */

ngx_int_t
ngx_http_weir_copy_str(ngx_pool_t *pool, struct weir_str from, ngx_str_t *to)
{
    to->len = from.len;

    if (from.len == 0) {
        return NGX_OK;
    }

    to->data = ngx_pnalloc(pool, from.len);
    if (to->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(to->data, from.ptr, from.len);

    return NGX_OK;
}


/* compares names of header fields without regard to case */

ngx_uint_t
ngx_http_weir_same_name(ngx_str_t *a, const void *name, size_t len)
{
    return a->len == len
           && ngx_strncasecmp(a->data, (u_char *) name, len) == 0;
}


ngx_uint_t
ngx_http_weir_has_name(ngx_array_t *names, const void *name, size_t len)
{
    ngx_str_t  *elts;
    ngx_uint_t  i;

    elts = names->elts;

    for (i = 0; i < names->nelts; i++) {
        if (ngx_http_weir_same_name(&elts[i], name, len)) {
            return 1;
        }
    }

    return 0;
}


/*
 * Finds an identity header (one that "weir_auth_headers" names) for the rules.
 * The rules see the identity headers of the service's response, not the headers
 * with these names that the client has sent.
 */

static size_t
ngx_http_weir_find_auth_header(ngx_http_weir_ctx_t *ctx, struct weir_str name,
    struct weir_str *values, size_t max)
{
    ngx_table_elt_t  *h;

    if (!ngx_http_weir_is_accepted(ctx)) {
        return 0;
    }

    h = ngx_http_weir_auth_header(ctx, (u_char *) name.ptr, name.len);

    if (h == NULL) {
        return 0;
    }

    if (max) {
        values[0] = ngx_http_weir_str(&h->value);
    }

    return 1;
}


/*
 * Finds the header fields with this name, which is in lower case. Stores at
 * most max values. Returns the number of fields, even if it is above max.
 */

size_t
ngx_http_weir_find_client_header(ngx_http_request_t *r, struct weir_str name,
    struct weir_str *values, size_t max)
{
    size_t            n;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    n = 0;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].key.len != name.len
                || ngx_memcmp(h[i].lowcase_key, name.ptr, name.len) != 0)
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


static size_t
ngx_http_weir_find_header(void *data, struct weir_str name,
    struct weir_str *values, size_t max)
{
    ngx_http_weir_ctx_t       *ctx = data;

    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_weir_module);

    if (wlcf->auth_uri.len
        && ngx_http_weir_has_name(wlcf->auth_headers, name.ptr, name.len))
    {
        return ngx_http_weir_find_auth_header(ctx, name, values, max);
    }

    return ngx_http_weir_find_client_header(ctx->request, name, values, max);
}


static void
ngx_http_weir_set_view_peer(struct weir_http_view *view, struct sockaddr *sa)
{
    struct sockaddr_in  *sin;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    switch (sa->sa_family) {

#if (NGX_HAVE_INET6)
    case AF_INET6:
        sin6 = (struct sockaddr_in6 *) sa;
        view->peer_len = 16;
        ngx_memcpy(view->peer, &sin6->sin6_addr, 16);
        break;
#endif

    case AF_INET:
        sin = (struct sockaddr_in *) sa;
        view->peer_len = 4;
        ngx_memcpy(view->peer, &sin->sin_addr, 4);
        break;

    default: /* AF_UNIX */
        break;
    }
}


/* returns the host of the request line, or else of the field "Host" */

const ngx_str_t *
ngx_http_weir_host(ngx_http_request_t *r)
{
    return (r->host_start == NULL && r->headers_in.host)
               ? &r->headers_in.host->value : &r->headers_in.server;
}


/*
 * Returns the length of a chunked body, without its framing, or -1 if nginx has
 * not read the whole body. A body that nginx discards is not counted by nginx:
 * its post_handler is not set.
 */

off_t
ngx_http_weir_chunked_length(ngx_http_request_t *r)
{
    ngx_http_request_body_t  *rb;

    rb = r->request_body;

    if (rb == NULL || rb->post_handler == NULL || rb->rest != 0) {
        return -1;
    }

    /* HTTP/1.1 adds up content_length_n; HTTP/2 has no framing in received */

    return r->headers_in.content_length_n >= 0 ? r->headers_in.content_length_n
                                               : rb->received;
}


static void
ngx_http_weir_set_view_body(ngx_http_request_t *r, struct weir_http_view *view)
{
    off_t                      len;
    ngx_http_core_loc_conf_t  *clcf;

    len = r->headers_in.chunked ? ngx_http_weir_chunked_length(r)
                                : ngx_max(r->headers_in.content_length_n, 0);

    if (len >= 0) {
        view->body_known = WEIR_LENGTH_KNOWN;
        view->body_bytes = len;
        return;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    view->body_known = WEIR_LENGTH_LATER;
    view->body_bytes = clcf->client_max_body_size;
}


static void
ngx_http_weir_init_view(ngx_http_weir_ctx_t *ctx, struct weir_http_view *view)
{
    ngx_str_t            any = ngx_string(NGX_HTTP_WEIR_ANY_IDENTITY);
    ngx_http_request_t  *r;

    r = ctx->request;

    ngx_memzero(view, sizeof(struct weir_http_view));
    view->size = sizeof(struct weir_http_view);

    ngx_http_weir_set_view_peer(view, r->connection->sockaddr);

    view->method = ngx_http_weir_str(&r->method_name);
    view->target = ngx_http_weir_str(&r->unparsed_uri);
    view->host = ngx_http_weir_str(ngx_http_weir_host(r));
    view->identity = ngx_http_weir_str(ctx->probing ? &any : &ctx->identity);
    view->header = ngx_http_weir_find_header;
    view->context = ctx;

    ngx_http_weir_set_view_body(r, view);
}


/*
 * Adds the descriptor of a "weir_descriptor" to the ask. A descriptor with an
 * empty value is not added.
 */

static ngx_int_t
ngx_http_weir_add_descriptor(ngx_http_request_t *r, struct weir_ask *ask,
    ngx_http_weir_descriptor_t *descriptor)
{
    int                     rc;
    ngx_str_t               value;
    ngx_uint_t              i;
    struct weir_entry       entries[NGX_HTTP_WEIR_ENTRIES_MAX];
    ngx_http_weir_entry_t  *from;

    from = descriptor->entries.elts;

    for (i = 0; i < descriptor->entries.nelts; i++) {
        if (ngx_http_complex_value(r, &from[i].value, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        if (value.len == 0) {
            return NGX_OK;
        }

        entries[i].key = ngx_http_weir_str(&from[i].key);
        entries[i].value = ngx_http_weir_str(&value);
        entries[i].source.ptr = NULL;
        entries[i].source.len = 0;
    }

    rc = weir_ask_add(ask, entries, i, NULL, WEIR_HITS_UNSET);

    if (rc != 0) {
        ngx_http_weir_unfit(r->connection->log, "weir_ask_add()", rc);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_describe(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    struct weir_ask *ask)
{
    int                          rc;
    ngx_uint_t                   i;
    struct weir_http_view        view;
    ngx_http_weir_loc_conf_t    *wlcf;
    ngx_http_weir_descriptor_t  *descriptors;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (wlcf->requests) {
        ngx_http_weir_init_view(ctx, &view);

        rc = weir_ask_http(ask, &view);

        /*
         * WEIR_EROOM and WEIR_EMANY are not handled here, because
         * weir_ask_decide() will refuse the request.
         */

        if (rc != 0 && rc != WEIR_EROOM && rc != WEIR_EMANY) {
            ngx_http_weir_unfit(r->connection->log, "weir_ask_http()", rc);
            return NGX_ERROR;
        }
    }

    if (wlcf->descriptors == NULL) {
        return NGX_OK;
    }

    descriptors = wlcf->descriptors->elts;

    for (i = 0; i < wlcf->descriptors->nelts; i++) {
        if (ngx_http_weir_add_descriptor(r, ask, &descriptors[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Warns if another process has resized the table. This process counts in the
 * old table until nginx is reloaded.
 */

static void
ngx_http_weir_check_moved(ngx_log_t *log, struct weir_table *table)
{
    static time_t  checked, moved;

    if (checked == ngx_time()) {
        return;
    }

    checked = ngx_time();

    if (moved < 0 || weir_moved(table) == 0) {
        return;
    }

    if (moved == 0) {
        moved = checked;

    } else if (checked - moved >= NGX_HTTP_WEIR_MOVED_DELAY) {
        moved = -1;
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "weir: another process has resized the table; reload "
                      "nginx to share counters with that process again");
    }
}


/*
 * Makes the ask record its descriptors, because the queue stores them with a
 * deferred request. If the request is not allowed to be deferred, tells the
 * ask not to defer.
 */

static void
ngx_http_weir_start_record(ngx_http_request_t *r, struct weir_ask *ask)
{
    static u_char  record[WEIR_RECORD_MAX];

    if (ngx_http_weir_may_defer(r)) {
        (void) weir_ask_record(ask, record, sizeof(record));

    } else {
        (void) weir_ask_no_defer(ask);
    }
}


/*
 * Creates the ask of a request. If weir itself has failed, returns NULL; such
 * a request passes. If the descriptors of the request cannot be made, sets
 * ctx->unfit and returns NULL; such a request is refused, because otherwise a
 * client could evade its limits.
 */

ngx_http_weir_block_t *
ngx_http_weir_ask(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    int64_t hits)
{
    int                         rc;
    ngx_http_weir_block_t      *block;
    ngx_http_weir_loc_conf_t   *wlcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    ctx->unfit = 0;

    ngx_http_weir_check_moved(r->connection->log, wmcf->table);

    block = ngx_http_weir_get_block(r->connection->log);
    if (block == NULL) {
        return NULL;
    }

    rc = weir_ask_init((u_char *) block + NGX_HTTP_WEIR_BLOCK_HEAD,
                       WEIR_ASK_BYTES, wmcf->engine,
                       ngx_http_weir_str(&ctx->domain), &block->ask);
    if (rc != 0) {
        block->ask = NULL;
        ngx_http_weir_failed(r->connection->log, "weir_ask_init()", rc);
        ngx_http_weir_ask_done(block);
        return NULL;
    }

    (void) weir_ask_hits(block->ask, hits);

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (wlcf->dry_run) {
        (void) weir_ask_dry_run(block->ask);
    }

    ngx_http_weir_start_record(r, block->ask);

    if (ngx_http_weir_describe(r, ctx, block->ask) != NGX_OK
        || ngx_http_weir_copy_str(r->pool, weir_ask_recorded(block->ask),
                                  &ctx->record)
           != NGX_OK)
    {
        ctx->unfit = 1;
        ngx_http_weir_ask_done(block);
        return NULL;
    }

    return block;
}


/* tells libweir the latency of a decision, if libweir wants to know it */

void
ngx_http_weir_record_latency(struct weir_ask *ask, uint64_t since_ns)
{
    uint64_t  now_ns;

    if (weir_ask_wants_latency(ask) != 1) {
        return;
    }

    now_ns = wr_clock_wall_ns();

    if (now_ns >= since_ns) {
        (void) weir_ask_report_latency(ask, now_ns - since_ns);
    }
}


/*
 * Decides a request, and calls next() with the verdict. If the central store
 * decides, next() is called when its reply comes.
 */

ngx_int_t
ngx_http_weir_decide(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next)
{
    int  verdict;

    ctx->decided_ns = wr_clock_wall_ns();

    verdict = weir_ask_decide(block->ask, ctx->decided_ns);

    if (verdict == WEIR_WAIT) {
        return ngx_http_weir_central_ask(r, ctx, block, next);
    }

    if (verdict < 0) {
        ngx_http_weir_failed(r->connection->log, "weir_ask_decide()", verdict);
        ngx_http_weir_ask_done(block);
        block = NULL;

    } else {
        ngx_http_weir_record_latency(block->ask, ctx->decided_ns);
    }

    return next(r, ctx, block, verdict);
}
