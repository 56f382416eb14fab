/* The engine's thread: it moves jobs from state to state, and lets libcurl make the transfers. */
#include "client/engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#define POLL_MS_MAX 60000

/* Splitmix64. Several threads may call it. */
uint64_t wr_fetch_random(struct weir_client *client)
{
	uint64_t x = atomic_fetch_add(&client->random, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

void wr_fetch_count(struct weir_client *client, uint64_t *number, uint64_t more)
{
	pthread_mutex_lock(&client->lock);
	*number += more;
	pthread_mutex_unlock(&client->lock);
}

/* ---- waiting ---- */

/* Removes the job from the lists and the heap of its state. */
static void forget_state(struct wr_fetch_job *job)
{
	struct wr_fetch_host *host = job->host;

	wr_list_remove(&job->ready_link);
	if (job->due_node.at)
		wr_heap_remove(&job->client->due, &job->due_node);
	if (host && wr_list_is_empty(&host->ready))
		wr_list_remove(&host->ready_link);
}

void wr_fetch_job_queue(struct wr_fetch_job *job, bool again)
{
	struct wr_fetch_host *host = job->host;

	job->state = WR_FETCH_QUEUED;
	if (wr_list_is_empty(&host->ready))
		wr_list_add_last(&job->client->ready_hosts, &host->ready_link);
	if (again)
		wr_list_add_first(&host->ready, &job->ready_link);
	else
		wr_list_add_last(&host->ready, &job->ready_link);
}

void wr_fetch_job_leave(struct wr_fetch_job *job)
{
	if (job->has_slot)
		job->host->active--;
	job->has_slot = false;
}

/* Lets the job wait. A wait that would pass the deadline ends the job at once: with the refusal that
 * it got before, or with an error. */
static void wait_until(struct wr_fetch_job *job, uint64_t at_ns, enum weir_wait_reason reason)
{
	struct weir_client *client = job->client;
	uint64_t now_ns = wr_clock_mono_ns();
	uint64_t wait_ns = at_ns > now_ns ? at_ns - now_ns : 0;
	char text[512];

	if (at_ns >= job->deadline_ns) {
		job->response->shown.given_up = reason;
		snprintf(text, sizeof text, "%s: the wait of %.1f s (%s) would pass the deadline",
			 job->host->text, (double)wait_ns / 1e9, wr_fetch_reason_text(reason));
		wr_fetch_job_end(job,
				 job->responded                ? 0
				 : reason == WEIR_WAIT_BREAKER ? WEIR_EBREAKER
							       : WEIR_EDEADLINE,
				 text);
		return;
	}
	job->due_ns = at_ns;
	job->reason = reason;
	job->response->shown.waited_ns += wait_ns;
	pthread_mutex_lock(&client->lock);
	client->info.waits++;
	client->info.waited_ns += wait_ns;
	pthread_mutex_unlock(&client->lock);
	wr_fetch_event(job, WEIR_EVENT_WAIT, reason, wait_ns, NULL);
	if (!wr_heap_add(&client->due, &job->due_node))
		wr_fetch_job_end(job, WEIR_EMEMORY, "out of memory");
}

void wr_fetch_job_pause(struct wr_fetch_job *job, uint64_t at_ns, enum weir_wait_reason reason)
{
	job->state = WR_FETCH_PAUSED;
	wait_until(job, at_ns, reason);
}

/* ---- starting ---- */

/* Begins the attempt of a paced job, or lets it wait longer. */
static void start(struct wr_fetch_job *job)
{
	struct weir_client *client = job->client;
	enum weir_wait_reason reason;
	uint64_t now_ns = wr_clock_mono_ns(), at_ns;
	int rc;

	if (client->running >= client->opts.transfers) {
		wr_list_add_last(&client->startable, &job->ready_link);
		return;
	}
	at_ns = wr_fetch_host_confirm(job, now_ns, &reason);
	if (at_ns > now_ns) {
		wait_until(job, at_ns, reason);
		return;
	}
	rc = wr_fetch_transfer_begin(job, now_ns);
	if (rc < 0)
		wr_fetch_job_end(job, rc, weir_strerror(rc));
}

/* Gives the job a slot of its host, and a time to start. */
static void enter_slot(struct wr_fetch_job *job)
{
	enum weir_wait_reason reason;
	uint64_t now_ns = wr_clock_mono_ns(), at_ns;

	forget_state(job);
	job->state = WR_FETCH_PACED;
	job->has_slot = true;
	job->host->active++;
	at_ns = wr_fetch_host_reserve(job, now_ns, &reason);
	if (at_ns > now_ns)
		wait_until(job, at_ns, reason);
	else
		start(job);
}

/* Returns how many jobs of the host may have a slot. The first request to a host is sent alone, so that
 * its response tells the limits before more requests follow. */
static uint32_t slots_of(const struct wr_fetch_host *host, const struct weir_client *client)
{
	return host->known ? client->opts.per_host : 1;
}

/* Starts queued jobs of hosts that have a free slot. */
static void start_ready(struct weir_client *client)
{
	struct wr_list *link = wr_list_first(&client->ready_hosts), *next, *first;

	while (link) {
		struct wr_fetch_host *host =
			wr_container_of(link, struct wr_fetch_host, ready_link);

		next = wr_list_after(&client->ready_hosts, link);
		while (host->active < slots_of(host, client) &&
		       (first = wr_list_first(&host->ready)))
			enter_slot(wr_container_of(first, struct wr_fetch_job, ready_link));
		link = next;
	}
	while (client->running < client->opts.transfers &&
	       (first = wr_list_pop(&client->startable)))
		start(wr_container_of(first, struct wr_fetch_job, ready_link));
}

/* Ends reading a held body. Its status and its fields are the response. */
static void cut_body(struct wr_fetch_job *job)
{
	job->cut = true;
	wr_fetch_attempt_ended(job, CURLE_OK);
}

/* ---- the life of a job ---- */

void wr_fetch_job_enter(struct wr_fetch_job *job)
{
	struct weir_error error = {0};
	int rc;

	wr_fetch_host_leave(job);
	rc = wr_fetch_host_enter(job, &error);
	if (rc < 0) {
		wr_fetch_job_end(job, rc, error.text);
		return;
	}
	if (wr_fetch_cached_answer(job))
		return;
	job->number = 0;
	wr_fetch_job_queue(job, false);
}

static void begin(struct wr_fetch_job *job)
{
	wr_list_add_last(&job->client->jobs, &job->link);
	if (wr_heap_add(&job->client->deadlines, &job->deadline_node))
		wr_fetch_job_enter(job);
	else
		wr_fetch_job_end(job, WEIR_EMEMORY, "out of memory");
}

static void hand_over(struct wr_fetch_job *job)
{
	struct weir_client *client = job->client;
	struct wr_fetch_response *response = job->response;

	job->response = NULL;
	pthread_mutex_lock(&client->lock);
	client->info.requests++;
	if (job->waiter) {
		job->waiter->response = response;
		pthread_cond_signal(&job->waiter->cond);
	} else {
		wr_list_add_last(&client->done, &response->link);
		pthread_cond_signal(&client->done_cond);
	}
	pthread_mutex_unlock(&client->lock);
}

/* Reports to the breaker an attempt that ends without a result, because of a deadline or because it was
 * cancelled. If it was a probe, the breaker would wait for its result forever. */
static void report_unknown(struct wr_fetch_job *job)
{
	if (job->passed)
		wr_polite_breaker_report(&job->host->breaker, WR_POLITE_UNKNOWN, wr_clock_mono_ns(),
					 0);
	job->passed = false;
}

void wr_fetch_job_end(struct wr_fetch_job *job, int code, const char *text)
{
	struct wr_fetch_response *response = job->response;

	wr_fetch_cached_end(job, false);
	wr_fetch_transfer_end(job);
	forget_state(job);
	if (job->deadline_node.at)
		wr_heap_remove(&job->client->deadlines, &job->deadline_node);
	wr_list_remove(&job->link);
	wr_fetch_job_leave(job);
	report_unknown(job);
	wr_fetch_host_leave(job);
	response->shown.code = code;
	wr_error(&response->error, code, "%s", text);
	response->shown.text = response->error.text;
	response->url = job->url;
	response->shown.url = response->url ? response->url : "";
	job->url = NULL;
	if (!job->on_body && response->shown.status) {
		response->shown.body = wr_buf_str(&response->body).ptr;
		response->shown.body_len = response->body.len;
	}
	hand_over(job);
	wr_fetch_job_free(job);
}

/* ---- the loop ---- */

static void end_all(struct weir_client *client)
{
	struct wr_list *link;

	while ((link = wr_list_first(&client->jobs)))
		wr_fetch_job_end(wr_container_of(link, struct wr_fetch_job, link), WEIR_ECANCELED,
				 "the request was cancelled");
}

/* Takes what other threads have handed in. Returns false if the client is being closed. */
static bool take_orders(struct weir_client *client)
{
	bool cancels, stops;
	struct wr_list taken, *link;

	wr_list_init(&taken);
	pthread_mutex_lock(&client->lock);
	wr_list_move_all(&taken, &client->submitted);
	cancels = client->cancels;
	client->cancels = false;
	stops = client->stops;
	client->info.hosts = client->host_count;
	pthread_mutex_unlock(&client->lock);
	while ((link = wr_list_pop(&taken)))
		begin(wr_container_of(link, struct wr_fetch_job, link));
	if (cancels || stops)
		end_all(client);
	return !stops;
}

static void run_due(struct weir_client *client, uint64_t now_ns)
{
	struct wr_heap_node *node;

	while ((node = wr_heap_first(&client->due))) {
		struct wr_fetch_job *job = wr_container_of(node, struct wr_fetch_job, due_node);

		if (job->due_ns > now_ns)
			break;
		wr_heap_remove(&client->due, node);
		if (job->state == WR_FETCH_PAUSED && job->number == 0)
			wr_fetch_job_enter(job); /* after a redirect */
		else if (job->state == WR_FETCH_PAUSED)
			wr_fetch_job_queue(job, true);
		else if (job->state == WR_FETCH_RUNNING)
			cut_body(job);
		else
			start(job);
	}
	while ((node = wr_heap_first(&client->deadlines))) {
		struct wr_fetch_job *job =
			wr_container_of(node, struct wr_fetch_job, deadline_node);

		if (job->deadline_ns > now_ns)
			break;
		if (job->state == WR_FETCH_RUNNING && job->holds) {
			cut_body(job);
			continue;
		}
		wr_fetch_job_end(job, WEIR_EDEADLINE, "the deadline of the request ended");
	}
}

/* Handles transfers that have ended. */
static void take_results(struct weir_client *client)
{
	struct wr_fetch_job *job;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(client->multi, &left))) {
		CURLcode result = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&job);
		wr_fetch_attempt_ended(job, result);
	}
}

