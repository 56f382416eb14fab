/* The deliverer's insides: deliver.c takes, attempt.c asks and settles, send.c makes a
 * transfer of a request and an outcome of an answer, multi.c runs transfers on the loop. */
#ifndef WR_SERVE_DELIVER_DELIVER_IMPL_H
#define WR_SERVE_DELIVER_DELIVER_IMPL_H

#include <curl/curl.h>

#include "serve/deliver/deliver.h"
#include "serve/deliver/absent.h"
#include "serve/loop.h"
#include "serve/decide/pending.h"

#define WR_DELIVER_BYTES_MAX (64u << 20) /* of requests that are taken, about */
#define WR_DELIVER_ANSWER_MAX (4u << 20) /* of a body that is read and thrown away */

enum wr_delivery_stage {
	WR_DELIVERY_FREE,
	WR_DELIVERY_ASKING,   /* the limiter */
	WR_DELIVERY_HELD,     /* it refused, for a moment */
	WR_DELIVERY_READY,    /* admitted; no connection is free */
	WR_DELIVERY_SENDING,  /* … */
	WR_DELIVERY_SETTLING, /* the queue is being told */
};

/* A place for a request that was taken. */
struct wr_delivery {
	struct wr_deliverer *deliverer;
	enum wr_delivery_stage stage;
	struct wr_deferred *request;
	uint64_t bytes;            /* of it */
	uint64_t taken_us;         /* when it was asked for, by CLOCK_MONOTONIC */
	struct wr_pending pending; /* until it is known that the API server got it */
	uv_timer_t timer;          /* held, or to be settled again */
	struct wr_queue_job job;
	char reason[WR_DEFERRED_REASON_MAX];
	struct wr_delivery *next; /* free, or ready */

	CURL *easy;                /* while it is sent */
	struct curl_slist *fields; /* in one piece of memory */
	char error[CURL_ERROR_SIZE];
	uint64_t asked_us; /* Retry-After */
	size_t answered;   /* bytes of the body */
	bool unreachable;  /* X-Weir-Unreachable */
};

struct wr_deliverer {
	struct wr_queue_loop *own;
	struct wr_deliver_target target;
	bool delivers; /* there is a target */
	bool ending, stopped;

	struct wr_delivery *slots, *free;
	struct wr_delivery *ready, **ready_last;
	unsigned slot_count, used, held, ready_count, sending, connections;
	unsigned ahead_max;  /* how many may be taken beyond those that are being sent */
	uint64_t bytes;      /* of all that are taken */
	uint64_t large;      /* a large one of late */
	CURL **easies;       /* handles to send with, one for each connection … */
	unsigned easy_count; /* … of which so many are at rest */

	struct wr_queue_job take;
	bool taking;          /* `take` is under way */
	uint64_t asked_us;    /* … since */
	bool take_again;      /* there may be more since */
	bool starved;         /* there was no room for more */
	uint64_t deadline_us; /* when something is due, by CLOCK_MONOTONIC; UINT64_MAX: nothing */
	uv_timer_t take_timer;

	struct wr_queue_job look, recount;
	bool looking, recounting, recount_again;
	bool swept; /* what the table says of keys is ours */
	uv_timer_t look_timer;

	struct wr_deliver_absent absent;
	unsigned down; /* tries in a row that did not reach the target */
	uint64_t down_since_us, rest_until_us;
	uint64_t random;

	CURLM *multi;
	uv_timer_t curl_timer;
	struct watch *watches; /* of connections */
};

#define WR_DELIVER_RELEASE_MOST_US                                                                 \
	60000000u                          /* limits may change: they are asked again after that   \
					    */
#define WR_DELIVER_FAILED_WAIT_US 1000000u /* the queue, or memory: tried again */

/* ---- deliver.c ---- */

/* Takes more, if there is room for it; now or when the take that is under way is done. */
void wr_deliver_take(struct wr_deliverer *deliverer);

uint64_t wr_deliver_mono_us(const struct wr_deliverer *deliverer);
uint64_t wr_deliver_random(struct wr_deliverer *deliverer);

/* ---- attempt.c ---- */

/* A free place; there is one. */
struct wr_delivery *wr_deliver_place(struct wr_deliverer *deliverer);

/* Begins with the request that was put there. */
void wr_deliver_ask(struct wr_delivery *delivery);

/* It was not tried, and will be after a while. */
void wr_deliver_release(struct wr_delivery *delivery, uint64_t wait_us);
void wr_deliver_release_ready(struct wr_deliverer *deliverer,
			      uint64_t wait_us); /* those that were to be sent */

/* The target is away, and it is not yet time to try again. */
bool wr_deliver_is_resting(const struct wr_deliverer *deliverer);

/* The transfer has ended, well or not. */
void wr_deliver_sent(struct wr_delivery *delivery, CURLcode result);

/* ---- send.c ---- */

/* Makes the transfer. Below 0: no memory, or a field that is sealed can not be opened. */
int wr_deliver_prepare(struct wr_delivery *delivery);

/* What the queue is to be told: job.settle. False: the target could not be reached, and nothing
 * was tried. */
bool wr_deliver_judge(struct wr_delivery *delivery, CURLcode result, uint64_t now_us,
		      uint64_t random);

/* Lets go of what belongs to one transfer. */
void wr_deliver_unprepare(struct wr_delivery *delivery);

/* ---- multi.c ---- */

int wr_deliver_multi_init(struct wr_deliverer *deliverer);
void wr_deliver_multi_stop(struct wr_deliverer *deliverer); /* no transfer is under way */
int wr_deliver_multi_add(struct wr_delivery *delivery);
void wr_deliver_multi_remove(struct wr_delivery *delivery);

/* For connections of its handles; `context` is the deliverer. */
curl_socket_t wr_deliver_open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to);
int wr_deliver_close_socket(void *context, curl_socket_t socket);

#endif
