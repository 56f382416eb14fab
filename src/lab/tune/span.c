/* The length of a log, see span.h. */
#include "lab/tune/span.h"

static uint64_t counted(uint64_t gap_ns)
{
	return gap_ns < WR_LAB_SPAN_GAP_NS ? gap_ns : WR_LAB_SPAN_GAP_NS;
}

void wr_lab_span_add(struct wr_lab_span *span, uint64_t time_ns)
{
	if (span->requests < WR_LAB_STRAYS)
		span->first_ns[span->requests] = time_ns;
	if (span->requests)
		span->length_ns += counted(time_ns - span->last_ns[0]);
	for (size_t i = WR_LAB_STRAYS - 1; i > 0; i--)
		span->last_ns[i] = span->last_ns[i - 1];
	span->last_ns[0] = time_ns;
	span->requests++;
}

static bool is_long(uint64_t gap_ns, uint64_t rest_ns)
{
	if (rest_ns < WR_LAB_SPAN_LEAST_NS)
		rest_ns = WR_LAB_SPAN_LEAST_NS;
	return gap_ns / WR_LAB_STRAY_TIMES > rest_ns;
}

struct wr_lab_strays wr_lab_span_strays(const struct wr_lab_span *span, bool at_end)
{
	const uint64_t *times_ns = at_end ? span->last_ns : span->first_ns;
	struct wr_lab_strays strays = {0};
	uint64_t rest_ns = span->length_ns;

	/* `count` requests at the end of the log are compared with the rest. The largest number
	 * that is far away from its rest is found. */
	for (size_t count = 1; count < WR_LAB_STRAYS && count + WR_LAB_STRAYS <= span->requests;
	     count++) {
		uint64_t near_ns = times_ns[count - 1], next_ns = times_ns[count];
		uint64_t gap_ns = at_end ? near_ns - next_ns : next_ns - near_ns;

		rest_ns -= counted(gap_ns);
		if (is_long(gap_ns, rest_ns))
			strays = (struct wr_lab_strays){
				.requests = count,
				.first_ns = at_end ? near_ns : times_ns[0],
				.last_ns = at_end ? times_ns[0] : near_ns,
				.rest_ns = next_ns,
				.length_ns = span->length_ns - rest_ns,
			};
	}
	return strays;
}

uint64_t wr_lab_span_length(const struct wr_lab_span *span)
{
	uint64_t length_ns = span->length_ns - wr_lab_span_strays(span, false).length_ns -
			     wr_lab_span_strays(span, true).length_ns;

	return length_ns > WR_LAB_SPAN_LEAST_NS ? length_ns : WR_LAB_SPAN_LEAST_NS;
}
