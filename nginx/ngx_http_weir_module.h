
/*
 * The weir module: decides requests in the PREACCESS phase, in the worker, with
 * counters in a table in shared memory that all workers use.
 *
 *   conf            directives
 *   auth_conf       directives of authentication
 *   serve_conf      directives of the connection to "weir serve"
 *   merge           directives merged into a location
 *   engine          rules and table of a cycle
 *   worker          init and exit of a worker, reloading of changed rules
 *   handler         the phase handler
 *   request         a request as libweir sees it
 *   decision        parts of a decision that outlive it, and its log line
 *   auth            subrequests to an authentication service
 *   auth_response   identity and challenge in the service's response
 *   queue           requests delayed by a leaky bucket
 *   link            connections to "weir serve", and requests pending on them
 *   reply           replies of "weir serve"
 *   central         requests that wait for the central store
 *   central_report  reports to the central store
 *   defer           requests that are deferred
 *   defer_body      their bodies
 *   defer_command   the command that queues them
 *   tickets         responses about deferred requests
 *   response        refusals
 *   filter          header fields
 *   variables       $weir_...
 */


#ifndef NGX_HTTP_WEIR_MODULE_H_INCLUDED
#define NGX_HTTP_WEIR_MODULE_H_INCLUDED


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <weir/host.h>
#include <weir/rules.h>
#include <weir/weir.h>


#define NGX_HTTP_WEIR_ENTRIES_MAX  32

/* argument of "weir" */
#define NGX_HTTP_WEIR_OFF     0
#define NGX_HTTP_WEIR_ON      1
#define NGX_HTTP_WEIR_DOMAIN  2


/* the socket of a "weir serve" */

typedef struct {
    ngx_str_t         name;              /* empty: not configured */
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_msec_t        timeout;           /* of a reply */
} ngx_http_weir_peer_t;


typedef struct {
    ngx_str_t             rules_path;

    ngx_str_t             table_name;
    ngx_str_t             table_dir;
    size_t                table_size;    /* 0: not given */
    size_t                table_log;
    ngx_str_t             table_path;
    uint64_t              table_keys;    /* in the table when it was opened */
    ngx_uint_t            keys;          /* WEIR_KEYS_...: how keys are shown */

    ngx_http_weir_peer_t  central;       /* "weir_central" */
    ngx_uint_t            fleet;         /* nodes; 0: not given */

    ngx_http_weir_peer_t  queue;         /* "weir_queue" */
    size_t                queue_bodies;  /* bytes that a worker may hold */
    ngx_str_t             queue_tickets; /* path of ticket URLs */

    ngx_str_t             link_key;      /* sent to both */

    struct weir_rules    *rules;         /* as read by this cycle */
    struct weir_table    *table;
    struct weir_engine   *engine;
    struct weir_watch    *watch;
    ngx_log_t            *log;           /* of the thread that loads rules */

    ngx_str_t             only_domain;   /* domain of "weir on" */
    ngx_array_t           domains;       /* of ngx_str_t, used by locations */
} ngx_http_weir_main_conf_t;


typedef struct {
    ngx_str_t                 key;
    ngx_http_complex_value_t  value;
} ngx_http_weir_entry_t;


typedef struct {
    ngx_str_t    domain;
    ngx_array_t  entries;                /* of ngx_http_weir_entry_t */
} ngx_http_weir_descriptor_t;


typedef struct {
    ngx_flag_t                 auth;     /* a location has "weir_auth" */
} ngx_http_weir_srv_conf_t;


/* position of a directive in the configuration */

typedef struct {
    ngx_str_t                  file;
    ngx_uint_t                 line;
} ngx_http_weir_source_t;


