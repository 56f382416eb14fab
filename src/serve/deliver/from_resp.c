/* Runs the commands WEIR.DEFER and WEIR.TICKET: turns a command into a job of the queue, and the
 * result of the job into the answer to the command. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "serve/deliver/deliver.h"
#include "serve/loop.h"
#include "serve/deliver/queue_host.h"
#include "serve/resp/waits.h"
#include "wire/check/ticket_json.h"

/* A queued request is due after this time at the latest, even if its limits ask for a longer wait.
 * The limiter is then asked again, because the limits may have changed. */
#define WAIT_MOST_US 60000000u
#define JSON_BYTES 1024u

/* A WEIR.DEFER or WEIR.TICKET command that waits for the queue. */
struct errand {
	/* Has to be first: a pointer to `wait` is cast to a pointer to this struct. */
	struct wr_resp_wait wait;
	struct wr_queue_job job;
	struct wr_serve_queue_host *host;
	bool submitted;       /* the queue's thread works on the job */
	bool ended;           /* the client does not wait for the answer any more */
	uint64_t interval_ns; /* time between two deliveries of the line */
	uint64_t wait_ns;     /* time until delivery if no other request were ahead of this one */
	uint64_t age_ns;      /* time until the request expires */
	size_t bytes;         /* size of the request, counted in host->flight */
	struct wr_queue_request request;
	struct wr_queue_request_field *fields;
	char *memory; /* memory for the texts of the request */
	char ticket[WR_TICKET_TEXT];
};

static struct wr_serve_queue_loop *own_of(const struct wr_resp_host *host)
{
	return ((const struct wr_serve_resp_loop *)host)->loop->queue;
}

static void free_errand(struct errand *errand)
{
	atomic_fetch_sub_explicit(&errand->host->flight, errand->bytes, memory_order_relaxed);
	free(errand->memory);
	free(errand->fields);
	free(errand);
}

/* ---- answers ---- */

static void send_answer(struct errand *errand, const struct wr_wire_defer_answer *answer)
{
	struct wr_resp_session *session = errand->wait.session;
	const struct wr_serve_resp_loop *own = (const struct wr_serve_resp_loop *)session->host;

	if (wr_resp_answered(&errand->wait, answer, sizeof *answer, wr_loop_now_ns(own->loop)))
		wr_serve_resp_ready(session);
}

static void send_refusal(struct errand *errand, enum wr_queue_reason reason)
{
	send_answer(errand,
		    &(struct wr_wire_defer_answer){.reason = wr_queue_reason_name(reason),
						   .sentence = wr_queue_reason_text(reason)});
}

/* Returns the expected time until delivery if `ahead` requests come before this request. The result
 * is at most the time until the request expires. */
static uint64_t expected_ns(const struct errand *errand, uint64_t ahead)
{
	uint64_t before_ns, sum_ns;

	if (__builtin_mul_overflow(ahead, errand->interval_ns, &before_ns) ||
	    __builtin_add_overflow(before_ns, errand->wait_ns, &sum_ns))
		return errand->age_ns;
	return sum_ns < errand->age_ns ? sum_ns : errand->age_ns;
}

static void on_stored(struct wr_queue_job *job)
{
	struct errand *errand = job->context;
	struct wr_wire_defer_answer answer = {.position = job->put.position};

	errand->submitted = false;
	if (job->reason == WR_QUEUE_OK) {
		wr_serve_queue_count(&errand->host->tally.stored, 1);
		wr_deliver_due(errand->host, job->put.wait_us);
	} else {
		wr_serve_queue_count(&errand->host->tally.refused[job->reason], 1);
	}
	if (errand->ended) {
		free_errand(errand);
		return;
	}
	if (job->reason != WR_QUEUE_OK) {
		send_refusal(errand, job->reason);
		return;
	}
	wr_ticket_text(job->put.ticket, answer.ticket);
	answer.expected_ns = expected_ns(errand, job->put.position ? job->put.position - 1 : 0);
	send_answer(errand, &answer);
}

/* ---- WEIR.DEFER ---- */

static struct weir_str copy(char **at, struct weir_str text)
{
	struct weir_str copied = {*at, text.len};

