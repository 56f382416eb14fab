
/*
 * The weir module. It decides requests in the PREACCESS phase, inside the
 * worker. The counters are in a table in shared memory that all workers use.
 * The files ngx_http_weir_NAME.c contain:
 *
 *   conf            directives
 *   auth_conf       directives of authentication
 *   serve_conf      directives of the connection to "weir serve"
 *   merge           merging of directives into a location
 *   engine          rules and table of a cycle
 *   worker          init and exit of a worker, reloading of changed rules
 *   handler         the phase handler
 *   request         translation of a request for libweir
 *   decision        saving and logging of a decision
 *   auth            subrequests to an authentication service
 *   auth_response   identity and challenge in the service's response
 *   queue           requests delayed by a leaky bucket
 *   settle          settling of requests by their responses
 *   link            connections to "weir serve"
 *   link_command    commands on such a connection, and their replies
 *   reply           parser for replies of "weir serve"
 *   central         requests that wait for the central store
 *   central_report  reports to the central store
 *   defer           requests that are deferred
 *   defer_body      bodies of deferred requests
 *   defer_command   the command that queues a deferred request
 *   tickets         responses about deferred requests
 *   response        responses to refused requests
 *   filter          header fields and bodies of responses
 *   variables       variables $weir_...
 */


#ifndef NGX_HTTP_WEIR_MODULE_H_INCLUDED
#define NGX_HTTP_WEIR_MODULE_H_INCLUDED


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <weir/host.h>
#include <weir/rules.h>
#include <weir/weir.h>

#include "base/clock.h"


#define NGX_HTTP_WEIR_ENTRIES_MAX  32

/* values of the directive "weir" */
#define NGX_HTTP_WEIR_OFF     0
#define NGX_HTTP_WEIR_ON      1
#define NGX_HTTP_WEIR_DOMAIN  2


/* address of the socket of a "weir serve" */

typedef struct {
    ngx_str_t         name;              /* empty: not configured */
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_msec_t        timeout;           /* ms to wait for a reply */
} ngx_http_weir_peer_t;


typedef struct {
    ngx_str_t             rules_path;

    ngx_str_t             table_name;
    ngx_str_t             table_dir;
    size_t                table_size;    /* 0: weir_table gives no size */
    size_t                table_log;
    ngx_str_t             table_path;
    /* number of keys in the table when the configuration was read */
    uint64_t              table_keys;
    ngx_uint_t            keys;          /* WEIR_KEYS_...: how keys are shown */

    ngx_http_weir_peer_t  central;       /* address of "weir_central" */
    ngx_uint_t            fleet;         /* number of nodes; 0: not given */

    ngx_http_weir_peer_t  queue;         /* address of "weir_queue" */
    /* maximum size of the bodies of deferred requests in a worker, in bytes */
    size_t                queue_bodies;
    ngx_str_t             queue_tickets; /* path of the ticket URLs */

    ngx_str_t             link_key;      /* secret sent first on a link */

    struct weir_rules    *rules;         /* the rules of this cycle */
    struct weir_table    *table;
    struct weir_engine   *engine;
    struct weir_watch    *watch;
    ngx_log_t            *log;           /* for the thread that loads rules */

    ngx_str_t             only_domain;   /* the domain of "weir on" */
    ngx_array_t           domains;       /* ngx_str_t; domains of locations */
} ngx_http_weir_main_conf_t;


typedef struct {
    ngx_str_t                 key;
    ngx_http_complex_value_t  value;
} ngx_http_weir_entry_t;


typedef struct {
    ngx_str_t    domain;
    ngx_array_t  entries;                /* elements: ngx_http_weir_entry_t */
} ngx_http_weir_descriptor_t;


typedef struct {
    ngx_flag_t                 auth;     /* some location has weir_auth */
} ngx_http_weir_srv_conf_t;


/* file and line of a directive */

typedef struct {
    ngx_str_t                  file;
    ngx_uint_t                 line;
} ngx_http_weir_source_t;


