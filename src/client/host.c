/* Hosts: their pace, circuit breaker and retry budget. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "client/engine.h"
#include "client/shared.h"

#define SPREAD_NS 100000000u /* spread of the attempts that a shared wait has held back */

/* ---- the table of hosts ---- */

static struct wr_fetch_host **bucket_of(struct weir_client *client, const char *key)
{
	return &client->buckets[XXH3_64bits(key, strlen(key)) % WR_FETCH_BUCKETS];
}

static struct wr_fetch_host *find(struct weir_client *client, const char *key)
{
	struct wr_fetch_host *host = *bucket_of(client, key);

	while (host && strcmp(host->key, key) != 0)
		host = host->next;
	return host;
}

static void remove_host(struct weir_client *client, struct wr_fetch_host *host)
{
	struct wr_fetch_host **at = bucket_of(client, host->key);

	while (*at != host)
		at = &(*at)->next;
	*at = host->next;
	wr_list_remove(&host->link);
	client->host_count--;
	free(host);
}

/* Removes the host whose latest request is longest ago and that has no jobs. A host that has told a wait is
 * kept as long as there are others: without it, the next request would be sent too soon. */
static void remove_oldest(struct weir_client *client)
{
	uint64_t now_ns = wr_clock_mono_ns();
	struct wr_fetch_host *held = NULL;

	for (struct wr_list *link = client->hosts.prev; link != &client->hosts; link = link->prev) {
		struct wr_fetch_host *host = wr_container_of(link, struct wr_fetch_host, link);

		if (host->jobs == 0 && host->pace.hold_ns <= now_ns) {
			remove_host(client, host);
			return;
		}
		if (host->jobs == 0 && !held)
			held = host;
	}
	if (held)
		remove_host(client, held);
}

static struct wr_fetch_host *add(struct weir_client *client, const char *key, const char *text)
{
	const struct weir_client_opts *opts = &client->opts;
	struct wr_fetch_host **at = bucket_of(client, key), *host = calloc(1, sizeof *host);
	double rate = opts->rate_count ? opts->rate_count * 1e9 / (double)opts->rate_ns : 0;

	if (!host)
		return NULL;
	if (client->host_count >= WR_FETCH_HOSTS_MAX)
		remove_oldest(client);
	memcpy(host->key, key, strlen(key) + 1);
	memcpy(host->text, text, strlen(text) + 1);
	wr_pace_init(&host->pace, rate);
	host->pace.shared = client->table;
	wr_retry_budget_init(&host->budget);
	wr_list_init(&host->ready);
	host->next = *at;
	*at = host;
	wr_list_add_first(&client->hosts, &host->link);
	client->host_count++;
	return host;
}

int wr_fetch_host_enter(struct wr_fetch_job *job, struct weir_error *error)
{
	struct weir_client *client = job->client;
	char key[WR_FETCH_HOST_TEXT], text[WR_FETCH_HOST_TEXT];
	int rc = wr_fetch_url_read(job->url, key, text, error);

	if (rc < 0)
		return rc;
	job->host = find(client, key);
	if (!job->host)
		job->host = add(client, key, text);
	if (!job->host)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	job->host->jobs++;
	wr_list_remove(&job->host->link);
	wr_list_add_first(&client->hosts, &job->host->link);
	return 0;
}

void wr_fetch_host_leave(struct wr_fetch_job *job)
{
	if (job->host)
		job->host->jobs--;
	job->host = NULL;
}

void wr_fetch_hosts_free(struct weir_client *client)
{
	struct wr_list *next;

	for (struct wr_list *link = wr_list_first(&client->hosts); link; link = next) {
		next = wr_list_after(&client->hosts, link);
		remove_host(client, wr_container_of(link, struct wr_fetch_host, link));
	}
}

/* ---- the pace ---- */

static enum weir_wait_reason reason_of(const struct wr_pace *pace, uint64_t at_ns, uint64_t now_ns)
{
	if (at_ns <= now_ns)
		return WEIR_WAIT_NONE;
	if (pace->hold_ns > now_ns)
		return WEIR_WAIT_TOLD;
	return wr_pace_tightest(pace, now_ns) ? WEIR_WAIT_PACE : WEIR_WAIT_RATE;
}

/* Returns the latest of the times at which an attempt may start, and its reason. An attempt that would
 * start after its deadline is not sent, so it reserves no time: otherwise attempts that nobody sends
 * would delay those that come later. */
uint64_t wr_fetch_host_reserve(struct wr_fetch_job *job, uint64_t now_ns,
			       enum weir_wait_reason *reason)
{
	struct weir_client *client = job->client;
	struct wr_fetch_host *host = job->host;
	uint64_t at_ns = wr_pace_earliest(&host->pace, now_ns), shared_ns = 0;

	*reason = reason_of(&host->pace, at_ns, now_ns);
	if (at_ns >= job->deadline_ns)
		return at_ns;
	if (client->table)
		shared_ns =
			now_ns + wr_pace_shared_delay(client->table, wr_str(host->key), &host->pace,
						      job->deadline_ns - now_ns, weir_now_ns());
	if (shared_ns > at_ns)
		*reason = WEIR_WAIT_PACE;
	if (shared_ns < job->deadline_ns)
		wr_pace_reserve(&host->pace, now_ns, wr_fetch_random(client));
	return shared_ns > at_ns ? shared_ns : at_ns;
}

uint64_t wr_fetch_host_confirm(struct wr_fetch_job *job, uint64_t now_ns,
			       enum weir_wait_reason *reason)
{
	struct weir_client *client = job->client;
	uint64_t at_ns = wr_pace_confirm(&job->host->pace, now_ns, wr_fetch_random(client));
	uint64_t held_ns;

	*reason = WEIR_WAIT_TOLD;
	if (at_ns > now_ns)
		return at_ns;
	held_ns = client->table ? wr_pace_shared_held(client->table, wr_str(job->host->key),
						      weir_now_ns())
				: 0;
	if (held_ns)
		return now_ns + held_ns + wr_fetch_random(client) % SPREAD_NS;
	*reason = WEIR_WAIT_BREAKER;
	if (wr_polite_breaker_pass(&job->host->breaker, now_ns, &at_ns))
		return now_ns;
	return at_ns > now_ns ? at_ns : now_ns + 1;
}

void wr_fetch_host_learn(struct wr_fetch_job *job, const struct weir_ratelimit *told,
			 uint64_t now_ns)
{
	struct weir_client *client = job->client;
	struct wr_pace *pace = &job->host->pace;
	struct weir_str name = wr_str(job->host->key);
	double own[WEIR_RATELIMIT_POLICIES_MAX];

	if (!client->table) {
		wr_pace_learn(pace, told, now_ns, wr_fetch_random(client));
		return;
	}
	wr_pace_shared_count(client->table, name, told, weir_now_ns(), own);
	wr_pace_learn_shared(pace, told, own, now_ns, wr_fetch_random(client));
	if (told->wait_ns)
		wr_pace_shared_hold(client->table, name, told->wait_ns, weir_now_ns());
}
