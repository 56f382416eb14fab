/* Runs seeds of the simulated fleet: sim [--first N] [--seeds N] [--mode strict] [--seed N]
 * [--verbose] [--json]. A mode is a consistency of limits or a name in wr_sim_kinds.
 *
 * Prints each failing seed with the violated invariant and the command that repeats the run. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/sim.h"
#include "rules/rules.h"

struct options {
	uint64_t first, count;
	uint8_t consistency;
	const struct wr_sim_kind *kind; /* NULL: the mode is a consistency */
	bool verbose;
	bool json; /* print a line of JSON instead of the summary */
};

static int usage(void)
{
	fputs("usage: sim [--first N] [--seeds N] [--seed N] [--mode "
	      "strict|lease|eventual|regions|ahead|cluster|sentinel|calendar|operator|settle] "
	      "[--verbose] [--json]\n",
	      stderr);
	return 2;
}

static bool read_mode(const char *text, struct options *options)
{
	for (const struct wr_sim_kind *kind = wr_sim_kinds; kind->name; kind++)
		if (strcmp(text, kind->name) == 0) {
			options->kind = kind;
			return true;
		}
#define MODE(enum, number, name)                                                                   \
	if (strcmp(text, name) == 0) {                                                             \
		options->consistency = enum;                                                       \
		return true;                                                                       \
	}
	WR_CONSISTENCIES(MODE)
#undef MODE
	return false;
}

static bool read_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		bool has_value = i + 1 < argc;

		if (strcmp(argv[i], "--verbose") == 0) {
			options->verbose = true;
		} else if (strcmp(argv[i], "--json") == 0) {
			options->json = true;
		} else if (has_value && strcmp(argv[i], "--seed") == 0) {
			options->first = strtoull(argv[++i], NULL, 10);
			options->count = 1;
		} else if (has_value && strcmp(argv[i], "--first") == 0) {
			options->first = strtoull(argv[++i], NULL, 10);
		} else if (has_value && strcmp(argv[i], "--seeds") == 0) {
			options->count = strtoull(argv[++i], NULL, 10);
		} else if (!has_value || strcmp(argv[i], "--mode") != 0 ||
			   !read_mode(argv[++i], options)) {
			return false;
		}
	}
	return true;
}

static const char *mode_name(uint8_t consistency)
{
	static const char *const names[] = {
#define NAME(enum, number, name) [enum] = (name),
		WR_CONSISTENCIES(NAME)
#undef NAME
	};

	return names[consistency];
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add_report(struct wr_sim_report *sum, const struct wr_sim_report *one)
{
	sum->trace = sum->trace * 31 + one->trace;
	sum->events += one->events;
	sum->requests += one->requests;
	sum->admitted += one->admitted;
	sum->refused += one->refused;
	sum->failed += one->failed;
	sum->commands += one->commands;
	sum->calls += one->calls;
	sum->faults += one->faults;
	sum->losses += one->losses;
}

static bool run_seed(uint64_t seed, const struct options *options, struct wr_sim_lua *lua,
		     struct wr_sim_report *sum)
{
	struct wr_sim_plan plan;
	struct wr_sim_report report;
	char text[256];

	if (options->kind)
		options->kind->make(&plan, seed);
	else
		wr_sim_plan_make(&plan, seed, options->consistency);
	wr_sim_plan_text(&plan, text, sizeof text);
	if (options->verbose)
		printf("%s\n", text);
	wr_sim_run(&plan, lua, options->verbose ? stdout : NULL, &report);
	add_report(sum, &report);
	if (!report.failure[0])
		return true;
	printf("FAILED %s\n  %s\n  again: build/test/sim/sim --mode %s --seed %llu --verbose\n",
	       text, report.failure,
	       options->kind ? options->kind->name : mode_name(plan.consistency),
	       (unsigned long long)seed);
	return false;
}

int main(int argc, char **argv)
{
	struct options options = {.first = 1, .count = 1000, .consistency = WR_SIM_ANY};
	struct wr_sim_report sum = {0};
	struct wr_sim_lua *lua;
	uint64_t failed = 0;
	double start_s = now_s(), run_s;

	if (!read_options(argc, argv, &options))
		return usage();
	lua = wr_sim_lua_new();
	for (uint64_t i = 0; i < options.count; i++)
		failed += !run_seed(options.first + i, &options, lua, &sum);
	wr_sim_lua_free(lua);
	run_s = now_s() - start_s;
	if (options.json) {
		printf("{\"sim_requests_per_s\": %.0f}\n", (double)sum.requests / run_s);
		return failed ? 1 : 0;
	}
	printf("%llu seeds, %llu failed: %llu requests (%llu admitted, %llu refused, %llu without "
	       "Redis), %llu faults, %llu losses, %llu script calls, trace %016llx\n",
	       (unsigned long long)options.count, (unsigned long long)failed,
	       (unsigned long long)sum.requests, (unsigned long long)sum.admitted,
	       (unsigned long long)sum.refused, (unsigned long long)sum.failed,
	       (unsigned long long)sum.faults, (unsigned long long)sum.losses,
	       (unsigned long long)sum.calls, (unsigned long long)sum.trace);
	printf("%.1f s, %.0f requests/s\n", run_s, (double)sum.requests / run_s);
	return failed ? 1 : 0;
}
