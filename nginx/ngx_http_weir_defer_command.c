
#include "ngx_http_weir_defer.h"

#include "base/hop_by_hop.h"


/*
 * The command WEIR.DEFER, which queues a request, and the reply to it. The
 * format is described in src/wire/resp/commands_defer.h.
 */


/* number of strings in the command, without those of header fields */
#define NGX_HTTP_WEIR_DEFER_WORDS   14
#define NGX_HTTP_WEIR_DEFER_FIELDS  100
#define NGX_HTTP_WEIR_DEFER_BYTES   32768  /* maximum size of all fields */
#define NGX_HTTP_WEIR_DEFER_URI     8192
#define NGX_HTTP_WEIR_DEFER_RULE    255


typedef struct {
    ngx_str_t   words[NGX_HTTP_WEIR_DEFER_WORDS
                      + 2 * NGX_HTTP_WEIR_DEFER_FIELDS];
    ngx_uint_t  n;
    size_t      bytes;                       /* size of all fields so far */
    u_char      numbers[8 * NGX_INT64_LEN];
    u_char     *last;                        /* next free byte of numbers[] */
} ngx_http_weir_command_t;


static void
ngx_http_weir_command_add(ngx_http_weir_command_t *c, const void *data,
    size_t len)
{
    c->words[c->n].data = (u_char *) data;
    c->words[c->n].len = len;
    c->n++;
}


static void
ngx_http_weir_command_add_number(ngx_http_weir_command_t *c, uint64_t n)
{
    u_char  *p;

    p = c->last;
    c->last = ngx_sprintf(p, "%uL", n);

    ngx_http_weir_command_add(c, p, c->last - p);
}


/* adds a header field; NGX_ERROR if there are too many fields or bytes */

static ngx_int_t
ngx_http_weir_command_add_field(ngx_http_weir_command_t *c, ngx_str_t *name,
    ngx_str_t *value)
{
    c->bytes += name->len + value->len;

    if (c->n + 2 > sizeof(c->words) / sizeof(ngx_str_t)
        || c->bytes > NGX_HTTP_WEIR_DEFER_BYTES)
    {
        return NGX_ERROR;
    }

    ngx_http_weir_command_add(c, name->data, name->len);
    ngx_http_weir_command_add(c, value->data, value->len);

    return NGX_OK;
}


static ngx_uint_t
ngx_http_weir_is_queue_field(ngx_http_weir_loc_conf_t *wlcf, ngx_str_t *name)
{
    ngx_uint_t              i;
    ngx_http_weir_entry_t  *fields;

    if (wlcf->queue_fields == NULL) {
        return 0;
    }

    fields = wlcf->queue_fields->elts;

    for (i = 0; i < wlcf->queue_fields->nelts; i++) {
        if (ngx_http_weir_same_name(name, fields[i].key.data,
                                    fields[i].key.len))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns true if the configuration sets the field. Then the client's value is
 * not used.
 */

static ngx_uint_t
ngx_http_weir_is_own_field(ngx_http_weir_loc_conf_t *wlcf, ngx_str_t *name)
{
    if (ngx_http_weir_same_name(name, "host", 4)
        || ngx_http_weir_is_queue_field(wlcf, name))
    {
        return 1;
    }

    return wlcf->auth_uri.len
           && ngx_http_weir_has_name(wlcf->auth_headers, name->data, name->len);
}


/* returns true if the list "headers" of the rule contains the field */

static ngx_uint_t
ngx_http_weir_is_rule_field(const struct weir_deferral *deferral,
    ngx_str_t *name)
{
    ngx_uint_t  i;

    for (i = 0; i < deferral->header_count; i++) {
        if (ngx_http_weir_same_name(name, deferral->headers[i].ptr,
                                    deferral->headers[i].len))
        {
            return 1;
        }
    }

    return 0;
}


/* returns true if a "Connection" field of the client lists the field */

static ngx_uint_t
ngx_http_weir_is_connection_field(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_weir_same_name(&h[i].key, "connection", 10)
                && wr_hop_by_hop_listed(ngx_http_weir_str(&h[i].value),
                                        ngx_http_weir_str(name)))
            {
                return 1;
            }
        }
    }

    return 0;
}


