/* The settings of a service, from options, environment and configuration file. The caller owns the
 * texts, which must live as long as the service. */
#ifndef WR_SERVE_SETTINGS_H
#define WR_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text_list.h"

/* The Redis that shares counters between machines. */
struct wr_redis_settings {
	const char *url;    /* NULL: no Redis */
	const char *prefix; /* of all keys; NULL: "weir" */
	uint64_t timeout_ns;
	const char *password_file;   /* NULL: the password is in the URL, or there is none */
	const char *ca, *cert, *key; /* TLS: trusted certificates, client certificate and its key */
	bool tls_elsewhere;     /* these files also serve the Redis of the queue, which uses TLS */
	const char *key_secret; /* file with the fleet's secret; NULL: agreed through Redis */
	uint64_t fleet_size;    /* number of nodes until they have been counted */
	uint64_t sync_ns;       /* eventual limits: interval between reports to Redis */
	const char *region;     /* NULL: a single region */
	struct wr_text_list peers; /* URLs of the other regions' Redis */
};

/* Deferred requests: the queue's storage, and the API server they are delivered to. */
struct wr_queue_settings {
	const char *url;           /* see queue/queue.h; NULL or "off": no queue */
	const char *password_file; /* for the queue's Redis; NULL: in the URL, or none */
	const char *target;    /* http://HOST[:PORT], https://…, unix:/path; NULL: no delivery */
	const char *target_ca; /* certificates trusted for the target; NULL: the system's */
	const char *key_file;  /* key that encrypts header fields with credentials; NULL: none */
	bool assume_durable;   /* accept a Redis whose persistence cannot be checked */
	uint64_t max_requests, max_bytes;
	uint64_t max_line_bytes, max_dead, max_dead_bytes; /* 0: a fraction of the two above */
	uint64_t connections;                              /* concurrent deliveries */
	uint64_t timeout_ns;                               /* of one delivery */
	uint64_t keep_ns; /* how long finished tickets are stored */
};

struct wr_settings {
	const char *rules; /* file or directory */
	const char *table; /* NULL: "default" */
	const char *table_dir;
	uint64_t memory_bytes, log_bytes; /* 0: the library's defaults */
	uint64_t threads;                 /* 0: one per core */

	struct wr_redis_settings redis;
	struct wr_queue_settings queue;

	/* Addresses in the form of wr_endpoint_parse. An empty list or the word `off`: not served. */
	struct wr_text_list grpc, http, resp, admin;

	const char *tls_cert, *tls_key;     /* for grpc and resp; NULL: plain text */
	const char *tls_client_ca;          /* clients need a certificate signed by one of these */
	struct wr_text_list tls_client_san; /* and it needs one of these names; empty: any name */

	const char *admin_token_file; /* NULL: a token is generated at start unless admin_open */
	const char *admin_socket;     /* path of the admin API's Unix socket, or "off"; NULL: beside
				       * the table unless the admin port is off */
	bool admin_open;              /* no token: every process of this machine has access */
	const char *resp_password_file;
	const char *link_key_file; /* key of nginx workers on Unix sockets of resp; NULL: none */

	uint64_t drain_delay_ns;  /* from NOT_SERVING until the ports close */
	uint64_t drain_ns;        /* from then until open connections are cut */
	uint64_t idle_ns;         /* 0: idle connections stay open */
	uint64_t max_age_ns;      /* 0: no maximum age of connections */
	uint64_t slow_ns;         /* for a handshake, a request, or 4 KiB of a response */
	uint64_t max_connections; /* of all ports except admin, which has its own quota */
	uint64_t max_per_address; /* connections of one client address; 0: a quarter of the above */

	/* Networks of proxies that may describe requests at /check; empty: this machine and private
	 * networks. */
	struct wr_text_list trust;

	/* Networks of clients that may give hits back and reset counters through RESP. "unix:" means
	 * all peers of Unix sockets; root and our own user always may. */
	struct wr_text_list refunds;

	unsigned socket_group; /* group that may connect to Unix sockets of resp; 0: our own only */

	/* The gateway restarts the service when rules or certificates change, because the service's
	 * user cannot read them. */
	bool renewed;

	const char
		*user; /* user to change to; NULL: weir, if started as root and the user exists */

	bool shadow;           /* decide and count, but refuse nothing */
	bool dynamic_metadata; /* RLS: send dynamic_metadata */
	bool rls_headers;      /* RLS: response_headers_to_add with the three names below */
	const char *limit_header, *remaining_header, *reset_header;
	const char *rls_profile; /* RLS: also the header fields of this profile; NULL, "none": no */
	bool rls_bodies;         /* RLS: every refusal has a body, not only those of `response` */
	int headers;             /* enum weir_profile: header fields of HTTP responses */
	uint64_t near_limit_percent;
	const char *decision_log;       /* file, or "-"; NULL: none */
	uint64_t decision_log_refused;  /* refusals logged per second at most */
	const char *decision_log_share; /* share of admitted requests: "1%"; NULL: none */
	const char *keys;       /* how clients are shown: text, hashed, hidden; NULL: text */
	uint64_t metrics_rules; /* rules with series of their own at /metrics; 0: 5,000 */

	bool quiet;             /* the caller reports how loading rules went */
	const char *log_level;  /* error, warn, info, debug */
	const char *log_format; /* text, json */
};

#endif
