
#include "ngx_http_weir_module.h"


/*
 * The rules, the table and the engine of an nginx cycle. They are made when
 * the configuration is read.
 */


static ngx_int_t ngx_http_weir_open_table(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
static void ngx_http_weir_cleanup_engine(void *data);


void
ngx_http_weir_log_errors(ngx_log_t *log, ngx_uint_t level,
    const struct weir_errors *errors)
{
    size_t                         i;
    ngx_uint_t                     item_level;
    const struct weir_diagnostic  *d;

    for (i = 0; i < errors->count; i++) {
        d = &errors->items[i];
        item_level = (d->severity == WEIR_ERROR) ? level : NGX_LOG_WARN;

        ngx_log_error(item_level, log, 0, "weir: %s:%uD:%uD: %s: %s",
                      d->file, d->line, d->column,
                      d->severity == WEIR_ERROR ? "error" : "warning",
                      d->text);
    }

    if (errors->dropped) {
        ngx_log_error(level, log, 0, "weir: %uD more errors and warnings",
                      errors->dropped);
    }
}


const char *
ngx_http_weir_load_error(int rc)
{
    return rc == WEIR_ERULES ? "invalid rules" : weir_strerror(rc);
}


/*
 * Loads the rules. An error in the rules is an error in the configuration,
 * except for nginx -s: an nginx whose rules have become invalid can still be
 * stopped.
 */

char *
ngx_http_weir_load_rules(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    int                  rc;
    struct weir_errors   errors;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_CONF_ERROR;
    }

    cln->handler = ngx_http_weir_cleanup_engine;
    cln->data = wmcf;

    ngx_memzero(&errors, sizeof(errors));
    errors.size = sizeof(errors);

    rc = weir_rules_load((char *) wmcf->rules_path.data, &wmcf->rules,
                         &errors);

    ngx_http_weir_log_errors(cf->log, NGX_LOG_EMERG, &errors);
    weir_errors_free(&errors);

    if (rc == 0 || ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "rules \"%V\" not loaded: %s",
                       &wmcf->rules_path, ngx_http_weir_load_error(rc));

    return NGX_CONF_ERROR;
}


ngx_int_t
ngx_http_weir_open_engine(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    int                      rc;
    struct weir_engine_opts  opts;

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    if (ngx_http_weir_open_table(cf, wmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;
    }

    ngx_memzero(&opts, sizeof(opts));
    opts.size = sizeof(opts);
    opts.now_ns = wr_clock_wall_ns();
    opts.keys = wmcf->keys;
    opts.host = "nginx";

    if (wmcf->central.name.len) {
        opts.flags = WEIR_ENGINE_CENTRAL;
        opts.fleet_size = (uint32_t) wmcf->fleet;
    }

    rc = weir_engine_new(wmcf->table, wmcf->rules, &opts, &wmcf->engine);

    if (rc != 0) {
        wmcf->engine = NULL;
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "weir: weir_engine_new() failed: %s", weir_strerror(rc));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* resizes the table if its size is not that of "weir_table" */

static ngx_int_t
ngx_http_weir_resize_table(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf,
    struct weir_opts *opts, struct weir_info *info)
{
    uint64_t           now;
    struct weir_error  error;

    if (opts->memory_bytes == 0 || opts->memory_bytes == info->memory_bytes) {
        return NGX_OK;
    }

    now = wr_clock_wall_ns();

    weir_close(wmcf->table);
    wmcf->table = NULL;

    if (weir_resize(opts, now, &error) != 0
        || weir_open(opts, &wmcf->table, &error) != 0)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "weir: table \"%s\" not resized: %s", info->path,
                      error.text);
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_NOTICE, cf->log, 0,
                  "weir: table \"%s\" resized from %uLk to %uLk", info->path,
                  info->memory_bytes / 1024, opts->memory_bytes / 1024);

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_open_table(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    int                     rc;
    u_char                  advice[1024];
    struct weir_str         path;
    struct weir_opts        opts;
    struct weir_info        info;
    struct weir_error       error;
    struct weir_rules_info  rules;

    ngx_memzero(&rules, sizeof(rules));
    rules.size = sizeof(rules);
    (void) weir_rules_info(wmcf->rules, &rules);

    ngx_memzero(&opts, sizeof(opts));
    opts.size = sizeof(opts);
    opts.flags = ngx_test_config ? WEIR_OPEN_EXISTING : 0;
    opts.flags |= rules.logs ? WEIR_OPEN_LOGS : 0;
    opts.name = (char *) wmcf->table_name.data;
    opts.dir = (char *) wmcf->table_dir.data;
    opts.memory_bytes = wmcf->table_size;
    opts.log_bytes = wmcf->table_log;
    opts.now_ns = wr_clock_wall_ns();

    rc = weir_open(&opts, &wmcf->table, &error);

    if (rc == WEIR_ENOENT && ngx_test_config) {
        return NGX_OK;
    }

    if (rc != 0) {
        wmcf->table = NULL;
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "weir: %s", error.text);
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;
    }

    info.size = sizeof(info);
    (void) weir_info(wmcf->table, opts.now_ns, &info);

    if (ngx_http_weir_resize_table(cf, wmcf, &opts, &info) != NGX_OK) {
        return NGX_ERROR;
    }

    if (weir_log_advice(wmcf->table, &opts, wmcf->rules, (char *) advice,
                        sizeof(advice)))
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0, "weir: %s", advice);
    }

    wmcf->table_keys = info.keys;
    path.ptr = info.path;
    path.len = ngx_strlen(info.path);

    return ngx_http_weir_copy_str(cf->pool, path, &wmcf->table_path);
}


/* Frees everything. Some members are NULL if the configuration has failed. */

static void
ngx_http_weir_cleanup_engine(void *data)
{
    ngx_http_weir_main_conf_t  *wmcf = data;

    if (wmcf->watch) {
        weir_watch_stop(wmcf->watch);
    }

    if (wmcf->engine) {
        weir_engine_free(wmcf->engine);

    } else {
        weir_rules_free(wmcf->rules);
    }

    if (wmcf->table) {
        weir_close(wmcf->table);
    }
}
