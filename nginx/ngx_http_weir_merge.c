
#include "ngx_http_weir_module.h"


/* Merges the directives of a location, and finds its domain in the rules. */


/*
 * Returns a list of domains for messages: all domains, or only those that have
 * "requests:".
 */

static ngx_str_t
ngx_http_weir_list_domains(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    ngx_flag_t requests)
{
    u_char                  *p, *last;
    size_t                   i;
    ngx_str_t                text;
    struct weir_domain_info  info;

    text.len = 0;
    text.data = ngx_pnalloc(cf->temp_pool, NGX_MAX_CONF_ERRSTR);
    if (text.data == NULL) {
        return text;
    }

    p = text.data;
    last = p + NGX_MAX_CONF_ERRSTR / 2;
    info.size = sizeof(info);

    for (i = 0; weir_rules_domain(wmcf->rules, i, &info) == 0; i++) {
        if (!requests || info.requests) {
            p = ngx_slprintf(p, last, "%s%*s", p == text.data ? "" : ", ",
                             info.name.len, info.name.ptr);
        }
    }

    if (p == text.data) {
        p = ngx_slprintf(p, last, "none");
    }

    text.len = p - text.data;

    return text;
}


/* Finds the domain of "weir on": the only domain that has "requests:". */

static char *
ngx_http_weir_find_only_domain(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    size_t                   i, found;
    ngx_str_t                list;
    struct weir_domain_info  info;

    found = 0;
    info.size = sizeof(info);

    for (i = 0; weir_rules_domain(wmcf->rules, i, &info) == 0; i++) {
        if (info.requests && found++ == 0) {
            if (ngx_http_weir_copy_str(cf->pool, info.name, &wmcf->only_domain)
                != NGX_OK)
            {
                return NGX_CONF_ERROR;
            }
        }
    }

    if (found == 1) {
        return NGX_CONF_OK;
    }

    list = ngx_http_weir_list_domains(cf, wmcf, found != 0);

    if (found == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weir on\" needs a domain with \"requests:\" in "
                           "\"%V\", domains without it: %V",
                           &wmcf->rules_path, &list);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weir on\" is ambiguous, several domains of "
                           "\"%V\" have \"requests:\": use \"weir DOMAIN\" "
                           "with one of %V",
                           &wmcf->rules_path, &list);
    }

    return NGX_CONF_ERROR;
}


ngx_uint_t
ngx_http_weir_equal(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && (a->len == 0 || ngx_memcmp(a->data, b->data, a->len) == 0);
}


ngx_uint_t
ngx_http_weir_find_domain(struct weir_rules *rules, ngx_str_t *domain,
    struct weir_domain_info *info)
{
    size_t  i;

    info->size = sizeof(struct weir_domain_info);

