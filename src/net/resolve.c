/* Resolves host names in threads; see resolve.h. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/endpoint.h"
#include "base/error.h"
#include "base/thread.h"

#define LOOKUPS_MAX 32u /* maximum number of lookups in progress and kept results together */
#define FRESH_MS 1000u  /* a result that no caller waited for is kept for this time */
#define STACK_BYTES                                                                                \
	((size_t)256 << 10) /* stack size of a lookup's thread; getaddrinfo has large buffers */

/* The part of a lookup that its thread uses. The thread and the loop share this struct. It is freed
 * when both have released it. */
struct job {
	unsigned refs;
	int done; /* eventfd that the thread writes when the result is set */
	char name[WR_HOST_MAX + 1];
	int rc; /* result of getaddrinfo */
	int system_error;
	struct wr_addresses addresses;
	bool is_complete; /* rc, system_error and addresses are set */
};

/* A lookup in progress, or a result that no caller has received. Used only by the loop's thread. */
struct lookup {
	uv_poll_t poll;
	struct wr_names *names;
	struct job *job;
	bool finished;
	uint64_t finished_ms;
	struct wr_list waits; /* the callers that wait: a list of struct wr_name_wait */
	struct wr_list link;  /* neighbours in the list names->lookups */
};

#define WR_NAMES_MAGIC 0x6e616d65u

struct wr_names {
	uint32_t magic; /* WR_NAMES_MAGIC */
	uv_loop_t *uv;
	unsigned lookups_open; /* number of struct lookup that are not freed yet */
	unsigned count; /* number of lookups in progress and kept results; at most LOOKUPS_MAX */
	bool stopped;
	struct wr_list lookups;
};

/* ---- the thread ---- */

/* Releases one of the two references to the job, which belong to the loop and the thread. Acquire
 * and release order make sure that the thread that frees the job sees all writes of the other
 * thread. */
static void release_job(struct job *job)
{
	if (__atomic_sub_fetch(&job->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	close(job->done);
	free(job);
}

static void copy_addresses(struct job *job, const struct addrinfo *found)
{
	for (; found && job->addresses.count < WR_NAME_ADDRESSES; found = found->ai_next) {
		if (found->ai_addrlen > sizeof *job->addresses.items)
			continue;
		memcpy(&job->addresses.items[job->addresses.count++], found->ai_addr,
		       found->ai_addrlen);
	}
}

static void *look_up(void *argument)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	struct job *job = argument;

	job->rc = getaddrinfo(job->name, NULL, &hints, &found);
	job->system_error = errno;
	if (job->rc == 0) {
		copy_addresses(job, found);
		freeaddrinfo(found);
	}
	/* Release: on_done loads is_complete with acquire order and then reads the result. */
	__atomic_store_n(&job->is_complete, true, __ATOMIC_RELEASE);
	eventfd_write(job->done, 1);
	release_job(job);
	return NULL;
}

/* ---- the loop ---- */

static void free_names(struct wr_names *names)
{
	if (!names->stopped || names->lookups_open > 0)
		return;
	names->magic = 0;
	free(names);
}

static void on_closed(uv_handle_t *handle)
{
	struct lookup *lookup = handle->data;
	struct wr_names *names = lookup->names;

	wr_assert_magic(names, WR_NAMES_MAGIC);
	wr_assert(names->lookups_open > 0);
	names->lookups_open--;
	free(lookup);
	free_names(names);
}

static void close_lookup(struct lookup *lookup)
{
	wr_list_remove(&lookup->link);
	uv_close((uv_handle_t *)&lookup->poll, on_closed);
	release_job(lookup->job);
	lookup->names->count--;
}

static void report_failure(struct wr_name_wait *wait, const char *reason)
{
	struct weir_error error;

	wr_error(&error, WEIR_ESYS, "%s", reason);
	wait->found(wait, NULL, &error);
}

static void report_result(const struct lookup *lookup, struct wr_name_wait *wait)
{
	const struct job *job = lookup->job;

	if (job->rc == EAI_SYSTEM)
		report_failure(wait, strerror(job->system_error));
	else if (job->rc != 0)
		report_failure(wait, gai_strerror(job->rc));
	else if (job->addresses.count == 0)
		report_failure(wait, "the name has no address");
	else
		wait->found(wait, &job->addresses, NULL);
}

/* Reports the result to all waiting callers. First removes the lookup from the list, because the
 * callbacks may start or cancel lookups. */
static void on_done(uv_poll_t *poll, int status, int events)
{
	struct lookup *lookup = poll->data;
	struct wr_list *link;

	(void)status;
	(void)events;
	uv_poll_stop(poll);
	/* Acquire: pairs with the release in look_up, so that the result is visible. */
	lookup->finished = __atomic_load_n(&lookup->job->is_complete, __ATOMIC_ACQUIRE);
	lookup->finished_ms = uv_now(lookup->names->uv);
	if (wr_list_is_empty(&lookup->waits))
		return;
	wr_list_remove(&lookup->link);
	while ((link = wr_list_pop(&lookup->waits)))
		report_result(lookup, wr_container_of(link, struct wr_name_wait, link));
	close_lookup(lookup);
}

static struct job *make_job(const char *name)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job)
		return NULL;
	job->refs = 2;
	job->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(job->name, sizeof job->name, "%s", name);
	if (job->done >= 0)
		return job;
	free(job);
	return NULL;
}

