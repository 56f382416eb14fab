/* Implements fleet.h. */
#include "client/fleet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weir/algo.h>

#include "client/pace.h"
#include "client/shared.h"

#define SECOND_NS 1000000000ull
#define START_NS (1800000000 * SECOND_NS)
#define TRIP_NS 5000000ull /* between client and server, one way */

struct client {
	struct wr_pace pace;
	uint64_t event_ns; /* of the arrival at the server */
	uint64_t leaves_ns;
	uint32_t admitted;
};

struct server {
	struct weir_limit limit;
	struct weir_state state;
	struct weir_log log;
};

static uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void server_init(struct server *server, const struct fleet_plan *plan)
{
	*server = (struct server){.limit = {.size = sizeof server->limit,
					    .algorithm = (uint32_t)plan->algorithm,
					    .limit = plan->limit,
					    .period_ns = plan->period_ns}};
	if (weir_limit_check(&server->limit, NULL) < 0)
		abort();
	server->log.capacity = plan->limit;
	server->log.stamps = calloc(plan->limit, sizeof *server->log.stamps);
}

/* Rounds up to seconds. */
static uint64_t round_up(uint64_t ns)
{
	return (ns + SECOND_NS - 1) / SECOND_NS * SECOND_NS;
}

/* Decides a request, and writes what a response of weir would tell. */
static bool serve(struct server *server, const struct fleet_plan *plan, uint32_t cost,
		  uint64_t now_ns, struct weir_ratelimit *told)
{
	struct weir_ratelimit_policy *policy = &told->policies[0];
	struct weir_decision d;
	int rc = server->limit.algorithm == WEIR_SLIDING_LOG
			 ? weir_log_step(&server->limit, &server->log, NULL, cost, now_ns, &d)
			 : weir_step(&server->limit, &server->state, NULL, cost, now_ns, &d);

	if (rc < 0)
		abort();
	*told = (struct weir_ratelimit){.size = sizeof *told, .count = 1, .refused = !d.admitted};
	*policy = (struct weir_ratelimit_policy){
		.name = {"api", 3},
		.form = WEIR_RATELIMIT_IETF,
		.unit = plan->cost_max ? WEIR_RATELIMIT_TOKENS : WEIR_RATELIMIT_REQUESTS,
		.has = WEIR_RATELIMIT_HAS_LIMIT | WEIR_RATELIMIT_HAS_REMAINING |
		       (plan->told ? plan->told : WEIR_RATELIMIT_HAS_WINDOW),
		.limit = server->limit.capacity,
		.remaining = d.remaining,
		.window_ns = server->limit.period_ns,
		.reset_ns = plan->whole_seconds ? round_up(d.reset_after_ns) : d.reset_after_ns,
	};
	if (!d.admitted)
		told->wait_ns = round_up(d.retry_after_ns);
	return d.admitted;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double slowest_of_median(const struct client *clients, uint32_t count)
{
	uint32_t *admitted = malloc(count * sizeof *admitted);
	uint32_t middle = count / 2;
	double ratio;

	for (uint32_t i = 0; i < count; i++)
		admitted[i] = clients[i].admitted;
	qsort(admitted, count, sizeof *admitted, by_number);
	ratio = (double)admitted[0] / (double)admitted[middle];
	free(admitted);
	return ratio;
}

static double largest_share(const struct client *clients, uint32_t count)
{
	uint32_t largest = 0, sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += clients[i].admitted;
		if (clients[i].admitted > largest)
			largest = clients[i].admitted;
	}
	return (double)largest / sum;
}

static struct client *next_client(struct client *clients, uint32_t count)
{
	struct client *next = &clients[0];

	for (uint32_t i = 1; i < count; i++)
		if (clients[i].event_ns < next->event_ns)
			next = &clients[i];
	return next;
}

static struct client *make_clients(const struct fleet_plan *plan, uint64_t *seed)
{
	struct client *clients = calloc(plan->clients, sizeof *clients);
	uint64_t middle_ns = START_NS + plan->seconds * SECOND_NS / 2;

