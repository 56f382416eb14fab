/* libweir-client: an HTTP client that respects rate limits.
 *
 * The client reads what a server says about its limits, sends slowly enough to stay below them,
 * waits as long as the server tells it to, retries what can be retried, and keeps responses in a
 * cache on disk. libcurl makes the transfers.
 *
 *   struct weir_client_opts opts = {.size = sizeof opts, .user_agent = "demo/1.0"};
 *   struct weir_request request = {.size = sizeof request, .url = "https://api.example.com/v1"};
 *   struct weir_response *response;
 *   struct weir_client *client;
 *   struct weir_error error;
 *
 *   if (weir_client_open(&opts, &client, &error) < 0)
 *           die(error.text);                                   // once, at the start
 *   if (weir_client_send(client, &request, &response, &error) < 0)
 *           log_error(error.text);                             // no response
 *   else if (response->status == 429)
 *           give_up(response);                                 // refused, after all attempts
 *   else
 *           use(response->body, response->body_len);
 *   weir_response_free(response);
 *   weir_client_close(client);
 *
 * GUARANTEES
 *   Waiting  The client sends no request to a host sooner than the host told it to (Retry-After,
 *            retry-after-ms, RateLimit and X-RateLimit fields), and no faster than the tightest
 *            policy and the own rate of the caller allow. If the wait would pass the deadline, the
 *            client does not wait: it returns the refusal, or WEIR_EDEADLINE without a response.
 *            The first request to a host is sent alone, so that its response tells the limits.
 *   Retries  The client retries a refusal, a response with the status 502, 503 or 504, and a failed
 *            connection, if the method is idempotent, the request has an Idempotency-Key, or no
 *            byte of it was sent. The number of attempts is bounded, and so is the part of the
 *            requests to a host that are retries: each request adds a tenth of a retry to the budget
 *            of the host, which has ten retries at the start. A retry at a time that the server told
 *            needs no budget. Nor does a retry after a kept connection has ended. A request that is
 *            not retried never reaches the server twice: it gets a new connection, because a kept
 *            one may end without a response.
 *   Hosts    A host is a scheme, a name and a port. Pace, circuit breaker and the bound on
 *            concurrent transfers are per host. A redirect to another host waits for the pace of
 *            that host, and for the wait that the redirect itself tells. The client knows 4096 hosts.
 *            It forgets the one whose latest request is longest ago, and one that has told a wait last.
 *   Cache    A stored response is used only for a request with the same URL and the same header
 *            fields, including Authorization and Cookie. So two users never share a response. A
 *            damaged file of the cache counts as missing. Several processes can use one folder, and
 *            may be killed at any instruction.
 *   Input    A URL, method or field with a control character is refused, so that text from
 *            elsewhere cannot add a header field. A field of a response that has one is left
 *            out. Only http and https are used, also after a redirect. A redirect to another host
 *            takes no Authorization, Cookie or Proxy-Authorization with it, and none leads from
 *            https to http.
 *   Memory   The body of a response in memory is at most opts.body_bytes long, counted after
 *            decompression. The header of a response has at most 256 KiB, and each of its
 *            lines at most 100 KiB.
 *   Threads  Any number of threads may use one client at once. They share pace, breakers, cache and
 *            connections. The client has one thread of its own, which starts with the first request
 *            and blocks all signals. Callbacks run on this thread and must not call the client.
 *   Fork     A child process must not use a client that it inherited, and must not close it.
 *
 * A refusal is a response, not an error. Every call that returns int returns 0 or a negative code of
 * weir/error.h. `error` may be NULL; otherwise a call that fails writes a sentence to it. */
#ifndef WEIR_CLIENT_H
#define WEIR_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_client;

