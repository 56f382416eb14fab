
#include "ngx_http_weir_module.h"


/*
 * Saves the parts of a decision that are needed after its ask has ended:
 * header fields and values of variables. Writes the log line of a decision.
 */


static ngx_int_t
ngx_http_weir_copy_text(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_str_t *to, struct weir_str from)
{
    to->len = from.len;

    if (from.len <= NGX_HTTP_WEIR_TEXT - ctx->text_len) {
        to->data = ctx->text + ctx->text_len;
        ctx->text_len += from.len;

    } else {
        to->data = ngx_pnalloc(r->pool, from.len);
        if (to->data == NULL) {
            return NGX_ERROR;
        }
    }

    ngx_memcpy(to->data, from.ptr, from.len);

    return NGX_OK;
}


/*
 * Returns true if the name is Retry-After. A response 202 does not get this
 * field.
 */

static ngx_uint_t
ngx_http_weir_is_dropped(ngx_http_weir_ctx_t *ctx, struct weir_str name)
{
    size_t  len;

    len = sizeof("retry-after") - 1;

    return ctx->result == NGX_HTTP_WEIR_DEFERRED && name.len >= len
           && ngx_strncasecmp((u_char *) name.ptr + name.len - len,
                              (u_char *) "retry-after", len)
              == 0;
}


/*
 * Saves a header field. Copies the value, but not the name, which is a
 * constant.
 */

static ngx_int_t
ngx_http_weir_save_field(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    struct weir_str name, struct weir_str value)
{
    ngx_keyval_t  *field;

    if (ctx->nfields == NGX_HTTP_WEIR_FIELDS) {
        return NGX_ERROR;
    }

    field = &ctx->fields[ctx->nfields];

    field->key.data = (u_char *) name.ptr;
    field->key.len = name.len;

    if (ngx_http_weir_copy_text(r, ctx, &field->value, value) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->nfields++;

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_save_fields(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    struct weir_ask *ask, ngx_uint_t profile)
{
    int              i, n;
    struct weir_str  name, value;

    n = weir_ask_headers(ask, (int) profile);

    ctx->nfields = 0;

    for (i = 0; i < n; i++) {
        (void) weir_ask_header(ask, i, &name, &value);

        if (!ngx_http_weir_is_dropped(ctx, name)
            && ngx_http_weir_save_field(r, ctx, name, value) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (ctx->why_not == NULL) {
        return NGX_OK;
    }

    name.ptr = "X-Weir-Not-Deferred";
    name.len = sizeof("X-Weir-Not-Deferred") - 1;
    value.ptr = ctx->why_not;
    value.len = ngx_strlen(ctx->why_not);

    return ngx_http_weir_save_field(r, ctx, name, value);
}


static ngx_http_weir_result_e
ngx_http_weir_result(ngx_http_weir_ctx_t *ctx, int verdict, ngx_flag_t dry_run)
{
    switch (verdict) {

    case WEIR_ADMIT:
        return ctx->limited ? NGX_HTTP_WEIR_ADMITTED : NGX_HTTP_WEIR_ALLOWED;

    case WEIR_DELAY:
        return dry_run ? NGX_HTTP_WEIR_DELAYED_DRY_RUN
                       : NGX_HTTP_WEIR_DELAYED;

    case WEIR_DEFER:
        return NGX_HTTP_WEIR_DEFERRED;

    default: /* WEIR_REFUSE */
        return dry_run ? NGX_HTTP_WEIR_REFUSED_DRY_RUN
                       : NGX_HTTP_WEIR_REFUSED;
    }
}


static void
ngx_http_weir_log_decision(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_uint_t   level;
    const char  *dry_run;

    level = wlcf->log_level;
    dry_run = wlcf->dry_run ? ", dry run" : "";

    switch (ctx->result) {

    case NGX_HTTP_WEIR_REFUSED:
    case NGX_HTTP_WEIR_REFUSED_DRY_RUN:
        ngx_log_error(level, r->connection->log, 0,
                      "weir: refused%s%s%s, rule: \"%V\"", dry_run,
                      ctx->why_not ? ", not deferred: " : "",
                      ctx->why_not ? ctx->why_not : "", &ctx->rule);
        break;

    case NGX_HTTP_WEIR_DEFERRED:
        level = (level == NGX_LOG_INFO) ? NGX_LOG_INFO : level + 1;

        ngx_log_error(level, r->connection->log, 0,
                      "weir: deferred, rule: \"%V\"", &ctx->rule);
        break;

    case NGX_HTTP_WEIR_DELAYED:
    case NGX_HTTP_WEIR_DELAYED_DRY_RUN:
        level = (level == NGX_LOG_INFO) ? NGX_LOG_INFO : level + 1;

        ngx_log_error(level, r->connection->log, 0,
                      "weir: delayed%s by %uLms, rule: \"%V\"", dry_run,
                      ctx->delay_ns / 1000000, &ctx->rule);
        break;

    default:
        break;
    }
}


ngx_int_t
ngx_http_weir_save_decision(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    struct weir_ask *ask, int verdict)
{
    struct weir_result         result;
    struct weir_status         status;
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_http_get_module_loc_conf(r, ngx_http_weir_module);

    result.size = sizeof(result);
    (void) weir_ask_result(ask, &result);

    ctx->delay_ns = result.delay_ns;
    ctx->retry_after_ns = result.retry_after_ns;

    (void) weir_ask_cost(ask, &ctx->cost, NULL);

    status.size = sizeof(status);

    if (weir_ask_tightest(ask, &status) == 0) {
        ctx->limited = 1;
        ctx->limit = status.limit;
        ctx->remaining = status.remaining;

        if (ngx_http_weir_copy_text(r, ctx, &ctx->rule, status.rule)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ctx->result = ngx_http_weir_result(ctx, verdict, wlcf->dry_run);

    ngx_http_weir_log_decision(r, ctx, wlcf);

    if (wlcf->dry_run) {
        return NGX_OK; /* a dry run adds no header fields */
    }

    return ngx_http_weir_save_fields(r, ctx, ask, wlcf->profile);
}