	for (uint32_t i = 0; i < plan->clients; i++) {
		wr_pace_init(&clients[i].pace, 0);
		clients[i].pace.shared = i < plan->sharing;
		clients[i].event_ns = START_NS + draw(seed) % 10000000;
		clients[i].leaves_ns = UINT64_MAX;
		if (i < plan->late_clients)
			clients[i].event_ns += middle_ns - START_NS;
		else if (i < plan->late_clients + plan->leaving_clients)
			clients[i].leaves_ns = middle_ns;
	}
	return clients;
}

/* Returns the time at which the client runs: later if all clients stand still, as on a busy machine. */
static uint64_t end_of_stall(const struct fleet_plan *plan, uint64_t now_ns)
{
	uint64_t every_ns = plan->stall_every_s * SECOND_NS, at_ns;

	if (!every_ns)
		return now_ns;
	at_ns = (now_ns - START_NS) % every_ns;
	return at_ns < every_ns - SECOND_NS ? now_ns : now_ns + every_ns - at_ns;
}

static uint32_t draw_cost(const struct fleet_plan *plan, uint64_t *seed)
{
	if (!plan->cost_max)
		return 1;
	return plan->cost_min + (uint32_t)(draw(seed) % (plan->cost_max - plan->cost_min + 1));
}

/* The client gets a response. Returns the time of its next request. */
static uint64_t answer(const struct fleet_plan *plan, struct client *client,
		       const struct weir_ratelimit *told, uint64_t now_ns, uint64_t *seed)
{
	const struct weir_str host = {"api", 3};
	double own[WEIR_RATELIMIT_POLICIES_MAX];
	uint64_t at_ns, shared_ns;

	if (!client->pace.shared) {
		wr_pace_learn(&client->pace, told, now_ns, draw(seed));
		return wr_pace_reserve(&client->pace, now_ns, draw(seed));
	}
	wr_pace_shared_count(plan->table, host, told, now_ns, own);
	wr_pace_learn_shared(&client->pace, told, own, now_ns, draw(seed));
	at_ns = wr_pace_reserve(&client->pace, now_ns, draw(seed));
	shared_ns =
		now_ns + wr_pace_shared_delay(plan->table, host, &client->pace, UINT64_MAX, now_ns);
	return shared_ns > at_ns ? shared_ns : at_ns;
}

void fleet_run(const struct fleet_plan *plan, struct fleet_result *result)
{
	uint64_t seed = plan->seed;
	uint64_t from_ns = START_NS + plan->measured_from_s * SECOND_NS;
	uint64_t end_ns = START_NS + plan->seconds * SECOND_NS;
	struct client *clients = make_clients(plan, &seed);
	struct server server;
	double units = 0;

	server_init(&server, plan);
	*result = (struct fleet_result){0};
	for (;;) {
		struct client *client = next_client(clients, plan->clients);
		uint64_t now_ns = client->event_ns;
		struct weir_ratelimit told;
		uint32_t cost;
		bool admitted;

		if (now_ns >= end_ns)
			break;
		if (now_ns >= client->leaves_ns) {
			client->event_ns = UINT64_MAX;
			continue;
		}
		if (end_of_stall(plan, now_ns) > now_ns) {
			client->event_ns = end_of_stall(plan, now_ns);
			continue;
		}
		cost = draw_cost(plan, &seed);
		admitted = serve(&server, plan, cost, now_ns, &told);
		if (now_ns >= from_ns) {
			result->requests++;
			result->refused += !admitted;
			result->admitted += admitted;
			units += admitted ? cost : 0;
			client->admitted += admitted;
		}
		now_ns += TRIP_NS;
		client->event_ns = answer(plan, client, &told, now_ns, &seed) + TRIP_NS;
	}
	result->refused_share = (double)result->refused / result->requests;
	result->used_share =
		units * (double)plan->period_ns / plan->limit / (double)(end_ns - from_ns);
	result->slowest_of_median =
		slowest_of_median(clients + plan->late_clients + plan->leaving_clients,
				  plan->clients - plan->late_clients - plan->leaving_clients);
	result->largest_share = largest_share(clients, plan->clients);
	free(server.log.stamps);
	free(clients);
}