typedef struct {
    ngx_uint_t                 mode;     /* NGX_HTTP_WEIR_OFF, ... */
    ngx_http_weir_source_t     mode_at;
    ngx_str_t                  domain;   /* merged; empty if weir is off */
    ngx_array_t               *descriptors;
    ngx_flag_t                 requests; /* merged; "requests:" is used */

    ngx_uint_t                 profile;
    ngx_flag_t                 dry_run;
    ngx_uint_t                 log_level;
    ngx_http_complex_value_t  *identity;

    ngx_str_t                  auth_uri; /* empty: off; NULL: not given */
    ngx_str_t                  auth_args;
    ngx_http_weir_source_t     auth_at;
    ngx_array_t               *auth_headers; /* of ngx_str_t, lower case */

    ngx_array_t               *queue_fields; /* of ngx_http_weir_entry_t */
    struct weir_limit         *tickets;      /* lookups of a client */
} ngx_http_weir_loc_conf_t;


/* memory for an ask; free blocks are in a list of the worker */

typedef struct ngx_http_weir_ctx_s       ngx_http_weir_ctx_t;
typedef struct ngx_http_weir_block_s     ngx_http_weir_block_t;
typedef struct ngx_http_weir_group_s     ngx_http_weir_group_t;
typedef struct ngx_http_weir_deferral_s  ngx_http_weir_deferral_t;

struct ngx_http_weir_block_s {
    struct weir_ask        *ask;
    ngx_http_weir_ctx_t    *ctx;         /* waits for the central store */
    ngx_http_weir_block_t  *next;
};


typedef enum {
    NGX_HTTP_WEIR_NEW = 0,
    NGX_HTTP_WEIR_HELD,                  /* waits for the fleet's secret */
    NGX_HTTP_WEIR_AUTHENTICATING,        /* waits for the auth subrequest */
    NGX_HTTP_WEIR_ASKING,                /* waits for the central store */
    NGX_HTTP_WEIR_ANSWERED,              /* has the verdict in its ctx */
    NGX_HTTP_WEIR_READING,               /* reads the body, to be deferred */
    NGX_HTTP_WEIR_DEFERRING,             /* waits until it is queued */
    NGX_HTTP_WEIR_WAITING,               /* delayed by a leaky bucket */
    NGX_HTTP_WEIR_RELEASED,              /* its delay is over */
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
 * The response of an authentication service. After a redirect, a location with
 * the same service uses it again.
 */

typedef struct ngx_http_weir_auth_s  ngx_http_weir_auth_t;

struct ngx_http_weir_auth_s {
    ngx_str_t              uri;
    ngx_str_t              args;
    ngx_array_t           *headers;      /* names of the identity headers */
    ngx_http_request_t    *request;      /* the subrequest */
    ngx_uint_t             status;       /* 200, or the client's status */
    ngx_http_weir_auth_t  *next;
    unsigned               done:1;
};


/*
 * Continues with a decided request. Returns the code of a phase handler. Owns
 * the block, which is NULL, and the verdict below 0, if the decision failed.
 */

typedef ngx_int_t (*ngx_http_weir_next_pt)(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);


/* added header fields: 8 of libweir and X-Weir-Not-Deferred */
#define NGX_HTTP_WEIR_FIELDS  9

/* bytes for their values and the rule's name; longer ones use the pool */
#define NGX_HTTP_WEIR_TEXT    384


/*
 * Context of a client's request, kept until its pool is destroyed, also after
 * internal redirects. It is not allocated from the pool: a proxied request
 * nearly fills the first block of its pool, and a second block would cost more
 * than this structure.
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

    ngx_uint_t              nfields;     /* of fields below */

    ngx_http_weir_auth_t   *auths;       /* of all services used so far */
    ngx_http_weir_auth_t   *auth;        /* of the current location */
    ngx_uint_t              refused;     /* status of the refusal, or 0 */

    ngx_queue_t             queue;       /* HELD, WAITING */
    ngx_http_weir_block_t  *block;       /* ASKING, ANSWERED, WAITING */

    /* WAITING */
    ngx_http_weir_group_t  *group;
    uint64_t                due_ns;
    ngx_msec_t              latest;

    /* ASKING, ANSWERED */
    ngx_http_weir_next_pt   next;
    int                     verdict;

    ngx_str_t                 record;    /* descriptors, for the queue */
    ngx_http_weir_deferral_t *deferral;
    const char               *why_not;   /* reason if it was not deferred */

    unsigned                limited:1;   /* limit and remaining are set */
    unsigned                decided:1;   /* it has been counted */
    unsigned                probing:1;   /* the identity is not known yet */
    unsigned                unfit:1;     /* cannot be described: is refused */

    size_t                  text_len;

    /* not cleared when the ctx is reused */
    ngx_http_weir_ctx_t    *next_free;
    ngx_queue_t             used;        /* of all ctxs in use */
    ngx_keyval_t            fields[NGX_HTTP_WEIR_FIELDS];
    u_char                  text[NGX_HTTP_WEIR_TEXT];
};


