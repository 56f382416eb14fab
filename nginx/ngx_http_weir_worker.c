
#include "ngx_http_weir_module.h"


/* Init and exit of a worker. A worker reloads rules that change on disk. */


#define NGX_HTTP_WEIR_RULES_POLL  250    /* ms */


static ngx_event_t  ngx_http_weir_rules_event;


/*
 * Warns about domains that are missing in the new rules. Loads the rules once
 * more for this, because the engine does not give access to its own rules.
 */

static void
ngx_http_weir_check_domains(ngx_http_weir_main_conf_t *wmcf)
{
    ngx_str_t                *domains;
    ngx_uint_t                i;
    struct weir_rules        *rules;
    struct weir_domain_info   info;

    if (weir_rules_load((char *) wmcf->rules_path.data, &rules, NULL) != 0) {
        return;
    }

    domains = wmcf->domains.elts;

    for (i = 0; i < wmcf->domains.nelts; i++) {
        if (!ngx_http_weir_find_domain(rules, &domains[i], &info)) {
            ngx_log_error(NGX_LOG_WARN, wmcf->log, 0,
                          "weir: domain \"%V\" is missing in the new rules, "
                          "its requests pass unlimited",
                          &domains[i]);
        }
    }

    weir_rules_free(rules);
}


/*
 * Called after rules were loaded, in the thread that loads rules. This thread
 * uses nothing of nginx but its log and its time. Only the first worker logs.
 * The time is updated first, because it is outdated if the event loop was
 * idle.
 */

static void
ngx_http_weir_rules_loaded(void *data, const struct weir_load *load)
{
    ngx_http_weir_main_conf_t  *wmcf = data;

    if (ngx_worker != 0 || ngx_exiting) {
        return;
    }

    ngx_time_update();

    ngx_http_weir_log_errors(wmcf->log, NGX_LOG_ERR, load->errors);

    if (load->rc != 0) {
        ngx_log_error(NGX_LOG_ERR, wmcf->log, 0,
                      "weir: rules \"%V\" not loaded: %s, generation %uL "
                      "stays in force",
                      &wmcf->rules_path, ngx_http_weir_load_error(load->rc),
                      load->generation);
        return;
    }

    ngx_log_error(NGX_LOG_NOTICE, wmcf->log, 0,
                  "weir: rules \"%V\" in force, generation %uL, loaded in "
                  "%uLms",
                  &wmcf->rules_path, load->generation,
                  load->duration_ns / 1000000);

    ngx_http_weir_check_domains(wmcf);
}


/*
 * Sets the timer for the next check whether the rules have changed. Such a
 * check also adds the second that has just ended to the history of statistics,
 * so there is a check at the start of each second.
 */

static void
ngx_http_weir_schedule_rules_poll(void)
{
    ngx_msec_t  ms;

    ms = 1000 - ngx_cached_time->msec + 1;

    ngx_add_timer(&ngx_http_weir_rules_event,
                  ngx_min(ms, NGX_HTTP_WEIR_RULES_POLL));
}


static void
ngx_http_weir_poll_rules(ngx_event_t *ev)
{
    static ngx_uint_t           failed;
    ngx_http_weir_main_conf_t  *wmcf = ev->data;

    if (weir_watch_look(wmcf->watch) == 0) {
        failed = 0;

    } else if (!failed) {
        failed = 1;
        ngx_log_error(NGX_LOG_ERR, ev->log, ngx_errno,
                      "weir: no thread to reload the rules \"%V\", retrying",
                      &wmcf->rules_path);
    }

    ngx_http_weir_schedule_rules_poll();
}


/*
 * Starts to watch the rules. If this fails, the worker runs without a watch,
 * and its rules do not change.
 */

static void
ngx_http_weir_watch_rules(ngx_cycle_t *cycle, ngx_http_weir_main_conf_t *wmcf)
{
    int                     rc;
    struct weir_watch_opts  opts;

    wmcf->log = cycle->log;

    ngx_memzero(&opts, sizeof(opts));
    opts.size = sizeof(opts);
    opts.flags = WEIR_WATCH_BY_HOST;
    opts.loaded = ngx_http_weir_rules_loaded;
    opts.context = wmcf;

    rc = weir_watch_start(wmcf->engine, (char *) wmcf->rules_path.data,
                          wmcf->rules, &opts, &wmcf->watch);
    if (rc != 0) {
        wmcf->watch = NULL;
        ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_errno,
                      "weir: rules \"%V\" are not watched: %s; reload nginx "
                      "after a change",
                      &wmcf->rules_path, weir_strerror(rc));
        return;
    }

    ngx_http_weir_rules_event.handler = ngx_http_weir_poll_rules;
    ngx_http_weir_rules_event.data = wmcf;
    ngx_http_weir_rules_event.log = cycle->log;
    ngx_http_weir_rules_event.cancelable = 1;

    ngx_http_weir_schedule_rules_poll();
}


/*
 * Prevents other processes of the same user from reading the link key in the
 * memory of the worker. A side effect is that the worker writes no core file.
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


/*
 * Logs the table and the rules. Always returns NGX_OK, because after an error
 * nginx would exit instead of continuing with the old cycle.
 */

ngx_int_t
ngx_http_weir_init_module(ngx_cycle_t *cycle)
{
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf == NULL || wmcf->engine == NULL) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0,
                  "weir: table \"%V\" has %uL keys, rules \"%V\"",
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
    ngx_http_weir_watch_rules(cycle, wmcf);

    if (ngx_http_weir_central_init(cycle, wmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_weir_defer_init(cycle, wmcf);
}


/*
 * Called when a worker exits. After a reload, an old worker first finishes its
 * requests, with the rules and the table of its own configuration.
 */

void
ngx_http_weir_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_weir_main_conf_t  *wmcf;

    ngx_http_weir_queue_exit();
    ngx_http_weir_settle_ctxs();
    ngx_http_weir_central_exit();
    ngx_http_weir_defer_exit();
    ngx_http_weir_destroy_blocks();
    ngx_http_weir_destroy_ctxs();

    wmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_weir_module);

    if (wmcf && wmcf->watch) {
        if (ngx_http_weir_rules_event.timer_set) {
            ngx_del_timer(&ngx_http_weir_rules_event);
        }

        weir_watch_stop(wmcf->watch);
        wmcf->watch = NULL;
    }
}
