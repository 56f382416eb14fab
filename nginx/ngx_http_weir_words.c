
#include "ngx_http_weir_defer.h"


#define NGX_HTTP_WEIR_WORDS         14   /* of a command, without fields */
#define NGX_HTTP_WEIR_WORDS_FIELDS  100
#define NGX_HTTP_WEIR_WORDS_BYTES   32768  /* of all fields */
#define NGX_HTTP_WEIR_WORDS_URI     8192
#define NGX_HTTP_WEIR_WORDS_RULE    255


/*
 * A request in the words of WEIR.DEFER, and what is answered;
 * src/wire/resp/commands_defer.h has both.
 */

typedef struct {
    ngx_str_t   words[NGX_HTTP_WEIR_WORDS + 2 * NGX_HTTP_WEIR_WORDS_FIELDS];
    ngx_uint_t  n;
    size_t      bytes;                       /* of fields */
    u_char      numbers[8 * NGX_INT64_LEN];
    u_char     *last;
} ngx_http_weir_words_t;


static void
ngx_http_weir_words_add(ngx_http_weir_words_t *w, const void *data, size_t len)
{
    w->words[w->n].data = (u_char *) data;
    w->words[w->n].len = len;
    w->n++;
}


static void
ngx_http_weir_words_number(ngx_http_weir_words_t *w, uint64_t n)
{
    u_char  *p;

    p = w->last;
    w->last = ngx_sprintf(p, "%uL", n);

    ngx_http_weir_words_add(w, p, w->last - p);
}


/* NGX_ERROR: there are too many, or they are too long */

static ngx_int_t
ngx_http_weir_words_field(ngx_http_weir_words_t *w, ngx_str_t *name,
    ngx_str_t *value)
{
    w->bytes += name->len + value->len;

    if (w->n + 2 > sizeof(w->words) / sizeof(ngx_str_t)
        || w->bytes > NGX_HTTP_WEIR_WORDS_BYTES)
    {
        return NGX_ERROR;
    }

    ngx_http_weir_words_add(w, name->data, name->len);
    ngx_http_weir_words_add(w, value->data, value->len);

    return NGX_OK;
}


static ngx_uint_t
ngx_http_weir_words_is(ngx_table_elt_t *h, const void *name, size_t len)
{
    return h->key.len == len
           && ngx_strncasecmp(h->key.data, (u_char *) name, len) == 0;
}


/* fields of which the location has a say, so that a client has none */

static ngx_uint_t
ngx_http_weir_words_taken(ngx_http_weir_loc_conf_t *wlcf, ngx_table_elt_t *h)
{
    ngx_str_t              *names;
    ngx_uint_t              i;
    ngx_http_weir_entry_t  *fields;

    if (ngx_http_weir_words_is(h, "host", 4)) {
        return 1;
    }

    fields = wlcf->queue_fields ? wlcf->queue_fields->elts : NULL;

    for (i = 0; fields && i < wlcf->queue_fields->nelts; i++) {
        if (ngx_http_weir_words_is(h, fields[i].key.data, fields[i].key.len)) {
            return 1;
        }
    }

    names = wlcf->auth_uri.len ? wlcf->auth_headers->elts : NULL;

    for (i = 0; names && i < wlcf->auth_headers->nelts; i++) {
        if (ngx_http_weir_words_is(h, names[i].data, names[i].len)) {
            return 1;
        }
    }

    return 0;
}


static ngx_uint_t
ngx_http_weir_words_kept(const struct weir_deferral *deferral,
    ngx_table_elt_t *h)
{
    ngx_uint_t  i;

    for (i = 0; i < deferral->header_count; i++) {
        if (ngx_http_weir_words_is(h, deferral->headers[i].ptr,
                                   deferral->headers[i].len))
        {
            return 1;
        }
    }

    return 0;
}


/* whether a value of "Connection" has the field's name among its words */

