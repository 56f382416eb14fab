
#include "ngx_http_weir_module.h"


/*
 * Defines the directives of the module. The functions in this file read all
 * directives except those that auth_conf.c and serve_conf.c read.
 */


/* smallest and largest value that weir.h allows for memory_bytes */
#define NGX_HTTP_WEIR_TABLE_MIN  ((off_t) 256 * 1024)
#define NGX_HTTP_WEIR_TABLE_MAX  ((off_t) 256 * 1024 * 1024 * 1024)


static char *ngx_http_weir_set_rules(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weir_set_table(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weir_set_mode(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_weir_set_descriptor(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_conf_enum_t  ngx_http_weir_profiles[] = {
#define NGX_HTTP_WEIR_PROFILE(name, number, text)                             \
    { ngx_string(text), number },
    WEIR_PROFILES(NGX_HTTP_WEIR_PROFILE)
#undef NGX_HTTP_WEIR_PROFILE
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_weir_log_levels[] = {
    { ngx_string("info"), NGX_LOG_INFO },
    { ngx_string("notice"), NGX_LOG_NOTICE },
    { ngx_string("warn"), NGX_LOG_WARN },
    { ngx_string("error"), NGX_LOG_ERR },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_weir_keys[] = {
    { ngx_string("text"), WEIR_KEYS_TEXT },
    { ngx_string("hashed"), WEIR_KEYS_HASHED },
    { ngx_string("hidden"), WEIR_KEYS_HIDDEN },
    { ngx_null_string, 0 }
};


#define NGX_HTTP_WEIR_ANY_CONF                                                \
    (NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF)


ngx_command_t  ngx_http_weir_commands[] = {

    { ngx_string("weir_rules"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_set_rules,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_table"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1234,
      ngx_http_weir_set_table,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_keys"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_weir_main_conf_t, keys),
      &ngx_http_weir_keys },

    { ngx_string("weir_central"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE123,
      ngx_http_weir_set_central,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_link_key"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_set_link_key,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_queue"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1234,
      ngx_http_weir_set_queue,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_queue_field"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE2,
      ngx_http_weir_set_queue_field,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_tickets"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_http_weir_set_tickets,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_set_mode,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_descriptor"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_2MORE,
      ngx_http_weir_set_descriptor,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_headers"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, profile),
      &ngx_http_weir_profiles },

    { ngx_string("weir_dry_run"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, dry_run),
      NULL },

    { ngx_string("weir_log_level"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, log_level),
      &ngx_http_weir_log_levels },

    { ngx_string("weir_identity"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_set_complex_value_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_weir_loc_conf_t, identity),
      NULL },

    { ngx_string("weir_auth"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_TAKE1,
      ngx_http_weir_set_auth,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("weir_auth_headers"),
      NGX_HTTP_WEIR_ANY_CONF|NGX_CONF_1MORE,
      ngx_http_weir_set_auth_headers,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


static char *
ngx_http_weir_set_rules(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    ngx_str_t                  *value;

    if (wmcf->rules_path.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty path";
    }

    if (ngx_http_weir_check_literal(cf, "weir_rules", &value[1])
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    wmcf->rules_path = value[1];

    if (ngx_conf_full_name(cf->cycle, &wmcf->rules_path, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weir_parse_size(ngx_conf_t *cf, ngx_str_t *text, off_t min,
    size_t *size)
{
    off_t  n;

    n = ngx_parse_offset(text);

    if (n == NGX_ERROR || n < min || n > NGX_HTTP_WEIR_TABLE_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid size \"%V\" of \"weir_table\": "
                           "valid are %Ok to %Og",
                           text, min / 1024,
                           NGX_HTTP_WEIR_TABLE_MAX / 1024 / 1024 / 1024);
        return NGX_CONF_ERROR;
    }

    *size = (size_t) n;

    return NGX_CONF_OK;
}


static char *
ngx_http_weir_set_table(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    char                       *rc;
    ngx_str_t                  *value, s;
    ngx_uint_t                  i;

    if (wmcf->table_name.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty name";
    }

    wmcf->table_name = value[1];

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_weir_check_literal(cf, "weir_table", &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    for (i = 2; i < cf->args->nelts; i++) {
        rc = NGX_CONF_OK;

        if (ngx_strncmp(value[i].data, "log=", 4) == 0) {
            s.len = value[i].len - 4;
            s.data = value[i].data + 4;
            rc = ngx_http_weir_parse_size(cf, &s, 1024, &wmcf->table_log);

        } else if (ngx_strncmp(value[i].data, "dir=", 4) == 0
                   && value[i].len > 4)
        {
            wmcf->table_dir.len = value[i].len - 4;
            wmcf->table_dir.data = value[i].data + 4;

            if (ngx_conf_full_name(cf->cycle, &wmcf->table_dir, 0) != NGX_OK) {
                return NGX_CONF_ERROR;
            }

        } else if (i == 2) {
            rc = ngx_http_weir_parse_size(cf, &value[i],
                                          NGX_HTTP_WEIR_TABLE_MIN,
                                          &wmcf->table_size);

        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" of \"weir_table\": "
                               "valid are log= and dir=", &value[i]);
            return NGX_CONF_ERROR;
        }

        if (rc != NGX_CONF_OK) {
            return rc;
        }
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weir_set_mode(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t  *wlcf = conf;

    ngx_str_t                 *value;

    if (wlcf->mode != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty domain";
    }

    if (ngx_http_weir_check_literal(cf, "weir", &value[1]) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        wlcf->mode = NGX_HTTP_WEIR_OFF;

    } else if (ngx_strcmp(value[1].data, "on") == 0) {
        wlcf->mode = NGX_HTTP_WEIR_ON;

    } else {
        wlcf->mode = NGX_HTTP_WEIR_DOMAIN;
        wlcf->domain = value[1];
    }

    wlcf->mode_at.file = cf->conf_file->file.name;
    wlcf->mode_at.line = cf->conf_file->line;

    return NGX_CONF_OK;
}


/* adds a name and a value to `entries`; the value can contain variables */

char *
ngx_http_weir_add_entry(ngx_conf_t *cf, ngx_array_t *entries, ngx_str_t *key,
    ngx_str_t *value)
{
    ngx_http_weir_entry_t             *entry;
    ngx_http_compile_complex_value_t   ccv;

    entry = ngx_array_push(entries);
    if (entry == NULL) {
        return NGX_CONF_ERROR;
    }

    entry->key = *key;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = value;
    ccv.complex_value = &entry->value;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_weir_add_descriptor_entry(ngx_conf_t *cf,
    ngx_http_weir_descriptor_t *descriptor, ngx_str_t *text)
{
    u_char     *p;
    ngx_str_t   key, value;

    p = ngx_strlchr(text->data, text->data + text->len, '=');

    if (p == NULL || p == text->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid entry \"%V\" of \"weir_descriptor\": it "
                           "must be key=value",
                           text);
        return NGX_CONF_ERROR;
    }

    key.data = text->data;
    key.len = p - text->data;

    if (ngx_http_weir_check_literal(cf, "weir_descriptor", &key)
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    value.data = p + 1;
    value.len = text->data + text->len - value.data;

    if (value.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" of \"weir_descriptor\" has no value, so "
                           "it would never limit a request",
                           text);
        return NGX_CONF_ERROR;
    }

    return ngx_http_weir_add_entry(cf, &descriptor->entries, &key, &value);
}


static char *
ngx_http_weir_set_descriptor(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_weir_loc_conf_t    *wlcf = conf;

    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_weir_descriptor_t  *descriptor, *first;

    value = cf->args->elts;

    if (wlcf->descriptors == NULL) {
        wlcf->descriptors = ngx_array_create(
            cf->pool, 2, sizeof(ngx_http_weir_descriptor_t));
        if (wlcf->descriptors == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (wlcf->descriptors->nelts == WEIR_DESCRIPTORS_MAX) {
        return "is repeated too often";
    }

    if (cf->args->nelts - 2 > NGX_HTTP_WEIR_ENTRIES_MAX) {
        return "has too many keys";
    }

    descriptor = ngx_array_push(wlcf->descriptors);
    if (descriptor == NULL) {
        return NGX_CONF_ERROR;
    }

    first = wlcf->descriptors->elts;
    descriptor->domain = value[1];

    if (ngx_http_weir_check_literal(cf, "weir_descriptor", &value[1])
        != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (value[1].len == 0
        || !ngx_http_weir_equal(&value[1], &first->domain))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weir_descriptor\" has domain \"%V\", but an "
                           "earlier one in this block has \"%V\"",
                           &value[1], &first->domain);
        return NGX_CONF_ERROR;
    }

    if (ngx_array_init(&descriptor->entries, cf->pool, cf->args->nelts - 2,
                       sizeof(ngx_http_weir_entry_t))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (ngx_http_weir_add_descriptor_entry(cf, descriptor, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/*
 * Checks that an argument has no variables. Most arguments are used when the
 * configuration is read, before variables have values.
 */

char *
ngx_http_weir_check_literal(ngx_conf_t *cf, const char *directive,
    ngx_str_t *text)
{
    if (ngx_http_script_variables_count(text) == 0) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" of \"%s\" has a variable, but this argument "
                       "must be plain text",
                       text, directive);

    return NGX_CONF_ERROR;
}


/*
 * Returns true if the name of a header field in a directive is valid. With an
 * invalid name in "weir_auth_headers", no identity would be found, because a
 * service never sends a field with such a name. "_" is not allowed, because a
 * name with "_" also matches a field with "-": the name X_User matches the
 * field X-User, which a client could send.
 */

ngx_uint_t
ngx_http_weir_is_field_name(ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = ngx_tolower(name->data[i]);

        if ((ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') && ch != '-') {
            return 0;
        }
    }

    return name->len != 0;
}


void *
ngx_http_weir_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_weir_main_conf_t  *wmcf;

    wmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weir_main_conf_t));
    if (wmcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&wmcf->domains, cf->pool, 2, sizeof(ngx_str_t))
        != NGX_OK)
    {
        return NULL;
    }

    wmcf->keys = NGX_CONF_UNSET_UINT;

    return wmcf;
}


/*
 * Loads the rules. nginx calls this function before it merges the directives
 * of locations. Merging needs the rules, because the domain of "weir on" is
 * found in them.
 */

char *
ngx_http_weir_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_weir_main_conf_t  *wmcf = conf;

    ngx_conf_init_uint_value(wmcf->keys, WEIR_KEYS_TEXT);

    if (ngx_http_weir_check_link_key(cf, wmcf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    if (wmcf->rules_path.len == 0) {
        return NGX_CONF_OK;
    }

    return ngx_http_weir_load_rules(cf, wmcf);
}


void *
ngx_http_weir_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_weir_srv_conf_t));
}


void *
ngx_http_weir_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_weir_loc_conf_t  *wlcf;

    wlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_weir_loc_conf_t));
    if (wlcf == NULL) {
        return NULL;
    }

    /*
     * set by ngx_pcalloc():
     *
     *     wlcf->domain = { 0, NULL };
     *     wlcf->descriptors = NULL;
     *     wlcf->requests = 0;
     *     wlcf->identity = NULL;
     *     wlcf->auth_uri = { 0, NULL };
     *     wlcf->auth_args = { 0, NULL };
     *     wlcf->mode_at = { { 0, NULL }, 0 };
     *     wlcf->auth_at = { { 0, NULL }, 0 };
     *     wlcf->auth_headers = NULL;
     *     wlcf->queue_fields = NULL;
     *     wlcf->tickets = NULL;
     */

    wlcf->mode = NGX_CONF_UNSET_UINT;
    wlcf->profile = NGX_CONF_UNSET_UINT;
    wlcf->dry_run = NGX_CONF_UNSET;
    wlcf->log_level = NGX_CONF_UNSET_UINT;

    return wlcf;
}
