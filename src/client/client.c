/* The calls of <weir/client.h>: opening, handing in requests, taking responses, closing. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "client/engine.h"

#define JOBS_MAX ((size_t)1 << 20)
#define MINUTE_NS 60000000000ull

/* ---- options ---- */

static void default_uint(uint32_t *value, uint32_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void default_long(uint64_t *value, uint64_t otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

static void set_defaults(struct weir_client_opts *opts)
{
	default_uint(&opts->attempts, WR_RETRY_ATTEMPTS);
	default_uint(&opts->per_host, 8);
	default_uint(&opts->transfers, 64);
	default_uint(&opts->redirects, 10);
	default_long(&opts->cache_bytes, (uint64_t)256 << 20);
	default_long(&opts->connect_ns, MINUTE_NS / 6);
	default_long(&opts->attempt_ns, MINUTE_NS);
	default_long(&opts->deadline_ns, 60 * MINUTE_NS);
	default_long(&opts->rate_ns, 1000000000u);
	default_long(&opts->body_bytes, (uint64_t)64 << 20);
	if (!opts->user_agent)
		opts->user_agent = "weir/" WEIR_VERSION;
}

static int check_opts(const struct weir_client_opts *opts, struct weir_error *error)
{
	if (opts->flags & ~(uint32_t)(WEIR_CLIENT_RETRY_ALL | WEIR_CLIENT_NO_PROXY))
		return wr_error(error, WEIR_EINVAL,
				"weir_client_opts.flags has an unknown flag: 0x%x", opts->flags);
	if (opts->reserved)
		return wr_error(error, WEIR_EINVAL, "weir_client_opts.reserved must be 0");
	if (opts->attempts > 100 || opts->per_host > 65536 || opts->transfers > 65536 ||
	    opts->redirects > 100)
		return wr_error(error, WEIR_EINVAL,
				"attempts and redirects must be at most 100, per_host and "
				"transfers at most 65536");
	if (opts->connect_ns > 1440 * MINUTE_NS || opts->attempt_ns > 1440 * MINUTE_NS ||
	    opts->deadline_ns > 366 * 1440 * MINUTE_NS || opts->rate_ns > 1440 * MINUTE_NS)
		return wr_error(error, WEIR_EINVAL,
				"a timeout or rate_ns is longer than a day, or the deadline is "
				"longer than a year");
	if (opts->body_bytes > (uint64_t)1 << 40)
		return wr_error(error, WEIR_EINVAL, "body_bytes must be at most 1 TiB");
	if (opts->cache_dir && opts->cache_bytes < WR_FETCH_CACHE_MIN)
		return wr_error(error, WEIR_EINVAL, "cache_bytes must be at least 1 MiB");
	if (!wr_fetch_is_value(wr_str(opts->user_agent)))
		return wr_error(error, WEIR_EINVAL, "user_agent has a control character");
	return 0;
}

static int read_opts(const struct weir_client_opts *given, struct weir_client_opts *opts,
		     struct weir_error *error)
{
	*opts = (struct weir_client_opts){0};
	if (!given || given->size < 8 || given->size > sizeof *opts)
		return wr_error(error, WEIR_EINVAL, "weir_client_opts.size is %u",
				given ? given->size : 0);
	memcpy(opts, given, given->size);
	set_defaults(opts);
	return check_opts(opts, error);
}

/* Replaces the caller's texts by copies. */
static int copy_texts(struct weir_client *client)
{
	struct weir_client_opts *opts = &client->opts;
	const char **texts[] = {&opts->user_agent, &opts->cache_dir, &opts->table, &opts->table_dir,
				&opts->ca_file};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (!*texts[i])
			continue;
		client->texts[i] = strdup(*texts[i]);
		if (!client->texts[i])
			return WEIR_EMEMORY;
		*texts[i] = client->texts[i];
	}
	return 0;
}

/* ---- opening ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global;

static void init_curl(void)
{
	global = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool is_due_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return wr_container_of(a, const struct wr_fetch_job, due_node)->due_ns <
	       wr_container_of(b, const struct wr_fetch_job, due_node)->due_ns;
}

static bool ends_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return wr_container_of(a, const struct wr_fetch_job, deadline_node)->deadline_ns <
	       wr_container_of(b, const struct wr_fetch_job, deadline_node)->deadline_ns;
}

static void init(struct weir_client *client)
{
	pthread_condattr_t attr;
	uint64_t seed = client->opts.seed;

	client->magic = WR_FETCH_MAGIC;
	if (!seed && getrandom(&seed, sizeof seed, 0) < 0)
		seed = wr_clock_mono_ns() ^ (uint64_t)getpid();
	atomic_init(&client->random, seed);
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->done_cond, &attr);
	pthread_condattr_destroy(&attr);
	wr_list_init(&client->submitted);
	wr_list_init(&client->done);
	wr_list_init(&client->jobs);
	wr_list_init(&client->hosts);
	wr_list_init(&client->ready_hosts);
	wr_list_init(&client->startable);
	wr_heap_init(&client->due, is_due_before, JOBS_MAX);
	wr_heap_init(&client->deadlines, ends_before, JOBS_MAX);
}

static void free_client(struct weir_client *client)
{
	wr_fetch_hosts_free(client);
	wr_heap_free(&client->due);
	wr_heap_free(&client->deadlines);
	if (client->multi)
		curl_multi_cleanup(client->multi);
	if (client->cache)
		wr_fetch_cache_close(client->cache);
	if (client->table)
		weir_close(client->table);
	pthread_cond_destroy(&client->done_cond);
	pthread_mutex_destroy(&client->lock);
	for (size_t i = 0; i < sizeof client->texts / sizeof *client->texts; i++)
		free(client->texts[i]);
	client->magic = 0;
	free(client);
}

/* Opens what the options name. */
static int open_all(struct weir_client *client, struct weir_error *error)
{
	struct weir_opts table = {
		.size = sizeof table, .name = client->opts.table, .dir = client->opts.table_dir};
	int rc = copy_texts(client);

	pthread_once(&once, init_curl);
	client->multi = global ? NULL : curl_multi_init();
	if (rc < 0 || !client->multi)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)client->opts.transfers);
	if (client->opts.ca_file && access(client->opts.ca_file, R_OK) < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot read the certificates %s",
				      client->opts.ca_file);
	if (client->opts.cache_dir)
		rc = wr_fetch_cache_open(client->opts.cache_dir, client->opts.cache_bytes,
					 &client->cache, error);
	if (rc == 0 && client->opts.table)
		rc = weir_open(&table, &client->table, error);
	return rc;
}

