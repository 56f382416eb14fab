/* Measures the length of a run by its requests, before the run. */
#include "lab/simulate/inner.h"

#define S_NS 1000000000ull

int wr_lab_measure_logs(struct wr_lab_scenario *scenario, struct weir_error *error)
{
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_arrival arrival;
	uint64_t last_ns = 0;
	int rc;

	if (!scenario->as_long_as_logs)
		return 0;
	rc = wr_lab_arrivals_open(scenario, scenario->seed, &arrivals, error);
	if (rc != 0)
		return rc;
	while (wr_lab_arrivals_next(arrivals, &arrival))
		last_ns = arrival.at_ns;
	/* If a log is longer than the longest run, duration_ns remains the longest duration. A request
	 * at the very end of the run would not be part of it. */
	if (!wr_lab_arrivals_unread(arrivals, scenario->duration_ns))
		scenario->duration_ns = (last_ns / S_NS + 1) * S_NS;
	wr_lab_arrivals_close(arrivals);
	scenario->as_long_as_logs = false;
	return 0;
}

int wr_lab_measure_run(const struct wr_lab_scenario *scenario, uint64_t seed, uint64_t *end_ns,
		       struct weir_error *error)
{
	struct wr_lab_arrivals *arrivals;
	struct wr_lab_arrival arrival;
	uint64_t requests = 0;
	int rc;

	*end_ns = scenario->duration_ns;
	if (!scenario->requests_max)
		return 0;
	rc = wr_lab_arrivals_open(scenario, seed, &arrivals, error);
	if (rc != 0)
		return rc;
	while (requests < scenario->requests_max && wr_lab_arrivals_next(arrivals, &arrival))
		requests++;
	if (wr_lab_arrivals_next_ns(arrivals) < *end_ns)
		*end_ns = wr_lab_arrivals_next_ns(arrivals);
	wr_lab_arrivals_close(arrivals);
	return 0;
}
