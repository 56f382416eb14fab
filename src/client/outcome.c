/* What follows an attempt: the response is final, a redirect is followed, or the request is retried. */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/engine.h"

/* An attempt that has ended. */
struct ended {
	CURLcode result;
	int code; /* 0: the response is complete; otherwise the error */
	unsigned status;
	bool unsent; /* no byte of the request was sent */
	struct weir_ratelimit told;
	uint64_t now_ns;
};

static int code_of(CURLcode result)
{
	switch (result) {
	case CURLE_OK:
		return 0;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return WEIR_ERESOLVE;
	case CURLE_COULDNT_CONNECT:
		return WEIR_ECONNECT;
	case CURLE_OPERATION_TIMEDOUT:
		return WEIR_ETIMEOUT;
	case CURLE_SSL_CONNECT_ERROR:
		return WEIR_ETLS;
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_PEER_FAILED_VERIFICATION:
		return WEIR_ECERTIFICATE;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return WEIR_EURL;
	case CURLE_OUT_OF_MEMORY:
		return WEIR_EMEMORY;
	default:
		return WEIR_ETRANSFER;
	}
}

/* Returns whether another attempt could succeed. */
static bool can_repeat(const struct wr_fetch_job *job, const struct ended *ended)
{
	if (job->wrong_again)
		return false;
	return ended->code == 0 || ended->code == WEIR_ERESOLVE || ended->code == WEIR_ECONNECT ||
	       ended->code == WEIR_ETIMEOUT || ended->code == WEIR_ETLS ||
	       ended->code == WEIR_ETRANSFER;
}

/* ---- reading the attempt ---- */

void wr_fetch_told(const struct wr_fetch_job *job, struct weir_ratelimit *told)
{
	struct weir_header fields[WEIR_RATELIMIT_FIELDS_MAX];
	const struct weir_response *shown = &job->response->shown;
	size_t count = shown->field_count < WEIR_RATELIMIT_FIELDS_MAX ? shown->field_count
								      : WEIR_RATELIMIT_FIELDS_MAX;

	for (size_t i = 0; i < count; i++)
		fields[i] = (struct weir_header){wr_str(shown->fields[i].name),
						 wr_str(shown->fields[i].value)};
	*told = (struct weir_ratelimit){.size = sizeof *told};
	weir_ratelimit_parse(fields, count, (int)shown->status, wr_clock_wall_ns(), told);
}

/* Reads what libcurl and the callbacks know, and ends the transfer. */
static void read_attempt(struct wr_fetch_job *job, CURLcode result, struct ended *ended)
{
	*ended = (struct ended){.result = result,
				.told = {.size = sizeof ended->told},
				.now_ns = wr_clock_mono_ns()};
	if (job->holds && !job->aborted) /* the status counts, also if the body is not complete */
		ended->result = CURLE_OK;
	ended->code = job->aborted ? job->aborted : code_of(ended->result);
	/* libcurl takes a line of the header with more than 100 KiB for a lack of memory. */
	if (ended->result == CURLE_OUT_OF_MEMORY && job->sent && !job->in_body && !job->aborted)
		ended->code = job->aborted = WEIR_ETOOLARGE;
	if (ended->result == CURLE_UNSUPPORTED_PROTOCOL && job->sent && !job->aborted) {
		/* libcurl takes a response without a status line for HTTP/0.9. */
		ended->code = WEIR_ETRANSFER;
		job->wrong = "the response is not HTTP";
		job->wrong_again = true;
	}
	if (ended->code == 0 && !job->in_body)
		ended->code = wr_fetch_body_begin(job);
	if (ended->code == 0 && !wr_fetch_part_complete(job))
		ended->code = WEIR_ETRANSFER;
	ended->unsent = ended->code != 0 && !job->sent;
	ended->status = job->response->shown.status;
	if (job->in_body && ended->status)
		wr_fetch_told(job, &ended->told);
	wr_fetch_transfer_end(job);
}

static enum wr_polite_outcome outcome_of(const struct wr_fetch_job *job, const struct ended *ended)
{
	if (job->stale || ended->code == WEIR_ECALLBACK || ended->code == WEIR_ETOOLARGE ||
	    ended->code == WEIR_EMEMORY)
		return WR_POLITE_UNKNOWN;
	return wr_polite_outcome(ended->code != 0, (int)ended->status, ended->told.wait_ns);
}

static const char *failure_text(const struct wr_fetch_job *job, const struct ended *ended)
{
	if (job->wrong)
		return job->wrong;
	return !job->aborted && job->curl_error[0] ? job->curl_error : weir_strerror(ended->code);
}

