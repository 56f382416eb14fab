/* Turns the command line of `weir gateway` into a plan for nginx.
 *
 * Settings are the options as the user typed them. A plan is checked and complete: each text in it
 * can be written between quotes into nginx's configuration, each path is absolute, and each list
 * has a maximum length. */
#ifndef WR_GATEWAY_PLAN_H
#define WR_GATEWAY_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <weir/rules.h>

#include "base/arena.h"
#include "base/endpoint.h"
#include "base/text_list.h"
#include "base/error.h"

struct wr_gateway_settings {
	struct wr_text_list upstream;
	struct wr_endpoint_list listen, h2c;
	const char *tls_cert, *tls_key;
	const char *rules, *domain, *table, *headers;
	const char *keys; /* how keys are shown: "text", "hashed" or "hidden"; NULL: "text" */
	uint64_t memory_bytes;
	/* number of bytes of the table for sliding window logs; 0: the rules determine it */
	uint64_t log_bytes;
	bool dry_run;
	struct wr_text_list trust;
	const char *auth;
	struct wr_text_list auth_headers;
	uint64_t workers; /* number of nginx workers; 0: one per processor */
	uint64_t max_body_bytes;
	bool stream_uploads;
	uint64_t upstream_timeout_ns, drain_ns;
	const char *upstream_ca, *upstream_name;
	const char *access_log; /* path of the access log; "-": standard output; "off": no log */
	const char *runtime, *nginx, *module;
	/* Used only if root starts the gateway. If it is the name of a user, the service and
	 * nginx's workers run as this user. If it is a user id without a name, only the service
	 * runs with this id. NULL: the user weir. */
	const char *user;
	bool print_config;
	/* true if the service has --redis; then nginx asks the service for decisions */
	bool central;
	uint64_t central_timeout_ns, fleet_size;
	const char *queue; /* URL of the queue, or "off"; NULL: wr_gateway_plan_queue() decides */
	/* where deferred requests are delivered to; NULL: to the API servers, through nginx */
	const char *queue_target;
};

struct wr_gateway_plan {
	const struct wr_gateway_settings *settings;

	/* The API servers. Either all of them use TLS or none does. */
	struct wr_url upstream[WR_TEXT_LIST_MAX];
	size_t upstream_count;
	/* name that the certificates of the API servers must have; NULL without TLS */
	const char *upstream_name;
	const char *upstream_ca;

	bool has_auth;
	struct wr_url auth;
	/* name that the certificate of the authentication service must have; NULL without TLS */
	const char *auth_name;

	/* files of the certificate and the key for TLS to clients; NULL without TLS */
	const char *tls_cert, *tls_key;
	const char *rules;
	const char *domain;     /* set by wr_gateway_pick_domain() */
	const char *access_log; /* path of the access log; NULL: no access log */
	const char *module;
	const char *nginx;
	const char *name; /* name of this gateway, unique on this machine, such as gateway-8080 */
	const char *runtime; /* folder of nginx.conf, nginx.pid and the gateway's lock file */
	const char *bodies;  /* folder of request bodies that do not fit in memory */
	const char *socket;  /* the service's Unix socket, to which workers connect */
	/* file with the link key, by which workers identify themselves to the service */
	const char *link_key;
	const char *deliver; /* nginx's Unix socket for deliveries, where no limits apply */
	const char *queue;   /* URL of the queue; NULL: requests are not deferred */

	/* user and group of nginx's workers; NULL: the user who runs the gateway */
	const char *user, *group;
	uid_t uid;
	gid_t gid;
	bool drops; /* true if root starts the gateway and the service changes to service_user */
	const char *service_user; /* name of a user, or a number (base/uid.h) */
	uid_t service_uid;
	/* true if the machine has IPv6; then a port without an address means IPv4 and IPv6 */
	bool has_v6;
	uint64_t open_files; /* maximum number of open files per worker */
	/* true if an operator has resized the table; then the configuration sets no size */
	bool table_as_is;
};

/* Makes a plan. Checks addresses, URLs and certificates; finds nginx, the module, the workers' user
 * and the folders. Leaves plan->domain and plan->queue unset. The settings or the arena own the
 * texts of the plan. Returns 0, or a number below 0 with `error` filled in. The functions below
 * that return int report errors in this way too. */
int wr_gateway_plan(const struct wr_gateway_settings *settings, struct wr_arena *arena,
		    struct wr_gateway_plan *plan, struct weir_error *error);

/* Sets plan->domain to the domain of the settings, or else to the only domain that has
 * `requests:`. */
int wr_gateway_pick_domain(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   struct wr_arena *arena, struct weir_error *error);

/* plan_queue.c: sets plan->queue. If settings->queue is a URL, plan->queue is this URL. If it is
 * "off", plan->queue is NULL. If it is NULL, the queue is in a folder of this gateway, and is used
 * in two cases: a rule of the domain has on_limit: defer, or the folder has a queue already, whose
 * requests must be delivered. In other cases plan->queue is NULL. */
int wr_gateway_plan_queue(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			  struct wr_arena *arena, struct weir_error *error);

/* Returns true if a rule of the domain has on_limit: defer. Returns false if `rules` is NULL. */
bool wr_gateway_defers(const struct weir_rules *rules, const char *domain);

/* Returns the domain with this name, or NULL if the rules have no such domain. */
const struct wr_node *wr_gateway_find_domain(const struct weir_rules *rules, const char *name);

/* Returns the next tree node of the domain, depth first in file order; NULL after the last one. */
const struct wr_node *wr_gateway_next_node(const struct wr_node *node);

/* summary.c: writes the text that `weir gateway` prints when nginx is ready: the listeners, the API
 * servers, the table, the rules and a line for each limit. `rules` are the rules in force. Opens
 * the table to read its size. */
void wr_plan_summary_write(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   uint64_t now_ns, FILE *out);

/* The error text for a socket path that is too long. Its arguments are the maximum length and the
 * path. */
#define WR_GATEWAY_SOCKET_TOO_LONG                                                                 \
	"choose a shorter folder with --runtime DIR: a socket path can have at most "              \
	"%d bytes, this one is longer: %s"

/* These functions check and fill in the addresses of the plan (plan_net.c). */
int wr_plan_upstreams(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_auth(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_listens(const struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_trust(const struct wr_gateway_plan *plan, struct weir_error *error);

#endif
