/* How much of the body a response has: its length, a 206 that continues the body of an earlier attempt,
 * and a 304. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/engine.h"
#include "client/moment.h"

/* Returns whether the body cannot have changed after its Last-Modified without another Last-Modified.
 * A body that is as new as its response may change again within the same second (RFC 9110, section
 * 8.8.2.2). */
static bool is_strong_date(const char *modified, const char *date)
{
	uint64_t now_ns = wr_clock_wall_ns(), modified_ns, date_ns;

	return modified && date && wr_moment_date(wr_str(modified), now_ns, &modified_ns) &&
	       wr_moment_date(wr_str(date), now_ns, &date_ns) && date_ns > modified_ns &&
	       date_ns - modified_ns >= WR_SECOND_NS;
}

const char *weir_response_validator(const struct weir_response *response)
{
	const char *etag = weir_response_header(response, "etag");
	const char *modified = weir_response_header(response, "last-modified");

	if (etag)
		return etag[0] == '"' ? etag : NULL;
	return is_strong_date(modified, weir_response_header(response, "date")) ? modified : NULL;
}

void wr_fetch_part_keep(struct wr_fetch_job *job)
{
	const char *validator = weir_response_validator(&job->response->shown);

	free(job->validator);
	job->validator = validator ? strdup(validator) : NULL;
	job->total = job->length == WR_FETCH_LENGTH_NONE ? 0 : job->length;
}

/* Reads digits. Returns false if there are none, or if the number is 2^63 or more. */
static bool take_position(const char **at, uint64_t *value)
{
	const char *start = *at;

	for (*value = 0; **at >= '0' && **at <= '9'; (*at)++) {
		if (*value > INT64_MAX / 10 - 1)
			return false;
		*value = *value * 10 + (uint64_t)(**at - '0');
	}
	return *at > start;
}

/* Reads "bytes 100-199/200" or "bytes 100-199/" and an asterisk. Returns whether the part continues the
 * body where the earlier attempt ended. */
static bool read_part(struct wr_fetch_job *job)
{
	const char *at = weir_response_header(&job->response->shown, "content-range");
	uint64_t first, last, total = 0;

	if (!at || strncmp(at, "bytes ", 6) != 0)
		return false;
	at += 6;
	if (!take_position(&at, &first) || *at++ != '-' || !take_position(&at, &last) ||
	    *at++ != '/')
		return false;
	if (strcmp(at, "*") != 0 && (!take_position(&at, &total) || *at || total <= last))
		return false;
	job->part_end = last + 1;
	job->part_total = total;
	return first == job->delivered && last >= first;
}

/* Returns whether the part belongs to the body that has begun. A 206 always repeats the ETag, but may
 * leave out Last-Modified (RFC 9110, section 15.3.7). */
static bool is_same_body(const struct wr_fetch_job *job)
{
	bool tagged = job->validator[0] == '"';
	const char *sent =
		weir_response_header(&job->response->shown, tagged ? "etag" : "last-modified");

	if (sent ? strcmp(sent, job->validator) != 0 : tagged)
		return false;
	if (!job->total)
		return true;
	return job->part_total ? job->part_total == job->total : job->part_end <= job->total;
}

/* Forgets the bytes that have arrived: the next attempt asks for the whole body. */
static int begin_again(struct wr_fetch_job *job, const char *wrong)
{
	free(job->validator);
	job->validator = NULL;
	job->delivered = job->total = job->part_end = job->part_total = 0;
	job->wrong = wrong;
	return WEIR_ETRANSFER;
}

/* Fails without another attempt, which would get the same response. */
static int refuse(struct wr_fetch_job *job, const char *wrong)
{
	job->wrong = wrong;
	job->wrong_again = true;
	return WEIR_ETRANSFER;
}

static bool has_field(const struct wr_fetch_job *job, const char *name)
{
	struct weir_str value;

	return wr_fetch_fields_get(wr_buf_str(&job->request), wr_str(name), &value);
}

int wr_fetch_part_length(struct wr_fetch_job *job)
{
	unsigned status = job->response->shown.status;
	bool has_body = status != 204 && status != 304 && strcmp(job->method, "HEAD") != 0;

	/* libcurl takes a length of 2^63 or more for none, and the last of several lengths. */
	if (wr_fetch_fields_length(wr_buf_str(&job->response->fields), &job->length) || !has_body)
		return 0;
	return refuse(job, "the response is not valid: its Content-Length is not one number");
}

int wr_fetch_part_begin(struct wr_fetch_job *job, bool asked)
{
	if (!asked)
		return has_field(job, "range")
			       ? 0
			       : refuse(job, "the server sent a part of the body (status 206), "
					     "but was asked for all of it");
	if (!read_part(job))
		return begin_again(job, "the server sent another part of the body than was asked "
					"for");
	if (!is_same_body(job))
		return begin_again(job, "the server sent a part of another version of the body");
	if (!job->part_total)
		job->part_total = job->total;
	job->total = job->part_total;
	return 0;
}

bool wr_fetch_part_complete(const struct wr_fetch_job *job)
{
	if (!job->part_end)
		return true;
	return job->delivered == job->part_end &&
	       (!job->part_total || job->part_end == job->part_total);
}

int wr_fetch_part_overrun(struct wr_fetch_job *job)
{
	return begin_again(job, "the server sent more bytes than its Content-Range says");
}

int wr_fetch_part_missing(struct wr_fetch_job *job)
{
	const char *etag = weir_response_header(&job->response->shown, "etag");
	bool changed = etag && job->validator[0] == '"' && strcmp(etag, job->validator) != 0;

	if (!changed && (!job->total || job->total == job->delivered))
		return 0;
	return begin_again(job, "the server does not have the rest of the body any more");
}

int wr_fetch_part_unchanged(struct wr_fetch_job *job)
{
	if (job->has_entry || has_field(job, "if-none-match") ||
	    has_field(job, "if-modified-since"))
		return 0;
	return refuse(job, "the server sent the status 304 to a request without a condition");
}
