
#include "ngx_http_weir_module.h"


#define NGX_HTTP_WEIR_LOOK  250          /* ms, between looks at the rules */


static ngx_event_t       ngx_http_weir_look_event;


/* whether what happened is this process' to tell: one of the workers does */

static ngx_uint_t
ngx_http_weir_tells(void)
{
    return ngx_worker == 0 && !ngx_exiting;
}


static ngx_uint_t
ngx_http_weir_has_domain(struct weir_rules *rules, ngx_str_t *domain)
{
    size_t                   i;
    struct weir_domain_info  info;

    info.size = sizeof(info);

    for (i = 0; weir_rules_domain(rules, i, &info) == 0; i++) {
        if (info.name.len == domain->len
            && ngx_strncmp(info.name.ptr, domain->data, domain->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* the rules in force are the engine's own: to see them, read them again */

static void
ngx_http_weir_warn_of_domains(ngx_http_weir_main_conf_t *wmcf)
{
    ngx_str_t          *domains;
    ngx_uint_t          i;
    struct weir_rules  *rules;

    if (weir_rules_load((char *) wmcf->rules_path.data, &rules, NULL) != 0) {
        return;
    }

    domains = wmcf->domains.elts;

    for (i = 0; i < wmcf->domains.nelts; i++) {
        if (!ngx_http_weir_has_domain(rules, &domains[i])) {
            ngx_log_error(NGX_LOG_WARN, wmcf->log, 0,
                          "weir: the rules have no domain \"%V\" any more, "
                          "its requests pass unlimited",
                          &domains[i]);
        }
    }

    weir_rules_free(rules);
}


/*
 * Called by the thread of a load, which may touch nothing of nginx but the log
 * and the time: the loop may have slept for long.
 */

static void
ngx_http_weir_loaded(void *data, const struct weir_load *load)
{
    ngx_http_weir_main_conf_t  *wmcf = data;

    if (!ngx_http_weir_tells()) {
        return;
    }

    ngx_time_update();

    ngx_http_weir_log_errors(wmcf->log, NGX_LOG_ERR, load->errors);

    if (load->rc != 0) {
        ngx_log_error(NGX_LOG_ERR, wmcf->log, 0,
                      "weir: cannot use the rules \"%V\": %s, those of "
                      "generation %uL stay in force",
                      &wmcf->rules_path, ngx_http_weir_load_error(load->rc),
                      load->generation);
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, wmcf->log, 0,
                  "weir: rules \"%V\" in force, generation %uL, read in %uLms",
                  &wmcf->rules_path, load->generation,
                  load->duration_ns / 1000000);

    ngx_http_weir_warn_of_domains(wmcf);
}


/* seconds of the history are best told where they end */

static void
ngx_http_weir_next_look(void)
{
    ngx_msec_t  ms;

    ms = 1000 - ngx_cached_time->msec + 1;

    ngx_add_timer(&ngx_http_weir_look_event,
                  ngx_min(ms, NGX_HTTP_WEIR_LOOK));
}


static void
ngx_http_weir_look(ngx_event_t *ev)
{
    static ngx_uint_t           failed;
    ngx_http_weir_main_conf_t  *wmcf = ev->data;

    if (weir_watch_look(wmcf->watch) == 0) {
        failed = 0;

    } else if (!failed) {
        failed = 1;
        ngx_log_error(NGX_LOG_ERR, ev->log, ngx_errno,
                      "weir: cannot start a thread to read the rules \"%V\" "
                      "again, trying on",
                      &wmcf->rules_path);
    }

    ngx_http_weir_next_look();
}


/* without it the rules of now stay in force, which is no reason to stop */

static void
ngx_http_weir_watch(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    int                     rc;
    struct weir_watch_opts  opts;

    wmcf->log = cycle->log;

    ngx_memzero(&opts, sizeof(opts));
    opts.size = sizeof(opts);
    opts.flags = WEIR_WATCH_BY_HOST;
    opts.loaded = ngx_http_weir_loaded;
    opts.context = wmcf;

    rc = weir_watch_start(wmcf->engine, (char *) wmcf->rules_path.data,
                          wmcf->rules, &opts, &wmcf->watch);
    if (rc != 0) {
        wmcf->watch = NULL;
        ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_errno,
                      "weir: cannot watch the rules \"%V\" (%s), changes need "
                      "a reload",
                      &wmcf->rules_path, weir_strerror(rc));
        return;
    }

    ngx_http_weir_look_event.handler = ngx_http_weir_look;
    ngx_http_weir_look_event.data = wmcf;
    ngx_http_weir_look_event.log = cycle->log;
    ngx_http_weir_look_event.cancelable = 1; /* waits for nobody to end */

    ngx_http_weir_next_look();
}


/*
 * Other processes of the workers' user could read the key from their memory.
 * It also keeps them from leaving core files.
 */

static void
ngx_http_weir_hide_key(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
#if (NGX_HAVE_PR_SET_DUMPABLE)
    if (wmcf->link_key.len && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "prctl(PR_SET_DUMPABLE, 0) failed");
    }
#endif
}


/* too late to fail: nginx would end, and not go on with the old cycle */

ngx_int_t
ngx_http_weir_init_module(ngx_cycle_t *cycle)
{
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf == NULL || wmcf->engine == NULL) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                  "weir: table \"%V\" holds %uL keys, rules \"%V\"",
                  &wmcf->table_path, wmcf->table_keys, &wmcf->rules_path);

    return NGX_OK;
}


ngx_int_t
ngx_http_weir_init_process(ngx_cycle_t *cycle)
{
    ngx_http_weir_main_conf_t  *wmcf;

    if (ngx_process != NGX_PROCESS_WORKER
        && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    ngx_http_weir_queue_init();

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf == NULL || wmcf->engine == NULL) {
        return NGX_OK;
    }

    ngx_http_weir_hide_key(cycle, wmcf);
    ngx_http_weir_watch(cycle, wmcf);

    if (ngx_http_weir_central_init(cycle, wmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_weir_backlog_init(cycle, wmcf);
}


void
ngx_http_weir_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_weir_main_conf_t  *wmcf;

    ngx_http_weir_queue_abandon();
    ngx_http_weir_central_exit();
    ngx_http_weir_backlog_exit();
    ngx_http_weir_free_spare();
    ngx_http_weir_free_ctxs();

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf && wmcf->watch) {
        if (ngx_http_weir_look_event.timer_set) {
            ngx_del_timer(&ngx_http_weir_look_event);
        }

        weir_watch_stop(wmcf->watch);
        wmcf->watch = NULL;
    }
}