int weir_client_open(const struct weir_client_opts *given, struct weir_client **made,
		     struct weir_error *error)
{
	struct weir_client *client;
	struct weir_client_opts opts;
	int rc = read_opts(given, &opts, error);

	if (rc < 0)
		return rc;
	client = calloc(1, sizeof *client);
	if (!client)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	client->opts = opts;
	init(client);
	rc = open_all(client, error);
	if (rc < 0) {
		free_client(client);
		return rc;
	}
	*made = client;
	return 0;
}

/* ---- handing in requests ---- */

/* Starts the engine's thread with the first request. Called with the lock held. */
static int start_thread(struct weir_client *client, struct weir_error *error)
{
	int rc;

	if (client->has_thread)
		return 0;
	rc = wr_thread_start(&client->thread, "weir-client", wr_fetch_engine_run, client);
	if (rc)
		return wr_error(error, rc == ENOMEM ? WEIR_EMEMORY : WEIR_ESYS,
				"cannot start the thread of the client");
	client->has_thread = true;
	return 0;
}

/* Hands the job to the engine. `waiter` is NULL for a request of weir_client_start. */
static int submit(struct wr_fetch_job *job, struct wr_fetch_waiter *waiter,
		  struct weir_error *error)
{
	struct weir_client *client = job->client;
	int rc;

	pthread_mutex_lock(&client->lock);
	rc = start_thread(client, error);
	if (rc == 0 && !waiter && client->started >= WR_FETCH_STARTED_MAX)
		rc = wr_error(error, WEIR_EMANY, "%u requests are under way", WR_FETCH_STARTED_MAX);
	if (rc == 0) {
		job->waiter = waiter;
		client->started += !waiter;
		wr_list_add_last(&client->submitted, &job->link);
	}
	pthread_mutex_unlock(&client->lock);
	if (rc == 0)
		curl_multi_wakeup(client->multi);
	else
		wr_fetch_job_free(job);
	return rc;
}

