/* Turns the command line of `weir gateway` into a plan for nginx.
 *
 * Settings are as the user typed them. A plan is checked and complete: each text in it can be
 * written into nginx's configuration between quotes, each path is absolute, each list has a maximum
 * length. */
#ifndef WR_GATEWAY_PLAN_H
#define WR_GATEWAY_PLAN_H

#include <stdbool.h>
#include <stdint.h>
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
	const char *keys; /* text, hashed, hidden; NULL: text */
	uint64_t memory_bytes;
	uint64_t log_bytes; /* share of memory_bytes for sliding window logs; 0: set by the rules */
	bool dry_run;
	struct wr_text_list trust;
	const char *auth;
	struct wr_text_list auth_headers;
	uint64_t workers; /* 0: one per processor */
	uint64_t max_body_bytes;
	bool stream_uploads;
	uint64_t upstream_timeout_ns, drain_ns;
	const char *upstream_ca, *upstream_name;
	const char *access_log; /* a path, "-" or "off" */
	const char *runtime, *nginx, *module;
	/* If root starts the gateway: the user of the service and of nginx's workers, or a number
	 * for the service alone. NULL: weir */
	const char *user;
	bool print_config;
	bool central; /* the service beside nginx has --redis, and nginx asks the service */
	uint64_t central_timeout_ns, fleet_size;
	const char *queue; /* URL of the queue, "off", or NULL: see wr_gateway_plan_queue() */
	const char *queue_target; /* target of deliveries; NULL: the API servers, through nginx */
};

struct wr_gateway_plan {
	const struct wr_gateway_settings *settings;

	/* API servers: either all use TLS or none does. */
	struct wr_url upstream[WR_TEXT_LIST_MAX];
	size_t upstream_count;
	const char *upstream_name; /* the name in their certificates; NULL without TLS */
	const char *upstream_ca;

	bool has_auth;
	struct wr_url auth;
	const char *auth_name; /* the name in its certificate; NULL without TLS */

	const char *tls_cert, *tls_key; /* or NULL */
	const char *rules;
	const char *domain;     /* set by wr_gateway_pick_domain() */
	const char *access_log; /* or NULL */
	const char *module;
	const char *nginx;
	const char *name;     /* of this gateway on this machine: gateway-8080 */
	const char *runtime;  /* folder of configuration, process id and lock */
	const char *bodies;   /* folder of request bodies that do not fit in memory */
	const char *socket;   /* the service's Unix socket, to which workers connect */
	const char *link_key; /* file with the key by which workers identify themselves there */
	const char *deliver;  /* nginx's Unix socket for deliveries, without limits */
	const char *queue;    /* URL of the queue; NULL: requests are not deferred */

	const char *user, *group; /* of nginx's workers; NULL: the user who runs the gateway */
	uid_t uid;
	gid_t gid;
	bool drops;               /* root starts the gateway, and the service runs as: */
	const char *service_user; /* a name, or a number (base/uid.h) */
	uid_t service_uid;
	bool has_v6; /* the machine has IPv6: a port without an address means both families */
	uint64_t open_files; /* per worker */
	bool table_as_is;    /* an operator has resized the table, so its size is not configured */
};

/* Checks addresses, URLs and certificates. Finds nginx, the module, the workers' user and the
 * folders. Leaves plan->domain and plan->queue unset. Texts of the plan belong to the settings or
 * the arena. Returns 0, or below 0 with `error` filled in; so do all functions below. */
int wr_gateway_plan(const struct wr_gateway_settings *settings, struct wr_arena *arena,
		    struct wr_gateway_plan *plan, struct weir_error *error);

/* Sets plan->domain: the domain of the settings, or the only domain that has `requests:`. */
int wr_gateway_pick_domain(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   struct wr_arena *arena, struct weir_error *error);

/* plan_queue.c: sets plan->queue. settings->queue decides if it is set. Otherwise a queue is used
 * if the domain has a rule with on_limit: defer, in a folder of this gateway, which is created. A
 * queue that exists there already is used in any case, so that its requests are delivered. */
int wr_gateway_plan_queue(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			  struct wr_arena *arena, struct weir_error *error);

/* Whether a rule of the domain has on_limit: defer. False if `rules` is NULL. */
bool wr_gateway_defers(const struct weir_rules *rules, const char *domain);

/* The domain with this name; NULL: there is none. */
const struct wr_node *wr_gateway_find_domain(const struct weir_rules *rules, const char *name);

/* The next node of the domain, depth first in file order; NULL after the last. */
const struct wr_node *wr_gateway_next_node(const struct wr_node *node);

/* The error text for a socket path; its arguments are the maximum length and the path. */
#define WR_GATEWAY_SOCKET_TOO_LONG                                                                 \
	"choose a shorter folder with --runtime DIR: a socket path can have at most "              \
	"%d bytes, this one is longer: %s"

/* plan_net.c: check and fill in the addresses of the plan. */
int wr_plan_upstreams(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_auth(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_listens(const struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_trust(const struct wr_gateway_plan *plan, struct weir_error *error);

#endif
