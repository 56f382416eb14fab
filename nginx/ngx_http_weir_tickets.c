
#include "ngx_http_weir_defer.h"


/*
 * What clients are told of requests that are kept: 202 with a ticket, and at
 * the ticket's URL what became of it.
 */


#define NGX_HTTP_WEIR_TICKETS_MAX   256   /* a worker asks for at once */
#define NGX_HTTP_WEIR_TICKETS_RATE  100   /* a client may ask for in a second */
#define NGX_HTTP_WEIR_TICKETS_RATE_MAX  1000000

/* of their counters in the table, which no rule's keys begin with */
#define NGX_HTTP_WEIR_TICKETS_KEY  "\377weir\377tickets"


typedef struct {
    ngx_http_request_t      *request;
    ngx_http_weir_errand_t  *errand;     /* NULL: it has come back */
} ngx_http_weir_inquiry_t;


static ngx_uint_t  ngx_http_weir_inquiries;

static ngx_str_t  ngx_http_weir_json = ngx_string("application/json");


static ngx_int_t
ngx_http_weir_add_field(ngx_http_request_t *r, const char *name, size_t len,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));
    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = len;
    h->value = *value;

    return NGX_OK;
}


/* not as headers_out.location: nginx would make up a host for it */

static ngx_int_t
ngx_http_weir_add_ticket(ngx_http_request_t *r, ngx_str_t *ticket)
{
    u_char                     *p;
    ngx_str_t                   location;
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    location.len = wmcf->queue.tickets.len + ticket->len;
    location.data = ngx_pnalloc(r->pool, location.len);
    if (location.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(location.data, wmcf->queue.tickets.data,
                   wmcf->queue.tickets.len);
    ngx_memcpy(p, ticket->data, ticket->len);

    if (ngx_http_weir_add_field(r, "Location", 8, &location) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_weir_add_field(r, "X-Weir-Ticket", 13, ticket);
}


/* what a phase handler returns for a request that is kept */

ngx_int_t
ngx_http_weir_accepted(ngx_http_request_t *r,
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

    r->err_status = 0; /* of an error page that led here */

    ngx_http_finalize_request(
        r, ngx_http_send_response(r, NGX_HTTP_ACCEPTED, &ngx_http_weir_json,
                                  &body));

    return NGX_DONE;
}


/* ---- the ticket's URL ---- */


static void
ngx_http_weir_inquiry_cleanup(void *data)
{
    ngx_http_weir_inquiry_t  *inquiry = data;

    if (inquiry->errand) {
        ngx_http_weir_backlog_forget(inquiry->errand);
        inquiry->errand = NULL;
        ngx_http_weir_inquiries--;
    }
}


static ngx_int_t
ngx_http_weir_ticket_status(ngx_http_request_t *r, ngx_http_weir_part_t *json)
{
    ngx_str_t                 no_store = ngx_string("no-store");
    ngx_http_complex_value_t  body;

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    body.value.len = json->len;
    body.value.data = ngx_pnalloc(r->pool, json->len);
    if (body.value.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(body.value.data, json->data, json->len);

    if (ngx_http_weir_add_field(r, "Cache-Control", 13, &no_store) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_send_response(r, NGX_HTTP_OK, &ngx_http_weir_json, &body);
}


static void
ngx_http_weir_inquiry_done(void *data, ngx_http_weir_reply_t *reply)
{
    ngx_http_weir_inquiry_t  *inquiry = data;

    ngx_int_t                 rc;
    ngx_connection_t         *c;
    ngx_http_request_t       *r;

    r = inquiry->request;
    c = r->connection;

    inquiry->errand = NULL;
    ngx_http_weir_inquiries--;

    if (reply && reply->head.type == '$') {
        rc = ngx_http_weir_ticket_status(r, &reply->head);

    } else if (reply && reply->head.type == '_') {
        rc = NGX_HTTP_NOT_FOUND;

    } else {
        rc = NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}


/* the last part of the path, if it looks like one */

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


/* clients have an IPv4 address, or a network of 64 bits */

static size_t
ngx_http_weir_tickets_client(struct sockaddr *sa, u_char *key)
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

    default: /* AF_UNIX: all are one */
        break;
    }

    return p - key;
}


/* a client that asks too often is told when to come back */

static ngx_int_t
ngx_http_weir_tickets_limit(ngx_http_request_t *r)
{
    size_t                      len;
    u_char                      key[sizeof(NGX_HTTP_WEIR_TICKETS_KEY) + 8];
    uint64_t                    s;
    ngx_str_t                   wait;
    struct weir_decision        decision;
    ngx_http_weir_loc_conf_t   *wlcf;
    ngx_http_weir_main_conf_t  *wmcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);
    wmcf = ngx_http_get_module_main_conf(r, ngx_http_weir_module);

    if (wlcf->tickets == NULL || wmcf->table == NULL) {
        return NGX_OK;
    }

    len = ngx_http_weir_tickets_client(r->connection->sockaddr, key);

    if (weir_take(wmcf->table, wlcf->tickets, key, len, 1, ngx_http_weir_now(),
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

    if (ngx_http_weir_add_field(r, "Retry-After", 11, &wait) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return NGX_HTTP_TOO_MANY_REQUESTS;
}


static ngx_int_t
ngx_http_weir_tickets_handler(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    ngx_str_t                 words[2];
    ngx_pool_cleanup_t       *cln;
    ngx_http_weir_inquiry_t  *inquiry;

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

    if (ngx_http_weir_inquiries == NGX_HTTP_WEIR_TICKETS_MAX) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_weir_inquiry_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    inquiry = cln->data;
    inquiry->request = r;

    ngx_str_set(&words[0], "WEIR.TICKET");

    inquiry->errand = ngx_http_weir_backlog_send(
        words, 2, ngx_http_weir_inquiry_done, inquiry);

    if (inquiry->errand == NULL) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_http_weir_inquiries++;
    cln->handler = ngx_http_weir_inquiry_cleanup;

    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    return NGX_DONE;
}


/* "100r/s" */

static ngx_int_t
ngx_http_weir_tickets_rate(ngx_str_t *text)
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
ngx_http_weir_tickets(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
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
            || (rate = ngx_http_weir_tickets_rate(&s)) == NGX_ERROR)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" of \"weir_tickets\", "
                               "it is rate=off or from rate=1r/s to "
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
