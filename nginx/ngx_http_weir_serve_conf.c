
#include "ngx_http_weir_module.h"


/* Reads the directives about the "weir serve" on the same machine. */


#define NGX_HTTP_WEIR_CENTRAL_TIMEOUT    320     /* ms */
#define NGX_HTTP_WEIR_QUEUE_TIMEOUT      5000    /* ms */
#define NGX_HTTP_WEIR_TIMEOUT_MAX        60000   /* ms */
#define NGX_HTTP_WEIR_FLEET_MAX          100000
#define NGX_HTTP_WEIR_QUEUE_BODIES       (64 * 1024 * 1024)
#define NGX_HTTP_WEIR_QUEUE_BODIES_MIN   (64 * 1024)
#define NGX_HTTP_WEIR_QUEUE_BODIES_MAX   (1024 * 1024 * 1024)
#define NGX_HTTP_WEIR_QUEUE_FIELDS_MAX   96
#define NGX_HTTP_WEIR_KEY_MIN            32
#define NGX_HTTP_WEIR_KEY_MAX            256


static ngx_int_t
ngx_http_weir_set_peer(ngx_conf_t *cf, const char *directive, ngx_str_t *text,
    ngx_msec_t timeout, ngx_http_weir_peer_t *peer)
{
    ngx_url_t  u;

    if (ngx_strncmp(text->data, "unix:/", 6) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid socket \"%V\" of \"%s\": it must be "
                           "like unix:/run/weir/weir.sock",
                           text, directive);
        return NGX_ERROR;
    }

    if (ngx_http_weir_check_literal(cf, directive, text) != NGX_CONF_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(&u, sizeof(ngx_url_t));
    u.url = *text;
    u.no_resolve = 1;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid socket \"%V\" of \"%s\": %s", &u.url,
                           directive, u.err ? u.err : "not a path");
        return NGX_ERROR;
    }

    peer->name = u.addrs[0].name;
    peer->sockaddr = u.addrs[0].sockaddr;
    peer->socklen = u.addrs[0].socklen;
    peer->timeout = timeout;

    return NGX_OK;
}


static ngx_uint_t
ngx_http_weir_parse_timeout(ngx_str_t *text, ngx_msec_t *timeout)
{
    ngx_int_t  n;
    ngx_str_t  s;

    if (ngx_strncmp(text->data, "timeout=", 8) != 0) {
        return 0;
    }

    s.data = text->data + 8;
    s.len = text->len - 8;
    n = ngx_parse_time(&s, 0);

    if (n == NGX_ERROR || n == 0 || n > NGX_HTTP_WEIR_TIMEOUT_MAX) {
        return 0;
    }

    *timeout = n;

    return 1;
}


static char *
ngx_http_weir_set_central_parameter(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_weir_main_conf_t *wmcf)
{
    ngx_int_t  n;

    if (ngx_http_weir_parse_timeout(text, &wmcf->central.timeout)) {
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(text->data, "fleet=", 6) == 0) {
        n = ngx_atoi(text->data + 6, text->len - 6);

        if (n != NGX_ERROR && n > 0 && n <= NGX_HTTP_WEIR_FLEET_MAX) {
            wmcf->fleet = n;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"weir_central\": valid "
                       "are timeout=1ms to timeout=%dms, and fleet=1 to "
                       "fleet=%d",
                       text, NGX_HTTP_WEIR_TIMEOUT_MAX,
                       NGX_HTTP_WEIR_FLEET_MAX);

    return NGX_CONF_ERROR;
}


/*
 * Reads a directive that names a "weir serve". The first argument is its
 * address. set_parameter() is called for each further argument.
 */

static char *
ngx_http_weir_set_service(ngx_conf_t *cf, const char *directive,
    ngx_msec_t timeout, ngx_http_weir_peer_t *peer,
    ngx_http_weir_main_conf_t *wmcf,
    char *(*set_parameter)(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_weir_main_conf_t *wmcf))
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (peer->name.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_weir_set_peer(cf, directive, &value[1], timeout, peer)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_weir_check_literal(cf, directive, &value[i])
                != NGX_CONF_OK
            || set_parameter(cf, &value[i], wmcf) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_http_weir_set_central(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    return ngx_http_weir_set_service(cf, "weir_central",
                                     NGX_HTTP_WEIR_CENTRAL_TIMEOUT,
                                     &wmcf->central, wmcf,
                                     ngx_http_weir_set_central_parameter);
}


/*
 * Reads the link key from its file. This is done in the master process, so
 * workers need no access to the file.
 */

static char *
ngx_http_weir_read_link_key(ngx_conf_t *cf, ngx_str_t *name, ngx_file_t *file,
    ngx_str_t *key)
{
    u_char           *text;
    ssize_t           n;
    ngx_file_info_t   info;

    if (ngx_fd_info(file->fd, &info) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_fd_info_n " \"%V\" failed", name);
        return NGX_CONF_ERROR;
    }

    if (!ngx_is_file(&info) || (ngx_file_access(&info) & 077)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" of \"weir_link_key\" must be a file that "
                           "only its owner can read, mode 0600", name);
        return NGX_CONF_ERROR;
    }

    /*
     * Room for the longest link key, CR LF, and one more byte, so that a link
     * key that is too long is detected.
     */

    text = ngx_pnalloc(cf->pool, NGX_HTTP_WEIR_KEY_MAX + 3);
    if (text == NULL) {
        return NGX_CONF_ERROR;
    }

    n = ngx_read_file(file, text, NGX_HTTP_WEIR_KEY_MAX + 3, 0);

    if (n == NGX_ERROR) {
        return NGX_CONF_ERROR;
    }

    while (n > 0 && (text[n - 1] == LF || text[n - 1] == CR)) {
        n--;
    }

    if (n < NGX_HTTP_WEIR_KEY_MIN || n > NGX_HTTP_WEIR_KEY_MAX
        || ngx_strlchr(text, text + n, LF) != NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" of \"weir_link_key\" must have one line of "
                           "%d to %d characters", name,
                           NGX_HTTP_WEIR_KEY_MIN, NGX_HTTP_WEIR_KEY_MAX);
        return NGX_CONF_ERROR;
    }

    key->data = text;
    key->len = n;

    return NGX_CONF_OK;
}