/* Tells the host's pace and breaker, and the caller. */
static void report(struct wr_fetch_job *job, const struct ended *ended)
{
	struct weir_client *client = job->client;
	bool refused = ended->code == 0 && (ended->told.refused || ended->status == 503);

	job->host->known = true;
	job->passed = false;
	wr_polite_breaker_report(&job->host->breaker, outcome_of(job, ended), ended->now_ns,
				 wr_fetch_random(client));
	if (refused) {
		job->response->shown.refusals++;
		wr_fetch_count(client, &client->info.refusals, 1);
		wr_fetch_event(job, WEIR_EVENT_REFUSED, WEIR_WAIT_NONE, ended->told.wait_ns, "");
	}
	if (ended->code) {
		wr_fetch_count(client, &client->info.failures, 1);
		wr_fetch_event(job, WEIR_EVENT_FAILED, WEIR_WAIT_NONE, 0, failure_text(job, ended));
	}
}

/* ---- the end of the request ---- */

/* Passes a body that was kept until it was known to be final. The body of a 416 does not belong to
 * the body that the caller asked to continue. */
static int pass_held(struct wr_fetch_job *job)
{
	struct wr_buf *body = &job->response->body;
	int rc = 0;

	if (!job->on_body || !job->holds || job->response->shown.status == 416)
		return 0;
	job->delivered = 0;
	if (body->len)
		rc = wr_fetch_body_pass(job, body->ptr, body->len);
	wr_buf_clear(body);
	return rc;
}

static void finish(struct wr_fetch_job *job, const struct ended *ended, enum wr_retry_verdict why)
{
	bool has_reason = why != WR_RETRY_YES && why != WR_RETRY_NOT_FAILED;
	char text[800];
	int code = ended->code;

	if (code == 0) {
		code = pass_held(job);
		wr_fetch_job_end(job, code, code ? weir_strerror(code) : "");
		return;
	}
	snprintf(text, sizeof text, "%s: %s%s%s", job->host->text, failure_text(job, ended),
		 has_reason ? "; not retried: " : "", has_reason ? wr_retry_text(why) : "");
	wr_fetch_job_end(job, code, text);
}

/* ---- retries and redirects ---- */

static void retry_or_finish(struct wr_fetch_job *job, const struct ended *ended)
{
	struct weir_client *client = job->client;
	struct wr_retry_settings settings = {.attempts_max = client->opts.attempts};
	struct wr_retry_attempt attempt = {.method = wr_str(job->method),
					   .idempotency_key = job->has_key || job->key[0],
					   .unsent = ended->unsent,
					   .stale = job->stale,
					   .failed = ended->code != 0,
					   .refused = ended->told.refused,
					   .status = ended->code ? 0 : (int)ended->status,
					   .number = job->number,
					   .wait_ns = ended->told.wait_ns,
					   .waited_ns = ended->now_ns - job->head_ns,
					   .deadline_ns = job->deadline_ns};
	enum wr_retry_verdict verdict = WR_RETRY_NOT_FAILED;
	uint64_t at_ns = ended->now_ns;

	if (can_repeat(job, ended))
		verdict = wr_retry_decide(&settings, &job->host->budget, &attempt, ended->now_ns,
					  wr_fetch_random(client), &at_ns);
	if (verdict == WR_RETRY_YES) {
		wr_fetch_cached_drop(job);
		wr_fetch_job_pause(job, at_ns,
				   attempt.wait_ns ? WEIR_WAIT_TOLD : WEIR_WAIT_BACKOFF);
		return;
	}
	if (verdict == WR_RETRY_DEADLINE)
		job->response->shown.given_up =
			attempt.wait_ns ? WEIR_WAIT_TOLD : WEIR_WAIT_BACKOFF;
	wr_fetch_cached_end(job, ended->code == 0);
	finish(job, ended, verdict);
}

/* Follows a redirect, which has changed the request. If the response told a wait, the new request waits
 * too, also if it is to another host (RFC 9110, section 10.2.3). */
static void follow(struct wr_fetch_job *job, const struct ended *ended)
{
	uint64_t at_ns = job->head_ns + ended->told.wait_ns;

	job->number = 0;
	if (at_ns > ended->now_ns)
		wr_fetch_job_pause(job, at_ns, WEIR_WAIT_TOLD);
	else
		wr_fetch_job_enter(job);
}

void wr_fetch_attempt_ended(struct wr_fetch_job *job, CURLcode result)
{
	struct weir_error error = {0};
	struct ended ended;
	int rc = 0;

	read_attempt(job, result, &ended);
	job->responded = ended.code == 0;
	report(job, &ended);
	wr_fetch_job_leave(job);
	if (ended.code == 0 && ended.status == 304 && job->has_entry) {
		wr_fetch_cached_confirm(job);
		return;
	}
	if (ended.code == 0)
		rc = wr_fetch_redirect(job, &error);
	if (rc < 0)
		wr_fetch_job_end(job, rc, error.text);
	else if (rc > 0)
		follow(job, &ended);
	else
		retry_or_finish(job, &ended);
}