/* Reasons why a request waits. */
enum weir_wait_reason {
	WEIR_WAIT_NONE = 0,
	WEIR_WAIT_TOLD,    /* the server told the client to wait, as with Retry-After */
	WEIR_WAIT_PACE,    /* the pace that the server's limits allow */
	WEIR_WAIT_RATE,    /* the own rate of the caller, opts.rate_count */
	WEIR_WAIT_BACKOFF, /* the random pause before a retry */
	WEIR_WAIT_BREAKER, /* the circuit breaker of the host is open */
};

enum weir_client_event_kind {
	WEIR_EVENT_WAIT = 1, /* the request waits for wait_ns, because of `reason` */
	WEIR_EVENT_ATTEMPT,  /* the attempt with the number `attempt` begins */
	WEIR_EVENT_REFUSED,  /* the attempt got a 429 or 503, or a 403 because of a limit */
	WEIR_EVENT_FAILED,   /* the attempt got no complete response; the text says why */
};

/* What a client does for a request. The strings are valid during the callback only. */
struct weir_client_event {
	uint32_t kind;   /* enum weir_client_event_kind */
	uint32_t reason; /* enum weir_wait_reason */
	uint32_t attempt, status;
	uint64_t wait_ns;
	const char *host; /* "api.example.com", or "api.example.com:8080" */
	const char *text; /* the reason or the failure as words: "told by Retry-After" */
	void *context;    /* the context of the request */
};

enum weir_client_flags {
	/* A request with another method than GET and HEAD is retried too, with an Idempotency-Key. */
	WEIR_CLIENT_RETRY_ALL = 1,
	/* Proxies in the environment (http_proxy, https_proxy, all_proxy) are ignored. */
	WEIR_CLIENT_NO_PROXY = 2,
};

/* A caller compiled against an older header passes a smaller `size`. Options that are not within the
 * first `size` bytes, and options that are 0 or NULL, have their defaults. */
struct weir_client_opts {
	uint32_t size;          /* sizeof(struct weir_client_opts) */
	uint32_t flags;         /* enum weir_client_flags */
	const char *user_agent; /* default: "weir/VERSION" */
	/* Folder of the cache, which is made with the mode 0700. NULL: no cache. */
	const char *cache_dir;
	uint64_t cache_bytes; /* maximum size of the cache; default: 256 MiB */
	/* Name of the shared table in which processes of this machine share the pace. NULL: the pace
	 * is this client's own. */
	const char *table;
	const char *table_dir; /* folder of the table; NULL: as in weir_open */
	uint32_t attempts;     /* maximum number of attempts of a request, 1 to 100; default: 5 */
	uint32_t per_host;     /* maximum number of transfers per host at once; default: 8 */
	uint32_t transfers;    /* maximum number of transfers at once; default: 64 */
	uint32_t redirects;    /* maximum number of redirects of a request; default: 10 */
	uint64_t connect_ns;   /* timeout of connecting, with TLS; default: 10 s */
	/* An attempt fails if no byte arrives for this time, rounded up to seconds; default: 1 minute */
	uint64_t attempt_ns;
	uint64_t deadline_ns; /* maximum duration of a request with all waits; default: 1 hour */
	/* The own rate of the caller: at most rate_count requests per rate_ns to each host. 0: only
	 * the pace that a server's limits allow. */
	uint32_t rate_count;
	uint32_t reserved; /* must be 0 */
	uint64_t rate_ns;
	uint64_t body_bytes; /* maximum length of a body in memory; default: 64 MiB */
	const char *ca_file; /* trusted certificates in PEM form; NULL: those of the system */
	uint64_t seed;       /* seed of random numbers, for tests; 0: from the system */
	/* Called for each event, on the client's thread. NULL: not called. */
	void (*on_event)(void *context, const struct weir_client_event *event);
	void *context;
};

/* A header field. The texts end with a zero. */
struct weir_field {
	const char *name, *value;
};

struct weir_response;