char *
ngx_http_weir_set_link_key(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    char        *rv;
    ngx_str_t   *value;
    ngx_file_t   file;

    if (wmcf->link_key.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_http_weir_check_literal(cf, "weir_link_key", &value[1])
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (ngx_conf_full_name(cf->cycle, &value[1], 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&file, sizeof(ngx_file_t));

    file.name = value[1];
    file.log = cf->log;
    file.fd = ngx_open_file(value[1].data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                            NGX_FILE_OPEN, 0);

    if (file.fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " \"%V\" failed", &value[1]);
        return NGX_CONF_ERROR;
    }

    rv = ngx_http_weir_read_link_key(cf, &value[1], &file, &wmcf->link_key);

    if (ngx_close_file(file.fd) == NGX_FILE_ERROR) {
        ngx_log_error(NGX_LOG_ALERT, cf->log, ngx_errno,
                      ngx_close_file_n " \"%V\" failed", &value[1]);
    }

    return rv;
}


char *
ngx_http_weir_check_link_key(ngx_conf_t *cf, ngx_http_weir_main_conf_t *wmcf)
{
    if (wmcf->link_key.len
        || (wmcf->central.name.len == 0 && wmcf->queue.name.len == 0))
    {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"%s\" needs \"weir_link_key\" with the file of "
                  "\"weir serve --link-key\"",
                  wmcf->queue.name.len ? "weir_queue" : "weir_central");

    return NGX_CONF_ERROR;
}


static char *
ngx_http_weir_set_queue_parameter(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_weir_main_conf_t *wmcf)
{
    ssize_t    size;
    ngx_str_t  s;

    if (ngx_http_weir_parse_timeout(text, &wmcf->queue.timeout)) {
        return NGX_CONF_OK;
    }

    if (ngx_strncmp(text->data, "bodies=", 7) == 0) {
        s.data = text->data + 7;
        s.len = text->len - 7;
        size = ngx_parse_size(&s);

        if (size != NGX_ERROR && size >= NGX_HTTP_WEIR_QUEUE_BODIES_MIN
            && size <= NGX_HTTP_WEIR_QUEUE_BODIES_MAX)
        {
            wmcf->queue_bodies = size;
            return NGX_CONF_OK;
        }

    } else if (ngx_strncmp(text->data, "tickets=/", 9) == 0
               && text->data[text->len - 1] == '/')
    {
        wmcf->queue_tickets.data = text->data + 8;
        wmcf->queue_tickets.len = text->len - 8;
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"weir_queue\": valid are "
                       "timeout=1ms to timeout=%dms, bodies=64k to "
                       "bodies=1024m, and tickets=PATH, where PATH begins and "
                       "ends with \"/\"",
                       text, NGX_HTTP_WEIR_TIMEOUT_MAX);

    return NGX_CONF_ERROR;
}


char *
ngx_http_weir_set_queue(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    wmcf->queue_bodies = NGX_HTTP_WEIR_QUEUE_BODIES;
    ngx_str_set(&wmcf->queue_tickets, "/.weir/tickets/");

    return ngx_http_weir_set_service(cf, "weir_queue",
                                     NGX_HTTP_WEIR_QUEUE_TIMEOUT,
                                     &wmcf->queue, wmcf,
                                     ngx_http_weir_set_queue_parameter);
}


/* adds a header field that is stored with every deferred request */

char *
ngx_http_weir_set_queue_field(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t  *wlcf = conf;

    ngx_str_t                 *value;

    value = cf->args->elts;

    if (wlcf->queue_fields == NULL) {
        wlcf->queue_fields = ngx_array_create(cf->pool, 4,
                                              sizeof(ngx_http_weir_entry_t));
        if (wlcf->queue_fields == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (wlcf->queue_fields->nelts == NGX_HTTP_WEIR_QUEUE_FIELDS_MAX) {
        return "is repeated too often";
    }

    if (!ngx_http_weir_is_field_name(&value[1])) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid header name \"%V\" of "
                           "\"weir_queue_field\": use letters, digits and "
                           "hyphens",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    return ngx_http_weir_add_entry(cf, wlcf->queue_fields, &value[1],
                                   &value[2]);
}
