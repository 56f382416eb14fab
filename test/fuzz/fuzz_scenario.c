/* Fuzzes a scenario of weir simulate. It is refused with errors, or loaded, and its traffic comes in
 * the order of time, from clients and regions that exist. */
#include "fuzz.h"

#include "lab/simulate/arrivals.h"
#include "lab/simulate/scenario.h"

#define ARRIVALS 500u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool reads_logs(const struct wr_lab_scenario *scenario)
{
	for (uint32_t i = 0; i < scenario->traffic_count; i++)
		if (scenario->traffic[i].kind == WR_LAB_LOG)
			return true;
	return false;
}

static void check_arrivals(const struct wr_lab_scenario *scenario)
{
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_arrival arrival;
	uint64_t last_ns = 0;

	require(wr_lab_arrivals_open(scenario, scenario->seed, &arrivals, NULL) == 0);
	for (unsigned i = 0; i < ARRIVALS && wr_lab_arrivals_next(arrivals, &arrival); i++) {
		require(arrival.at_ns >= last_ns && arrival.at_ns < scenario->duration_ns);
		require(arrival.client < scenario->clients && arrival.cost > 0);
		require(arrival.regions > 0 && arrival.regions >> scenario->region_count == 0);
		last_ns = arrival.at_ns;
	}
	wr_lab_arrivals_close(arrivals);
}

static void check_scenario(const struct wr_lab_scenario *scenario)
{
	require(scenario->limit > 0 && wr_lab_scenario_capacity(scenario) > 0);
	require(scenario->mode_count > 0 && scenario->sync_count > 0 && scenario->node_counts > 0);
	for (uint32_t i = 0; i < scenario->node_counts; i++) {
		uint32_t nodes = wr_lab_scenario_nodes(scenario, scenario->nodes[i]);

		require(nodes > 0 && nodes <= WR_LAB_NODES);
	}
	for (uint32_t i = 0; i < scenario->fault_count; i++)
		require(scenario->faults[i].at_ns < scenario->duration_ns);
	if (!reads_logs(scenario) && scenario->clients < 10000)
		check_arrivals(scenario);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;
	static int fd = -1;
	char path[64];
	int rc;

	if (fd < 0)
		fd = memfd_create("scenario", 0);
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rc = wr_lab_scenario_load(path, &scenario, &errors);
	require(rc == 0 || rc == WEIR_ERULES);
	require((rc == 0) == (errors.errors == 0) && (rc == 0) == (scenario != NULL));
	if (scenario)
		check_scenario(scenario);
	wr_lab_scenario_free(scenario);
	weir_errors_free(&errors);
	return 0;
}
