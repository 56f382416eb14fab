/* Draws by how much eventual limits are exceeded, for several intervals between exchanges.
 *
 *   build/test/sim/sim_picture docs
 *
 * This command writes docs/consistency-window.svg and docs/consistency-bucket.svg, and prints the
 * numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "rules/rules.h"

#define MS 1000000ull
#define POINTS 7
#define CURVES 3
#define SEEDS 5

static const unsigned sync_ms[POINTS] = {10, 20, 50, 100, 200, 500, 1000};
static const unsigned nodes[CURVES] = {2, 4, 8};

/* The limit is 1,000 per 10 s. Four times as many requests arrive, equally many at each node. A
 * message to Redis takes 1 ms. */
static const uint32_t limit = 1000;
static const uint64_t period_ns = 10000 * MS;
static const unsigned demand = 4;

static struct wr_sim_plan plan_of(uint32_t algorithm, unsigned node_count, uint64_t sync_ns,
				  uint64_t seed)
{
	return (struct wr_sim_plan){.seed = seed,
				    .consistency = WR_EVENTUAL,
				    .on_store_failure = WR_FAIL_LOCAL,
				    .algorithm = algorithm,
				    .limit = limit,
				    .limit_after = limit,
				    .period_ns = period_ns,
				    .nodes = node_count,
				    .keys = 1,
				    .regions = 1,
				    .length_ns = 3 * period_ns,
				    .gap_ns = period_ns * node_count / limit / demand,
				    .batch_max = 1,
				    .cost_max = 1,
				    .delay_ns = MS,
				    .jitter_ns = MS / 50,
				    .timeout_ns = 1000 * MS,
				    .sync_ns = sync_ns,
				    .quiet_ns = 6000 * MS,
				    .fault_gap_ns = 1};
}

/* Three figures in percent of the limit: the overshoot, the largest valid overshoot, and the
 * overshoot that nodes reported. Each figure is the maximum of all runs. */
struct point {
	double worst, bound, gauge;
};

static struct point measure_point(struct wr_sim_lua *lua, uint32_t algorithm, unsigned node_count,
				  unsigned ms)
{
	struct point point = {0};

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct wr_sim_plan plan = plan_of(algorithm, node_count, ms * MS, seed);
		struct wr_sim_report report;

		wr_sim_run(&plan, lua, NULL, &report);
		if (report.failure[0]) {
			fprintf(stderr, "%s\n", report.failure);
			exit(1);
		}
		point.worst = fmax(point.worst, report.overshoot_ppm / 1e4);
		point.bound = fmax(point.bound, report.bound_ppm / 1e4);
		point.gauge = fmax(point.gauge, report.gauge_ppm / 1e4);
	}
	return point;
}

/* ---- drawing ---- */

#define LEFT 70.0
#define RIGHT 590.0
#define TOP 50.0
#define BOTTOM 350.0
#define LEAST 0.1 /* the lowest percentage on the axis; MOST is the highest */
#define MOST 100.0

static double x_of(double ms)
{
	return LEFT + (RIGHT - LEFT) * log10(ms / 10) / 2;
}

static double y_of(double percent)
{
	double shown = fmin(fmax(percent, LEAST), MOST);

	return BOTTOM - (BOTTOM - TOP) * log10(shown / LEAST) / log10(MOST / LEAST);
}

static void draw_frame(FILE *out, const char *title)
{
	static const double lines[] = {0.1, 1, 10, 100};

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 410\" role=\"img\" "
		"aria-label=\"%s\">\n"
		"<style>svg{fill:#444}text{font:13px sans-serif}.t{font-size:15px}.g{stroke:#ccc}"
		".l{fill:none;stroke-width:2}.b{stroke-dasharray:5 4;stroke-width:1.2}"
		".c0{stroke:#1b7f5c}.c1{stroke:#2563ab}.c2{stroke:#b4451f}"
		".f0{fill:#1b7f5c}.f1{fill:#2563ab}.f2{fill:#b4451f}"
		"@media(prefers-color-scheme:dark){svg{fill:#ccc}.g{stroke:#444}"
		".c0{stroke:#4cc49a}.c1{stroke:#6aa5ec}.c2{stroke:#f0875f}"
		".f0{fill:#4cc49a}.f1{fill:#6aa5ec}.f2{fill:#f0875f}}</style>\n"
		"<text class=\"t\" x=\"%.0f\" y=\"24\">%s</text>\n",
		title, LEFT, title);
	for (int i = 0; i < 4; i++)
		fprintf(out,
			"<path class=\"g\" d=\"M%.0f %.1fH%.0f\"/><text x=\"%.0f\" y=\"%.1f\" "
			"text-anchor=\"end\">%g %%</text>\n",
			LEFT, y_of(lines[i]), RIGHT, LEFT - 8, y_of(lines[i]) + 4, lines[i]);
	for (int i = 0; i < POINTS; i++)
		fprintf(out,
			"<path class=\"g\" d=\"M%.1f %.0fv6\"/><text x=\"%.1f\" y=\"%.0f\" "
			"text-anchor=\"middle\">%u ms</text>\n",
			x_of(sync_ms[i]), BOTTOM, x_of(sync_ms[i]), BOTTOM + 22, sync_ms[i]);
	fprintf(out,
		"<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">sync_interval; dashed: "
		"the bound</text>\n",
		(LEFT + RIGHT) / 2, BOTTOM + 46);
}

