
#include "ngx_http_weir_module.h"


/* Variables $weir_..., which decisions and authentication set. */


static ngx_int_t ngx_http_weir_result_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_retry_after_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_delay_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_cost_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_weir_auth_http_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


static ngx_http_variable_t  ngx_http_weir_variables[] = {

    { ngx_string("weir_result"), NULL, ngx_http_weir_result_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_domain"), NULL, ngx_http_weir_text_variable,
      offsetof(ngx_http_weir_ctx_t, domain), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_identity"), NULL, ngx_http_weir_text_variable,
      offsetof(ngx_http_weir_ctx_t, identity), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_rule"), NULL, ngx_http_weir_text_variable,
      offsetof(ngx_http_weir_ctx_t, rule), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_limit"), NULL, ngx_http_weir_number_variable,
      offsetof(ngx_http_weir_ctx_t, limit), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_remaining"), NULL, ngx_http_weir_number_variable,
      offsetof(ngx_http_weir_ctx_t, remaining), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_retry_after"), NULL, ngx_http_weir_retry_after_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_delay"), NULL, ngx_http_weir_delay_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_cost"), NULL, ngx_http_weir_cost_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_actual"), NULL, ngx_http_weir_cost_variable,
      1, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("weir_auth_http_"), NULL, ngx_http_weir_auth_http_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE|NGX_HTTP_VAR_PREFIX, 0 },

      ngx_http_null_variable
};


/* texts of the results, in the order of ngx_http_weir_result_e */

static ngx_str_t  ngx_http_weir_results[] = {
    ngx_null_string,
    ngx_string("ALLOWED"),
    ngx_string("ADMITTED"),
    ngx_string("DELAYED"),
    ngx_string("REFUSED"),
    ngx_string("DELAYED_DRY_RUN"),
    ngx_string("REFUSED_DRY_RUN"),
    ngx_string("DEFERRED")
};


static ngx_int_t
ngx_http_weir_set_text(ngx_http_variable_value_t *v, ngx_str_t *text)
{
    if (text->len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->len = text->len;
    v->data = text->data;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_set_number(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    const char *format, uint64_t n, ngx_msec_t ms)
{
    ngx_str_t  text;

    text.data = ngx_pnalloc(r->pool, NGX_INT64_LEN + 4);
    if (text.data == NULL) {
        return NGX_ERROR;
    }

    text.len = ngx_sprintf(text.data, format, n, ms) - text.data;

    return ngx_http_weir_set_text(v, &text);
}


static ngx_int_t
ngx_http_weir_result_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    return ngx_http_weir_set_text(
        v, &ngx_http_weir_results[ctx ? ctx->result
                                     : NGX_HTTP_WEIR_UNDECIDED]);
}


static ngx_int_t
ngx_http_weir_text_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    return ngx_http_weir_set_text(
        v, ctx ? (ngx_str_t *) ((u_char *) ctx + data)
               : &ngx_http_weir_results[NGX_HTTP_WEIR_UNDECIDED]);
}


static ngx_int_t
ngx_http_weir_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint32_t             *n;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || !ctx->limited) {
        v->not_found = 1;
        return NGX_OK;
    }

    n = (uint32_t *) ((u_char *) ctx + data);

    return ngx_http_weir_set_number(r, v, "%uL", *n, 0);
}


static ngx_int_t
ngx_http_weir_retry_after_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t              s;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || ctx->retry_after_ns == WEIR_NEVER
        || (ctx->result != NGX_HTTP_WEIR_REFUSED
            && ctx->result != NGX_HTTP_WEIR_REFUSED_DRY_RUN))
    {
        v->not_found = 1;
        return NGX_OK;
    }

    s = ctx->retry_after_ns / 1000000000
        + (ctx->retry_after_ns % 1000000000 != 0);

    return ngx_http_weir_set_number(r, v, "%uL", s ? s : 1, 0);
}


static ngx_int_t
ngx_http_weir_delay_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    uint64_t              ms;
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || ctx->result == NGX_HTTP_WEIR_UNDECIDED) {
        v->not_found = 1;
        return NGX_OK;
    }

    ms = ctx->delay_ns / 1000000 + (ctx->delay_ns % 1000000 != 0);

    return ngx_http_weir_set_number(r, v, "%uL.%03M", ms / 1000, ms % 1000);
}


/* the cost at arrival, or after settling if data is 1 */

static ngx_int_t
ngx_http_weir_cost_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_weir_ctx_t  *ctx;

    ctx = ngx_http_weir_get_ctx(r);

    if (ctx == NULL || !(data ? ctx->settled : ctx->limited)) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_weir_set_number(r, v, "%uL",
                                    data ? ctx->actual : ctx->cost, 0);
}


/*
 * Returns true if "weir_auth_headers" contains the name. The name has "_"
 * instead of "-".
 */

static ngx_uint_t
ngx_http_weir_is_identity_header(ngx_http_weir_auth_t *auth,
    const u_char *name, size_t len)
{
    u_char      ch;
    size_t      n;
    ngx_str_t  *names;
    ngx_uint_t  i;

    names = auth->headers->elts;

    for (i = 0; i < auth->headers->nelts; i++) {
        if (names[i].len != len) {
            continue;
        }

        for (n = 0; n < len; n++) {
            ch = names[i].data[n];

            if (name[n] != (ch == '-' ? '_' : ch)) {
                break;
            }
        }

        if (n == len) {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns a header field of the service's response. Identity headers are not
 * found unless the service has accepted the request.
 */

static ngx_int_t
ngx_http_weir_auth_http_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    size_t                prefix;
    ngx_str_t            *name;
    ngx_table_elt_t      *h;
    ngx_http_weir_ctx_t  *ctx;

    name = (ngx_str_t *) data;
    prefix = sizeof("weir_auth_http_") - 1;

    ctx = ngx_http_weir_get_ctx(r);

    h = ctx ? ngx_http_weir_auth_header(ctx, name->data + prefix,
                                        name->len - prefix)
            : NULL;

    if (h == NULL
        || (!ngx_http_weir_is_accepted(ctx)
            && ngx_http_weir_is_identity_header(ctx->auth, name->data + prefix,
                                                name->len - prefix)))
    {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_weir_set_text(v, &h->value);
}


ngx_int_t
ngx_http_weir_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_weir_variables; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}