typedef struct {
    ngx_uint_t                 mode;     /* NGX_HTTP_WEIR_OFF, ON, DOMAIN */
    ngx_http_weir_source_t     mode_at;
    ngx_str_t                  domain;   /* empty after merging: weir is off */
    ngx_array_t               *descriptors;
    /*
     * true if the directive "weir" applies: then the entries of "requests:" in
     * the rules make descriptors
     */
    ngx_flag_t                 requests;

    ngx_uint_t                 profile;
    ngx_flag_t                 dry_run;
    ngx_uint_t                 log_level;
    ngx_http_complex_value_t  *identity;

    /*
     * len is 0 if "weir_auth" is off or not given; data is NULL only if
     * "weir_auth" is not given
     */
    ngx_str_t                  auth_uri;
    ngx_str_t                  auth_args;
    ngx_http_weir_source_t     auth_at;
    ngx_array_t               *auth_headers; /* ngx_str_t, in lower case */

    ngx_array_t               *queue_fields; /* ngx_http_weir_entry_t */
    /* rate limit of a client for "weir_tickets"; NULL: no limit */
    struct weir_limit         *tickets;
} ngx_http_weir_loc_conf_t;


/* Memory for an ask. A worker reuses the memory of asks that have ended. */

typedef struct ngx_http_weir_ctx_s       ngx_http_weir_ctx_t;
typedef struct ngx_http_weir_block_s     ngx_http_weir_block_t;
typedef struct ngx_http_weir_group_s     ngx_http_weir_group_t;
typedef struct ngx_http_weir_deferral_s  ngx_http_weir_deferral_t;

struct ngx_http_weir_block_s {
    struct weir_ask        *ask;
    ngx_http_weir_ctx_t    *ctx;         /* NULL: no request is waiting */
    ngx_http_weir_block_t  *next;
};


typedef enum {
    NGX_HTTP_WEIR_NEW = 0,
    NGX_HTTP_WEIR_HELD,                  /* waits for the fleet's secret */
    NGX_HTTP_WEIR_AUTHENTICATING,        /* waits for the auth subrequest */
    NGX_HTTP_WEIR_ASKING,                /* waits for the central store */
    NGX_HTTP_WEIR_ANSWERED,              /* the verdict is in the ctx */
    NGX_HTTP_WEIR_READING,               /* reads the body before deferral */
    NGX_HTTP_WEIR_DEFERRING,             /* waits for the reply of the queue */
    NGX_HTTP_WEIR_WAITING,               /* is delayed by a leaky bucket */
    NGX_HTTP_WEIR_RELEASED,              /* the delay is over */
    NGX_HTTP_WEIR_DONE
} ngx_http_weir_state_e;


typedef enum {
    NGX_HTTP_WEIR_UNDECIDED = 0,
    NGX_HTTP_WEIR_ALLOWED,
    NGX_HTTP_WEIR_ADMITTED,
    NGX_HTTP_WEIR_DELAYED,
    NGX_HTTP_WEIR_REFUSED,
    NGX_HTTP_WEIR_DELAYED_DRY_RUN,
    NGX_HTTP_WEIR_REFUSED_DRY_RUN,
    NGX_HTTP_WEIR_DEFERRED
} ngx_http_weir_result_e;


/*
 * The response of an authentication service. If the request is redirected to a
 * location with the same service, this response is used again.
 */

typedef struct ngx_http_weir_auth_s  ngx_http_weir_auth_t;

struct ngx_http_weir_auth_s {
    ngx_str_t              uri;
    ngx_str_t              args;
    ngx_array_t           *headers;      /* names in "weir_auth_headers" */
    ngx_http_request_t    *request;      /* the subrequest to the service */
    ngx_uint_t             status;       /* 200, or status for the client */
    ngx_http_weir_auth_t  *next;
    unsigned               done:1;
};


/*
 * A function of this type continues with a decided request, and returns the
 * code of a phase handler. It has to free `block`, the memory of the ask. If
 * the decision failed, block is NULL and verdict is below 0.
 */

typedef ngx_int_t (*ngx_http_weir_next_pt)(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);


/* maximum number of header fields: 8 of libweir and X-Weir-Not-Deferred */
#define NGX_HTTP_WEIR_FIELDS  9

/* bytes for field values and the rule's name; longer texts use the pool */
#define NGX_HTTP_WEIR_TEXT    384


/*
 * The context of a client's request. It exists until the request's pool is
 * destroyed, even after internal redirects. It is not allocated from the pool,
 * because a proxied request nearly fills the first block of its pool, and a
 * second block would cost more than this structure.
 */

struct ngx_http_weir_ctx_s {
    ngx_http_request_t     *request;
    ngx_http_weir_state_e   state;

