/* The engine of the HTTP client. One thread per client, the engine's thread, makes all transfers with
 * libcurl's multi interface. It alone uses hosts, jobs, pace, breakers and the cache, so that these
 * need no lock. The lock of the client protects only the lists over which other threads hand in
 * requests and take responses.
 *
 * A request is a job. The states of a job:
 *
 *     queued    waits for one of the slots of its host, opts.per_host
 *     paced     has a slot, and waits until its host's pace and breaker let it start
 *     running   libcurl makes the transfer; if the body is held, it is cut at a time
 *     paused    has no slot, and waits until its next attempt
 *
 * A job takes a slot before it reserves a time of the pace. So only a few jobs have reserved times
 * when a response changes the pace. */
#ifndef WR_CLIENT_ENGINE_H
#define WR_CLIENT_ENGINE_H

#include <curl/curl.h>
#include <pthread.h>

#include <weir/client.h>
#include <weir/weir.h>

#include "base/heap.h"
#include "base/list.h"
#include "client/breaker.h"
#include "client/cache.h"
#include "client/pace.h"
#include "client/retry.h"

#define WR_FETCH_MAGIC 0x77666574u
#define WR_FETCH_URL_MAX ((size_t)64 << 10)
#define WR_FETCH_HELD_MAX ((size_t)1 << 20) /* bytes kept of the body of a refusal */
#define WR_FETCH_HELD_NS 5000000000ull      /* for how long such a body is read */
#define WR_FETCH_STARTED_MAX 65536u         /* requests of weir_client_start at once */
#define WR_FETCH_HOST_TEXT 300u             /* "https://" and a name of 255 bytes and a port */

/* ---- hosts ---- */

struct wr_fetch_host {
	struct wr_fetch_host *next;    /* with the same bucket */
	struct wr_list link;           /* in `hosts` of the client, the latest used first */
	char key[WR_FETCH_HOST_TEXT];  /* "https://api.example.com:443" */
	char text[WR_FETCH_HOST_TEXT]; /* "api.example.com", or "api.example.com:8080" */
	struct wr_pace pace;
	struct wr_breaker breaker;
	struct wr_retry_budget budget;
	struct wr_list ready;      /* queued jobs */
	struct wr_list ready_link; /* in `ready_hosts` of the client, if `ready` is not empty */
	bool known;                /* the host has answered, or an attempt has failed */
	uint32_t active;           /* jobs with a slot */
	uint32_t jobs;             /* jobs that point to this host */
};

/* ---- responses ---- */

/* The response that the caller gets, with its memory. */
struct wr_fetch_response {
	struct weir_response shown; /* must be first */
	struct wr_list link;        /* in `done` of the client */
	struct wr_buf fields;       /* a block of fields */
	struct wr_buf body;
	struct weir_field *list;
	struct weir_error error;
	char *url;
};

/* ---- jobs ---- */

enum wr_fetch_state {
	WR_FETCH_QUEUED,
	WR_FETCH_PACED,
	WR_FETCH_RUNNING,
	WR_FETCH_PAUSED,
};

/* A thread that waits for the response of a job. */
struct wr_fetch_waiter {
	pthread_cond_t cond;
	struct wr_fetch_response *response; /* NULL: not complete */
};

struct wr_fetch_job {
	struct weir_client *client;
	struct wr_list link;       /* in `submitted` or `jobs` of the client */
	struct wr_list ready_link; /* in `ready` of its host, or in `startable` of the client */
	struct wr_heap_node due_node, deadline_node;
	struct wr_fetch_waiter *waiter; /* NULL: the request of weir_client_start */
	enum wr_fetch_state state;

	/* The request. Redirects change the method, the URL, the fields and the body. */
	uint32_t flags;
	char *method, *url;
	struct wr_buf request; /* the caller's fields as a block */
	char *body;
	size_t body_len;
	int (*on_body)(void *context, const struct weir_response *response, uint64_t offset,
		       const void *bytes, size_t len);
	void *context;
	char key[37]; /* Idempotency-Key that the client adds; "" if none */
	bool has_key; /* the request has an Idempotency-Key of the caller */

	uint64_t due_ns, deadline_ns; /* due_ns: the end of the wait, or of reading a held body */
	enum weir_wait_reason reason; /* why the job waits */
	struct wr_fetch_host *host;   /* NULL: no host yet */
	bool has_slot;
	bool responded;  /* the latest attempt has got a complete response */
	bool passed;     /* the breaker has passed an attempt whose result it does not know yet */
	uint32_t number; /* of the latest attempt to this URL */

