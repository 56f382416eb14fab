/* Chooses the limits that are proposed.
 *
 * Several limits together touch more clients than each of them. At first every limit uses its whole
 * allowance of clients that it may touch. If this is too much, all limits use fifteen sixteenths of
 * their allowances, and so on. The limit for all requests always uses its whole allowance, because
 * it matters most; the other limits then touch no client in the end. */
#include <stdlib.h>
#include <string.h>

#include <weir/error.h>

#include "lab/tune/inner.h"

#define SHARES 16u /* steps in which allowances are lowered */

/* ---- clients that stand out ---- */

static void insert_outlier(struct wr_lab_tune_report *report,
			   const struct wr_lab_tune_client *client, enum wr_lab_kind kind)
{
	size_t at = report->outlier_count;

	if (at == WR_LAB_TUNE_OUTLIERS &&
	    report->outliers[at - 1].client->requests >= client->requests)
		return;
	at -= at == WR_LAB_TUNE_OUTLIERS;
	report->outlier_count = at + 1;
	for (; at > 0 && report->outliers[at - 1].client->requests < client->requests; at--)
		report->outliers[at] = report->outliers[at - 1];
	report->outliers[at] = (struct wr_lab_tune_outlier){client, kind};
}

static int find_outliers(struct wr_lab_tune *tune)
{
	struct wr_lab_tune_report *report = &tune->report;

	tune->is_outlier = calloc(tune->table.client_count + 1, sizeof *tune->is_outlier);
	if (!tune->is_outlier)
		return WEIR_EMEMORY;
	for (uint32_t i = 0; i < tune->table.client_count; i++) {
		const struct wr_lab_tune_client *client = &tune->table.clients[i];
		enum wr_lab_kind kind =
			wr_lab_client_kind(client, report->requests, report->clients);

		report->kinds[kind]++;
		tune->is_outlier[i] = kind != WR_LAB_USUAL;
		report->considered += wr_lab_tune_considers(tune, i);
		if (kind != WR_LAB_USUAL)
			insert_outlier(report, client, kind);
	}
	return 0;
}

/* ---- the proposed limits ---- */

/* Says whether the route gets a limit of its own. All requests together, and the routes of given
 * rules, always get one. */
static enum wr_lab_tune_reason propose(const struct wr_lab_tune *tune,
				       const struct wr_lab_tune_route *route)
{
	const struct wr_lab_tune_report *report = &tune->report;
	const struct wr_lab_tune_level *own = &route->levels[report->level];
	const struct wr_lab_tune_level *all = &tune->routes[0].levels[report->level];
	bool always = tune->opts.rules || route == tune->routes;

	if (!always && route->considered < WR_LAB_TUNE_CLIENTS)
		return WR_LAB_FEW_CLIENTS;
	if (!own->usable)
		return WR_LAB_NO_LIMIT;
	if (always)
		return WR_LAB_PROPOSED;
	if (all->usable && 2 * wr_lab_tune_cost(&report->rates[own->best.rate], own->best.burst,
						report->horizon_ns) >
				   wr_lab_tune_cost(&report->rates[all->best.rate], all->best.burst,
						    report->horizon_ns))
		return WR_LAB_NOT_TIGHTER;
	return WR_LAB_PROPOSED;
}

/* Returns the number of clients that at least one proposed limit touches. `marks` has room for all
 * clients. */
static uint64_t count_touched(const struct wr_lab_tune *tune, bool *marks)
{
	uint64_t touched = 0;

	memset(marks, 0, tune->table.client_count * sizeof *marks);
	for (uint32_t i = 0; i < tune->table.pair_count; i++) {
		const struct wr_lab_pair *pair = &tune->table.pairs[i];
		const struct wr_lab_tune_route *route = &tune->routes[pair->route];

		if (route->reason != WR_LAB_PROPOSED || marks[pair->client] ||
		    !wr_lab_tune_considers(tune, pair->client) ||
		    wr_lab_demand_burst(&pair->demand, tune->report.rates, route->limit.rate) <=
			    route->limit.burst)
			continue;
		marks[pair->client] = true;
		touched++;
	}
	return touched;
}

/* Chooses the limits of all proposed routes. Returns 0 or WEIR_EMEMORY. */
static int choose_together(struct wr_lab_tune *tune)
{
	struct wr_lab_tune_report *report = &tune->report;
	bool *marks = malloc(tune->table.client_count * sizeof *marks + 1);

	if (!marks)
		return WEIR_EMEMORY;
	for (size_t i = 0; i < tune->route_count; i++)
		tune->routes[i].reason = propose(tune, &tune->routes[i]);
	for (unsigned share = SHARES + 1; share-- > 0;) {
		for (size_t i = 0; i < tune->route_count; i++) {
			struct wr_lab_tune_route *route = &tune->routes[i];
			uint64_t allowance =
				route->considered - route->levels[report->level].spared;

			if (i > 0 || tune->opts.rules)
				allowance = allowance * share / SHARES;
			if (route->reason == WR_LAB_PROPOSED &&
			    !wr_lab_tune_pick(tune, i, allowance, &route->limit))
				route->reason = WR_LAB_NO_LIMIT;
		}
		report->touched = count_touched(tune, marks);
		report->loosened = share < SHARES;
		if (report->touched <= report->touched_max)
			break;
	}
	free(marks);
	return 0;
}

/* Chooses the limits at the same level for the clients that do not stand out. The needs are sorted
 * anew without the others, and put back. */
static int fill_usual(struct wr_lab_tune *tune)
{
	struct wr_lab_tune_needs considered[WR_LAB_TUNE_ROUTES];
	bool without = tune->opts.without_outliers;
	int rc;

	memcpy(considered, tune->needs, sizeof considered);
	memset(tune->needs, 0, sizeof tune->needs);
	tune->opts.without_outliers = true;
	rc = wr_lab_tune_sort(tune);
	for (size_t i = 0; i < tune->route_count; i++) {
		struct wr_lab_tune_route *route = &tune->routes[i];
		uint64_t count = tune->needs[i].count;

		if (rc == 0)
			route->usual_usable = wr_lab_tune_pick(
				tune, i,
				count - wr_lab_tune_spared(count, tune->opts.untouched_ppm),
				&route->usual);
		free(tune->needs[i].values);
	}
	memcpy(tune->needs, considered, sizeof considered);
	tune->opts.without_outliers = without;
	return rc;
}

int wr_lab_tune_choose(struct wr_lab_tune *tune)
{
	struct wr_lab_tune_report *report = &tune->report;

	report->length_ns = wr_lab_span_length(&tune->span);
	report->early = wr_lab_span_strays(&tune->span, false);
	report->late = wr_lab_span_strays(&tune->span, true);
	report->clients = tune->table.client_count;
	report->sample_bits = tune->table.sample_bits;
	report->untouched_ppm = tune->opts.untouched_ppm;
	report->unit = tune->opts.unit;
	report->horizon_ns = wr_lab_unit_ns(report->unit == WR_LAB_UNIT_COUNT ? WR_LAB_PER_MINUTE
									      : report->unit);
	report->routes = tune->routes;
	report->route_count = tune->route_count;
	report->timeline = &tune->timeline;
	if (find_outliers(tune) < 0 || wr_lab_tune_sort(tune) < 0)
		return WEIR_EMEMORY;
	report->touched_max =
		report->considered - wr_lab_tune_spared(report->considered, report->untouched_ppm);
	wr_lab_tune_levels(tune);
	if (choose_together(tune) < 0)
		return WEIR_EMEMORY;
	return fill_usual(tune);
}
