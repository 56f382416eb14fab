/* Tells the caller what the client does for a request. */
#include "client/engine.h"

const char *wr_fetch_reason_text(enum weir_wait_reason reason)
{
	switch (reason) {
	case WEIR_WAIT_NONE:
		break;
	case WEIR_WAIT_TOLD:
		return "told by the server";
	case WEIR_WAIT_PACE:
		return "the pace of its limits";
	case WEIR_WAIT_RATE:
		return "the own rate";
	case WEIR_WAIT_BACKOFF:
		return "the pause before a retry";
	case WEIR_WAIT_BREAKER:
		return "its circuit breaker is open";
	}
	return "";
}

/* Names the field, if this request was told to wait. */
static const char *wait_text(const struct wr_fetch_job *job, enum weir_wait_reason reason)
{
	if (reason == WEIR_WAIT_TOLD && weir_response_header(&job->response->shown, "retry-after"))
		return "told by Retry-After";
	return wr_fetch_reason_text(reason);
}

void wr_fetch_event(const struct wr_fetch_job *job, enum weir_client_event_kind kind,
		    enum weir_wait_reason reason, uint64_t wait_ns, const char *text)
{
	const struct weir_client_opts *opts = &job->client->opts;
	struct weir_client_event event = {.kind = kind,
					  .reason = reason,
					  .attempt = job->response->shown.attempts,
					  .status = job->response->shown.status,
					  .wait_ns = wait_ns,
					  .host = job->host ? job->host->text : "",
					  .text = text ? text : wait_text(job, reason),
					  .context = job->context};

	if (opts->on_event)
		opts->on_event(opts->context, &event);
}
