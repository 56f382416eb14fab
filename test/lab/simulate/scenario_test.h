/* Makes scenarios from texts, for the suites of scenarios. */
#ifndef TEST_LAB_SCENARIO_TEST_H
#define TEST_LAB_SCENARIO_TEST_H

#include "lab/simulate/scenario.h"
#include "lab/simulate/simulate.h"

/* Reads the text as a scenario. The test fails if the text has errors. The caller frees the
 * result. */
struct wr_lab_scenario *scenario_of(const char *text);

/* Runs a scenario. The caller frees the result, whose scenario is freed by simulation_free(). */
struct wr_lab_simulation *simulate_text(const char *text);
void simulation_free(struct wr_lab_simulation *simulation);

#endif