static void draw_curve(FILE *out, int curve, const struct point *points)
{
	fprintf(out, "<path class=\"l c%d\" d=\"", curve);
	for (int i = 0; i < POINTS; i++)
		fprintf(out, "%c%.1f %.1f", i ? 'L' : 'M', x_of(sync_ms[i]), y_of(points[i].worst));
	fprintf(out, "\"/>\n<path class=\"l b c%d\" d=\"", curve);
	for (int i = 0; i < POINTS; i++)
		fprintf(out, "%c%.1f %.1f", i ? 'L' : 'M', x_of(sync_ms[i]), y_of(points[i].bound));
	fprintf(out, "\"/>\n");
	for (int i = 0; i < POINTS; i++)
		fprintf(out, "<circle class=\"f%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", curve,
			x_of(sync_ms[i]), y_of(points[i].worst));
	fprintf(out, "<text class=\"f%d\" x=\"%.0f\" y=\"%.0f\">%u nodes</text>\n", curve,
		RIGHT + 12, TOP + 20.0 * (CURVES - curve), nodes[curve]);
}

static bool draw_picture(struct wr_sim_lua *lua, uint32_t algorithm, const char *title,
			 const char *path)
{
	FILE *out = fopen(path, "w");

	if (!out)
		return false;
	draw_frame(out, title);
	printf("%s\n", title);
	for (int curve = 0; curve < CURVES; curve++) {
		struct point points[POINTS];

		printf("%u nodes:", nodes[curve]);
		for (int i = 0; i < POINTS; i++) {
			points[i] = measure_point(lua, algorithm, nodes[curve], sync_ms[i]);
			printf("  %u ms %.1f %% (bound %.1f, gauge %.1f)", sync_ms[i],
			       points[i].worst, points[i].bound, points[i].gauge);
		}
		printf("\n");
		draw_curve(out, curve, points);
	}
	fprintf(out, "</svg>\n");
	return fclose(out) == 0;
}

/* Prints the cost of each consistency, as the number of script calls for 1,000 requests on four
 * nodes. Measures once with half as many requests as the limit admits, and once with four times as
 * many. */
static void print_costs(struct wr_sim_lua *lua)
{
	static const struct {
		const char *name;
		uint8_t consistency;
	} modes[] = {{"strict", WR_STRICT}, {"lease", WR_LEASE}, {"eventual", WR_EVENTUAL}};

	for (int i = 0; i < 6; i++) {
		struct wr_sim_plan plan = plan_of(WEIR_FIXED_WINDOW, 4, 100 * MS, 1);
		struct wr_sim_report report;

		plan.consistency = modes[i / 2].consistency;
		plan.gap_ns *= i % 2 ? 1 : 2ul * demand;
		wr_sim_run(&plan, lua, NULL, &report);
		printf("%s, %s: %.0f calls for 1,000 requests, %llu of %llu admitted\n",
		       modes[i / 2].name, i % 2 ? "4 x the limit" : "half the limit",
		       1e3 * (double)report.calls / (double)report.requests,
		       (unsigned long long)report.admitted, (unsigned long long)report.requests);
	}
}

int main(int argc, char **argv)
{
	struct wr_sim_lua *lua = wr_sim_lua_new();
	const char *folder = argc > 1 ? argv[1] : ".";
	char path[512];
	bool fine;

	snprintf(path, sizeof path, "%s/consistency-window.svg", folder);
	fine = draw_picture(lua, WEIR_FIXED_WINDOW,
			    "Fixed window, 1,000 per 10 s: beyond the limit", path);
	snprintf(path, sizeof path, "%s/consistency-bucket.svg", folder);
	fine &= draw_picture(lua, WEIR_TOKEN_BUCKET,
			     "Token bucket, 1,000 per 10 s: beyond burst + rate · t", path);
	print_costs(lua);
	wr_sim_lua_free(lua);
	if (!fine)
		perror(path);
	return fine ? 0 : 1;
}
