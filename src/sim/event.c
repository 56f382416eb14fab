/* What happens when, and the record of it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sim/sim_inner.h"

static bool before(const struct wr_sim_event *a, const struct wr_sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void swap(struct wr_sim_event *a, struct wr_sim_event *b)
{
	struct wr_sim_event c = *a;

	*a = *b;
	*b = c;
}

static void grow(struct wr_sim *sim)
{
	size_t cap = sim->event_cap ? 2 * sim->event_cap : 256;
	struct wr_sim_event *events = wr_lab_alloc(cap, sizeof *events);

	if (sim->event_count)
		memcpy(events, sim->events, sim->event_count * sizeof *events);
	free(sim->events);
	sim->events = events;
	sim->event_cap = cap;
}

void wr_sim_at(struct wr_sim *sim, uint64_t at_ns, struct wr_sim_node *node, wr_sim_fn *run,
	       void *object, uint64_t word)
{
	size_t at = sim->event_count;

	if (at == sim->event_cap)
		grow(sim);
	sim->events[at] = (struct wr_sim_event){at_ns > sim->now_ns ? at_ns : sim->now_ns,
						sim->event_number++,
						node,
						run,
						object,
						word};
	sim->event_count++;
	while (at > 0 && before(&sim->events[at], &sim->events[(at - 1) / 2])) {
		swap(&sim->events[at], &sim->events[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

bool wr_sim_next(struct wr_sim *sim, uint64_t end_ns, struct wr_sim_event *event)
{
	size_t at = 0;

	if (sim->event_count == 0 || sim->events[0].at_ns >= end_ns)
		return false;
	*event = sim->events[0];
	sim->events[0] = sim->events[--sim->event_count];
	for (;;) {
		size_t least = at, child = 2 * at + 1;

		for (size_t i = child; i < child + 2 && i < sim->event_count; i++)
			if (before(&sim->events[i], &sim->events[least]))
				least = i;
		if (least == at)
			return true;
		swap(&sim->events[at], &sim->events[least]);
		at = least;
	}
}

void wr_sim_note(struct wr_sim *sim, const struct wr_sim_node *node, const char *format, ...)
{
	char text[400];
	int len = snprintf(text, sizeof text, "%llu.%06llu ",
			   (unsigned long long)(sim->now_ns / 1000000),
			   (unsigned long long)(sim->now_ns % 1000000));
	va_list args;

	if (node)
		len += snprintf(text + len, sizeof text - (size_t)len, "node%u ", node->number);
	va_start(args, format);
	vsnprintf(text + len, sizeof text - (size_t)len, format, args);
	va_end(args);
	sim->report->trace = XXH3_64bits_withSeed(text, strlen(text), sim->report->trace);
	if (sim->trace)
		fprintf(sim->trace, "%s\n", text);
}

void wr_sim_fail(struct wr_sim *sim, const char *format, ...)
{
	char text[sizeof sim->report->failure];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!sim->report->failure[0])
		memcpy(sim->report->failure, text, sizeof text);
	if (sim->trace)
		fprintf(sim->trace, "FAILED %s\n", text);
}