    ngx_http_weir_result_e  result;
    ngx_str_t               domain;
    ngx_str_t               identity;
    ngx_str_t               rule;
    uint32_t                limit;
    uint32_t                remaining;
    uint64_t                retry_after_ns;
    uint64_t                decided_ns;
    uint64_t                delay_ns;
    int64_t                 cost;        /* at arrival */
    int64_t                 actual;      /* valid if settled */

    ngx_uint_t              nfields;     /* number of elements in fields */

    /* list of the responses of all authentication services */
    ngx_http_weir_auth_t   *auths;
    /* response for the current location; NULL: its service was not asked */
    ngx_http_weir_auth_t   *auth;
    ngx_uint_t              refused;     /* HTTP status; 0: not refused */

    ngx_queue_t             queue;       /* in a list: HELD, WAITING */
    ngx_http_weir_block_t  *block;       /* set if ASKING, ANSWERED, WAITING */

    /* the ask that the response will settle; NULL: nothing to settle */
    ngx_http_weir_block_t  *settling;
    struct weir_reader     *reader;      /* NULL: the body is not read */

    /* used in state WAITING */
    ngx_http_weir_group_t  *group;
    uint64_t                due_ns;
    ngx_msec_t              latest;

    /* used in states ASKING and ANSWERED */
    ngx_http_weir_next_pt   next;
    int                     verdict;

    ngx_str_t                 record;    /* descriptors that the queue stores */
    ngx_http_weir_deferral_t *deferral;
    const char               *why_not;   /* NULL, or the reason not to defer */

    unsigned                limited:1;   /* limit and remaining are set */
    unsigned                decided:1;   /* the request has been counted */
    /* set while NGX_HTTP_WEIR_ANY_IDENTITY is used instead of the identity */
    unsigned                probing:1;
    unsigned                unfit:1;     /* descriptors could not be made */
    unsigned                reads_body:1;   /* a cost is in the body */
    unsigned                body_ended:1;   /* the whole body was passed on */
    unsigned                settled:1;

    size_t                  text_len;

    /* these members are not cleared when the ctx is used again */
    ngx_http_weir_ctx_t    *next_free;
    ngx_queue_t             used;        /* in the list of ctxs in use */
    ngx_keyval_t            fields[NGX_HTTP_WEIR_FIELDS];
    u_char                  text[NGX_HTTP_WEIR_TEXT];
};


/* functions of conf.c */

extern ngx_command_t  ngx_http_weir_commands[];

void *ngx_http_weir_create_main_conf(ngx_conf_t *cf);
char *ngx_http_weir_init_main_conf(ngx_conf_t *cf, void *conf);
void *ngx_http_weir_create_srv_conf(ngx_conf_t *cf);
void *ngx_http_weir_create_loc_conf(ngx_conf_t *cf);
ngx_uint_t ngx_http_weir_is_field_name(ngx_str_t *name);
char *ngx_http_weir_check_literal(ngx_conf_t *cf, const char *directive,
    ngx_str_t *text);
char *ngx_http_weir_add_entry(ngx_conf_t *cf, ngx_array_t *entries,
    ngx_str_t *key, ngx_str_t *value);

/* functions of serve_conf.c */

char *ngx_http_weir_set_central(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_link_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weir_set_queue(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_queue_field(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weir_check_link_key(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);

/* functions of merge.c */

char *ngx_http_weir_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);
ngx_uint_t ngx_http_weir_equal(ngx_str_t *a, ngx_str_t *b);
ngx_uint_t ngx_http_weir_find_domain(struct weir_rules *rules,
    ngx_str_t *domain, struct weir_domain_info *info);

/* functions of auth_conf.c */

char *ngx_http_weir_set_auth(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_auth_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
void ngx_http_weir_merge_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *prev,
    ngx_http_weir_loc_conf_t *conf);
ngx_uint_t ngx_http_weir_is_auth_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_weir_loc_conf_t *conf);
char *ngx_http_weir_check_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *conf);

/* functions of engine.c */

