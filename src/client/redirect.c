/* Follows redirects. A redirect changes the request; the next attempt waits for the pace of its own
 * host. */
#include <stdlib.h>

#include "base/error.h"
#include "client/engine.h"

bool wr_fetch_is_redirect(const struct wr_fetch_job *job, unsigned status)
{
	return !(job->flags & WEIR_REQUEST_NO_REDIRECTS) &&
	       (status == 301 || status == 302 || status == 303 || status == 307 ||
		status == 308) &&
	       weir_response_header(&job->response->shown, "location");
}

/* Removes fields from the request: those that describe a body, or those with credentials. */
static int remove_fields(struct wr_fetch_job *job, const char *const *names, size_t count)
{
	struct weir_str block = wr_buf_str(&job->request), name, value;
	struct wr_buf left;

	wr_buf_init(&left, job->request.max);
	while (wr_fetch_fields_next(&block, &name, &value)) {
		bool removed = false;

		for (size_t i = 0; i < count; i++)
			removed |= wr_str_equal_nocase(name, wr_str(names[i]));
		if (!removed)
			wr_fetch_fields_add(&left, name, value);
	}
	if (wr_buf_failed(&left)) {
		wr_buf_free(&left);
		return WEIR_EMEMORY;
	}
	wr_buf_free(&job->request);
	job->request = left;
	return 0;
}

static int drop_credentials(struct wr_fetch_job *job)
{
	static const char *const names[] = {"authorization", "cookie", "proxy-authorization"};

	return remove_fields(job, names, sizeof names / sizeof *names);
}

/* Changes the method to GET, as all browsers do: after a 303, and after a 301 or 302 to a POST. */
static int become_get(struct wr_fetch_job *job, unsigned status)
{
	static const char *const names[] = {"content-type", "content-encoding", "content-language",
					    "content-location", "idempotency-key"};
	bool changes = status == 303 ? strcmp(job->method, "HEAD") != 0
				     : (status == 301 || status == 302) &&
					       strcmp(job->method, "POST") == 0;
	char *method;

	if (!changes || strcmp(job->method, "GET") == 0)
		return 0;
	method = strdup("GET");
	if (!method)
		return WEIR_EMEMORY;
	free(job->method);
	job->method = method;
	job->body_len = 0;
	job->key[0] = '\0';
	job->has_key = false;
	return remove_fields(job, names, sizeof names / sizeof *names);
}

/* Checks the new URL. Returns 0, or an error that names the reason. */
static int check(const struct wr_fetch_job *job, const char *url, bool *other_host,
		 struct weir_error *error)
{
	char key[WR_FETCH_HOST_TEXT], text[WR_FETCH_HOST_TEXT];

	if (job->response->shown.redirects >= job->client->opts.redirects)
		return wr_error(error, WEIR_EREDIRECT, "%s: more than %u redirects",
				job->host->text, job->client->opts.redirects);
	if (!url || wr_fetch_url_read(url, key, text, NULL) < 0)
		return wr_error(error, WEIR_EREDIRECT,
				"%s: the redirect leads to a URL that is not valid, or not http or "
				"https",
				job->host->text);
	if (strncmp(job->host->key, "https:", 6) == 0 && strncmp(key, "https:", 6) != 0)
		return wr_error(error, WEIR_EREDIRECT,
				"%s: the redirect leads from https to http; request the http URL "
				"yourself if that is safe",
				job->host->text);
	*other_host = strcmp(key, job->host->key) != 0;
	return 0;
}

int wr_fetch_redirect(struct wr_fetch_job *job, struct weir_error *error)
{
	struct weir_response *shown = &job->response->shown;
	bool other_host = false;
	char *url;
	int rc;

	if (!wr_fetch_is_redirect(job, shown->status))
		return 0;
	url = wr_fetch_url_resolve(job->url, weir_response_header(shown, "location"));
	rc = check(job, url, &other_host, error);
	if (rc == 0 && other_host)
		rc = drop_credentials(job);
	if (rc == 0)
		rc = become_get(job, shown->status);
	if (rc < 0) {
		free(url);
		return rc;
	}
	wr_fetch_cached_end(job, true);
	free(job->url);
	job->url = url;
	shown->redirects++;
	job->uses_cache = wr_fetch_job_can_cache(job);
	wr_fetch_response_clear(job->response);
	job->responded = false;
	return 1;
}