static struct lookup *begin_lookup(struct wr_names *names, const char *name)
{
	struct lookup *lookup = names->count < LOOKUPS_MAX ? calloc(1, sizeof *lookup) : NULL;
	struct job *job = lookup ? make_job(name) : NULL;

	if (!job) {
		free(lookup);
		return NULL;
	}
	if (uv_poll_init(names->uv, &lookup->poll, job->done) < 0) {
		job->refs = 1;
		release_job(job);
		free(lookup);
		return NULL;
	}
	wr_list_init(&lookup->waits);
	lookup->poll.data = lookup;
	lookup->names = names;
	lookup->job = job;
	wr_assert(names->count < LOOKUPS_MAX);
	names->lookups_open++;
	names->count++;
	if (wr_thread_start_detached("weir-lookup", STACK_BYTES, look_up, job) != 0) {
		job->refs = 1;
		close_lookup(lookup);
		return NULL;
	}
	uv_poll_start(&lookup->poll, UV_READABLE, on_done);
	wr_list_add_first(&names->lookups, &lookup->link);
	return lookup;
}

/* Frees results that are older than FRESH_MS. Returns the lookup of this name, or NULL if the name
 * is not being looked up and has no result. */
static struct lookup *find_lookup(struct wr_names *names, const char *name)
{
	struct lookup *found = NULL;
	struct wr_list *next;

	for (struct wr_list *link = wr_list_first(&names->lookups); link; link = next) {
		struct lookup *lookup = wr_container_of(link, struct lookup, link);

		next = wr_list_after(&names->lookups, link);
		if (lookup->finished && uv_now(names->uv) - lookup->finished_ms >= FRESH_MS)
			close_lookup(lookup);
		else if (strcmp(lookup->job->name, name) == 0)
			found = lookup;
	}
	return found;
}

/* ---- interface ---- */

struct wr_names *wr_names_new(uv_loop_t *uv)
{
	struct wr_names *names = calloc(1, sizeof *names);

	if (!names)
		return NULL;
	names->magic = WR_NAMES_MAGIC;
	names->uv = uv;
	wr_list_init(&names->lookups);
	return names;
}

void wr_names_stop(struct wr_names *names)
{
	struct wr_list *link;

	wr_assert_magic(names, WR_NAMES_MAGIC);
	wr_assert(!names->stopped);
	while ((link = wr_list_first(&names->lookups))) {
		struct lookup *lookup = wr_container_of(link, struct lookup, link);

		while (wr_list_pop(&lookup->waits))
			;
		close_lookup(lookup);
	}
	names->stopped = true;
	free_names(names);
}

void wr_names_find(struct wr_names *names, const char *name, struct wr_name_wait *wait)
{
	struct lookup *lookup = find_lookup(names, name);

	wr_assert_magic(names, WR_NAMES_MAGIC);
	wr_assert(!names->stopped && wait->found);
	wait->link = (struct wr_list){0};
	if (!lookup)
		lookup = begin_lookup(names, name);
	if (!lookup) {
		report_failure(wait, "too many names are being looked up");
		return;
	}
	if (lookup->finished) {
		wr_list_remove(&lookup->link);
		report_result(lookup, wait);
		close_lookup(lookup);
		return;
	}
	wr_list_add_first(&lookup->waits, &wait->link);
}

void wr_names_leave(struct wr_name_wait *wait)
{
	wr_list_remove(&wait->link);
}
