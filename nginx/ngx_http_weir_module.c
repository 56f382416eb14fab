
#include "ngx_http_weir_module.h"


/* The module's definitions for nginx, and its position among the modules. */


static ngx_int_t ngx_http_weir_postconfiguration(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_weir_module_ctx = {
    ngx_http_weir_add_variables,           /* preconfiguration */
    ngx_http_weir_postconfiguration,       /* postconfiguration */

    ngx_http_weir_create_main_conf,        /* create main configuration */
    ngx_http_weir_init_main_conf,          /* init main configuration */

    ngx_http_weir_create_srv_conf,         /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_weir_create_loc_conf,         /* create location configuration */
    ngx_http_weir_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_weir_module = {
    NGX_MODULE_V1,
    &ngx_http_weir_module_ctx,             /* module context */
    ngx_http_weir_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_weir_init_module,             /* init module */
    ngx_http_weir_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_weir_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * The arrays that nginx reads from a dynamic module. nginx calls the handlers
 * of a phase in the reverse order of their modules. The handler of weir has to
 * run after the handler of realip, so weir comes before realip in
 * ngx_module_order. The header filter needs its own position among the
 * filters, so it is a separate module.
 */

#define NGX_HTTP_WEIR_EXPORT  __attribute__((visibility("default")))

extern ngx_module_t  *ngx_modules[];
extern char          *ngx_module_names[];
extern char          *ngx_module_order[];

NGX_HTTP_WEIR_EXPORT ngx_module_t  *ngx_modules[] = {
    &ngx_http_weir_module,
    &ngx_http_weir_filter_module,
    NULL
};

NGX_HTTP_WEIR_EXPORT char  *ngx_module_names[] = {
    "ngx_http_weir_module",
    "ngx_http_weir_filter_module",
    NULL
};

NGX_HTTP_WEIR_EXPORT char  *ngx_module_order[] = {
    "ngx_http_weir_module",
    "ngx_http_limit_conn_module",
    "ngx_http_limit_req_module",
    "ngx_http_realip_module",
    "ngx_http_weir_filter_module",
    "ngx_http_userid_filter_module",
    "ngx_http_headers_filter_module",
    "ngx_http_copy_filter_module",
    NULL
};


/*
 * Makes the handler of the LOG phase the first of its phase. It sets variables
 * that the access log can contain.
 */

static ngx_int_t
ngx_http_weir_add_log_handler(ngx_http_core_main_conf_t *cmcf)
{
    ngx_array_t          *handlers;
    ngx_http_handler_pt  *h;

    handlers = &cmcf->phases[NGX_HTTP_LOG_PHASE].handlers;

    if (ngx_array_push(handlers) == NULL) {
        return NGX_ERROR;
    }

    h = handlers->elts;
    ngx_memmove(h + 1, h,
                (handlers->nelts - 1) * sizeof(ngx_http_handler_pt));
    h[0] = ngx_http_weir_log_handler;

    return NGX_OK;
}


static ngx_int_t
ngx_http_weir_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_http_weir_main_conf_t  *wmcf;
    ngx_http_core_main_conf_t  *cmcf;

    wmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_weir_module);

    if (wmcf->rules_path.len == 0) {
        return NGX_OK;
    }

    if (ngx_http_weir_open_engine(cf, wmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_http_weir_handler;

    return ngx_http_weir_add_log_handler(cmcf);
}
