#include "lab/simulate/scenario_test.h"

// clang-format off
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wr_lab_scenario *scenario_of(const char *text)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_lab_scenario *scenario;
	char path[] = "/tmp/weir-scenario-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	rc = wr_lab_scenario_load(path, &scenario, &errors);
	if (rc != 0)
		fail_msg("%u:%u: %s", errors.items[0].line, errors.items[0].column,
			 errors.items[0].text);
	weir_errors_free(&errors);
	close(fd);
	unlink(path);
	return scenario;
}

struct wr_lab_simulation *simulate_text(const char *text)
{
	struct wr_lab_scenario *scenario = scenario_of(text);
	struct wr_lab_simulation *simulation;
	struct weir_error error;

	if (wr_lab_simulate(scenario, NULL, NULL, &simulation, &error) != 0)
		fail_msg("%s", error.text);
	return simulation;
}

void simulation_free(struct wr_lab_simulation *simulation)
{
	wr_lab_scenario_free((struct wr_lab_scenario *)simulation->scenario);
	wr_lab_simulation_free(simulation);
}
