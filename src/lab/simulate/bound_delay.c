/* Computes D, the time after which all nodes count a unit of an eventual limit that one node has
 * admitted: see bound.h. */
#include "lab/simulate/bound.h"

#define MS 1000000ull
/* A timer of a node fires up to 0.1 % of its time plus 1 ms late (src/sim/net.c). */
#define TIMER_LATE_NS MS

uint64_t wr_lab_bound_turn_ns(const struct wr_lab_bounds_opts *opts)
{
	return opts->sync_ns + opts->sync_ns / 1000 + TIMER_LATE_NS;
}

/* Returns the time between two exchanges of a counter. If a round trip takes longer than an
 * interval, the next exchange begins with the first interval after the reply. */
static uint64_t exchange_gap_ns(const struct wr_lab_bounds_opts *opts, uint64_t round_trip_ns)
{
	uint64_t turn = wr_lab_bound_turn_ns(opts), turns = (round_trip_ns + turn - 1) / turn;

	return turn * (turns ? turns : 1);
}

/* Returns the longest delay of a message, one way: from a node to the Redis of its region if `home`
 * is set, otherwise from a node to the Redis of another region. */
static uint64_t longest_ns(const struct wr_lab_bounds_opts *opts, bool home)
{
	uint64_t most = 0;

	for (uint32_t node = 0; node < opts->node_count; node++)
		for (uint32_t server = 0; server < opts->server_count; server++) {
			const struct wr_sim_fleet_path *path =
				&opts->paths[node * opts->server_count + server];
			uint64_t delay_ns = path->delay_ns + path->jitter_ns;

			if ((server == opts->node_servers[node]) == home && delay_ns > most)
				most = delay_ns;
		}
	return most;
}

uint64_t wr_lab_bound_delay_ns(const struct wr_lab_bounds_opts *opts)
{
	uint64_t trip_ns = 2 * longest_ns(opts, true), push_ns;
	uint64_t delay_ns = 2 * exchange_gap_ns(opts, trip_ns) + 2 * trip_ns;

	if (opts->server_count == 1)
		return delay_ns;
	/* The node pushes the counter to the other regions when its own Redis has replied. While an
	 * earlier push is in flight, the counter waits for its end and for the next exchange. */
	push_ns = longest_ns(opts, false);
	if (2 * push_ns >= opts->sync_ns)
		delay_ns += 2 * push_ns + wr_lab_bound_turn_ns(opts) + trip_ns;
	return delay_ns + push_ns;
}