	/* The attempt that is running. */
	CURL *easy;
	struct curl_slist *lines;
	char curl_error[CURL_ERROR_SIZE];
	int aborted;           /* the error with which a callback ended the transfer; 0: none */
	bool sent;             /* the request was sent, or a part of it */
	bool kept;             /* it was sent on a connection of an earlier request */
	bool stale;            /* that connection ended without a response */
	bool in_body;          /* the body has begun: further fields are trailers */
	bool holds;            /* the body is kept until it is known whether it is final */
	bool decodes;          /* libcurl decompresses the body */
	bool wrong_again;      /* another attempt would get the same response */
	bool cut;              /* the rest of a held body is not read */
	const char *wrong;     /* the fault of the response, as text; NULL: no fault was found */
	uint64_t length;       /* of the body; WR_FETCH_LENGTH_NONE: unknown */
	uint64_t sent_wall_ns; /* when the attempt began */
	uint64_t head_ns;      /* when the header of the response was complete */

	/* The cache. */
	struct wr_fetch_entry entry; /* the stored response that the attempt asks to confirm */
	bool has_entry, uses_cache;
	struct wr_fetch_writer *writer;

	/* The body that was passed to on_body, and its validator. */
	uint64_t delivered;
	char *validator;
	/* The part of the body that the running attempt continues with: the position behind its last
	 * byte, and the length of the body. 0: the response is no such part; the length is unknown. */
	uint64_t part_end, part_total;
	uint64_t total; /* length of the body that was passed to on_body in part; 0: unknown */

	struct wr_fetch_response *response;
};

/* ---- the client ---- */

#define WR_FETCH_BUCKETS 1024u
#define WR_FETCH_HOSTS_MAX 4096u

struct weir_client {
	uint32_t magic;
	struct weir_client_opts opts; /* with defaults; the texts are copies */
	char *texts[5];               /* the copies */
	struct wr_fetch_cache *cache; /* NULL: none */
	struct weir_table *table;     /* NULL: none */
	_Atomic uint64_t random;      /* state of the generator of random numbers */

	/* Protected by the lock. */
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	struct wr_list submitted; /* jobs for the engine */
	struct wr_list done;      /* responses of weir_client_start */
	uint32_t started;         /* requests of weir_client_start whose response is not returned */
	bool has_thread, stops, cancels;
	struct weir_client_info info;

	/* Used by the engine's thread only. */
	pthread_t thread;
	CURLM *multi;
	struct wr_list jobs;
	struct wr_heap due, deadlines;
	struct wr_fetch_host *buckets[WR_FETCH_BUCKETS];
	struct wr_list hosts, ready_hosts;
	struct wr_list
		startable; /* paced jobs whose time has come, while all transfers are in use */
	uint32_t host_count, running;
};

/* engine.c */
void *wr_fetch_engine_run(void *context);
uint64_t wr_fetch_random(struct weir_client *client);
/* Begins with the URL of the job: at first, and after a redirect. Answers it from the cache, or
 * queues it. The job may have ended afterwards. */
void wr_fetch_job_enter(struct wr_fetch_job *job);
/* Puts the job into the queue of its host. `again`: before jobs that have had no attempt. */
void wr_fetch_job_queue(struct wr_fetch_job *job, bool again);
/* Lets the job wait until at_ns without a slot. */
void wr_fetch_job_pause(struct wr_fetch_job *job, uint64_t at_ns, enum weir_wait_reason reason);
/* Gives the slot of the job back. */
void wr_fetch_job_leave(struct wr_fetch_job *job);
/* Hands the response to the caller and frees the job. `code` 0: there is a response. */
void wr_fetch_job_end(struct wr_fetch_job *job, int code, const char *text);
/* Adds to a number of the client's info. */
void wr_fetch_count(struct weir_client *client, uint64_t *number, uint64_t more);

/* events.c */
void wr_fetch_event(const struct wr_fetch_job *job, enum weir_client_event_kind kind,
		    enum weir_wait_reason reason, uint64_t wait_ns, const char *text);
const char *wr_fetch_reason_text(enum weir_wait_reason reason);

/* job.c: makes a job of a request. Returns 0 or an error. */
int wr_fetch_job_make(struct weir_client *client, const struct weir_request *given,
		      struct wr_fetch_job **made, struct weir_error *error);
void wr_fetch_job_free(struct wr_fetch_job *job);
/* Returns whether the request may be answered by the cache. */
bool wr_fetch_job_can_cache(const struct wr_fetch_job *job);
/* Returns whether the text can be a URL of the client, and writes the key of its host, such as
 * "https://api.example.com:443". */
int wr_fetch_url_read(const char *url, char key[WR_FETCH_HOST_TEXT], char text[WR_FETCH_HOST_TEXT],
		      struct weir_error *error);
/* Returns the URL as it is sent: without a fragment, and with a path. `reference`: a URL relative to
 * `base`, or NULL for the base itself. Returns NULL if the URL is not valid or memory is lacking. The
 * caller frees the URL. */
char *wr_fetch_url_resolve(const char *base, const char *reference);

