/* Stores the events that are due later, writes the trace, and reports violated invariants. All
 * files of src/sim call these functions. */
#include <stdarg.h>
#include <stdlib.h>

#include "sim/sim_inner.h"

static bool is_event_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	const struct wr_sim_event *x = wr_container_of(a, const struct wr_sim_event, heap);
	const struct wr_sim_event *y = wr_container_of(b, const struct wr_sim_event, heap);

	return x->at_ns != y->at_ns ? x->at_ns < y->at_ns : x->number < y->number;
}

void wr_sim_events_init(struct wr_sim *sim)
{
	wr_heap_init(&sim->events, is_event_before, SIZE_MAX);
}

void wr_sim_events_free(struct wr_sim *sim)
{
	for (size_t i = 0; i < sim->events.count; i++)
		free(wr_container_of(sim->events.nodes[i], struct wr_sim_event, heap));
	wr_heap_free(&sim->events);
}

void wr_sim_schedule(struct wr_sim *sim, uint64_t at_ns, struct wr_sim_node *node,
		     wr_sim_event_fn *run, void *object, uint64_t arg)
{
	struct wr_sim_event *event = wr_sim_alloc(1, sizeof *event);

	*event = (struct wr_sim_event){.at_ns = at_ns > sim->now_ns ? at_ns : sim->now_ns,
				       .number = sim->event_number++,
				       .node = node,
				       .run = run,
				       .object = object,
				       .arg = arg};
	if (!wr_heap_add(&sim->events, &event->heap))
		wr_sim_no_memory();
}

struct wr_sim_event *wr_sim_event_next(struct wr_sim *sim, uint64_t end_ns)
{
	struct wr_heap_node *first = wr_heap_first(&sim->events);
	struct wr_sim_event *event =
		first ? wr_container_of(first, struct wr_sim_event, heap) : NULL;

	if (!event || event->at_ns >= end_ns)
		return NULL;
	wr_heap_pop(&sim->events);
	return event;
}

void wr_sim_output_send(struct wr_sim *sim)
{
	while (sim->dirty) {
		struct wr_sim_node *node = sim->dirty;

		sim->dirty = node->dirty_next;
		node->queued = false;
		wr_sim_node_send(node);
	}
}

void wr_sim_event_run(struct wr_sim *sim, const struct wr_sim_event *event)
{
	struct wr_sim_node *node = event->node;

	sim->now_ns = event->at_ns;
	if (node && node->paused_until_ns > sim->now_ns) {
		wr_sim_schedule(sim, node->paused_until_ns, node, event->run, event->object,
				event->arg);
		return;
	}
	sim->report->events++;
	event->run(sim, event->object, event->arg);
	wr_sim_output_send(sim);
}

void wr_sim_trace(struct wr_sim *sim, const struct wr_sim_node *node, const char *format, ...)
{
	char who[24] = "";
	va_list args;

	if (sim->fleet) /* a scenario has no trace */
		return;
	if (node)
		snprintf(who, sizeof who, "node%u ", node->number);
	va_start(args, format);
	wr_sim_trace_add(sim->trace, &sim->report->trace, sim->now_ns, who, format, args);
	va_end(args);
}

void wr_sim_fail(struct wr_sim *sim, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	wr_sim_failure_add(sim->trace, sim->report->failure, format, args);
	va_end(args);
}