/* conf */

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

/* serve_conf */

char *ngx_http_weir_set_central(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_link_key(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weir_set_queue(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_queue_field(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weir_check_link_key(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);

/* merge */

char *ngx_http_weir_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);
ngx_uint_t ngx_http_weir_find_domain(struct weir_rules *rules,
    ngx_str_t *domain, struct weir_domain_info *info);

/* auth_conf */

char *ngx_http_weir_set_auth(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_auth_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
void ngx_http_weir_merge_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *prev,
    ngx_http_weir_loc_conf_t *conf);
ngx_uint_t ngx_http_weir_is_auth_location(ngx_http_core_loc_conf_t *clcf,
    ngx_http_weir_loc_conf_t *conf);
char *ngx_http_weir_check_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *conf);

/* engine */

char *ngx_http_weir_load_rules(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
ngx_int_t ngx_http_weir_open_engine(ngx_conf_t *cf,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_log_errors(ngx_log_t *log, ngx_uint_t level,
    const struct weir_errors *errors);
const char *ngx_http_weir_load_error(int rc);
uint64_t ngx_http_weir_now(void);

/* worker */

ngx_int_t ngx_http_weir_init_module(ngx_cycle_t *cycle);
ngx_int_t ngx_http_weir_init_process(ngx_cycle_t *cycle);
void ngx_http_weir_exit_process(ngx_cycle_t *cycle);

/* handler */

ngx_int_t ngx_http_weir_handler(ngx_http_request_t *r);
ngx_http_weir_ctx_t *ngx_http_weir_get_ctx(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_limit(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_refuse_unfit(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_park(ngx_http_request_t *r);
void ngx_http_weir_destroy_ctxs(void);
ngx_int_t ngx_http_weir_conclude(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);

/* decision */

ngx_int_t ngx_http_weir_save_decision(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, struct weir_ask *ask, int verdict);

/* request */

ngx_http_weir_block_t *ngx_http_weir_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, int64_t hits);
ngx_int_t ngx_http_weir_decide(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next);
void ngx_http_weir_record_latency(struct weir_ask *ask, uint64_t since_ns);
void ngx_http_weir_ask_done(ngx_http_weir_block_t *block);
void ngx_http_weir_destroy_blocks(void);
void ngx_http_weir_failed(ngx_log_t *log, const char *call, int rc);
struct weir_str ngx_http_weir_str(const ngx_str_t *s);
const ngx_str_t *ngx_http_weir_host(ngx_http_request_t *r);
size_t ngx_http_weir_find_client_header(ngx_http_request_t *r,
    struct weir_str name, struct weir_str *values, size_t max);

/* auth */

ngx_int_t ngx_http_weir_auth_begin(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_end(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_again(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_uint_t ngx_http_weir_is_accepted(ngx_http_weir_ctx_t *ctx);

/* auth_response */

ngx_int_t ngx_http_weir_auth_pass(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_identify(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_table_elt_t *ngx_http_weir_auth_header(ngx_http_weir_ctx_t *ctx,
    const u_char *name, size_t len);

/* queue */

void ngx_http_weir_queue_init(void);
ngx_int_t ngx_http_weir_queue_wait(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block);
void ngx_http_weir_queue_cancel(ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_queue_exit(void);

/* central */

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

/* central_report */

void ngx_http_weir_central_report(struct weir_ask *ask);

/* reply */

#define NGX_HTTP_WEIR_REPLY_PARTS  4

typedef struct {
    u_char   type;                       /* RESP: + - : $ *, and _ for null */
    u_char  *data;
    size_t   len;
} ngx_http_weir_part_t;

typedef struct {
    ngx_http_weir_part_t   head;
    ngx_http_weir_part_t   parts[NGX_HTTP_WEIR_REPLY_PARTS]; /* of an array */
    ngx_uint_t             nparts;
    u_char                *end;
} ngx_http_weir_reply_t;

ngx_int_t ngx_http_weir_reply_parse(u_char *p, u_char *last,
    ngx_http_weir_reply_t *reply);

/* link */

#define NGX_HTTP_WEIR_PENDING_MAX  4096

typedef struct ngx_http_weir_link_s     ngx_http_weir_link_t;
typedef struct ngx_http_weir_pending_s  ngx_http_weir_pending_t;

/*
 * reply is NULL if the deadline has passed (p->late) or the link is lost. A
 * code other than NGX_OK closes the link.
 */

typedef ngx_int_t (*ngx_http_weir_reply_pt)(ngx_http_weir_pending_t *p,
    ngx_http_weir_reply_t *reply);

struct ngx_http_weir_pending_s {
    ngx_queue_t               queue;
    ngx_http_weir_link_t     *link;
    ngx_http_weir_reply_pt    handler;   /* NULL: the reply is discarded */
    void                     *data;
    ngx_msec_t                sent;
    unsigned                  timed:1;   /* its deadline is ahead */
    unsigned                  late:1;    /* its deadline has passed */
};

typedef struct {
    ngx_http_weir_peer_t      peer;
    ngx_str_t                 key;
    const char               *directive;
    const char               *fallback;  /* while it is lost, for the log */
    ngx_msec_t                silence;   /* beyond timeout; then it is lost */
    size_t                    out_max;   /* bytes to be sent */

    void                    (*up)(void);
    void                    (*poll)(void); /* every second */
    void                    (*lost)(void);
} ngx_http_weir_link_opts_t;

struct ngx_http_weir_link_s {
    ngx_http_weir_link_opts_t opts;

    ngx_peer_connection_t     peer;
    ngx_log_t                 quiet_log; /* this module logs failures itself */

    ngx_event_t               retry;     /* connects again, or gives up */
    ngx_msec_t                retry_delay;
    ngx_event_t               poll;

    ngx_queue_t               pending;   /* in the order they were sent */
    ngx_uint_t                npending;
    ngx_uint_t                ntimed;
    ngx_event_t               deadline;  /* of the first timed one */

    u_char                   *out;
    size_t                    out_size;
    size_t                    out_sent;
    size_t                    out_len;

    u_char                   *in;
    size_t                    in_len;

    unsigned                  up:1;
    unsigned                  overdue:1; /* the first pending one is late */
    unsigned                  refusal_logged:1;
    unsigned                  loss_logged:1;
    unsigned                  up_logged:1;
};

ngx_int_t ngx_http_weir_link_init(ngx_cycle_t *cycle,
    ngx_http_weir_link_t *link, const ngx_http_weir_link_opts_t *opts);
void ngx_http_weir_link_close(ngx_http_weir_link_t *link);
ngx_http_weir_pending_t *ngx_http_weir_link_send(ngx_http_weir_link_t *link,
    const ngx_str_t *words, ngx_uint_t n, ngx_http_weir_reply_pt handler,
    void *data);
void ngx_http_weir_link_works(ngx_http_weir_link_t *link);

/* defer */

ngx_uint_t ngx_http_weir_may_defer(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_defer(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block);
void ngx_http_weir_defer_cancel(ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_defer_init(ngx_cycle_t *cycle,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_defer_exit(void);

/* tickets */

char *ngx_http_weir_set_tickets(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_weir_send_accepted(ngx_http_request_t *r,
    const ngx_http_weir_deferral_t *d);

/* response */

ngx_int_t ngx_http_weir_refuse(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_ask *ask);

/* filter */

ngx_int_t ngx_http_weir_add_field(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value);

/* variables */

ngx_int_t ngx_http_weir_add_variables(ngx_conf_t *cf);


extern ngx_module_t  ngx_http_weir_module;
extern ngx_module_t  ngx_http_weir_filter_module;


#endif /* NGX_HTTP_WEIR_MODULE_H_INCLUDED */