/* Returns how long libcurl may wait for events, in ms, rounded up. */
static int poll_ms(const struct weir_client *client)
{
	const struct wr_heap_node *due = wr_heap_first(&client->due);
	const struct wr_heap_node *end = wr_heap_first(&client->deadlines);
	uint64_t now_ns = wr_clock_mono_ns(), at_ns = UINT64_MAX, wait_ms;

	if (due)
		at_ns = wr_container_of(due, const struct wr_fetch_job, due_node)->due_ns;
	if (end) {
		uint64_t end_ns =
			wr_container_of(end, const struct wr_fetch_job, deadline_node)->deadline_ns;

		at_ns = end_ns < at_ns ? end_ns : at_ns;
	}
	if (at_ns <= now_ns)
		return 0;
	wait_ms = (at_ns - now_ns) / 1000000 + 1;
	return wait_ms < POLL_MS_MAX ? (int)wait_ms : POLL_MS_MAX;
}

void *wr_fetch_engine_run(void *context)
{
	struct weir_client *client = context;
	int running;

	while (take_orders(client)) {
		run_due(client, wr_clock_mono_ns());
		start_ready(client);
		curl_multi_perform(client->multi, &running);
		take_results(client);
		start_ready(client);
		curl_multi_poll(client->multi, NULL, 0, poll_ms(client), NULL);
	}
	return NULL;
}
