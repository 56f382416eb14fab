/* Adds a request to the demands of its client on each route. The production code finds the entries
 * of `requests:` that match the request, and the key. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "lab/record.h"
#include "lab/tune/inner.h"
#include "rules/http.h"
#include "rules/key.h"

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)

/* Returns the route of an entry of `requests:`. Entries of the same shape belong to one route. */
static size_t find_route(const struct wr_lab_tune *tune, const struct wr_rules_descriptor *made)
{
	size_t at = 0;

	for (; at < tune->route_count; at++) {
		const struct wr_rules_request *entry = tune->states[at].entry;
		bool same = entry->part_count == made->count;

		if (entry == made->request)
			return at;
		for (uint32_t i = 0; same && i < made->count; i++) {
			const struct wr_rules_part *a = &entry->parts[i];
			const struct wr_rules_part *b = &made->request->parts[i];

			same = wr_str_equal(a->key, b->key) &&
			       (a->source_count == 0) == (b->source_count == 0) &&
			       (a->source_count || wr_str_equal(a->value, b->value));
		}
		if (same)
			return at;
	}
	return at;
}

/* Hashes the entries of a descriptor that come from the request. So a client is the same on all
 * routes. As in the key of a counter, ambiguous values are not a part of the key. */
static uint64_t hash_client(const struct wr_rules_descriptor *made)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < made->count; i++) {
		const struct weir_entry *entry = &made->entries[i];

		if (made->request->parts[i].source_count == 0)
			continue;
		hash = XXH3_64bits_withSeed(entry->key.ptr, entry->key.len, hash);
		hash = XXH3_64bits_withSeed(entry->source.ptr, entry->source.len, hash);
		if (!wr_str_equal(entry->source, WR_AMBIGUOUS_SOURCE))
			hash = XXH3_64bits_withSeed(entry->value.ptr, entry->value.len, hash);
	}
	return hash;
}

static bool is_address(const struct wr_rules_part *part)
{
	return part->source_count == 1 && (part->sources->kind == WR_FROM_REMOTE_ADDRESS ||
					   part->sources->kind == WR_FROM_MASKED_REMOTE_ADDRESS);
}

/* Writes the values of the key. The stand-in for a host name is written as the host name. */
static void name_client(const struct wr_rules_descriptor *made, const struct wr_lab_record *record,
			char name[WR_LAB_CLIENT_NAME])
{
	size_t len = 0;

	for (uint32_t i = 0; i < made->count && len < WR_LAB_CLIENT_NAME; i++) {
		const struct wr_rules_part *part = &made->request->parts[i];
		struct weir_str value = made->entries[i].value;

		if (part->source_count == 0)
			continue;
		if (record->stand_in && is_address(part))
			value = record->client;
		len += (size_t)snprintf(name + len, WR_LAB_CLIENT_NAME - len, "%s%.*s",
					len ? " " : "", (int)value.len, value.ptr);
	}
	if (len == 0)
		snprintf(name, WR_LAB_CLIENT_NAME, "all clients");
}

static void count_on_route(struct wr_lab_tune_state *state, struct wr_lab_tune_route *route,
			   uint64_t time_ns, uint64_t units)
{
	if (state->second != time_ns / SECOND_NS)
		state->second_units = 0;
	if (state->minute != time_ns / MINUTE_NS)
		state->minute_units = state->minute_clients = 0;
	state->second = time_ns / SECOND_NS;
	state->minute = time_ns / MINUTE_NS;
	state->second_units += units;
	state->minute_units += units;
	if (state->second_units > route->peak_second)
		route->peak_second = state->second_units;
	if (state->minute_units > route->peak_minute)
		route->peak_minute = state->minute_units;
	route->requests++;
	route->units += units;
}

static void count_pair(struct wr_lab_tune *tune, struct wr_lab_pair *pair, uint64_t time_ns,
		       uint64_t units)
{
	struct wr_lab_tune_state *state = &tune->states[pair->route];
	struct wr_lab_tune_route *route = &tune->routes[pair->route];
	const struct wr_lab_demand *demand = &pair->demand;

	if (demand->requests == 0 ||
	    demand->windows[WR_LAB_PER_MINUTE].index != time_ns / MINUTE_NS)
		state->minute_clients++;
	if (state->minute_clients > route->peak_clients)
		route->peak_clients = state->minute_clients;
	wr_lab_demand_add(&pair->demand, tune->report.rates, time_ns, units);
}

/* Adds a descriptor of a request. `first` is true for the first descriptor that has a key; its key
 * is the client whose habits are recorded. Returns 0 or WEIR_EMEMORY. */
static int measure_descriptor(struct wr_lab_tune *tune, const struct wr_lab_record *record,
			      const struct wr_rules_descriptor *made, bool first)
{
	int64_t cost = record->cost > 0 && made->request->cost ? made->cost : record->cost;
	size_t route = find_route(tune, made);
	struct wr_lab_pair *pair;
	uint32_t client;
	int rc;

	if (route == tune->route_count || cost <= 0 ||
	    (made->request->count && record->status &&
	     !wr_rules_counts_status(made->request->count, record->status)))
		return 0;
	count_on_route(&tune->states[route], &tune->routes[route], record->time_ns, (uint64_t)cost);
	rc = wr_lab_clients_get(&tune->table, hash_client(made), &client);
	if (rc || client == WR_LAB_NO_CLIENT)
		return rc;
	if (tune->table.clients[client].name[0] == '\0')
		name_client(made, record, tune->table.clients[client].name);
	if (first)
		wr_lab_client_add(&tune->table.clients[client], record);
	rc = wr_lab_clients_pair(&tune->table, client, (uint32_t)route, &pair);
	if (rc == 0 && pair)
		count_pair(tune, pair, record->time_ns, (uint64_t)cost);
	return rc;
}

static void count_request(struct wr_lab_tune *tune, const struct wr_lab_record *record)
{
	struct wr_lab_tune_report *report = &tune->report;

	if (report->requests == 0)
		report->first_ns = record->time_ns;
	report->last_ns = record->time_ns;
	wr_lab_span_add(&tune->span, record->time_ns);
	report->requests++;
	report->costs |= record->cost != 1;
	wr_lab_timeline_add(&tune->timeline, 0, record->time_ns, 1);
}

int wr_lab_tune_measure(struct wr_lab_tune *tune, const struct wr_lab_record *record)
{
	struct weir_http_view view = {.size = sizeof view,
				      .headers = record->headers,
				      .header_count = record->header_count};
	struct wr_rules_http http;
	char memory[WR_HTTP_MEMORY];
	int rc;

	count_request(tune, record);
	if (!wr_lab_record_has_request(record)) {
		tune->report.no_request++;
		return 0;
	}
	wr_lab_record_view(record, &view);
	rc = wr_rules_http_read(tune->domain, &view, memory, sizeof memory, &http);
	if (rc != 0 && wr_lab_status_is_from_server(record->status))
		tune->report.no_request++;
	else if (rc != 0)
		tune->report.malformed++;
	else if (http.allowed)
		tune->report.exempt++;
	else if (http.count == 0)
		tune->report.no_key++;
	if (rc != 0 || http.allowed)
		return 0;
	tune->report.other += !tune->opts.rules && http.count == 1;
	for (uint32_t i = 0; i < http.count && rc == 0; i++)
		rc = measure_descriptor(tune, record, &http.descriptors[i], i == 0);
	return rc;
}
