/* The inside of the deliverer: deliver.c takes requests from the queue, attempt.c asks the limiter and
 * settles, send.c turns a request into a transfer and a response into an outcome, multi.c runs the
 * transfers on the loop. */
#ifndef WR_SERVE_DELIVER_DELIVER_IMPL_H
#define WR_SERVE_DELIVER_DELIVER_IMPL_H

#include <curl/curl.h>

#include "serve/deliver/deliver.h"
#include "serve/deliver/absent.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"

#define WR_DELIVER_BYTES_MAX (64u << 20) /* about so much memory for requests taken */
#define WR_DELIVER_ANSWER_MAX (4u << 20) /* of a response body, which is discarded */

enum wr_delivery_stage {
	WR_DELIVERY_FREE,
	WR_DELIVERY_ASKING, /* the limiter decides */
	WR_DELIVERY_HELD,   /* the limiter refused for less than a second */
	WR_DELIVERY_READY,  /* admitted; no connection is free */
	WR_DELIVERY_SENDING,
	WR_DELIVERY_SETTLING, /* the queue stores the outcome */
};

/* A slot for a request that was taken from the queue. */
struct wr_delivery {
	struct wr_deliverer *deliverer;
	enum wr_delivery_stage stage;
	struct wr_deferred *request;
	uint64_t bytes;            /* memory of the request */
	uint64_t taken_us;         /* CLOCK_MONOTONIC when it was taken */
	struct wr_pending pending; /* open until the API server has received the request */
	uv_timer_t timer;          /* ends HELD, or repeats a failed settling */
	struct wr_queue_job job;
	char reason[WR_DEFERRED_REASON_MAX];
	struct wr_delivery *next; /* in the list of free or of ready slots */

	CURL *easy;                /* while SENDING */
	struct curl_slist *fields; /* one block of memory */
	char error[CURL_ERROR_SIZE];
	uint64_t asked_us; /* Retry-After */
	size_t answered;   /* bytes of the response body */
	bool unreachable;  /* X-Weir-Unreachable */
};

struct wr_deliverer {
	struct wr_queue_loop *own;
	struct wr_deliver_target target;
	bool delivers; /* a target is configured */
	bool ending, stopped;

	struct wr_delivery *slots, *free;
	struct wr_delivery *ready, **ready_last;
	unsigned slot_count, used, held, ready_count, sending, connections;
	unsigned ahead_max; /* requests taken in advance of a free connection */
	uint64_t bytes;     /* memory of all requests taken */
	uint64_t large;     /* size of a large recent request */
	CURL **easies;      /* idle transfer handles, at most one per connection */
	unsigned easy_count;

	struct wr_queue_job take;
	bool taking;          /* `take` is in progress */
	uint64_t asked_us;    /* since when */
	bool take_again;      /* take again when it is done */
	bool starved;         /* no slot or memory was free for another take */
	uint64_t deadline_us; /* CLOCK_MONOTONIC of the next due request; UINT64_MAX: none */
	uv_timer_t take_timer;

	struct wr_queue_job look, recount;
	bool looking, recounting, recount_again;
	bool swept; /* the table's line lengths of earlier processes have been removed */
	uv_timer_t look_timer;

	struct wr_deliver_absent absent;
	unsigned down; /* consecutive attempts that did not reach the target */
	uint64_t down_since_us, rest_until_us;
	uint64_t random;

	CURLM *multi;
	uv_timer_t curl_timer;
	struct watch *watches; /* poll handles of open connections */
};

/* Longest release: the rules may change, so the limiter is asked again after this time. */
#define WR_DELIVER_RELEASE_MOST_US 60000000u
#define WR_DELIVER_FAILED_WAIT_US                                                                  \
	1000000u /* retry after an error of the queue, or lack of memory */

/* ---- deliver.c ---- */

/* Takes more requests if there is room, now or when the current take is done. */
void wr_deliver_take(struct wr_deliverer *deliverer);

uint64_t wr_deliver_mono_us(const struct wr_deliverer *deliverer);
uint64_t wr_deliver_random(struct wr_deliverer *deliverer);

/* ---- attempt.c ---- */

/* Takes a free slot. The caller makes sure that there is one. */
struct wr_delivery *wr_deliver_take_slot(struct wr_deliverer *deliverer);

/* Asks the limiter about the request in the slot. */
void wr_deliver_ask(struct wr_delivery *delivery);

/* Returns the request to the queue without an attempt; it is due again after `wait_us`. */
void wr_deliver_release(struct wr_delivery *delivery, uint64_t wait_us);
void wr_deliver_release_ready(struct wr_deliverer *deliverer,
			      uint64_t wait_us); /* all READY ones */

/* Whether the target is unreachable and the next probe is not due yet. */
bool wr_deliver_is_resting(const struct wr_deliverer *deliverer);

/* The transfer has ended, with or without success. */
void wr_deliver_sent(struct wr_delivery *delivery, CURLcode result);

/* ---- send.c ---- */

/* Sets the transfer up. Returns 0, WEIR_EMEMORY, or WEIR_EACCESS if no key decrypts a header field. */
int wr_deliver_prepare(struct wr_delivery *delivery);

/* Fills job.settle with the outcome for the queue. Returns false if the target was unreachable, so
 * nothing was attempted. */
bool wr_deliver_judge(struct wr_delivery *delivery, CURLcode result, uint64_t now_us,
		      uint64_t random);

/* Frees the memory of the transfer and returns its handle. */
void wr_deliver_unprepare(struct wr_delivery *delivery);

/* ---- multi.c ---- */

int wr_deliver_multi_init(struct wr_deliverer *deliverer);
void wr_deliver_multi_stop(struct wr_deliverer *deliverer); /* when no transfer is in progress */
int wr_deliver_multi_add(struct wr_delivery *delivery);
void wr_deliver_multi_remove(struct wr_delivery *delivery);

/* libcurl opens and closes its sockets with these; `context` is the deliverer. */
curl_socket_t wr_deliver_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to);
int wr_deliver_close_socket(void *context, curl_socket_t socket);

#endif
