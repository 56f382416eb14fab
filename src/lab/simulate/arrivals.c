/* Makes the requests of a scenario: see arrivals.h. Each entry of `traffic` is a source, which knows
 * the time of its next request. */
#include "lab/simulate/arrivals.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "sim/rng.h"

#define S_NS 1e9
/* The rate of a flash sale is constant in each 64th part of its half-life. STEP is 2^(-1/64). */
#define STEPS 64u
#define STEP 0.98922801319397548414

struct source {
	const struct wr_lab_traffic *traffic;
	uint64_t next_ns; /* time of the next request; UINT64_MAX: no more requests */
	uint64_t end_ns;
	double mean_ns;   /* mean time between two requests; 0: no requests now */
	double surge_hz;  /* flash sale: the present additional rate */
	uint64_t step_ns; /* flash sale: when the rate changes next; UINT64_MAX: never */
	/* Bursts: time of the next burst; requests of the present burst that are left, including
	 * the next request; and the client of the burst. */
	uint64_t burst_ns;
	uint32_t burst_left, burst_client;
	uint64_t quiet_ns; /* bursts: time of the next request between the bursts */
	struct wr_rng rng;
	struct wr_lab_log *log;
	const char *path;
	uint64_t log_start_ns;
	uint32_t log_client, log_cost;
	uint64_t log_next_ns; /* time of the next request even if it is after end_ns */
};

/* Walker's alias method: client i is chosen if a random number is below chance[i], otherwise
 * alias[i]. */
struct alias {
	uint32_t chance, other;
};

struct wr_lab_arrivals {
	const struct wr_lab_scenario *scenario;
	struct alias *aliases; /* one for each client; NULL: all clients are alike */
	uint32_t source_count;
	struct source sources[WR_LAB_TRAFFIC];
};

/* ---- random numbers ---- */

/* Returns an exponentially distributed number with the mean 1. The method of von Neumann compares
 * random integers only, so the result is the same on every machine. */
static double exponential(struct wr_rng *rng)
{
	for (uint64_t whole = 0;; whole++) {
		uint64_t first = wr_rng_next(rng), last = first, next;
		unsigned falling = 1;

		while ((next = wr_rng_next(rng)) < last) {
			last = next;
			falling++;
		}
		if (falling % 2)
			return (double)whole + (double)(first >> 11) * 0x1p-53;
	}
}

static uint32_t pick_client(struct wr_lab_arrivals *arrivals, struct wr_rng *rng)
{
	uint64_t random = wr_rng_next(rng);
	uint32_t client = (uint32_t)((unsigned __int128)random * arrivals->scenario->clients >> 64);
	const struct alias *alias;

	if (!arrivals->aliases)
		return client;
	alias = &arrivals->aliases[client];
	return (uint32_t)wr_rng_next(rng) < alias->chance ? client : alias->other;
}