static ngx_int_t
ngx_http_weir_command_add_client_fields(ngx_http_weir_command_t *c,
    ngx_http_request_t *r, const struct weir_deferral *deferral)
{
    ngx_uint_t                 i;
    ngx_list_part_t           *part;
    ngx_table_elt_t           *h;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (ngx_http_weir_is_rule_field(deferral, &h[i].key)
                && !ngx_http_weir_is_own_field(wlcf, &h[i].key)
                && !ngx_http_weir_is_connection_field(r, &h[i].key)
                && ngx_http_weir_command_add_field(c, &h[i].key, &h[i].value)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


/*
 * Adds the fields of "weir_queue_field", and the host if these fields do not
 * include it.
 */

static ngx_int_t
ngx_http_weir_command_add_own_fields(ngx_http_weir_command_t *c,
    ngx_http_request_t *r)
{
    ngx_str_t                  name = ngx_string("host");
    ngx_str_t                  value;
    ngx_uint_t                 i;
    ngx_http_weir_entry_t     *fields;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    if (!ngx_http_weir_is_queue_field(wlcf, &name)) {
        value = *ngx_http_weir_host(r);

        if (ngx_http_weir_command_add_field(c, &name, &value) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (wlcf->queue_fields == NULL) {
        return NGX_OK;
    }

    fields = wlcf->queue_fields->elts;

    for (i = 0; i < wlcf->queue_fields->nelts; i++) {
        if (ngx_http_complex_value(r, &fields[i].value, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        if (value.len
            && ngx_http_weir_command_add_field(c, &fields[i].key, &value)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_http_weir_command_init(ngx_http_weir_command_t *c, ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_deferral *deferral)
{
    c->n = 0;
    c->bytes = 0;
    c->last = c->numbers;

    ngx_http_weir_command_add(c, "WEIR.DEFER", sizeof("WEIR.DEFER") - 1);
    ngx_http_weir_command_add(c, "1", 1);
    ngx_http_weir_command_add(c, ctx->domain.data, ctx->domain.len);
    ngx_http_weir_command_add(c, deferral->rule.ptr,
                              ngx_min(deferral->rule.len,
                                      NGX_HTTP_WEIR_DEFER_RULE));
    ngx_http_weir_command_add(c, deferral->key, sizeof(deferral->key));
    ngx_http_weir_command_add(c, r->method_name.data, r->method_name.len);
    ngx_http_weir_command_add(c, r->unparsed_uri.data, r->unparsed_uri.len);
    ngx_http_weir_command_add(c, ctx->record.data, ctx->record.len);
    ngx_http_weir_command_add_number(c, ngx_min(deferral->max_waiting,
                                                deferral->in_time));
    ngx_http_weir_command_add_number(
        c, ngx_max(deferral->max_age_ns / 1000000000, 1));
    ngx_http_weir_command_add_number(c, deferral->max_tries);
    ngx_http_weir_command_add_number(c, ngx_min(deferral->wait_ns,
                                                deferral->max_age_ns));
    ngx_http_weir_command_add_number(c, deferral->interval_ns);
}


/*
 * Sends the command. Returns NULL if the command was sent and its reply is
 * pending. Otherwise returns the reason why the command could not be sent.
 */

const char *
ngx_http_weir_defer_send(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_deferral_t *d, ngx_http_weir_reply_pt handler)
{
    struct weir_deferral      deferral;
    ngx_http_weir_command_t   c;

    deferral.size = sizeof(deferral);

    if (weir_ask_deferral(d->block->ask, &deferral) != 0) {
        return "error";
    }

    if (r->unparsed_uri.len > NGX_HTTP_WEIR_DEFER_URI) {
        return "too_large";
    }

    d->age_bound = deferral.in_time < deferral.max_waiting;

    ngx_http_weir_command_init(&c, r, ctx, &deferral);
    ngx_http_weir_command_add(&c, d->body.ptr, d->body.len);

    if (ngx_http_weir_command_add_own_fields(&c, r) != NGX_OK
        || ngx_http_weir_command_add_client_fields(&c, r, &deferral) != NGX_OK)
    {
        return "too_large";
    }

    if (ngx_http_weir_link_send(&ngx_http_weir_queue_link, c.words, c.n,
                                handler, d)
        == NULL)
    {
        return ngx_http_weir_queue_link.up ? "busy" : "away";
    }

    d->pending = 1;

    return NULL;
}


/* reads REASON from the error reply "-DEFER REASON SENTENCE" */

static void
ngx_http_weir_defer_read_reason(ngx_http_weir_deferral_t *d,
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

    /*
     * "key_full" means that the line is full. If age_bound is set, max_age
     * limits the line. The request is then refused as "too_late", because it
     * would expire before its delivery.
     */

    if (d->age_bound && ngx_strcmp(d->reason, "key_full") == 0) {
        d->why_not = "too_late";
    }
}


/*
 * Reads the reply to the command. reply is NULL if the queue has not replied
 * in time.
 */

void
ngx_http_weir_defer_read_reply(ngx_http_weir_deferral_t *d,
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
        ngx_http_weir_defer_read_reason(d, &reply->head);
        return;
    }

    position = ngx_atoof(parts[1].data, parts[1].len);
    expected = ngx_atoof(parts[2].data, parts[2].len);

    d->position = ngx_max(position, 1);
    d->expected_ns = ngx_max(expected, 0);

    ngx_memcpy(d->ticket, parts[0].data, NGX_HTTP_WEIR_TICKET);
}
