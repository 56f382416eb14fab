/* How a service is to run: what flags, environment and file said, in one struct. Texts belong to
 * whoever filled it in and last as long as the service. */
#ifndef WR_SERVE_SETTINGS_H
#define WR_SERVE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text_list.h"

/* The central store. */
struct wr_redis_settings {
	const char *url;    /* NULL: there is none */
	const char *prefix; /* of its keys; NULL: "weir" */
	uint64_t timeout_ns;
	const char *password_file;   /* the password, instead of one in the URL */
	const char *ca, *cert, *key; /* TLS: whom to believe, and who we are */
	bool tls_elsewhere;        /* … which is for the queue's Redis too, and that speaks it */
	const char *key_secret;    /* file of the fleet's secret; NULL: agreed in Redis */
	uint64_t fleet_size;       /* nodes there are, as long as nobody has counted */
	uint64_t sync_ns;          /* eventual limits: how often nodes tell each other */
	const char *region;        /* NULL: there is one */
	struct wr_text_list peers; /* URLs of the other regions' stores, cut at commas */
};

/* Deferred requests: where they are kept, and where they are delivered to. */
struct wr_queue_settings {
	const char *url;           /* as queue/queue.h has them; NULL or "off": there is no queue */
	const char *password_file; /* of its Redis; NULL: in the URL, or none */
	const char *target; /* http://HOST[:PORT], https://…, unix:/path; NULL: not delivered */
	const char *target_ca; /* whom to believe there; NULL: whom the system does */
	const char *key_file;  /* to seal fields with credentials; NULL: none */
	bool assume_durable;   /* of a Redis that does not let itself be asked */
	uint64_t max_requests, max_bytes;
	uint64_t max_line_bytes, max_dead, max_dead_bytes; /* 0: a part of these */
	uint64_t connections;                              /* deliveries at once */
	uint64_t timeout_ns;                               /* of one delivery */
	uint64_t keep_ns; /* how long finished tickets are remembered */
};

struct wr_settings {
	const char *rules; /* file or directory */
	const char *table; /* NULL: "default" */
	const char *table_dir;
	uint64_t memory_bytes, log_bytes; /* 0: the library's defaults */
	uint64_t threads;                 /* 0: one per core */

	struct wr_redis_settings redis;
	struct wr_queue_settings queue;

	/* Addresses as wr_endpoint_parse reads them; the one word `off`, or none: not served. */
	struct wr_text_list grpc, http, resp, admin;

	const char *tls_cert, *tls_key;     /* for grpc and resp; NULL: plain text */
	const char *tls_client_ca;          /* clients have to show a certificate of these */
	struct wr_text_list tls_client_san; /* … for one of these names; empty: any */

	const char *admin_token_file; /* NULL: one token is made at start, unless … */
	/* Path of the admin API's own socket; NULL: beside the table, unless admin is off; "off".
	 */
	const char *admin_socket;
	bool admin_open; /* … everybody on this machine may */
	const char *resp_password_file;
	const char *link_key_file; /* of nginx's workers on Unix sockets of resp; NULL: none */

	uint64_t drain_delay_ns;  /* from NOT_SERVING to closing the ports */
	uint64_t drain_ns;        /* from there until open streams are cut */
	uint64_t idle_ns;         /* 0: idle connections stay */
	uint64_t max_age_ns;      /* 0: connections may grow old */
	uint64_t slow_ns;         /* for a handshake, a request, or 4 KiB of an answer */
	uint64_t max_connections; /* of all listeners but admin, which has places of its own */
	uint64_t max_per_address; /* … of one client address; 0: a quarter of them */

	/* Networks whose proxies may describe requests at /check; none: this machine and private
	 * networks. */
	struct wr_text_list trust;

	/* Networks whose clients may give hits back and reset counters by RESP; "unix:" are all on
	 * Unix sockets, where root and our own user always may. */
	struct wr_text_list refunds;

	unsigned socket_group; /* may come in at Unix sockets of resp, as our own may; 0: none */

	/* A gateway starts the service anew when rules or certificates change that its user cannot
	 * read. */
	bool renewed;

	const char *user; /* whose rights to take on; NULL: weir, if root starts it and it exists */

	bool shadow;           /* decide and count, but let everything pass */
	bool dynamic_metadata; /* RLS: dynamic_metadata in answers */
	bool rls_headers;      /* RLS: response_headers_to_add with the three names below */
	const char *limit_header, *remaining_header, *reset_header;
	const char *rls_profile; /* RLS: fields of this profile too; NULL, "none": not */
	bool rls_bodies; /* RLS: every refusal has a body, not only by a rule's `response` */
	int headers;     /* enum weir_profile: what HTTP answers carry */
	uint64_t near_limit_percent;
	const char *decision_log;       /* file, or "-"; NULL: none */
	uint64_t decision_log_refused;  /* a second, at most */
	const char *decision_log_share; /* of what was not refused: "1%"; NULL: nothing */
	const char *keys;       /* what may be shown of clients: text, hashed, hidden; NULL: text */
	uint64_t metrics_rules; /* that have series of their own at /metrics; 0: 5,000 */

	bool quiet;             /* somebody else tells how loading rules went */
	const char *log_level;  /* error, warn, info, debug */
	const char *log_format; /* text, json */
};

#endif
