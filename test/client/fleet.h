/* Clients with wr_pace on one limit, in virtual time. The server decides with weir_step and
 * weir_log_step. */
#ifndef TEST_CLIENT_FLEET_H
#define TEST_CLIENT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

struct fleet_plan {
	int algorithm; /* enum weir_algorithm */
	uint32_t limit;
	uint64_t period_ns;
	uint32_t clients;
	uint32_t seconds;         /* of the run */
	uint32_t measured_from_s; /* requests before are not measured */
	uint32_t late_clients;    /* how many of the clients start in the middle of the run */
	uint32_t leaving_clients; /* how many of the clients stop in the middle of the run */
	uint32_t
		stall_every_s; /* the clients stand still for a second at this interval; 0: never */
	/* A request costs between these numbers of tokens. 0: the limit counts requests. */
	uint32_t cost_min, cost_max;
	bool whole_seconds; /* the told reset is rounded up to seconds */
	uint8_t told; /* enum weir_ratelimit_has, besides limit and remaining; 0: the window */
	/* The first clients are processes of one machine, and share their pace through the table. */
	uint32_t sharing;
	struct weir_table *table;
	uint64_t seed;
};

struct fleet_result {
	uint32_t requests, refused, admitted;
	double refused_share;     /* of the requests */
	double used_share;        /* of the units that the limit had */
	double slowest_of_median; /* admitted requests of the slowest client ÷ of the median client */
	double largest_share;     /* admitted requests of the fastest client ÷ of all clients */
};

void fleet_run(const struct fleet_plan *plan, struct fleet_result *result);

#endif
