/* Private to the deliverer. deliver.c takes requests from the queue. attempt.c asks the limiter,
 * and stores the outcome in the queue. send.c turns a request into a transfer, and a response into
 * an outcome. multi.c runs the transfers on the loop. */
#ifndef WR_SERVE_DELIVER_DELIVER_IMPL_H
#define WR_SERVE_DELIVER_DELIVER_IMPL_H

#include <curl/curl.h>

#include "base/list.h"
#include "serve/deliver/deliver.h"
#include "serve/deliver/absent.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"

#define WR_DELIVER_BYTES_MAX (64u << 20) /* approximate maximum memory of requests in slots */
#define WR_DELIVER_ANSWER_MAX (4u << 20) /* a transfer with a longer response body is aborted */

enum wr_delivery_stage {
	WR_DELIVERY_FREE,
	WR_DELIVERY_ASKING, /* the limiter decides */
	WR_DELIVERY_HELD,  /* the limiter refused the request, and is asked again within a second */
	WR_DELIVERY_READY, /* the limiter admitted the request, but no connection is free */
	WR_DELIVERY_SENDING,
	WR_DELIVERY_SETTLING, /* the queue stores the outcome */
};

#define WR_DELIVERY_MAGIC 0x64656c76u
#define WR_DELIVERER_MAGIC 0x64656c72u

/* A slot for one request that was taken from the queue. */
struct wr_delivery {
	uint32_t magic; /* WR_DELIVERY_MAGIC as long as the deliverer exists */
	struct wr_deliverer *deliverer;
	enum wr_delivery_stage stage;
	struct wr_queue_request *request;
	uint64_t bytes;            /* number of bytes of memory that the request uses */
	uint64_t taken_us;         /* when the request was taken from the queue, CLOCK_MONOTONIC */
	struct wr_pending pending; /* the limiter's decision; kept until the transfer has ended */
	/* In the stage HELD, this timer ends the stage. In the stage SETTLING, it retries to store
	 * the outcome. */
	uv_timer_t timer;
	struct wr_queue_job job;
	char reason[WR_QUEUE_REQUEST_REASON_MAX];
	struct wr_list link; /* links the slot in deliverer->free or deliverer->ready */

	CURL *easy;                /* the transfer, in the stage SENDING */
	struct curl_slist *fields; /* header fields for libcurl, in one block of memory */
	char error[CURL_ERROR_SIZE];
	uint64_t asked_us; /* wait that Retry-After in the response asks for; 0: no such field */
	size_t answered;   /* number of bytes of the response body received so far */
	bool unreachable;  /* the response has X-Weir-Unreachable */
	/* Reads the cost of the request from the body of the response (settle.c). NULL: no cost is
	 * in the body. */
	struct weir_reader *reader;
	bool reads; /* the first part of the body was seen, so `reader` is set if it is needed */
};

struct wr_deliverer {
	struct wr_serve_queue_loop *own;
	struct wr_deliver_target target;
	bool delivers;  /* a target is configured */
	bool ending;    /* no more requests are taken from the queue */
	bool stopped;   /* wr_deliver_stop() was called */
	uint32_t magic; /* WR_DELIVERER_MAGIC from wr_deliver_new() to wr_deliver_free() */

	struct wr_delivery *slots;
	struct wr_list free;  /* slots without a request */
	struct wr_list ready; /* slots in the stage READY, the oldest first */
	unsigned slot_count, used, held, ready_count, sending, connections;
	unsigned ahead_max;  /* maximum number of requests that are taken in advance */
	unsigned easy_count; /* number of handles in `easies` */
	uint64_t bytes;      /* number of bytes of memory that the requests in all slots use */
	uint64_t large;      /* estimated size of a request: the size of a large recent one */
	CURL **easies;       /* idle transfer handles, at most one per connection */

	struct wr_queue_job take;
	uint64_t asked_us;    /* when the job `take` was submitted */
	bool taking;          /* the job `take` is in progress */
	bool take_again;      /* true: the job `take` is submitted again when it is done */
	bool starved;         /* true: the job `take` is submitted when a slot becomes free */
	uint64_t deadline_us; /* when take_timer expires, CLOCK_MONOTONIC; UINT64_MAX: not set */
	uv_timer_t take_timer;