/* Fills the table of aliases for Zipf's law: client i (from 1) has the weight 1 / i^exponent. */
static bool make_aliases(struct wr_lab_arrivals *arrivals)
{
	uint32_t count = arrivals->scenario->clients;
	double exponent = arrivals->scenario->zipf_milli / 1000.0, sum = 0;
	double *weights = malloc(count * sizeof *weights);
	uint32_t *small = malloc(count * sizeof *small), *large = malloc(count * sizeof *large);
	uint32_t smalls = 0, larges = 0;

	arrivals->aliases = calloc(count, sizeof *arrivals->aliases);
	if (!weights || !small || !large || !arrivals->aliases) {
		free(weights);
		free(small);
		free(large);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		sum += weights[i] = pow(i + 1.0, -exponent);
	for (uint32_t i = 0; i < count; i++) {
		weights[i] *= count / sum;
		if (weights[i] < 1)
			small[smalls++] = i;
		else
			large[larges++] = i;
		arrivals->aliases[i] = (struct alias){UINT32_MAX, i};
	}
	while (smalls && larges) {
		uint32_t less = small[--smalls], more = large[larges - 1];

		arrivals->aliases[less] = (struct alias){(uint32_t)(weights[less] * 0x1p32), more};
		weights[more] -= 1 - weights[less];
		if (weights[more] < 1)
			small[smalls++] = large[--larges];
	}
	free(weights);
	free(small);
	free(large);
	return true;
}

/* ---- sources ---- */

/* Returns the time of the next request of a Poisson process after from_ns. */
static uint64_t poisson_after(struct source *source, uint64_t from_ns)
{
	double wait_ns;

	if (source->mean_ns <= 0)
		return UINT64_MAX;
	wait_ns = exponential(&source->rng) * source->mean_ns + 0.5;
	return wait_ns < 1e18 ? from_ns + (uint64_t)wait_ns : UINT64_MAX;
}

static void set_rate(struct source *source, double hz)
{
	source->mean_ns = hz > 0 ? S_NS / hz : 0;
}

/* Finds the next request of a flash sale after from_ns. A Poisson process has no memory, so it
 * begins anew whenever the rate changes. */
static uint64_t flash_after(struct source *source, uint64_t from_ns)
{
	const struct wr_lab_traffic *traffic = source->traffic;
	double base_hz = (double)traffic->rate_mhz / 1000;
	uint64_t next_ns = poisson_after(source, from_ns);

	while (next_ns >= source->step_ns && source->step_ns < source->end_ns) {
		source->surge_hz = source->step_ns == traffic->start_ns
					   ? (double)traffic->peak_mhz / 1000
					   : source->surge_hz * STEP;
		set_rate(source, base_hz + source->surge_hz);
		next_ns = poisson_after(source, source->step_ns);
		source->step_ns += traffic->half_ns / STEPS + 1;
	}
	return next_ns;
}

static void next_burst(struct wr_lab_arrivals *arrivals, struct source *source, uint64_t from_ns)
{
	if (source->burst_left > 1) { /* all requests of a burst have the same time */
		source->burst_left--;
		source->next_ns = from_ns;
		return;
	}
	source->burst_left = 0;
	if (source->quiet_ns <= from_ns)
		source->quiet_ns = poisson_after(source, from_ns);
	if (source->burst_ns <= source->quiet_ns) {
		source->next_ns = source->burst_ns;
		source->burst_ns += source->traffic->every_ns;
		source->burst_left = source->traffic->burst;
		source->burst_client = pick_client(arrivals, &source->rng);
	} else {
		source->next_ns = source->quiet_ns;
	}
}

/* Reads the next record of the log. The client of the record becomes a number by a hash. */
static void next_record(struct wr_lab_arrivals *arrivals, struct source *source)
{
	const struct wr_lab_record *record = wr_lab_log_next(source->log);
	double after_ns;

	source->next_ns = UINT64_MAX;
	source->log_next_ns = UINT64_MAX;
	if (!record)
		return;
	if (source->log_start_ns == UINT64_MAX)
		source->log_start_ns = record->time_ns;
	after_ns = (double)(record->time_ns - source->log_start_ns) * 1000 /
		   source->traffic->speed_milli;
	source->log_next_ns = source->traffic->start_ns +
			      (after_ns < 1e18 ? (uint64_t)after_ns : 1000000000000000000u);
	source->next_ns = source->log_next_ns;
	source->log_client = (uint32_t)(XXH3_64bits(record->client.ptr, record->client.len) %
					arrivals->scenario->clients);
	source->log_cost = record->cost < 1         ? 1
			   : record->cost > 1000000 ? 1000000
						    : (uint32_t)record->cost;
}

/* Sets the time of the next request after from_ns. */
static void advance(struct wr_lab_arrivals *arrivals, struct source *source, uint64_t from_ns)
{
	switch (source->traffic->kind) {
	case WR_LAB_FLASH_SALE:
		source->next_ns = flash_after(source, from_ns);
		break;
	case WR_LAB_BURSTS:
		next_burst(arrivals, source, from_ns);
		break;
	case WR_LAB_LOG:
		next_record(arrivals, source);
		break;
	default:
		source->next_ns = poisson_after(source, from_ns);
	}
	if (source->next_ns >= source->end_ns)
		source->next_ns = UINT64_MAX;
}

static uint32_t client_of(struct wr_lab_arrivals *arrivals, struct source *source)
{
	const struct wr_lab_traffic *traffic = source->traffic;

	if (traffic->kind == WR_LAB_LOG)
		return source->log_client;
	if (traffic->client)
		return traffic->client - 1;
	if (traffic->kind == WR_LAB_BURSTS && source->burst_left)
		return source->burst_client;
	return pick_client(arrivals, &source->rng);
}

/* Returns the index of the source with the next request. */
static uint32_t next_source(const struct wr_lab_arrivals *arrivals)
{
	uint32_t next = 0;

	for (uint32_t i = 1; i < arrivals->source_count; i++)
		if (arrivals->sources[i].next_ns < arrivals->sources[next].next_ns)
			next = i;
	return next;
}

uint64_t wr_lab_arrivals_next_ns(const struct wr_lab_arrivals *arrivals)
{
	return arrivals->sources[next_source(arrivals)].next_ns;
}

bool wr_lab_arrivals_next(struct wr_lab_arrivals *arrivals, struct wr_lab_arrival *arrival)
{
	struct source *source = &arrivals->sources[next_source(arrivals)];

	if (source->next_ns == UINT64_MAX)
		return false;
	*arrival = (struct wr_lab_arrival){
		.at_ns = source->next_ns,
		.client = client_of(arrivals, source),
		.cost = source->traffic->kind == WR_LAB_LOG ? source->log_cost
							    : source->traffic->cost,
		.regions = source->traffic->regions,
		.random = wr_rng_next(&source->rng),
	};
	advance(arrivals, source, source->next_ns);
	return true;
}

/* ---- logs ---- */

static void add_log(struct wr_lab_log_totals *sum, const struct wr_lab_log_totals *log)
{
	sum->lines += log->lines;
	sum->records += log->records;
	sum->unreadable += log->unreadable;
	sum->late += log->late;
	sum->files += log->files;
	if (log->damaged && !sum->damaged)
		memcpy(sum->damage, log->damage, sizeof sum->damage);
	sum->damaged += log->damaged;
	for (uint32_t i = 0; i < log->example_count; i++)
		if (sum->example_count < sizeof sum->examples / sizeof *sum->examples)
			memcpy(sum->examples[sum->example_count++], log->examples[i],
			       sizeof *sum->examples);
}

void wr_lab_arrivals_logs(const struct wr_lab_arrivals *arrivals, struct wr_lab_log_totals *totals)
{
	struct wr_lab_log_totals log;

	*totals = (struct wr_lab_log_totals){0};
	for (uint32_t i = 0; i < arrivals->source_count; i++) {
		if (!arrivals->sources[i].log)
			continue;
		wr_lab_log_totals(arrivals->sources[i].log, &log);
		add_log(totals, &log);
	}
}

/* Adds a note, unless the note of another entry of `traffic` has the same text. */
static void add_note(struct wr_lab_log_notes *notes, const char *text)
{
	for (uint32_t i = 0; i < notes->count; i++)
		if (strcmp(notes->texts[i], text) == 0)
			return;
	if (notes->count < sizeof notes->texts / sizeof *notes->texts)
		snprintf(notes->texts[notes->count++], sizeof *notes->texts, "%s", text);
}

void wr_lab_arrivals_notes(const struct wr_lab_arrivals *arrivals, struct wr_lab_log_notes *notes)
{
	struct wr_lab_log_totals log;

	*notes = (struct wr_lab_log_notes){0};
	for (uint32_t i = 0; i < arrivals->source_count; i++) {
		if (!arrivals->sources[i].log)
			continue;
		wr_lab_log_totals(arrivals->sources[i].log, &log);
		for (uint32_t n = 0; n < log.note_count; n++)
			add_note(notes, log.notes[n]);
	}
}

uint32_t wr_lab_arrivals_unread(const struct wr_lab_arrivals *arrivals, uint64_t end_ns)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < arrivals->source_count; i++) {
		const struct source *source = &arrivals->sources[i];
		const struct wr_lab_traffic *traffic = source->traffic;

		if (!source->log || source->log_next_ns == UINT64_MAX ||
		    traffic->start_ns >= end_ns)
			continue;
		if (!traffic->for_ns || source->log_next_ns - traffic->start_ns < traffic->for_ns)
			set |= 1u << i;
	}
	return set;
}

