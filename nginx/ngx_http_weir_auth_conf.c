
#include "ngx_http_weir_module.h"


/* Reads the directives of authentication, and checks them after merging. */


static ngx_str_t  ngx_http_weir_default_auth_names[] = {
    ngx_string("remote-user"),
    ngx_string("x-auth-request-user"),
    ngx_string("x-forwarded-user")
};


static ngx_array_t  ngx_http_weir_default_auth_headers = {
    ngx_http_weir_default_auth_names, 3, sizeof(ngx_str_t), 3, NULL
};


char *
ngx_http_weir_set_auth(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t  *wlcf = conf;

    u_char                    *args;
    ngx_str_t                 *value;

    if (wlcf->auth_uri.data != NULL) {
        return "is duplicate";
    }

    value = cf->args->elts;

    wlcf->auth_at.file = cf->conf_file->file.name;
    wlcf->auth_at.line = cf->conf_file->line;

    if (ngx_strcmp(value[1].data, "off") == 0) {
        ngx_str_set(&wlcf->auth_uri, "");
        return NGX_CONF_OK;
    }

    if (value[1].len == 0 || value[1].data[0] != '/') {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid URI \"%V\" of \"weir_auth\": it must "
                           "begin with \"/\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    if (ngx_http_weir_check_literal(cf, "weir_auth", &value[1])
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    wlcf->auth_uri = value[1];

    args = ngx_strlchr(value[1].data, value[1].data + value[1].len, '?');

    if (args) {
        wlcf->auth_uri.len = args - value[1].data;
        wlcf->auth_args.data = args + 1;
        wlcf->auth_args.len = value[1].len - wlcf->auth_uri.len - 1;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_weir_set_auth_headers(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t  *wlcf = conf;

    ngx_str_t                 *value, *name;
    ngx_uint_t                 i;

    if (wlcf->auth_headers) {
        return "is duplicate";
    }

    value = cf->args->elts;

    wlcf->auth_headers =
        ngx_array_create(cf->pool, cf->args->nelts - 1, sizeof(ngx_str_t));
    if (wlcf->auth_headers == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {
        if (!ngx_http_weir_is_field_name(&value[i])) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid header name \"%V\" of "
                               "\"weir_auth_headers\": use letters, digits "
                               "and hyphens",
                               &value[i]);
            return NGX_CONF_ERROR;
        }

        name = ngx_array_push(wlcf->auth_headers);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
        ngx_strlow(name->data, name->data, name->len);
    }

    return NGX_CONF_OK;
}


void
ngx_http_weir_merge_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *prev,
    ngx_http_weir_loc_conf_t *conf)
{
    ngx_http_weir_srv_conf_t  *wscf;

    if (conf->auth_uri.data == NULL) {
        conf->auth_uri = prev->auth_uri;
        conf->auth_args = prev->auth_args;
        conf->auth_at = prev->auth_at;
    }

    if (conf->auth_headers == NULL) {
        conf->auth_headers = prev->auth_headers;
    }

    if (conf->auth_uri.len == 0) {
        return;
    }

    wscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_weir_module);
    wscf->auth = 1;

    if (conf->auth_headers == NULL) {
        conf->auth_headers = &ngx_http_weir_default_auth_headers;
    }
}


/*
 * Returns true if the server has a "location /". Then every request is served
 * by a location, and none by the server block itself.
 */

static ngx_uint_t
ngx_http_weir_has_catch_all(ngx_http_core_loc_conf_t *clcf)
{
    ngx_queue_t                *q;
    ngx_http_location_queue_t  *lq;

    if (clcf->locations == NULL) {
        return 0;
    }

    for (q = ngx_queue_head(clcf->locations);
         q != ngx_queue_sentinel(clcf->locations); q = ngx_queue_next(q))
    {
        lq = ngx_queue_data(q, ngx_http_location_queue_t, queue);

        if (lq->inclusive && lq->inclusive->name.len == 1) {
            return 1;
        }
    }

    return 0;
}


/*
 * Returns true if this is the location of the authentication service. It is no
 * error if such a location inherits "weir_auth".
 */

ngx_uint_t
ngx_http_weir_is_auth_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_weir_loc_conf_t *conf)
{
    if (clcf->name.len > conf->auth_uri.len
        || ngx_strncmp(clcf->name.data, conf->auth_uri.data, clcf->name.len)
               != 0)
    {
        return 0;
    }

    return clcf->name.len == conf->auth_uri.len || clcf->internal;
}


/*
 * Refuses "weir_auth" in a location where weir is off. The directive would
 * have no effect there, and the location would be open to everyone. A location
 * that is meant to be open needs "weir_auth off".
 */

char *
ngx_http_weir_check_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *conf)
{
    ngx_uint_t                  server;
    ngx_http_weir_source_t     *at;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_weir_main_conf_t  *wmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /*
     * Skip the block of an "if" or a "limit_except" (noname is set), because
     * the location that contains the block is checked itself.
     */

    if (conf->auth_uri.len == 0 || conf->domain.len || clcf->noname
        || ngx_process == NGX_PROCESS_SIGNALLER)
    {
        return NGX_CONF_OK;
    }

    server = (clcf->name.len == 0);

    if (server ? ngx_http_weir_has_catch_all(clcf)
               : ngx_http_weir_is_auth_location(clcf, conf))
    {
        return NGX_CONF_OK;
    }

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);

    at = (conf->mode == NGX_HTTP_WEIR_OFF) ? &conf->mode_at : &conf->auth_at;

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"weir_auth %V\" has no effect in %s%V%s, where weir is "
                  "off: add \"weir on\"%s, or \"weir_auth off\" if it needs "
                  "no authentication in %V:%ui",
                  &conf->auth_uri, server ? "a server" : "location \"",
                  &clcf->name, server ? "" : "\"",
                  wmcf->rules_path.len ? "" : " and \"weir_rules\" in http",
                  &at->file, at->line);

    return NGX_CONF_ERROR;
}
