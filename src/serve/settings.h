/* The settings of a service, from options, environment and configuration file. The caller owns the
 * texts and must keep them as long as the service exists. */
#ifndef WR_SERVE_SETTINGS_H
#define WR_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text_list.h"

/* Settings of the Redis that shares counters between machines. */
struct wr_serve_redis_settings {
	const char *url;    /* NULL: no Redis */
	const char *prefix; /* prefix of all keys in Redis; NULL: "weir" */
	uint64_t timeout_ns;
	const char *password_file; /* NULL: no file; the URL can contain a password */
	/* Files for TLS: trusted certificates, client certificate, its key. */
	const char *ca, *cert, *key;
	bool tls_elsewhere; /* true: the Redis of --queue uses TLS, with `ca`, `cert` and `key` */
	/* File with the fleet's secret; NULL: the nodes agree on a secret through Redis. */
	const char *key_secret;
	uint64_t fleet_size; /* assumed number of nodes until the nodes have been counted */
	/* Interval between reports to Redis, for limits with `consistency: eventual`. */
	uint64_t sync_ns;
	const char *region;        /* name of this region; NULL: there is a single region */
	struct wr_text_list peers; /* URLs of the other regions' Redis */
};

/* Settings of deferred requests: the storage of the queue, and the API server that gets the
 * requests. */
struct wr_serve_queue_settings {
	const char *url; /* URL as described in queue/queue.h; NULL or "off": no queue */
	/* File with the password of the queue's Redis. NULL: no file; the URL can contain a
	 * password. */
	const char *password_file;
	/* The API server: http://HOST[:PORT], https://…, or unix:/path. NULL: nothing is
	 * delivered. */
	const char *target;
	const char *target_ca; /* certificates trusted for the target; NULL: the system's */
	/* Key that encrypts header fields with credentials; NULL: no encryption. */
	const char *key_file;
	bool assume_durable; /* accept a Redis whose persistence cannot be checked */
	uint64_t max_requests, max_bytes;
	/* Maximum size of one line, maximum number of dead letters, and maximum size of all dead
	 * letters. 0: a default that is computed from max_requests or max_bytes. */
	uint64_t max_line_bytes, max_dead, max_dead_bytes;
	uint64_t connections; /* maximum number of concurrent deliveries */
	uint64_t timeout_ns;  /* timeout of one delivery */
	uint64_t keep_ns;     /* how long finished tickets are stored */
};

struct wr_settings {
	const char *rules; /* path of a rule file or a directory of rule files */
	const char *table; /* name of the table; NULL: "default" */
	const char *table_dir;
	uint64_t memory_bytes, log_bytes; /* 0: the library's defaults */
	uint64_t threads;                 /* number of loops; 0: one per CPU core */

	struct wr_serve_redis_settings redis;
	struct wr_serve_queue_settings queue;

	/* Addresses of the ports, in the form of wr_endpoint_parse. A port with an empty list or
	 * the word `off` is not opened. */
	struct wr_text_list grpc, http, resp, admin;

	/* Certificate and key for grpc and resp; NULL: plain text. */
	const char *tls_cert, *tls_key;
	/* File with the authorities whose signature on a client's certificate is accepted. NULL:
	 * clients need no certificate. */
	const char *tls_client_ca;
	/* The client's certificate must have one of these names; empty: any name. */
	struct wr_text_list tls_client_san;

	/* File with tokens. NULL: a token is generated at the start, unless admin_open is set. */
	const char *admin_token_file;
	/* Path of the admin API's Unix socket, or "off". NULL: a socket in the folder of the
	 * table's file, unless the admin port is off. */
	const char *admin_socket;
	/* True if the admin API requires no token, so that every process of this machine can use
	 * it. */
	bool admin_open;
	const char *resp_password_file;
	/* File with the key that nginx workers send on Unix sockets of resp; NULL: no key. */
	const char *link_key_file;

	uint64_t drain_delay_ns; /* time from NOT_SERVING until the ports close */
	uint64_t drain_ns;       /* time from closing the ports until open connections are closed */
	uint64_t idle_ns;        /* maximum idle time of connections; 0: no maximum */
	uint64_t max_age_ns;     /* maximum age of connections; 0: no maximum */
	/* Time that a client has for a handshake, a request, or 4 KiB of a response. */
	uint64_t slow_ns;
	uint64_t max_connections; /* maximum number of connections on all ports except admin */
	/* Maximum number of connections of one client address; 0: a quarter of max_connections. */
	uint64_t max_per_address;

	/* Networks of proxies that are allowed to describe the requests of their clients at /check.
	 * Empty: this machine and private networks. */
	struct wr_text_list trust;

	/* Networks of clients that may give hits back and reset counters through RESP. "unix:"
	 * stands for all clients on Unix sockets. Root and the service's own user are always
	 * allowed on Unix sockets. */
	struct wr_text_list refunds;

	/* Group that may connect to Unix sockets of resp; 0: only the service's own group. */
	unsigned socket_group;

	/* True if the service runs in a gateway. The gateway restarts the service when rules or
	 * certificates change, because the service's user cannot read these files. */
	bool renewed;

	/* The user of the process. NULL: if root starts the service and a user `weir` exists, the
	 * process changes to `weir`. If not, the process keeps its user. */
	const char *user;

	bool shadow;           /* shadow mode: decide and count, but refuse nothing */
	bool dynamic_metadata; /* RLS responses have dynamic_metadata */
	/* True if RLS responses have response_headers_to_add. The next three fields are the names
	 * of these headers. */
	bool rls_headers;
	const char *limit_header, *remaining_header, *reset_header;
	/* Profile that selects more header fields for RLS responses; NULL or "none": no more
	 * fields. */
	const char *rls_profile;
	/* True if every RLS refusal has a body. Otherwise only refusals of rules with `response`
	 * have a body. */
	bool rls_bodies;
	int headers; /* enum weir_profile of the header fields in HTTP responses */
	uint64_t near_limit_percent;
	/* Path of the decision log, or "-" for standard output; NULL: no log. */
	const char *decision_log;
	uint64_t decision_log_refused; /* maximum number of refusals logged per second */
	/* Percentage of admitted requests that is logged, such as "1%"; NULL: no admitted request
	 * is logged. */
	const char *decision_log_share;
	const char
		*keys; /* form of keys in statistics and logs: text, hashed, hidden; NULL: text */
	/* Maximum number of rules with their own metric series at /metrics; 0: 5,000. */
	uint64_t metrics_rules;

	/* True if the caller logs the results of loading rules. The service then does not log
	 * them. */
	bool quiet;
	const char *log_level;  /* one of error, warn, info, debug */
	const char *log_format; /* one of text, json */
};

#endif