/* ---- opening ---- */

static int open_log(struct wr_lab_arrivals *arrivals, struct source *source,
		    struct weir_error *error)
{
	const char *folder = arrivals->scenario->folder, *path = source->traffic->path;
	struct wr_lab_log_opts opts = {.paths = &source->path, .path_count = 1};
	char *full = NULL;
	int rc;

	if (asprintf(&full, "%s%s", path[0] == '/' ? "" : folder, path) < 0)
		return wr_error(error, WEIR_EMEMORY, "no memory for the path of a log");
	source->path = full;
	source->log_start_ns = UINT64_MAX;
	rc = wr_lab_log_open(&opts, &source->log, error);
	if (rc != 0)
		source->log = NULL;
	return rc;
}

static int open_source(struct wr_lab_arrivals *arrivals, const struct wr_lab_traffic *traffic,
		       struct wr_rng *rng, struct weir_error *error)
{
	struct source *source = &arrivals->sources[arrivals->source_count++];
	uint64_t duration_ns = arrivals->scenario->duration_ns;
	uint64_t from_ns = traffic->start_ns;
	int rc = 0;

	*source = (struct source){.traffic = traffic,
				  .end_ns = duration_ns,
				  .step_ns = UINT64_MAX,
				  .burst_ns = traffic->start_ns,
				  .rng = wr_rng_fork(rng)};
	if (traffic->for_ns && traffic->start_ns < duration_ns &&
	    traffic->for_ns < duration_ns - traffic->start_ns)
		source->end_ns = traffic->start_ns + traffic->for_ns;
	set_rate(source, (double)traffic->rate_mhz / 1000);
	if (traffic->kind == WR_LAB_FLASH_SALE) {
		/* The traffic before the sale begins at 0, and lasts as long as the run. */
		source->step_ns = traffic->start_ns;
		from_ns = 0;
	}
	if (traffic->kind == WR_LAB_LOG)
		rc = open_log(arrivals, source, error);
	if (rc == 0)
		advance(arrivals, source, from_ns);
	if (rc == 0 && source->log && source->log_start_ns == UINT64_MAX)
		rc = wr_error(error, WEIR_EFORMAT, "%s: no line could be read as a request",
			      source->path);
	return rc;
}

