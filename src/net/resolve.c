/* Host name lookups in threads; see resolve.h. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/thread.h"

#define LOOKUPS_MAX 32u
#define FRESH_MS 1000u
#define STACK_BYTES ((size_t)256 << 10) /* getaddrinfo has large buffers */

/* Shared by the thread and the loop. The last of the two frees it. */
struct job {
	unsigned refs;
	int done; /* eventfd: the thread writes it when the rest is set */
	char name[WR_HOST_MAX + 1];
	int rc; /* of getaddrinfo */
	int system_error;
	struct wr_addresses addresses;
	bool is_complete; /* rc, system_error and addresses are set */
};

/* A name that is being looked up, or a result that no caller has received yet. */
struct lookup {
	uv_poll_t poll;
	struct wr_names *names;
	struct job *job;
	bool finished;
	uint64_t finished_ms;
	struct wr_name_wait *waits;
	struct lookup *next;
};

struct wr_names {
	uv_loop_t *uv;
	unsigned lookups_open; /* lookups whose handles libuv has not closed yet */
	unsigned count;
	bool stopped;
	struct lookup *lookups;
};

/* ---- the thread ---- */

/* Acquire and release: the thread that frees the job sees all writes of the other one. */
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
	/* Release: on_done loads it, and then reads the result. */
	__atomic_store_n(&job->is_complete, true, __ATOMIC_RELEASE);
	eventfd_write(job->done, 1);
	release_job(job);
	return NULL;
}

/* ---- the loop ---- */

static void free_names(struct wr_names *names)
{
	if (names->stopped && names->lookups_open == 0)
		free(names);
}

static void on_closed(uv_handle_t *handle)
{
	struct lookup *lookup = handle->data;
	struct wr_names *names = lookup->names;

	names->lookups_open--;
	free(lookup);
	free_names(names);
}

static void close_lookup(struct lookup *lookup)
{
	uv_close((uv_handle_t *)&lookup->poll, on_closed);
	release_job(lookup->job);
	lookup->names->count--;
}

static void unlink_lookup(struct lookup *gone)
{
	struct lookup **at = &gone->names->lookups;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
}

/* Removes and returns the first caller that waits for this lookup. */
static struct wr_name_wait *take_wait(struct lookup *lookup)
{
	struct wr_name_wait *wait = lookup->waits;

	lookup->waits = wait->next;
	if (wait->next)
		wait->next->back = &lookup->waits;
	wait->next = NULL;
	wait->back = NULL;
	return wait;
}

static void report_result(const struct lookup *lookup, struct wr_name_wait *wait)
{
	const struct job *job = lookup->job;

	if (job->rc == EAI_SYSTEM)
		wait->found(wait, NULL, strerror(job->system_error));
	else if (job->rc != 0)
		wait->found(wait, NULL, gai_strerror(job->rc));
	else if (job->addresses.count == 0)
		wait->found(wait, NULL, "the name has no address");
	else
		wait->found(wait, &job->addresses, NULL);
}

/* The lookup is unlinked first: a callback may start or cancel lookups. */
static void on_done(uv_poll_t *poll, int status, int events)
{
	struct lookup *lookup = poll->data;

	(void)status;
	(void)events;
	uv_poll_stop(poll);
	/* Acquire: pairs with the release in look_up, so the result is visible. */
	lookup->finished = __atomic_load_n(&lookup->job->is_complete, __ATOMIC_ACQUIRE);
	lookup->finished_ms = uv_now(lookup->names->uv);
	if (!lookup->waits)
		return;
	unlink_lookup(lookup);
	while (lookup->waits)
		report_result(lookup, take_wait(lookup));
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
	lookup->poll.data = lookup;
	lookup->names = names;
	lookup->job = job;
	names->lookups_open++;
	names->count++;
	if (wr_thread_start_detached("weir-lookup", STACK_BYTES, look_up, job) != 0) {
		job->refs = 1;
		close_lookup(lookup);
		return NULL;
	}
	uv_poll_start(&lookup->poll, UV_READABLE, on_done);
	lookup->next = names->lookups;
	names->lookups = lookup;
	return lookup;
}

/* Returns the lookup of this name that is in progress or finished less than FRESH_MS ago. Frees older
 * results. */
static struct lookup *find_lookup(struct wr_names *names, const char *name)
{
	struct lookup *found = NULL, *next;

	for (struct lookup *lookup = names->lookups; lookup; lookup = next) {
		next = lookup->next;
		if (lookup->finished && uv_now(names->uv) - lookup->finished_ms >= FRESH_MS) {
			unlink_lookup(lookup);
			close_lookup(lookup);
		} else if (strcmp(lookup->job->name, name) == 0) {
			found = lookup;
		}
	}
	return found;
}

/* ---- interface ---- */

struct wr_names *wr_names_new(uv_loop_t *uv)
{
	struct wr_names *names = calloc(1, sizeof *names);

	if (names)
		names->uv = uv;
	return names;
}

void wr_names_stop(struct wr_names *names)
{
	while (names->lookups) {
		struct lookup *lookup = names->lookups;

		while (lookup->waits)
			take_wait(lookup);
		unlink_lookup(lookup);
		close_lookup(lookup);
	}
	names->stopped = true;
	free_names(names);
}

void wr_names_find(struct wr_names *names, const char *name, struct wr_name_wait *wait)
{
	struct lookup *lookup = find_lookup(names, name);

	wait->next = NULL;
	wait->back = NULL;
	if (!lookup)
		lookup = begin_lookup(names, name);
	if (!lookup) {
		wait->found(wait, NULL, "too many names are being looked up");
		return;
	}
	if (lookup->finished) {
		unlink_lookup(lookup);
		report_result(lookup, wait);
		close_lookup(lookup);
		return;
	}
	wait->next = lookup->waits;
	wait->back = &lookup->waits;
	if (wait->next)
		wait->next->back = &wait->next;
	lookup->waits = wait;
}

void wr_names_leave(struct wr_name_wait *wait)
{
	if (!wait->back)
		return;
	*wait->back = wait->next;
	if (wait->next)
		wait->next->back = wait->back;
	wait->next = NULL;
	wait->back = NULL;
}