	if (text.len)
		memcpy(*at, text.ptr, text.len);
	*at += text.len;
	return copied;
}

static size_t size_of(const struct wr_wire_defer_request *from)
{
	size_t size = from->rule.len + from->domain.len + from->method.len + from->uri.len +
		      from->descriptors.len + from->body.len;

	for (uint32_t i = 0; i < 2 * from->field_count; i++)
		size += from->fields[i].len;
	return size;
}

/* Copies the header fields that are stored. The value of Idempotency-Key goes into
 * request.idempotency_key instead. */
static void copy_fields(struct errand *errand, const struct wr_wire_defer_request *from, char **at)
{
	struct weir_str connection[WR_DEFER_FIELDS_MAX];
	size_t connections = 0;

	for (uint32_t i = 0; i < from->field_count; i++)
		if (wr_str_equal_nocase(from->fields[2 * i], WR_STR("connection")))
			connection[connections++] = from->fields[2 * i + 1];
	for (uint32_t i = 0; i < from->field_count; i++) {
		struct weir_str name = from->fields[2 * i], value = from->fields[2 * i + 1];

		if (!wr_deliver_keeps(name, connection, connections))
			continue;
		if (wr_str_equal_nocase(name, WR_STR("idempotency-key"))) {
			if (!errand->request.idempotency_key.len)
				errand->request.idempotency_key = copy(at, wr_str_trim(value));
			continue;
		}
		errand->fields[errand->request.field_count++] =
			(struct wr_queue_request_field){.name = copy(at, name),
							.value = copy(at, value),
							.secret = wr_wire_defer_is_secret(name)};
	}
	errand->request.fields = errand->fields;
}

/* Copies the request, because the bytes of the command are freed after this call. Returns false if
 * there is no memory. */
static bool copy_request(struct errand *errand, const struct wr_wire_defer_request *from)
{
	struct wr_queue_request *to = &errand->request;
	char *at;

	errand->memory = at = malloc(size_of(from) + 1);
	errand->fields = calloc(from->field_count + 1, sizeof *errand->fields);
	if (!errand->memory || !errand->fields)
		return false;
	memcpy(to->key, from->key.ptr, sizeof to->key);
	to->rule = copy(&at, from->rule);
	to->domain = copy(&at, from->domain);
	to->method = copy(&at, from->method);
	to->uri = copy(&at, from->uri);
	to->descriptors = copy(&at, from->descriptors);
	to->body = copy(&at, from->body);
	to->max_tries = (uint32_t)from->max_tries;
	to->interval_us = from->interval_ns / 1000;
	copy_fields(errand, from, &at);
	return true;
}

static void submit_errand(struct wr_resp_host *host, struct errand *errand)
{
	errand->job.context = errand;
	errand->submitted = true;
	wr_queue_submit(own_of(host)->port, &errand->job);
}

/* Adds the size of the request to host->flight. If host->flight then exceeds WR_QUEUE_FLIGHT_MAX,
 * or if there is no memory, refuses the request. Otherwise submits the request to the queue. */
static void defer_request(struct wr_resp_host *host, struct wr_resp_wait *wait,
			  const struct wr_wire_defer_request *from, uint64_t now_ns)
{
	struct errand *errand = (struct errand *)wait;
	uint64_t wait_us = from->wait_ns / 1000, before;

	(void)now_ns;
	errand->bytes = size_of(from);
	before = atomic_fetch_add_explicit(&errand->host->flight, errand->bytes,
					   memory_order_relaxed);
	if (before + errand->bytes > WR_QUEUE_FLIGHT_MAX || !copy_request(errand, from)) {
		wr_serve_queue_count(&errand->host->tally.refused[WR_QUEUE_BUSY], 1);
		send_refusal(errand, WR_QUEUE_BUSY);
		return;
	}
	errand->wait_ns = from->wait_ns;
	errand->interval_ns = from->interval_ns;
	errand->age_ns = from->max_age_s * 1000000000;
	errand->job = (struct wr_queue_job){
		.verb = WR_QUEUE_PUT,
		.done = on_stored,
		.put = {.request = &errand->request,
			.max_waiting = from->max_waiting,
			.max_age_us = from->max_age_s * 1000000,
			.wait_us = wait_us < WAIT_MOST_US ? wait_us : WAIT_MOST_US}};
	submit_errand(host, errand);
}

