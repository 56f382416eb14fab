/* The cache in the life of a request: answers from the cache, conditional requests, and storing. */
#include <stdlib.h>

#include "base/clock.h"
#include "client/engine.h"

static uint64_t wall_s(void)
{
	return wr_clock_wall_ns() / WR_SECOND_NS;
}

/* Returns whether the field tells the cache what to do, and does not change the response. */
static bool is_for_cache(struct weir_str name)
{
	return wr_str_equal_nocase(name, WR_STR("cache-control")) ||
	       wr_str_equal_nocase(name, WR_STR("pragma"));
}

/* Makes the key of the job's request. The user agent is a field of the request too. The fields for
 * the cache are left out, so that a reload replaces what other requests get. Returns false if there
 * is no memory. */
static bool make_key(const struct wr_fetch_job *job, struct wr_fetch_key *key)
{
	struct weir_str block = wr_buf_str(&job->request), name, value;
	struct wr_buf fields;
	bool made;

	wr_buf_init(&fields, 2 * WR_FETCH_FIELDS_MAX);
	while (wr_fetch_fields_next(&block, &name, &value))
		if (!is_for_cache(name))
			wr_fetch_fields_add(&fields, name, value);
	wr_buf_add_str(&fields, wr_str(job->client->opts.user_agent));
	made = !wr_buf_failed(&fields);
	if (made)
		wr_fetch_key_make(wr_str(job->url), wr_buf_str(&fields), key);
	wr_buf_free(&fields);
	return made;
}

static void close_entry(struct wr_fetch_job *job)
{
	if (job->has_entry)
		wr_fetch_entry_close(&job->entry);
	job->has_entry = false;
}

/* ---- answers ---- */

/* Passes the stored body to the caller. Returns 0 or an error. */
static int pass_body(struct wr_fetch_job *job)
{
	uint64_t done = 0;
	char *piece = malloc(1 << 16);
	int rc = piece ? 0 : WEIR_EMEMORY;

	while (rc == 0 && done < job->entry.body_len) {
		size_t got = wr_fetch_entry_read(&job->entry, done, piece, 1 << 16);

		rc = got ? wr_fetch_body_pass(job, piece, got) : WEIR_ESYS;
		done += got;
	}
	free(piece);
	return rc;
}

/* Answers the job with the stored response and these fields. The job has ended afterwards. */
static void answer(struct wr_fetch_job *job, struct weir_str fields, enum weir_cache_use use)
{
	struct wr_fetch_response *response = job->response;
	struct weir_client *client = job->client;
	int rc;

	wr_fetch_response_clear(response);
	job->delivered = 0;
	wr_buf_add_str(&response->fields, fields);
	rc = wr_buf_failed(&response->fields) ? WEIR_EMEMORY : wr_fetch_response_list(response);
	response->shown.status = job->entry.status;
	response->shown.cache = use;
	wr_fetch_entry_touch(&job->entry, wr_clock_wall_ns());
	if (rc == 0 && wr_fetch_is_redirect(job, job->entry.status))
		rc = wr_fetch_redirect(job, &response->error);
	else if (rc == 0)
		rc = pass_body(job);
	wr_fetch_count(
		client,
		use == WEIR_CACHE_FRESH ? &client->info.cache_hits : &client->info.revalidated, 1);
	if (rc > 0)
		wr_fetch_job_enter(job);
	else
		wr_fetch_job_end(job, rc, rc ? weir_strerror(rc) : "");
}

static bool has_validator(const struct wr_fetch_entry *entry)
{
	struct weir_str value;

	return wr_fetch_fields_get(entry->stored.fields, WR_STR("etag"), &value) ||
	       wr_fetch_fields_get(entry->stored.fields, WR_STR("last-modified"), &value);
}

