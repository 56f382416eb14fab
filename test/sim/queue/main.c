/* Runs seeds of the simulated queue: sim_queue [--first N] [--seeds N] [--seed N] [--verbose].
 *
 * Prints each failing seed with the violated invariant and the command that repeats the run. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct options {
	uint64_t first, count;
	bool verbose;
};

static bool read_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--verbose") == 0) {
			options->verbose = true;
			continue;
		}
		if (i + 1 == argc)
			return false;
		if (strcmp(argv[i], "--first") == 0)
			options->first = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--seeds") == 0)
			options->count = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0) {
			options->first = strtoull(argv[++i], NULL, 10);
			options->count = 1;
		} else
			return false;
	}
	return true;
}

static void add_report(struct qs_report *sum, const struct qs_report *one)
{
	sum->trace = sum->trace * 31 + one->trace;
	sum->events += one->events;
	sum->calls += one->calls;
	sum->faults += one->faults;
	sum->posts += one->posts;
	sum->accepted += one->accepted;
	sum->refused += one->refused;
	sum->unknown += one->unknown;
	sum->sends += one->sends;
	sum->delivered += one->delivered;
	sum->dead += one->dead;
	sum->dropped += one->dropped;
	sum->again += one->again;
	sum->takeover += one->takeover;
	sum->stale += one->stale;
	sum->copies += one->copies;
	sum->lost += one->lost;
}

static bool run_seed(uint64_t seed, bool verbose, struct wr_sim_lua *lua, struct qs_report *sum)
{
	struct qs_plan plan;
	struct qs_report report;
	char text[256];

	qs_plan_make(&plan, seed);
	qs_plan_text(&plan, text, sizeof text);
	if (verbose)
		printf("%s\n", text);
	qs_run(&plan, lua, NULL, verbose ? stdout : NULL, &report);
	add_report(sum, &report);
	if (!report.failure[0])
		return true;
	printf("FAILED %s\n  %s\n  again: build/test/sim/sim_queue --seed %" PRIu64 " --verbose\n",
	       text, report.failure, seed);
	return false;
}

int main(int argc, char **argv)
{
	struct options options = {.first = 1, .count = 1000};
	struct qs_report sum = {0};
	struct wr_sim_lua *lua;
	uint64_t failed = 0;

	if (!read_options(argc, argv, &options)) {
		fputs("usage: sim_queue [--first N] [--seeds N] [--seed N] [--verbose]\n", stderr);
		return 2;
	}
	lua = wr_sim_lua_new();
	for (uint64_t i = 0; i < options.count; i++)
		failed += !run_seed(options.first + i, options.verbose, lua, &sum);
	wr_sim_lua_free(lua);
	printf("%" PRIu64 " seeds, %" PRIu64 " failed: %" PRIu64 " posts (%" PRIu64
	       " accepted, %" PRIu64 " refused, %" PRIu64 " without an answer), %" PRIu64
	       " sends, %" PRIu64 " delivered, %" PRIu64 " dead, %" PRIu64 " dropped, %" PRIu64
	       " answered again, %" PRIu64 " take-overs, %" PRIu64 " late takes, %" PRIu64
	       " copies, %" PRIu64 " lost with Redis' data, %" PRIu64 " faults, %" PRIu64
	       " calls, trace %016" PRIx64 "\n",
	       options.count, failed, sum.posts, sum.accepted, sum.refused, sum.unknown, sum.sends,
	       sum.delivered, sum.dead, sum.dropped, sum.again, sum.takeover, sum.stale, sum.copies,
	       sum.lost, sum.faults, sum.calls, sum.trace);
	return failed ? 1 : 0;
}