/* ---- WEIR.TICKET ---- */

static const struct wr_wire_defer_answer unknown_ticket = {0};

static enum wr_wire_ticket_status status_of(enum wr_queue_request_state state)
{
	switch (state) {
	case WR_QUEUE_REQUEST_DELIVERED:
		return WR_TICKET_DELIVERED;
	case WR_QUEUE_REQUEST_DEAD:
		return WR_TICKET_DEAD;
	case WR_QUEUE_REQUEST_DROPPED:
		return WR_TICKET_DROPPED;
	default:
		return WR_TICKET_WAITING;
	}
}

static void report_found(struct errand *errand, const struct wr_queue_request *found)
{
	const struct wr_serve_resp_loop *own =
		(const struct wr_serve_resp_loop *)errand->wait.session->host;
	uint64_t now_us = wr_loop_now_ns(own->loop) / 1000;
	struct wr_wire_ticket_view view = {.ticket = wr_str(errand->ticket),
					   .status = status_of(found->state),
					   .position = found->position,
					   .tries = found->tries,
					   .http_status = found->status,
					   .reason = found->reason,
					   .accepted_us = found->accepted_us,
					   .finished_us = found->done_us,
					   .expires_us = found->expires_us};
	char json[JSON_BYTES];
	struct wr_buf out;

	errand->interval_ns = found->interval_us * 1000;
	errand->wait_ns = found->due_us > now_us ? (found->due_us - now_us) * 1000 : 0;
	errand->age_ns = found->expires_us > now_us ? (found->expires_us - now_us) * 1000 : 0;
	view.expected_us = expected_ns(errand, found->position ? found->position - 1 : 0) / 1000;
	wr_buf_init_fixed(&out, json, sizeof json);
	wr_wire_ticket_json(&view, &out);
	if (wr_buf_failed(&out))
		send_refusal(errand, WR_QUEUE_FAILED);
	else
		send_answer(errand, &(struct wr_wire_defer_answer){.json = wr_buf_str(&out)});
}

static void on_found(struct wr_queue_job *job)
{
	struct errand *errand = job->context;
	struct wr_queue_request *found = job->reason == WR_QUEUE_OK ? job->ticket.found : NULL;

	errand->submitted = false;
	if (errand->ended)
		free_errand(errand);
	else if (found)
		report_found(errand, found);
	else if (job->reason == WR_QUEUE_UNKNOWN)
		send_answer(errand, &unknown_ticket);
	else
		send_refusal(errand, job->reason);
	wr_queue_request_free(found);
}

static void find_ticket(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str text,
			uint64_t now_ns)
{
	struct errand *errand = (struct errand *)wait;

	(void)now_ns;
	errand->job = (struct wr_queue_job){.verb = WR_QUEUE_TICKET, .done = on_found};
	if (!wr_ticket_parse(text, errand->job.ticket.ticket)) {
		send_answer(errand, &unknown_ticket);
		return;
	}
	wr_ticket_text(errand->job.ticket.ticket, errand->ticket);
	submit_errand(host, errand);
}

/* ---- beginning and ending a command ---- */

static struct wr_resp_wait *begin_errand(struct wr_resp_host *host)
{
	struct errand *errand = calloc(1, sizeof *errand);

	if (!errand)
		return NULL;
	errand->host = own_of(host)->host;
	return &errand->wait;
}

/* Ends a command. If the queue's thread works on its job, the job is not cancelled, so a request
 * can be stored although its client gets no answer. The command is freed when the job is done. If
 * there is no such job, the command is freed now. */
static void end_errand(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	struct errand *errand = (struct errand *)wait;

	(void)host;
	errand->ended = true;
	if (!errand->submitted)
		free_errand(errand);
}

/* Called when a client abandons a command. Does nothing, because end_errand() is called next. */
static void leave_errand(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	(void)wait;
}

const struct wr_resp_queue wr_serve_queue_resp = {begin_errand, end_errand, defer_request,
						  find_ticket, leave_errand};