enum weir_request_flags {
	WEIR_REQUEST_NO_CACHE = 1,     /* the cache is neither asked nor changed */
	WEIR_REQUEST_NO_REDIRECTS = 2, /* a redirect is returned as a response */
	/* A retry after a failure in the middle of the body of a GET asks for the rest of the body
	 * with Range and If-Range, if the response has a validator (weir_response_validator). Needs
	 * on_body. The body is not compressed. Without effect if the request has a Range field. */
	WEIR_REQUEST_CONTINUE = 4,
	/* The request may be retried whatever its method is. If it has no Idempotency-Key, the
	 * client adds a random one. */
	WEIR_REQUEST_RETRY = 8,
};

/* A request. All texts and the body are copied by weir_client_send and weir_client_start. */
struct weir_request {
	uint32_t size;      /* sizeof(struct weir_request) */
	uint32_t flags;     /* enum weir_request_flags */
	const char *method; /* default: GET */
	const char *url;    /* http:// or https://, at most 64 KiB, without a user */
	const struct weir_field *fields;
	size_t field_count; /* at most 256 fields with 64 KiB together */
	const void *body;
	size_t body_len; /* at most opts.body_bytes */
	/* Receives the body instead of response->body. Called on the client's thread with the pieces
	 * in order; `offset` is the position of the piece in the body of this response. `offset` 0
	 * begins the body: a retry after a failure may begin it again. `response` has the status and
	 * the fields. For a response that is retried or redirected the function is not called. An empty
	 * body is no call. The body of a refusal, and of an error that can be retried, is cut after
	 * 1 MiB, or 5 seconds after its header. Returns 0, or another number to end the request with
	 * WEIR_ECALLBACK. */
	int (*on_body)(void *context, const struct weir_response *response, uint64_t offset,
		       const void *bytes, size_t len);
	void *context;        /* for on_body, events and response->context */
	uint64_t deadline_ns; /* replaces opts.deadline_ns; 0: no replacement */
	/* With WEIR_REQUEST_CONTINUE: the caller already has the first `offset` bytes of the body, of a
	 * response for which weir_response_validator returned `validator`. If the server still has that
	 * body, the response has the status 206 and on_body begins at `offset`, otherwise at 0. If
	 * the body has no more bytes, the response has the status 416. */
	uint64_t offset;
	const char *validator;
};

enum weir_cache_use {
	WEIR_CACHE_UNUSED = 0,      /* the response is from the server */
	WEIR_CACHE_FRESH = 1,       /* the response is from the cache; no request was sent */
	WEIR_CACHE_REVALIDATED = 2, /* the server confirmed the stored response (304) */
};

/* A response. The caller frees it with weir_response_free. */
struct weir_response {
	uint32_t size;   /* bytes of the struct, set by the library */
	uint32_t status; /* status of the last response; 0: there is none */
	int code;        /* 0, or the error that weir_client_send returns */
	uint32_t cache;  /* enum weir_cache_use */
	uint32_t attempts, refusals, redirects;
	uint32_t given_up; /* enum weir_wait_reason: the wait that would have passed the deadline */
	uint64_t waited_ns;
	const char *url; /* the URL of the last request, after redirects */
	const struct weir_field *fields;
	size_t field_count;
	const char *body; /* ends with a zero, which body_len does not count; NULL with on_body */
	size_t body_len;  /* with on_body, the number of bytes that were passed to it */
	void *context;
	const char *text; /* the error as a sentence, or "" */
};

/* Opens a client. Returns 0 or
 *   WEIR_EINVAL    an option is not usable, a flag is unknown, or `reserved` is not 0
 *   WEIR_EACCESS   the folder of the cache belongs to another user, or other users can write to it
 *   WEIR_ESYS      the folder of the cache or the table cannot be opened
 *   WEIR_EMEMORY */
WEIR_API int weir_client_open(const struct weir_client_opts *opts, struct weir_client **client,
			      struct weir_error *error);

/* Ends all requests with WEIR_ECANCELED and frees the client. No thread may use the client any more.
 * Responses that the caller holds stay valid. */
WEIR_API void weir_client_close(struct weir_client *client);