char *ngx_http_weir_load_rules(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
ngx_int_t ngx_http_weir_open_engine(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_log_errors(ngx_log_t *log, ngx_uint_t level,
    const struct weir_errors *errors);
const char *ngx_http_weir_load_error(int rc);

/* functions of worker.c */

ngx_int_t ngx_http_weir_init_module(ngx_cycle_t *cycle);
ngx_int_t ngx_http_weir_init_process(ngx_cycle_t *cycle);
void ngx_http_weir_exit_process(ngx_cycle_t *cycle);

/* functions of handler.c */

ngx_int_t ngx_http_weir_handler(ngx_http_request_t *r);
ngx_http_weir_ctx_t *ngx_http_weir_get_ctx(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_limit(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_refuse_unfit(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_park(ngx_http_request_t *r);
void ngx_http_weir_settle_ctxs(void);
void ngx_http_weir_destroy_ctxs(void);
ngx_int_t ngx_http_weir_conclude(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);

/* functions of decision.c */

ngx_int_t ngx_http_weir_save_decision(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, struct weir_ask *ask, int verdict);

/* functions of request.c */

ngx_http_weir_block_t *ngx_http_weir_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, int64_t hits);
ngx_int_t ngx_http_weir_decide(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next);
void ngx_http_weir_record_latency(struct weir_ask *ask, uint64_t since_ns);
void ngx_http_weir_ask_done(ngx_http_weir_block_t *block);
void *ngx_http_weir_reader_memory(ngx_http_weir_block_t *block);
void ngx_http_weir_destroy_blocks(void);
void ngx_http_weir_failed(ngx_log_t *log, const char *call, int rc);
struct weir_str ngx_http_weir_str(const ngx_str_t *s);
ngx_int_t ngx_http_weir_copy_str(ngx_pool_t *pool, struct weir_str from,
    ngx_str_t *to);
ngx_uint_t ngx_http_weir_same_name(ngx_str_t *a, const void *name, size_t len);
ngx_uint_t ngx_http_weir_has_name(ngx_array_t *names, const void *name,
    size_t len);
const ngx_str_t *ngx_http_weir_host(ngx_http_request_t *r);
off_t ngx_http_weir_chunked_length(ngx_http_request_t *r);
size_t ngx_http_weir_find_client_header(ngx_http_request_t *r,
    struct weir_str name, struct weir_str *values, size_t max);

/* functions of auth.c */

ngx_int_t ngx_http_weir_auth_begin(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_end(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_again(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_uint_t ngx_http_weir_is_accepted(ngx_http_weir_ctx_t *ctx);

/* functions of auth_response.c */

ngx_int_t ngx_http_weir_auth_pass(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_identify(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_table_elt_t *ngx_http_weir_auth_header(ngx_http_weir_ctx_t *ctx,
    const u_char *name, size_t len);

/* functions of queue.c */

void ngx_http_weir_queue_init(void);
ngx_int_t ngx_http_weir_queue_wait(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block);
void ngx_http_weir_queue_cancel(ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_queue_exit(void);

/* functions of settle.c */

void ngx_http_weir_settle_later(ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block);
void ngx_http_weir_settle_header(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_settle_body(ngx_http_weir_ctx_t *ctx, ngx_chain_t *in);
void ngx_http_weir_settle(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_settle_unanswered(ngx_http_weir_block_t *block);
ngx_int_t ngx_http_weir_log_handler(ngx_http_request_t *r);

/* functions of central.c */

ngx_int_t ngx_http_weir_central_init(ngx_cycle_t *cycle,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_central_exit(void);
ngx_uint_t ngx_http_weir_central_hold(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_central_release(ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_central_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block,
    ngx_http_weir_next_pt next);
void ngx_http_weir_central_charge(ngx_http_weir_block_t *block,
    uint64_t now_ns);
void ngx_http_weir_central_cancel(ngx_http_weir_ctx_t *ctx);

/* functions of central_report.c */

void ngx_http_weir_central_report(struct weir_ask *ask);

/* functions of defer.c */

ngx_uint_t ngx_http_weir_may_defer(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_defer(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block);
void ngx_http_weir_defer_cancel(ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_defer_init(ngx_cycle_t *cycle,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_defer_exit(void);

/* functions of tickets.c */

char *ngx_http_weir_set_tickets(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_weir_send_accepted(ngx_http_request_t *r,
    const ngx_http_weir_deferral_t *d);

/* functions of response.c */

ngx_int_t ngx_http_weir_refuse(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_ask *ask);

/* functions of filter.c */

ngx_int_t ngx_http_weir_add_field(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value);

/* functions of variables.c */

ngx_int_t ngx_http_weir_add_variables(ngx_conf_t *cf);


extern ngx_module_t  ngx_http_weir_module;
extern ngx_module_t  ngx_http_weir_filter_module;


#endif /* NGX_HTTP_WEIR_MODULE_H_INCLUDED */