    for (i = 0; weir_rules_domain(rules, i, info) == 0; i++) {
        if (info->name.len == domain->len
            && ngx_strncmp(info->name.ptr, domain->data, domain->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Checks that the rules contain the domain, and adds it to the list of used
 * domains.
 */

static char *
ngx_http_weir_use_domain(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *wlcf)
{
    ngx_str_t               *used, list;
    ngx_uint_t               n;
    struct weir_domain_info  info;

    used = wmcf->domains.elts;

    for (n = 0; n < wmcf->domains.nelts; n++) {
        if (ngx_http_weir_equal(&used[n], &wlcf->domain)) {
            return NGX_CONF_OK;
        }
    }

    if (!ngx_http_weir_find_domain(wmcf->rules, &wlcf->domain, &info)) {
        list = ngx_http_weir_list_domains(cf, wmcf, 0);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "no domain \"%V\" in the rules \"%V\", which have: "
                           "%V",
                           &wlcf->domain, &wmcf->rules_path, &list);
        return NGX_CONF_ERROR;
    }

    if (wlcf->descriptors == NULL && info.requests == 0) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"weir %V\" limits nothing: the domain has no "
                           "\"requests:\", and the location has no "
                           "\"weir_descriptor\"",
                           &wlcf->domain);
    }

    used = ngx_array_push(&wmcf->domains);
    if (used == NULL) {
        return NGX_CONF_ERROR;
    }

    *used = wlcf->domain;

    return NGX_CONF_OK;
}


/*
 * Sets the domain of a location to the domain of its directive "weir". Without
 * this directive, the location gets the domain of its "weir_descriptor".
 *
 * If both directives apply and their domains differ, a "weir_descriptor" of the
 * location itself (own is set) is an error. An inherited "weir_descriptor" is
 * ignored.
 */

static char *
ngx_http_weir_set_domain(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    ngx_http_weir_loc_conf_t *conf, ngx_flag_t own)
{
    ngx_http_weir_descriptor_t  *first;

    if (conf->mode == NGX_HTTP_WEIR_ON) {
        if (wmcf->only_domain.len == 0
            && ngx_http_weir_find_only_domain(cf, wmcf) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }

        conf->domain = wmcf->only_domain;
    }

    conf->requests = (conf->mode != NGX_CONF_UNSET_UINT);

    if (conf->descriptors == NULL) {
        return ngx_http_weir_use_domain(cf, wmcf, conf);
    }

    first = conf->descriptors->elts;

    if (!conf->requests) {
        conf->domain = first->domain;

    } else if (!ngx_http_weir_equal(&first->domain, &conf->domain)) {
        if (own) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"weir_descriptor\" has domain \"%V\", but "
                               "\"weir\" has \"%V\"",
                               &first->domain, &conf->domain);
            return NGX_CONF_ERROR;
        }

        conf->descriptors = NULL;
    }

    return ngx_http_weir_use_domain(cf, wmcf, conf);
}


static char *
ngx_http_weir_merge_mode(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *prev,
    ngx_http_weir_loc_conf_t *conf)
{
    ngx_flag_t                  own;
    ngx_http_weir_main_conf_t  *wmcf;

    own = (conf->descriptors != NULL);

    if (!own) {
        conf->descriptors = prev->descriptors;
    }

    /* the location's "weir_descriptor" overrides an inherited "weir off" */

    if (conf->mode == NGX_CONF_UNSET_UINT
        && !(own && prev->mode == NGX_HTTP_WEIR_OFF))
    {
        conf->mode = prev->mode;
        conf->mode_at = prev->mode_at;
        conf->domain = prev->domain;
    }

    if (conf->mode == NGX_HTTP_WEIR_OFF
        || (conf->mode == NGX_CONF_UNSET_UINT && conf->descriptors == NULL))
    {
        ngx_str_null(&conf->domain);
        return NGX_CONF_OK;
    }

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);

    if (wmcf->rules_path.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weir\" and \"weir_descriptor\" need "
                           "\"weir_rules\" in \"http\"");
        return NGX_CONF_ERROR;
    }

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        /* with nginx -s the rules can be invalid: no domain is looked up */
        return NGX_CONF_OK;
    }

    return ngx_http_weir_set_domain(cf, wmcf, conf, own);
}


char *
ngx_http_weir_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_weir_loc_conf_t  *prev = parent;
    ngx_http_weir_loc_conf_t  *conf = child;

    ngx_conf_merge_uint_value(conf->profile, prev->profile, WEIR_PROFILE_X);
    ngx_conf_merge_value(conf->dry_run, prev->dry_run, 0);
    ngx_conf_merge_uint_value(conf->log_level, prev->log_level,
                              NGX_LOG_NOTICE);

    if (conf->identity == NULL) {
        conf->identity = prev->identity;
    }

    if (conf->queue_fields == NULL) {
        conf->queue_fields = prev->queue_fields;
    }

    ngx_http_weir_merge_auth(cf, prev, conf);

    if (ngx_http_weir_merge_mode(cf, prev, conf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_weir_check_auth(cf, conf);
}
