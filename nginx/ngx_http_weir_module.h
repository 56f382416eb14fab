
/*
 * weir as a module of nginx: a request is decided in the PREACCESS phase, in
 * the worker, on the table that all workers share.
 *
 *   conf       directives
 *   auth_conf  … about authentication
 *   serve_conf … about a "weir serve"
 *   merge      what they come to in a location
 *   engine     rules and table of a cycle
 *   worker     rules that change on disk
 *   handler    the phase handler: what becomes of a request
 *   note       what is kept of a decision
 *   request    a request as libweir sees it
 *   auth       asking who it is
 *   auth_answer … and what is said
 *   queue      requests that wait their turn
 *   central    requests that wait for the central store
 *   fleet      what it is told, and what it answers
 *   link       a connection to "weir serve"
 *   reply      what comes back on it
 *   defer      requests that are kept for later
 *   body       … their bodies
 *   words      … as "weir serve" is told them
 *   backlog    … on their way there
 *   tickets    … and what clients are told of them
 *   response   refusals
 *   filter     header fields
 *   variables  $weir_...
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

/* what "weir" was given */
#define NGX_HTTP_WEIR_OFF     0
#define NGX_HTTP_WEIR_ON      1
#define NGX_HTTP_WEIR_DOMAIN  2


/* where the central store is asked */

typedef struct {
    ngx_str_t         name;              /* empty: there is none */
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_msec_t        timeout;
    ngx_uint_t        fleet;             /* nodes; 0: not given */
} ngx_http_weir_central_conf_t;


/* where requests are kept that are put off */

typedef struct {
    ngx_str_t         name;              /* empty: nowhere */
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_msec_t        timeout;
    size_t            bodies;            /* a worker may have at once */
    ngx_str_t         tickets;           /* where to ask what became of it */
} ngx_http_weir_queue_conf_t;


typedef struct {
    ngx_str_t            rules_path;

    ngx_str_t            table_name;
    ngx_str_t            table_dir;
    size_t               table_size;     /* 0: not given */
    size_t               table_log;
    ngx_str_t            table_path;
    uint64_t             table_keys;     /* when it was opened */
    ngx_uint_t           keys;           /* what top keys show of clients */

    ngx_http_weir_central_conf_t  central;
    ngx_http_weir_queue_conf_t    queue;
    ngx_str_t                     link_key; /* shown to both */

    struct weir_rules   *rules;          /* as read by this cycle */
    struct weir_table   *table;
    struct weir_engine  *engine;
    struct weir_watch   *watch;
    ngx_log_t           *log;            /* of the watching thread */

    ngx_str_t            only;           /* what "weir on" means */
    ngx_array_t          domains;        /* of ngx_str_t: those in use */
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
    ngx_flag_t                 auth;     /* some location has "weir_auth" */
} ngx_http_weir_srv_conf_t;


/* where a directive is written; a line of 0: nowhere */

typedef struct {
    ngx_str_t                  file;
    ngx_uint_t                 line;
} ngx_http_weir_source_t;


typedef struct {
    ngx_uint_t                 mode;     /* as written: NGX_HTTP_WEIR_... */
    ngx_http_weir_source_t     mode_at;
    ngx_str_t                  domain;   /* merged: empty where weir is off */
    ngx_array_t               *descriptors;
    ngx_flag_t                 requests; /* merged: use "requests:" */

    ngx_uint_t                 profile;
    ngx_flag_t                 dry_run;
    ngx_uint_t                 log_level;
    ngx_http_complex_value_t  *identity;

    ngx_str_t                  auth_uri; /* empty: off; NULL: not given */
    ngx_str_t                  auth_args;
    ngx_http_weir_source_t     auth_at;
    ngx_array_t               *auth_headers; /* of ngx_str_t, lower case */

    ngx_array_t               *queue_fields; /* of ngx_http_weir_entry_t */
    struct weir_limit         *tickets;      /* a client may ask for */
} ngx_http_weir_loc_conf_t;


/* memory for an ask, one of a list each worker keeps */

typedef struct ngx_http_weir_block_s ngx_http_weir_block_t;

struct ngx_http_weir_block_s {
    struct weir_ask        *ask;
    ngx_http_weir_block_t  *next;
};