int weir_client_start(struct weir_client *client, const struct weir_request *request,
		      struct weir_error *error)
{
	struct wr_fetch_job *job;
	int rc;

	wr_assert_magic(client, WR_FETCH_MAGIC);
	rc = wr_fetch_job_make(client, request, &job, error);
	return rc < 0 ? rc : submit(job, NULL, error);
}

static struct wr_fetch_response *wait_for(struct weir_client *client,
					  struct wr_fetch_waiter *waiter)
{
	pthread_mutex_lock(&client->lock);
	while (!waiter->response)
		pthread_cond_wait(&waiter->cond, &client->lock);
	pthread_mutex_unlock(&client->lock);
	return waiter->response;
}

int weir_client_send(struct weir_client *client, const struct weir_request *request,
		     struct weir_response **response, struct weir_error *error)
{
	struct wr_fetch_waiter waiter = {.response = NULL};
	struct wr_fetch_response *own;
	struct wr_fetch_job *job;
	int rc;

	wr_assert_magic(client, WR_FETCH_MAGIC);
	*response = NULL;
	rc = wr_fetch_job_make(client, request, &job, error);
	if (rc < 0)
		return rc;
	pthread_cond_init(&waiter.cond, NULL);
	rc = submit(job, &waiter, error);
	if (rc == 0) {
		own = wait_for(client, &waiter);
		*response = &own->shown;
		rc = own->shown.code;
		if (rc < 0 && error)
			*error = own->error;
	}
	pthread_cond_destroy(&waiter.cond);
	return rc;
}

/* ---- taking responses ---- */

struct weir_response *weir_client_next(struct weir_client *client, uint64_t timeout_ns)
{
	uint64_t now_ns = wr_clock_mono_ns();
	struct timespec until = wr_clock_timespec(
		timeout_ns > UINT64_MAX / 4 ? UINT64_MAX / 4 : now_ns + timeout_ns);
	struct wr_fetch_response *response = NULL;
	struct wr_list *link;
	int rc = 0;

	wr_assert_magic(client, WR_FETCH_MAGIC);
	pthread_mutex_lock(&client->lock);
	while (!(link = wr_list_pop(&client->done)) && client->started && rc == 0)
		rc = pthread_cond_timedwait(&client->done_cond, &client->lock, &until);
	if (link) {
		response = wr_container_of(link, struct wr_fetch_response, link);
		if (--client->started == 0) /* no other thread gets a response */
			pthread_cond_broadcast(&client->done_cond);
	}
	pthread_mutex_unlock(&client->lock);
	return response ? &response->shown : NULL;
}

void weir_client_cancel(struct weir_client *client)
{
	wr_assert_magic(client, WR_FETCH_MAGIC);
	pthread_mutex_lock(&client->lock);
	client->cancels = true;
	pthread_mutex_unlock(&client->lock);
	curl_multi_wakeup(client->multi);
}

int weir_client_info(struct weir_client *client, struct weir_client_info *info)
{
	uint32_t size = info->size;

	wr_assert_magic(client, WR_FETCH_MAGIC);
	if (size < 8 || size > sizeof *info)
		return WEIR_EINVAL;
	pthread_mutex_lock(&client->lock);
	memcpy(info, &client->info, size);
	pthread_mutex_unlock(&client->lock);
	info->size = size;
	return 0;
}

void weir_client_close(struct weir_client *client)
{
	struct wr_list *link;

	if (!client)
		return;
	wr_assert_magic(client, WR_FETCH_MAGIC);
	pthread_mutex_lock(&client->lock);
	client->stops = true;
	pthread_mutex_unlock(&client->lock);
	if (client->has_thread) {
		curl_multi_wakeup(client->multi);
		pthread_join(client->thread, NULL);
	}
	while ((link = wr_list_pop(&client->done)))
		weir_response_free(&wr_container_of(link, struct wr_fetch_response, link)->shown);
	free_client(client);
}