	struct wr_queue_job look, recount;
	bool looking, recounting, recount_again;
	bool swept; /* line lengths that earlier processes stored in the table were removed */
	uv_timer_t look_timer;

	struct wr_deliver_absent absent;
	unsigned down; /* number of consecutive failed trials; 0: the target is reachable */
	uint64_t down_since_us, rest_until_us;
	uint64_t random;

	CURLM *multi;
	uv_timer_t curl_timer;
	struct wr_list watches; /* poll handles of open connections */
};

/* When a request is released (returned to the queue), it is due again after this time at the
 * latest, because the rules can change meanwhile. */
#define WR_DELIVER_RELEASE_MOST_US 60000000u
/* After an error of the queue or a lack of memory, the failed step is tried again after this
 * time. */
#define WR_DELIVER_FAILED_WAIT_US 1000000u

/* ---- deliver.c ---- */

/* Submits the job that takes requests from the queue, if slots and memory are free. If this job is
 * in progress, it is submitted again when it is done. */
void wr_deliver_take(struct wr_deliverer *deliverer);

uint64_t wr_deliver_mono_us(const struct wr_deliverer *deliverer);
uint64_t wr_deliver_random(struct wr_deliverer *deliverer);

/* ---- attempt.c ---- */

/* Removes a slot from the list of free slots and returns it. The caller makes sure that a slot is
 * free. */
struct wr_delivery *wr_deliver_take_slot(struct wr_deliverer *deliverer);

/* Asks the limiter about the request in the slot. */
void wr_deliver_ask(struct wr_delivery *delivery);

/* Returns the request to the queue without counting an attempt. The request is due again after
 * `wait_us`. */
void wr_deliver_release(struct wr_delivery *delivery, uint64_t wait_us);

/* Calls wr_deliver_release() for all requests in the stage READY. */
void wr_deliver_release_ready(struct wr_deliverer *deliverer, uint64_t wait_us);

/* Returns whether the target is unreachable and the next trial is not due yet. */
bool wr_deliver_is_resting(const struct wr_deliverer *deliverer);

/* Called when the transfer has ended, with or without success. If the target was unreachable,
 * returns the request to the queue. Otherwise stores the outcome in the queue. */
void wr_deliver_sent(struct wr_delivery *delivery, CURLcode result);

/* ---- send.c ---- */

/* Prepares the transfer of a request. Returns 0, WEIR_EMEMORY, or WEIR_EACCESS if no key decrypts a
 * header field. */
int wr_deliver_prepare(struct wr_delivery *delivery);

/* Computes the outcome of the transfer. If the target was unreachable, returns false and sets no
 * outcome, because the delivery does not count as an attempt. Otherwise fills in job.settle with
 * the outcome for the queue, and returns true. */
bool wr_deliver_judge(struct wr_delivery *delivery, CURLcode result, uint64_t now_us,
		      uint64_t random);

/* Frees the memory of the transfer and puts its handle back into the list of idle handles. */
void wr_deliver_unprepare(struct wr_delivery *delivery);

/* ---- settle.c ---- */

/* Reads costs from a part of the response's body. */
void wr_deliver_read_body(struct wr_delivery *delivery, const char *bytes, size_t len);

/* Settles the limits by the response. Called after the transfer, before wr_deliver_unprepare(). */
void wr_deliver_settle(struct wr_delivery *delivery);

/* Frees the reader of the body. */
void wr_deliver_end_reading(struct wr_delivery *delivery);

/* ---- multi.c ---- */

int wr_deliver_multi_init(struct wr_deliverer *deliverer);
/* Frees libcurl's multi handle and closes its timer. Called when no transfer is in progress. */
void wr_deliver_multi_stop(struct wr_deliverer *deliverer);
int wr_deliver_multi_add(struct wr_delivery *delivery);
void wr_deliver_multi_remove(struct wr_delivery *delivery);

/* Functions that libcurl calls to open and close its sockets. `context` is the deliverer. */
curl_socket_t wr_deliver_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to);
int wr_deliver_close_socket(void *context, curl_socket_t socket);

#endif