typedef enum {
    NGX_HTTP_WEIR_NEW = 0,
    NGX_HTTP_WEIR_HELD,
    NGX_HTTP_WEIR_AUTHENTICATING,
    NGX_HTTP_WEIR_ASKING,
    NGX_HTTP_WEIR_ANSWERED,
    NGX_HTTP_WEIR_READING,
    NGX_HTTP_WEIR_DEFERRING,
    NGX_HTTP_WEIR_WAITING,
    NGX_HTTP_WEIR_RELEASED,
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
 * What an authentication service answered to a request: a location that wants
 * the same service does not ask it again.
 */

typedef struct ngx_http_weir_auth_s  ngx_http_weir_auth_t;

struct ngx_http_weir_auth_s {
    ngx_str_t              uri;
    ngx_str_t              args;
    ngx_array_t           *headers;      /* of its answer that say who it is */
    ngx_http_request_t    *request;      /* the subrequest */
    ngx_uint_t             status;       /* 200, or what the client is told */
    ngx_http_weir_auth_t  *next;
    unsigned               done:1;       /* it has been answered */
};


typedef struct ngx_http_weir_ctx_s      ngx_http_weir_ctx_t;
typedef struct ngx_http_weir_group_s    ngx_http_weir_group_t;
typedef struct ngx_http_weir_pending_s  ngx_http_weir_pending_t;
typedef struct ngx_http_weir_deferral_s ngx_http_weir_deferral_t;


/*
 * Goes on with a request that was decided, and returns what a phase handler
 * does. The block is its own to release; it is NULL, and the verdict below 0,
 * where weir failed.
 */

typedef ngx_int_t (*ngx_http_weir_next_pt)(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);


/* fields that weir adds, at most: the library's 8, and why it was not put off */
#define NGX_HTTP_WEIR_FIELDS  9

/* their values, and the name of the rule; what is longer goes into the pool */
#define NGX_HTTP_WEIR_TEXT    384


/*
 * What is known of a client's request. Lives as long as its pool; redirects,
 * error pages and subrequests find it again. It is not in the pool: a request
 * that is proxied nearly fills one, and another block of it costs more than
 * all that is kept here.
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

    ngx_uint_t              nfields;     /* see below */

    ngx_http_weir_auth_t   *auths;       /* all services that were asked */
    ngx_http_weir_auth_t   *auth;        /* of the current location */
    ngx_uint_t              refused;     /* the status, once it was */

    /* while waiting */
    ngx_queue_t             queue;
    ngx_http_weir_group_t  *group;
    ngx_http_weir_block_t  *block;
    uint64_t                due_ns;
    ngx_msec_t              latest;

    /* while the central store is asked, and when it has answered */
    ngx_http_weir_pending_t *pending;
    ngx_http_weir_next_pt   next;
    int                     verdict;

    /* if it may be put off, and while it is */
    ngx_str_t                 record;
    ngx_http_weir_deferral_t *deferral;
    const char               *why_not;   /* it was to be, but was not */

    unsigned                limited:1;   /* limit, remaining are set */
    unsigned                decided:1;   /* for good: it is counted */
    unsigned                probing:1;   /* before the service was asked */
    unsigned                unfit:1;     /* to be described: is refused */

    size_t                  text_len;

    /* not cleared from here on */
    ngx_http_weir_ctx_t    *next_free;
    ngx_queue_t             used;        /* of all requests under way */
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

/* auth_conf */

char *ngx_http_weir_set_auth(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
char *ngx_http_weir_set_auth_headers(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_weir_merge_auth(ngx_conf_t *cf, ngx_http_weir_loc_conf_t *prev,
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
ngx_int_t ngx_http_weir_unasked(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_park(ngx_http_request_t *r);
void ngx_http_weir_free_ctxs(void);
ngx_int_t ngx_http_weir_conclude(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block, int verdict);

/* note */

ngx_int_t ngx_http_weir_note(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    struct weir_ask *ask, int verdict);

/* request */

ngx_http_weir_block_t *ngx_http_weir_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, int64_t hits);
ngx_int_t ngx_http_weir_decide(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block, ngx_http_weir_next_pt next);
void ngx_http_weir_took(struct weir_ask *ask, uint64_t since_ns);
void ngx_http_weir_ask_done(ngx_http_weir_block_t *block);
void ngx_http_weir_free_spare(void);
void ngx_http_weir_failed(ngx_log_t *log, const char *call, int rc);

/* auth */

ngx_int_t ngx_http_weir_auth_begin(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_end(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_auth_again(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
ngx_uint_t ngx_http_weir_is_accepted(ngx_http_weir_ctx_t *ctx);

/* auth_answer */

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
void ngx_http_weir_queue_leave(ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_queue_abandon(void);

/* central */

ngx_int_t ngx_http_weir_central_init(ngx_cycle_t *cycle,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_central_exit(void);
ngx_uint_t ngx_http_weir_central_hold(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_central_let_go(ngx_http_weir_ctx_t *ctx);
ngx_int_t ngx_http_weir_central_ask(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, ngx_http_weir_block_t *block,
    ngx_http_weir_next_pt next);
void ngx_http_weir_central_charge(ngx_http_weir_block_t *block,
    uint64_t now_ns);
void ngx_http_weir_central_leave(ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_central_forget(ngx_http_weir_ctx_t *ctx);
void ngx_http_weir_central_tell(struct weir_ask *ask);

/* reply */

#define NGX_HTTP_WEIR_REPLY_PARTS  4

typedef struct {
    u_char   type;                       /* of RESP: + - : $ _ * */
    u_char  *data;
    size_t   len;
} ngx_http_weir_part_t;

typedef struct {
    ngx_http_weir_part_t   head;
    ngx_http_weir_part_t   parts[NGX_HTTP_WEIR_REPLY_PARTS]; /* of a list */
    ngx_uint_t             nparts;
    u_char                *end;          /* of it all */
} ngx_http_weir_reply_t;

ngx_int_t ngx_http_weir_reply_parse(u_char *p, u_char *last,
    ngx_http_weir_reply_t *reply);

/* link */

typedef struct {
    ngx_str_t         name;
    struct sockaddr  *sockaddr;
    socklen_t         socklen;
    ngx_str_t         key;

    const char       *directive;         /* that named it */
    const char       *without;           /* what happens while it is lost */
    size_t            out_max;           /* bytes that wait to be sent */

    void            (*up)(void);
    ngx_int_t       (*reply)(ngx_http_weir_reply_t *reply);
    void            (*lost)(void);
} ngx_http_weir_link_use_t;

typedef struct {
    ngx_http_weir_link_use_t  use;

    ngx_peer_connection_t     peer;
    ngx_log_t                 quiet;     /* what is to be told is told here */

    ngx_event_t               timer;     /* tries again, or gives up */
    ngx_msec_t                back;

    u_char                   *out;
    size_t                    out_size;
    size_t                    out_sent;
    size_t                    out_len;

    u_char                   *in;
    size_t                    in_len;

    unsigned                  up:1;
    unsigned                  proving:1; /* the key was sent */
    unsigned                  denied:1;  /* that was told */
    unsigned                  missed:1;  /* its loss was told */
    unsigned                  worked:1;
} ngx_http_weir_link_t;

ngx_int_t ngx_http_weir_link_init(ngx_cycle_t *cycle,
    ngx_http_weir_link_t *link, const ngx_http_weir_link_use_t *use);
void ngx_http_weir_link_close(ngx_http_weir_link_t *link);
ngx_int_t ngx_http_weir_link_send(ngx_http_weir_link_t *link,
    const ngx_str_t *words, ngx_uint_t n);
void ngx_http_weir_link_lose(ngx_http_weir_link_t *link, const char *why,
    ngx_err_t err);
void ngx_http_weir_link_works(ngx_http_weir_link_t *link);

/* defer */

ngx_uint_t ngx_http_weir_may_defer(ngx_http_request_t *r);
ngx_int_t ngx_http_weir_defer(ngx_http_request_t *r, ngx_http_weir_ctx_t *ctx,
    ngx_http_weir_block_t *block);
void ngx_http_weir_defer_leave(ngx_http_weir_ctx_t *ctx);

/* backlog */

ngx_int_t ngx_http_weir_backlog_init(ngx_cycle_t *cycle,
    ngx_http_weir_main_conf_t *wmcf);
void ngx_http_weir_backlog_exit(void);

/* tickets */

char *ngx_http_weir_tickets(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_weir_accepted(ngx_http_request_t *r,
    const ngx_http_weir_deferral_t *d);

/* response */

ngx_int_t ngx_http_weir_refuse(ngx_http_request_t *r,
    ngx_http_weir_ctx_t *ctx, const struct weir_ask *ask);

/* variables */

ngx_int_t ngx_http_weir_add_variables(ngx_conf_t *cf);


extern ngx_module_t  ngx_http_weir_module;
extern ngx_module_t  ngx_http_weir_filter_module;


#endif /* NGX_HTTP_WEIR_MODULE_H_INCLUDED */