/* Sends a request and waits until its response is complete. *response is always set, unless there is
 * no memory: after an error it has the attempts and waits, and *response may be NULL only with
 * WEIR_EMEMORY or WEIR_EINVAL. Returns 0 if there is a response, whatever its status is, or
 *   WEIR_EINVAL     the method, a field, a flag or a size is not usable
 *   WEIR_EURL       the URL is malformed or has another scheme than http and https
 *   WEIR_ERESOLVE   the host's name cannot be resolved
 *   WEIR_ECONNECT   no connection
 *   WEIR_ETLS       the TLS connection failed
 *   WEIR_ECERTIFICATE  the certificate is not trusted, or ca_file has no valid certificates
 *   WEIR_ETIMEOUT   the last attempt took too long
 *   WEIR_ETRANSFER  the connection broke, or the response is not valid HTTP
 *   WEIR_EDEADLINE  the deadline ended, or the next wait would have passed it
 *   WEIR_EBREAKER   the circuit breaker of the host is open until after the deadline
 *   WEIR_ETOOLARGE  the body or the header of the response is too large
 *   WEIR_EREDIRECT  too many redirects, or one to a URL that cannot be followed
 *   WEIR_ECALLBACK  on_body returned a number other than 0
 *   WEIR_ECANCELED  weir_client_cancel or weir_client_close ended the request */
WEIR_API int weir_client_send(struct weir_client *client, const struct weir_request *request,
			      struct weir_response **response, struct weir_error *error);

/* Starts a request and returns. weir_client_next returns its response. At most 65,536 requests can be
 * started and not yet returned; more are WEIR_EMANY. Returns 0, WEIR_EINVAL, WEIR_EURL, WEIR_EMANY or
 * WEIR_EMEMORY. */
WEIR_API int weir_client_start(struct weir_client *client, const struct weir_request *request,
			       struct weir_error *error);

/* Waits for the next response of a request of weir_client_start, in the order in which responses
 * complete. Returns NULL after timeout_ns, or at once if no request is under way. response->code is
 * the error of the request. */
WEIR_API struct weir_response *weir_client_next(struct weir_client *client, uint64_t timeout_ns);

/* Ends all requests that are under way with WEIR_ECANCELED. Safe in any thread, but not in a signal
 * handler. */
WEIR_API void weir_client_cancel(struct weir_client *client);

/* Returns the value of a header field of the response, or NULL. If several fields have the name,
 * returns the first one. The case of ASCII letters does not matter. */
WEIR_API const char *weir_response_header(const struct weir_response *response, const char *name);

/* Returns the value with which a later request can continue the body of this response: its strong ETag,
 * or, without an ETag, its Last-Modified if that is at least a second before its Date. Returns NULL if
 * it has neither: then the body could have changed without a trace. */
WEIR_API const char *weir_response_validator(const struct weir_response *response);

/* Frees a response. `response` may be NULL. */
WEIR_API void weir_response_free(struct weir_response *response);

/* What a client has done since it was opened. */
struct weir_client_info {
	uint32_t size; /* sizeof(struct weir_client_info), set by the caller */
	uint32_t hosts;
	uint64_t requests;    /* requests that were completed */
	uint64_t attempts;    /* requests that were sent to servers, with retries and redirects */
	uint64_t retries;     /* attempts after the first one of a request */
	uint64_t refusals;    /* responses with 429 or 503, or 403 because of a limit */
	uint64_t failures;    /* attempts without a complete response */
	uint64_t waits;       /* pauses before attempts */
	uint64_t waited_ns;   /* sum of the pauses of all requests */
	uint64_t cache_hits;  /* responses from the cache, without a request */
	uint64_t revalidated; /* responses from the cache that the server confirmed */
	uint64_t body_bytes;  /* bytes of bodies, from servers */
};

/* Fills in the fields within the first info->size bytes. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_client_info(struct weir_client *client, struct weir_client_info *info);

#ifdef __cplusplus
}
#endif
#endif
