
#include "ngx_http_weir_defer.h"


/*
 * Responses about deferred requests: 202 with a ticket when a request has been
 * queued, and the state of the request at the ticket's URL ("weir_tickets").
 */


/* maximum number of ticket requests that wait for a reply in a worker */
#define NGX_HTTP_WEIR_LOOKUPS_MAX       256
/* default and largest rate limit of a client, in requests per second */
#define NGX_HTTP_WEIR_TICKETS_RATE      100
#define NGX_HTTP_WEIR_TICKETS_RATE_MAX  1000000

/* prefix of the clients' keys in the table; no key of a rule begins with it */
#define NGX_HTTP_WEIR_TICKETS_KEY  "\377weir\377tickets"


/* a request for the state of a ticket */

typedef struct {
    ngx_http_request_t       *request;
    ngx_http_weir_pending_t  *pending;   /* NULL: the reply has come */
} ngx_http_weir_lookup_t;


static ngx_uint_t  ngx_http_weir_lookups;

static ngx_str_t  ngx_http_weir_json = ngx_string("application/json");


/*
 * Adds the header fields Location and X-Weir-Ticket. headers_out.location is
 * not used, because nginx would add a host to it.
 */

static ngx_int_t
ngx_http_weir_add_ticket(ngx_http_request_t *r, ngx_str_t *ticket)
{
    u_char                     *p;
    ngx_str_t                   location;
    ngx_str_t                   location_name = ngx_string("Location");
    ngx_str_t                   ticket_name = ngx_string("X-Weir-Ticket");
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    location.len = wmcf->queue_tickets.len + ticket->len;
    location.data = ngx_pnalloc(r->pool, location.len);
    if (location.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(location.data, wmcf->queue_tickets.data,
                   wmcf->queue_tickets.len);
    ngx_memcpy(p, ticket->data, ticket->len);

    if (ngx_http_weir_add_field(r, &location_name, &location) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_weir_add_field(r, &ticket_name, ticket);
}


/* sends 202 for a queued request; returns the code of a phase handler */

ngx_int_t
ngx_http_weir_send_accepted(ngx_http_request_t *r,
    const ngx_http_weir_deferral_t *d)
{
    u_char                    *p;
    uint64_t                   ms;
    ngx_str_t                  ticket;
    ngx_http_complex_value_t   body;

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    ticket.len = NGX_HTTP_WEIR_TICKET;
    ticket.data = ngx_pnalloc(r->pool, NGX_HTTP_WEIR_TICKET);
    body.value.data = ngx_pnalloc(r->pool, NGX_HTTP_WEIR_TICKET
                                           + 3 * NGX_INT64_LEN + 128);

    if (ticket.data == NULL || body.value.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(ticket.data, d->ticket, NGX_HTTP_WEIR_TICKET);

    ms = d->expected_ns / 1000000;

    p = ngx_sprintf(body.value.data,
                    "{\"ticket\":\"%V\",\"status\":\"waiting\","
                    "\"position\":%uL,\"expected_delay\":%uL.%03uL}\n",
                    &ticket, d->position, ms / 1000, ms % 1000);

    body.value.len = p - body.value.data;

    if (ngx_http_weir_add_ticket(r, &ticket) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    /* remove the status of an earlier error, which would replace 202 */
    r->err_status = 0;

    ngx_http_finalize_request(
        r, ngx_http_send_response(r, NGX_HTTP_ACCEPTED, &ngx_http_weir_json,
                                  &body));

    return NGX_DONE;
}


/* ---- the ticket's URL ---- */


static void
ngx_http_weir_lookup_cleanup(void *data)
{
    ngx_http_weir_lookup_t  *lookup = data;

    if (lookup->pending) {
        lookup->pending->handler = NULL;
        lookup->pending = NULL;
        ngx_http_weir_lookups--;
    }
}


static ngx_int_t
ngx_http_weir_send_ticket(ngx_http_request_t *r, ngx_http_weir_part_t *json)
{
    ngx_str_t                 name = ngx_string("Cache-Control");
    ngx_str_t                 no_store = ngx_string("no-store");
    struct weir_str           text;
    ngx_http_complex_value_t  body;

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    text.ptr = (char *) json->data;
    text.len = json->len;

    if (ngx_http_weir_copy_str(r->pool, text, &body.value) != NGX_OK
        || ngx_http_weir_add_field(r, &name, &no_store) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_response(r, NGX_HTTP_OK, &ngx_http_weir_json, &body);
}


static ngx_int_t
ngx_http_weir_lookup_reply_handler(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply)
{
    ngx_int_t                rc;
    ngx_connection_t        *c;
    ngx_http_request_t      *r;
    ngx_http_weir_lookup_t  *lookup;

    lookup = p->data;
    r = lookup->request;
    c = r->connection;

    lookup->pending = NULL;
    ngx_http_weir_lookups--;

    if (reply && reply->head.type == '$') {
        rc = ngx_http_weir_send_ticket(r, &reply->head);

    } else if (reply && reply->head.type == '_') {
        rc = NGX_HTTP_NOT_FOUND;

    } else {
        rc = NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);

    return NGX_OK;
}


/* finds the ticket, which is the last part of the path */

static ngx_int_t
ngx_http_weir_find_ticket(ngx_http_request_t *r, ngx_str_t *ticket)
{
    u_char      ch;
    ngx_uint_t  i;

    if (r->uri.len < NGX_HTTP_WEIR_TICKET + 1) {
        return NGX_DECLINED;
    }

    ticket->len = NGX_HTTP_WEIR_TICKET;
    ticket->data = r->uri.data + r->uri.len - NGX_HTTP_WEIR_TICKET;

    if (ticket->data[-1] != '/') {
        return NGX_DECLINED;
    }

    for (i = 0; i < ticket->len; i++) {
        ch = ticket->data[i];

        if ((ch < '0' || ch > '9') && (ch < 'a' || ch > 'f')) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/*
 * Makes the key of a client: its IPv4 address, or the first 64 bits of its
 * IPv6 address.
 */

static size_t
ngx_http_weir_tickets_key(struct sockaddr *sa, u_char *key)
{
    u_char               *p;
    struct sockaddr_in   *sin;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    p = ngx_cpymem(key, NGX_HTTP_WEIR_TICKETS_KEY,
                   sizeof(NGX_HTTP_WEIR_TICKETS_KEY) - 1);

    switch (sa->sa_family) {

#if (NGX_HAVE_INET6)
    case AF_INET6:
        sin6 = (struct sockaddr_in6 *) sa;

        if (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
            p = ngx_cpymem(p, &sin6->sin6_addr.s6_addr[12], 4);

        } else {
            p = ngx_cpymem(p, &sin6->sin6_addr, 8);
        }

        break;
#endif

    case AF_INET:
        sin = (struct sockaddr_in *) sa;
        p = ngx_cpymem(p, &sin->sin_addr, 4);
        break;

    default: /* AF_UNIX: all clients share a key */
        break;
    }

    return p - key;
}


static ngx_int_t
ngx_http_weir_tickets_limit(ngx_http_request_t *r)
{
    size_t                      len;
    u_char                      key[sizeof(NGX_HTTP_WEIR_TICKETS_KEY) + 8];
    uint64_t                    s;
    ngx_str_t                   wait;
    ngx_str_t                   name = ngx_string("Retry-After");
    struct weir_decision        decision;
    ngx_http_weir_loc_conf_t   *wlcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    if (wlcf->tickets == NULL || wmcf->table == NULL) {
        return NGX_OK;
    }

    len = ngx_http_weir_tickets_key(r->connection->sockaddr, key);

    if (weir_take(wmcf->table, wlcf->tickets, key, len, 1, wr_clock_wall_ns(),
                  &decision)
            != 0
        || decision.admitted)
    {
        return NGX_OK;
    }

    wait.data = ngx_pnalloc(r->pool, NGX_INT64_LEN);
    if (wait.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    s = decision.retry_after_ns / 1000000000
        + (decision.retry_after_ns % 1000000000 != 0);

    wait.len = ngx_sprintf(wait.data, "%uL", s) - wait.data;

    if (ngx_http_weir_add_field(r, &name, &wait) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_HTTP_TOO_MANY_REQUESTS;
}


static ngx_int_t
ngx_http_weir_tickets_handler(ngx_http_request_t *r)
{
    ngx_int_t                rc;
    ngx_str_t                words[2];
    ngx_pool_cleanup_t      *cln;
    ngx_http_weir_lookup_t  *lookup;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_weir_find_ticket(r, &words[1]) != NGX_OK) {
        return NGX_HTTP_NOT_FOUND;
    }

    rc = ngx_http_weir_tickets_limit(r);

    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_http_weir_lookups == NGX_HTTP_WEIR_LOOKUPS_MAX) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_weir_lookup_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    lookup = cln->data;
    lookup->request = r;

    ngx_str_set(&words[0], "WEIR.TICKET");

    lookup->pending = ngx_http_weir_link_send(
        &ngx_http_weir_queue_link, words, 2,
        ngx_http_weir_lookup_reply_handler, lookup);

    if (lookup->pending == NULL) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_http_weir_lookups++;
    cln->handler = ngx_http_weir_lookup_cleanup;

    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    return NGX_DONE;
}


/* parses a rate like "100r/s" */

static ngx_int_t
ngx_http_weir_tickets_parse_rate(ngx_str_t *text)
{
    ngx_int_t  n;

    if (text->len < 4 || ngx_strncmp(text->data + text->len - 3, "r/s", 3) != 0)
    {
        return NGX_ERROR;
    }

    n = ngx_atoi(text->data, text->len - 3);

    return n > NGX_HTTP_WEIR_TICKETS_RATE_MAX || n == 0 ? NGX_ERROR : n;
}


char *
ngx_http_weir_set_tickets(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t  *wlcf = conf;

    ngx_int_t                  rate;
    ngx_str_t                 *value, s;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler == ngx_http_weir_tickets_handler) {
        return "is duplicate";
    }

    clcf->handler = ngx_http_weir_tickets_handler;

    rate = NGX_HTTP_WEIR_TICKETS_RATE;

    if (cf->args->nelts == 2) {
        value = cf->args->elts;

        if (ngx_strcmp(value[1].data, "rate=off") == 0) {
            return NGX_CONF_OK;
        }

        s.data = value[1].data + 5;
        s.len = value[1].len - 5;

        if (ngx_strncmp(value[1].data, "rate=", 5) != 0
            || (rate = ngx_http_weir_tickets_parse_rate(&s)) == NGX_ERROR)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" of \"weir_tickets\": "
                               "valid are rate=off, and rate=1r/s to "
                               "rate=%dr/s",
                               &value[1], NGX_HTTP_WEIR_TICKETS_RATE_MAX);
            return NGX_CONF_ERROR;
        }
    }

    wlcf->tickets = ngx_pcalloc(cf->pool, sizeof(struct weir_limit));
    if (wlcf->tickets == NULL) {
        return NGX_CONF_ERROR;
    }

    wlcf->tickets->size = sizeof(struct weir_limit);
    wlcf->tickets->algorithm = WEIR_TOKEN_BUCKET;
    wlcf->tickets->limit = (uint32_t) rate;
    wlcf->tickets->period_ns = 1000000000;

    if (weir_limit_check(wlcf->tickets, NULL) != 0) {
        return "has an invalid rate";
    }

    return NGX_CONF_OK;
}