/* host.c: finds or makes the host of the job's URL. Returns 0 or an error. */
int wr_fetch_host_enter(struct wr_fetch_job *job, struct weir_error *error);
void wr_fetch_host_leave(struct wr_fetch_job *job);
void wr_fetch_hosts_free(struct weir_client *client);
/* Returns when the attempt may start, and why not before. */
uint64_t wr_fetch_host_reserve(struct wr_fetch_job *job, uint64_t now_ns,
			       enum weir_wait_reason *reason);
/* Returns now_ns if the attempt may start now; the breaker has passed it then. */
uint64_t wr_fetch_host_confirm(struct wr_fetch_job *job, uint64_t now_ns,
			       enum weir_wait_reason *reason);
void wr_fetch_host_learn(struct wr_fetch_job *job, const struct weir_ratelimit *told,
			 uint64_t now_ns);

/* transfer.c: begins an attempt with libcurl. Returns 0 or an error. */
int wr_fetch_transfer_begin(struct wr_fetch_job *job, uint64_t now_ns);
void wr_fetch_transfer_end(struct wr_fetch_job *job);
/* Decides what happens to the body, once the header of the response is complete. Returns 0 or an
 * error. */
int wr_fetch_body_begin(struct wr_fetch_job *job);
/* Passes a piece of the body to the caller and to the cache. Returns 0 or an error. */
int wr_fetch_body_pass(struct wr_fetch_job *job, const void *bytes, size_t len);

/* part.c */
/* Keeps the validator and the length of the body that begins, so that a later attempt can ask for the
 * rest. */
void wr_fetch_part_keep(struct wr_fetch_job *job);
/* Checks a 206. `asked`: the client has asked for the rest of a body. Returns 0, or WEIR_ETRANSFER with
 * the reason in job->wrong; if the part does not continue the body, the next attempt begins it again. */
int wr_fetch_part_begin(struct wr_fetch_job *job, bool asked);
/* Returns whether the response, if it is a part of a body, has all bytes up to the end of the body. A
 * server may send a smaller part than was asked for. */
bool wr_fetch_part_complete(const struct wr_fetch_job *job);
/* Ends a part with more bytes than its Content-Range says. Returns WEIR_ETRANSFER; the next attempt
 * begins the body again. */
int wr_fetch_part_overrun(struct wr_fetch_job *job);
/* Checks a 416 to a request for the rest of a body. Returns 0, or WEIR_ETRANSFER if the body that was
 * begun is longer or of another version; the next attempt begins it again then. */
int wr_fetch_part_missing(struct wr_fetch_job *job);
/* Reads the length of the body from the header. Returns 0, or WEIR_ETRANSFER if its Content-Length is
 * not valid; then there is no other attempt. */
int wr_fetch_part_length(struct wr_fetch_job *job);
/* Checks a 304. Returns 0, or WEIR_ETRANSFER if the request had no condition. */
int wr_fetch_part_unchanged(struct wr_fetch_job *job);

/* outcome.c */
/* Reads what the response says about limits. Called when its header is complete. */
void wr_fetch_told(const struct wr_fetch_job *job, struct weir_ratelimit *told);
/* Decides what follows the attempt that has ended with `result`. */
void wr_fetch_attempt_ended(struct wr_fetch_job *job, CURLcode result);

/* redirect.c: if the response is a redirect that is followed, changes the request and returns 1.
 * Returns 0 if the response is final, or an error. */
int wr_fetch_redirect(struct wr_fetch_job *job, struct weir_error *error);
bool wr_fetch_is_redirect(const struct wr_fetch_job *job, unsigned status);

/* cached.c */
/* Answers the job from the cache and returns true, or finds the stored response that the server is
 * asked to confirm. */
bool wr_fetch_cached_answer(struct wr_fetch_job *job);
/* Answers the job with the stored response after a 304. If the 304 is about another version, it
 * removes the stored response and queues the job again. */
void wr_fetch_cached_confirm(struct wr_fetch_job *job);
/* Begins to store the response, if it can be stored. Called when its header is complete. */
void wr_fetch_cached_begin(struct wr_fetch_job *job);
/* Drops what an attempt has stored so far. */
void wr_fetch_cached_drop(struct wr_fetch_job *job);
/* Ends what the cache does for a URL. `complete`: the response is complete. */
void wr_fetch_cached_end(struct wr_fetch_job *job, bool complete);

/* response.c */
struct wr_fetch_response *wr_fetch_response_make(const struct weir_client *client);
/* Removes what an earlier attempt has left. */
void wr_fetch_response_clear(struct wr_fetch_response *response);
/* Removes the fields that describe the compressed form of a decompressed body. Returns 0 or
 * WEIR_EMEMORY. */
int wr_fetch_response_decoded(struct wr_fetch_response *response);
/* Fills in the list of fields from the block. Returns 0 or WEIR_EMEMORY. */
int wr_fetch_response_list(struct wr_fetch_response *response);

#endif
