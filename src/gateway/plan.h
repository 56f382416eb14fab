/* From what the user asked for to what nginx is to do.
 *
 * Settings are as they were typed. A plan is checked and complete: every text in it may stand in
 * nginx's configuration between quotes, every path is absolute, every list is bounded. */
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
	uint64_t log_bytes; /* of it for sliding window logs; 0: by the rules */
	bool dry_run;
	struct wr_text_list trust;
	const char *auth;
	struct wr_text_list auth_headers;
	uint64_t workers; /* 0: one for each processor */
	uint64_t max_body_bytes;
	bool stream_uploads;
	uint64_t upstream_timeout_ns, drain_ns;
	const char *upstream_ca, *upstream_name;
	const char *access_log; /* a path, "-" or "off" */
	const char *runtime, *nginx, *module;
	/* of the service and nginx's workers, or a number for the service, if root starts it; NULL:
	 * weir */
	const char *user;
	bool print_config;
	bool central; /* the service beside nginx has --redis: nginx asks it */
	uint64_t central_timeout_ns, fleet_size;
	const char *queue; /* where requests are kept for later: a URL, "off"; NULL: see below */
	const char *queue_target; /* where they go; NULL: to the API servers, by nginx */
};

struct wr_gateway_plan {
	const struct wr_gateway_settings *settings;

	/* API servers: all with TLS or none. */
	struct wr_url upstream[WR_TEXT_LIST_MAX];
	size_t upstream_count;
	const char *upstream_name; /* in their certificates; NULL without TLS */
	const char *upstream_ca;

	bool has_auth;
	struct wr_url auth;
	const char *auth_name; /* in its certificate; NULL without TLS */

	const char *tls_cert, *tls_key; /* or NULL */
	const char *rules;              /* absolute, as the rest of the paths */
	const char *domain;             /* the one in force */
	const char *access_log;         /* or NULL */
	const char *module;
	const char *nginx;
	const char *name;     /* of this gateway among others: gateway-8080 */
	const char *runtime;  /* configuration, process id, lock */
	const char *bodies;   /* request bodies too large for memory; NULL: beside the process id */
	const char *socket;   /* where workers find the service */
	const char *link_key; /* the file of the key that workers show there */
	const char *deliver;  /* where nginx takes what was kept, past the limits: for us alone */
	const char *queue;    /* a URL; NULL: nothing is kept */

	const char *user, *group; /* of nginx's workers; NULL: as who runs the gateway */
	uid_t uid;
	gid_t gid;
	bool drops;               /* root starts it, and the service is not root */
	const char *service_user; /* but this one: a name, or a number (base/uid.h) */
	uid_t service_uid;
	bool has_v6;         /* a bare port is one of both families */
	uint64_t open_files; /* a worker may have */
	bool table_as_is;    /* whatever size it has, for somebody has resized it */
};

/* Checks addresses, URLs, certificates; finds nginx and the module, the user workers run as and the
 * folders. plan->domain is still to be set. Texts are the settings' or the arena's.
 * Returns 0, or -1. */
int wr_gateway_plan(const struct wr_gateway_settings *settings, struct wr_arena *arena,
		    struct wr_gateway_plan *plan, struct weir_error *error);

/* Which domain of the rules decides: the one asked for, or the only one that has `requests:`. */
int wr_gateway_pick_domain(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   struct wr_arena *arena, struct weir_error *error);

/* plan_queue.c: whether requests are kept for later and where: as settings->queue says, or, if the
 * domain has a rule that defers, in a folder of this gateway, which is made. One that has a queue
 * is used whether or not: what was kept is to be delivered. */
int wr_gateway_plan_queue(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			  struct wr_arena *arena, struct weir_error *error);

/* Whether a rule of the domain says on_limit: defer. */
bool wr_gateway_defers(const struct weir_rules *rules, const char *domain);

/* plan_net.c */
int wr_plan_upstreams(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_auth(struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_listens(const struct wr_gateway_plan *plan, struct weir_error *error);
int wr_plan_trust(const struct wr_gateway_plan *plan, struct weir_error *error);

#endif