bool wr_fetch_cached_answer(struct wr_fetch_job *job)
{
	struct weir_str request = wr_buf_str(&job->request);
	struct wr_fetch_directives asked;
	struct wr_fetch_key key;

	wr_fetch_directives_read(request, &asked);
	if (!job->uses_cache || asked.no_store || !make_key(job, &key))
		return false;
	job->has_entry = wr_fetch_cache_find(job->client->cache, &key, &job->entry);
	if (job->has_entry && wr_fetch_is_fresh(&job->entry.stored, request, wall_s())) {
		answer(job, job->entry.stored.fields, WEIR_CACHE_FRESH);
		return true;
	}
	if (job->has_entry && !has_validator(&job->entry))
		close_entry(job);
	return false;
}

/* Asks again, without a condition. The caller did not ask for a 304, so it does not become the response if
 * the next attempt cannot start. The job is not entered again: if the file could not be removed, it would
 * be found once more. */
static void ask_without_entry(struct wr_fetch_job *job)
{
	struct wr_fetch_key key;

	if (make_key(job, &key))
		wr_fetch_cache_remove(job->client->cache, &key);
	close_entry(job);
	wr_fetch_response_clear(job->response);
	job->responded = false;
	wr_fetch_job_queue(job, true);
}

void wr_fetch_cached_confirm(struct wr_fetch_job *job)
{
	struct wr_fetch_stored stored = {.requested_s = job->sent_wall_ns / WR_SECOND_NS,
					 .received_s = wall_s()};
	struct wr_fetch_key key;
	struct wr_buf fields;

	if (!wr_fetch_can_confirm(job->entry.stored.fields, wr_buf_str(&job->response->fields))) {
		ask_without_entry(job);
		return;
	}
	wr_buf_init(&fields, WR_FETCH_FIELDS_MAX);
	wr_fetch_fields_update(job->entry.stored.fields, wr_buf_str(&job->response->fields),
			       &fields);
	if (wr_buf_failed(&fields)) { /* too long together: keep what is stored */
		wr_buf_clear(&fields);
		wr_buf_add_str(&fields, job->entry.stored.fields);
	}
	stored.fields = wr_buf_str(&fields);
	if (make_key(job, &key))
		wr_fetch_cache_update(job->client->cache, &key, &job->entry, &stored);
	answer(job, stored.fields, WEIR_CACHE_REVALIDATED);
	wr_buf_free(&fields);
}

/* ---- storing ---- */

void wr_fetch_cached_begin(struct wr_fetch_job *job)
{
	struct wr_fetch_stored stored = {.requested_s = job->sent_wall_ns / WR_SECOND_NS,
					 .received_s = wall_s(),
					 .fields = wr_buf_str(&job->response->fields)};
	unsigned status = job->response->shown.status;
	bool confirms = status == 304 && job->has_entry; /* wr_fetch_cached_confirm decides */
	struct wr_fetch_directives asked;
	struct wr_fetch_key key;

	if (!job->uses_cache || !make_key(job, &key))
		return;
	wr_fetch_directives_read(wr_buf_str(&job->request), &asked);
	if (wr_fetch_can_store(wr_buf_str(&job->request), status, stored.fields))
		job->writer = wr_fetch_cache_begin(job->client->cache, &key, status, &stored);
	else if (status < 400 && !confirms &&
		 !asked.no_store) /* the stored response is no longer right */
		wr_fetch_cache_remove(job->client->cache, &key);
}

/* Returns whether the request may have changed what its URL names. */
static bool changes_resource(const struct wr_fetch_job *job)
{
	static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "TRACE"};
	unsigned status = job->response->shown.status;

	for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
		if (strcmp(job->method, safe[i]) == 0)
			return false;
	return status >= 200 && status < 400;
}

void wr_fetch_cached_drop(struct wr_fetch_job *job)
{
	wr_fetch_writer_drop(job->writer);
	job->writer = NULL;
}

void wr_fetch_cached_end(struct wr_fetch_job *job, bool complete)
{
	struct wr_fetch_cache *cache = job->client->cache;

	if (job->writer && complete) {
		wr_fetch_writer_commit(job->writer);
		job->writer = NULL;
	}
	wr_fetch_cached_drop(job);
	close_entry(job);
	if (cache && complete && changes_resource(job))
		wr_fetch_cache_forget(cache, wr_str(job->url));
}