static ngx_uint_t
ngx_http_weir_words_listed(ngx_str_t *value, ngx_table_elt_t *h)
{
    u_char  *p, *last, *word;

    last = value->data + value->len;

    for (p = value->data; p < last; p++) {
        word = p;

        while (p < last && *p != ',' && *p != ' ' && *p != '\t') {
            p++;
        }

        if (p != word && ngx_http_weir_words_is(h, word, p - word)) {
            return 1;
        }
    }

    return 0;
}


/*
 * The client's "Connection" is for nginx alone, and so is what it names. That
 * it names fields of the location's own is of no account: these are not asked
 * about.
 */

static ngx_uint_t
ngx_http_weir_words_hop(ngx_http_request_t *r, ngx_table_elt_t *named)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_weir_words_is(&h[i], "connection", 10)
                && ngx_http_weir_words_listed(&h[i].value, named))
            {
                return 1;
            }
        }
    }

    return 0;
}


/* what the client sent, as far as the rule lets it be kept */

static ngx_int_t
ngx_http_weir_words_client(ngx_http_request_t *r, ngx_http_weir_words_t *w,
    const struct weir_deferral *deferral)
{
    ngx_uint_t                 i;
    ngx_list_part_t           *part;
    ngx_table_elt_t           *h;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_weir_words_kept(deferral, &h[i])
                && !ngx_http_weir_words_taken(wlcf, &h[i])
                && !ngx_http_weir_words_hop(r, &h[i])
                && ngx_http_weir_words_field(w, &h[i].key, &h[i].value)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


/* what "weir_queue_field" says of it */

static ngx_int_t
ngx_http_weir_words_own(ngx_http_request_t *r, ngx_http_weir_words_t *w)
{
    ngx_str_t                  value;
    ngx_uint_t                 i;
    ngx_http_weir_entry_t     *fields;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (wlcf->queue_fields == NULL) {
        return NGX_OK;
    }

    fields = wlcf->queue_fields->elts;

    for (i = 0; i < wlcf->queue_fields->nelts; i++) {
        if (ngx_http_complex_value(r, &fields[i].value, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        if (value.len
            && ngx_http_weir_words_field(w, &fields[i].key, &value) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* unless the location has a say of it; a host in the request line goes first */

static ngx_int_t
ngx_http_weir_words_host(ngx_http_request_t *r, ngx_http_weir_words_t *w)
{
    ngx_str_t                  name = ngx_string("host");
    ngx_str_t                  host;
    ngx_uint_t                 i;
    ngx_http_weir_entry_t     *fields;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    fields = wlcf->queue_fields ? wlcf->queue_fields->elts : NULL;

    for (i = 0; fields && i < wlcf->queue_fields->nelts; i++) {
        if (fields[i].key.len == name.len
            && ngx_strncasecmp(fields[i].key.data, name.data, name.len) == 0)
        {
            return NGX_OK;
        }
    }

    host = (r->host_start == NULL && r->headers_in.host)
               ? r->headers_in.host->value : r->headers_in.server;

    return ngx_http_weir_words_field(w, &name, &host);
}


static ngx_int_t
ngx_http_weir_words_fields(ngx_http_request_t *r, ngx_http_weir_words_t *w,
    const struct weir_deferral *deferral)
{
    if (ngx_http_weir_words_host(r, w) != NGX_OK
        || ngx_http_weir_words_own(r, w) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_weir_words_client(r, w, deferral);
}


static void
ngx_http_weir_words_begin(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_words_t *w, const struct weir_deferral *deferral)
{
    uint64_t  wait_ns;

    wait_ns = ngx_min(deferral->wait_ns, deferral->max_age_ns);

    ngx_http_weir_words_add(w, "WEIR.DEFER", sizeof("WEIR.DEFER") - 1);
    ngx_http_weir_words_add(w, "1", 1);
    ngx_http_weir_words_add(w, ctx->domain.data, ctx->domain.len);
    ngx_http_weir_words_add(w, deferral->rule.ptr,
                            ngx_min(deferral->rule.len,
                                    NGX_HTTP_WEIR_WORDS_RULE));
    ngx_http_weir_words_add(w, deferral->key, sizeof(deferral->key));
    ngx_http_weir_words_add(w, r->method_name.data, r->method_name.len);
    ngx_http_weir_words_add(w, r->unparsed_uri.data, r->unparsed_uri.len);
    ngx_http_weir_words_add(w, ctx->record.data, ctx->record.len);
    ngx_http_weir_words_number(w, ngx_min(deferral->max_waiting,
                                          deferral->in_time));
    ngx_http_weir_words_number(w, ngx_max(deferral->max_age_ns / 1000000000,
                                          1));
    ngx_http_weir_words_number(w, deferral->max_tries);
    ngx_http_weir_words_number(w, wait_ns);
    ngx_http_weir_words_number(w, deferral->interval_ns);
}


/* NULL: it is on its way; or why not */

const char *
ngx_http_weir_words_send(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_deferral_t *d, ngx_http_weir_errand_pt done)
{
    struct weir_deferral   deferral;
    ngx_http_weir_words_t  w;

    deferral.size = sizeof(deferral);

    if (weir_ask_deferral(d->block->ask, &deferral) != 0) {
        return "error";
    }

    if (r->unparsed_uri.len > NGX_HTTP_WEIR_WORDS_URI) {
        return "too_large";
    }

    d->late = deferral.in_time < deferral.max_waiting;

    w.n = 0;
    w.bytes = 0;
    w.last = w.numbers;

    ngx_http_weir_words_begin(r, ctx, &w, &deferral);
    ngx_http_weir_words_add(&w, d->body, d->len);

    if (ngx_http_weir_words_fields(r, &w, &deferral) != NGX_OK) {
        return "too_large";
    }

    d->errand = ngx_http_weir_backlog_send(w.words, w.n, done, d);

    if (d->errand) {
        return NULL;
    }

    return ngx_http_weir_backlog_is_up() ? "busy" : "away";
}


/* "DEFER reason sentence" */

static void
ngx_http_weir_words_reason(ngx_http_weir_deferral_t *d,
    ngx_http_weir_part_t *error)
{
    u_char  *p, *last, *to;

    d->why_not = "error";

    if (error->type != '-' || error->len < 7
        || ngx_strncmp(error->data, "DEFER ", 6) != 0)
    {
        return;
    }

    p = error->data + 6;
    last = error->data + error->len;

    for (to = d->reason; p < last && *p != ' '; p++) {
        if ((*p != '_' && (*p < 'a' || *p > 'z'))
            || to == d->reason + sizeof(d->reason) - 1)
        {
            return;
        }

        *to++ = *p;
    }

    *to = '\0';

    if (to != d->reason) {
        d->why_not = (const char *) d->reason;
    }

    /* not the rule's own bound was sent, but how many can be in time */

    if (d->late && ngx_strcmp(d->reason, "key_full") == 0) {
        d->why_not = "too_late";
    }
}


/* what the queue has answered; NULL: nothing, in its time */

void
ngx_http_weir_words_read(ngx_http_weir_deferral_t *d,
    ngx_http_weir_reply_t *reply)
{
    off_t                  position, expected;
    ngx_http_weir_part_t  *parts;

    if (reply == NULL) {
        d->why_not = "away";
        return;
    }

    parts = reply->parts;

    if (reply->nparts != 3 || parts[0].type != '$' || parts[1].type != ':'
        || parts[2].type != ':' || parts[0].len != NGX_HTTP_WEIR_TICKET)
    {
        ngx_http_weir_words_reason(d, &reply->head);
        return;
    }

    position = ngx_atoof(parts[1].data, parts[1].len);
    expected = ngx_atoof(parts[2].data, parts[2].len);

    d->position = ngx_max(position, 1);
    d->expected_ns = ngx_max(expected, 0);

    ngx_memcpy(d->ticket, parts[0].data, NGX_HTTP_WEIR_TICKET);
}