int wr_lab_arrivals_open(const struct wr_lab_scenario *scenario, uint64_t seed,
			 struct wr_lab_arrivals **out, struct weir_error *error)
{
	struct wr_lab_arrivals *arrivals = calloc(1, sizeof *arrivals);
	struct wr_rng rng = {seed ^ 0x7261666669630000u};
	int rc = 0;

	if (!arrivals)
		return wr_error(error, WEIR_EMEMORY, "no memory for the traffic");
	arrivals->scenario = scenario;
	if (scenario->zipf_milli && !make_aliases(arrivals))
		rc = wr_error(error, WEIR_EMEMORY, "no memory for %u clients", scenario->clients);
	for (uint32_t i = 0; rc == 0 && i < scenario->traffic_count; i++)
		rc = open_source(arrivals, &scenario->traffic[i], &rng, error);
	if (rc == 0)
		*out = arrivals;
	else
		wr_lab_arrivals_close(arrivals);
	return rc;
}

void wr_lab_arrivals_close(struct wr_lab_arrivals *arrivals)
{
	if (!arrivals)
		return;
	for (uint32_t i = 0; i < arrivals->source_count; i++) {
		if (arrivals->sources[i].log)
			wr_lab_log_close(arrivals->sources[i].log);
		free((void *)arrivals->sources[i].path);
	}
	free(arrivals->aliases);
	free(arrivals);
}
