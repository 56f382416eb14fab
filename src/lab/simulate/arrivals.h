/* Makes the requests of a scenario one after the other, in the order of time. The same scenario and
 * the same seed give the same requests on every machine. The memory does not depend on the number
 * of requests. */
#ifndef WR_LAB_SIMULATE_ARRIVALS_H
#define WR_LAB_SIMULATE_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/error.h>

#include "lab/log/log.h"
#include "lab/simulate/scenario.h"

struct wr_lab_arrivals;

struct wr_lab_arrival {
	uint64_t at_ns;
	uint32_t client; /* from 0 */
	uint32_t cost;
	uint32_t regions; /* set of the regions where the request can arrive, one bit each */
	uint64_t random;  /* a random number, with which the caller chooses a node */
};

/* The notes of all logs (struct wr_lab_log_totals), such as files of a directory that are left out.
 * Each text occurs once. Only a directory has a note, because a scenario names no fields. */
struct wr_lab_log_notes {
	char texts[WR_LAB_TRAFFIC][512];
	uint32_t count;
};

/* Opens the logs of the scenario, if it has any. The caller keeps the scenario. Returns 0, an error
 * of wr_lab_log_open(), or WEIR_EMEMORY. */
int wr_lab_arrivals_open(const struct wr_lab_scenario *scenario, uint64_t seed,
			 struct wr_lab_arrivals **out, struct weir_error *error);
/* Sets *arrival to the next request. Returns false at the end of the run. */
bool wr_lab_arrivals_next(struct wr_lab_arrivals *arrivals, struct wr_lab_arrival *arrival);
/* Returns the time of the next request, or UINT64_MAX if there are no more requests. */
uint64_t wr_lab_arrivals_next_ns(const struct wr_lab_arrivals *arrivals);
/* Returns the set of the logs that have further requests when the run ends at end_ns: bit i stands
 * for the entry i of `traffic`. A log that its own `for` ends, or that has not begun, is not in the
 * set. */
uint32_t wr_lab_arrivals_unread(const struct wr_lab_arrivals *arrivals, uint64_t end_ns);
/* Adds up what the logs of the scenario contained, as far as they have been read. All numbers are 0
 * if the scenario has no log. */
void wr_lab_arrivals_logs(const struct wr_lab_arrivals *arrivals, struct wr_lab_log_totals *totals);
void wr_lab_arrivals_notes(const struct wr_lab_arrivals *arrivals, struct wr_lab_log_notes *notes);
void wr_lab_arrivals_close(struct wr_lab_arrivals *arrivals);

#endif
