/* Computes the cost of a request that arrives, by `cost:` of an entry of `requests:`. */
#include "rules/cost.h"

#include "base/str.h"
#include "rules/http_source.h"

bool wr_rules_cost_parse(struct weir_str text, int64_t *value)
{
	struct weir_str t = wr_str_trim(text);
	size_t point = wr_str_find(t, '.');
	bool fraction = false;
	int64_t number = 0;

	if (point == 0 || point + 1 == t.len)
		return false; /* no digit before or after the point, or no text at all */
	for (size_t i = 0; i < t.len; i++) {
		int digit = t.ptr[i] - '0';

		if (i == point)
			continue;
		if (digit < 0 || digit > 9)
			return false;
		if (i > point)
			fraction |= digit > 0;
		else if (__builtin_mul_overflow(number, 10, &number) ||
			 __builtin_add_overflow(number, digit, &number))
			number = INT64_MAX;
	}
	*value = number + (fraction && number < INT64_MAX);
	return true;
}

int64_t wr_rules_cost_value(const struct wr_rules_cost_source *source, bool found, int64_t value,
			    enum wr_cost_note *note)
{
	*note = WR_COST_AS_GIVEN;
	if (source->from == WR_COST_NUMBER)
		return source->otherwise;
	if (!found || value < 0) {
		*note = WR_COST_DEFAULTED;
		return source->defaults_to_reserved ? WR_COST_RESERVED : source->otherwise;
	}
	if (value <= source->max)
		return value;
	*note = WR_COST_CLAMPED;
	return source->max;
}

bool wr_rules_cost_largest(const struct weir_str *values, size_t count, int64_t *value)
{
	bool found = false;
	int64_t number;

	*value = 0;
	for (size_t i = 0; i < count; i++)
		for (size_t at = 0; at < values[i].len;) {
			struct weir_str rest = wr_str_from(values[i], at);
			struct weir_str element = wr_str_first(rest, wr_str_find(rest, ','));

			at += element.len + 1;
			if (!wr_rules_cost_parse(element, &number))
				continue;
			found = true;
			*value = number > *value ? number : *value;
		}
	return found;
}

/* Reads a header field or a parameter. If it has several values, the API may use any of them, so
 * the largest one counts. If there are more than WR_VALUES_MAX values, in one field or in several,
 * the cost is `max`. */
static bool read_field(struct wr_rules_reading *reading, const struct wr_source *source,
		       int64_t *value)
{
	char *mark = reading->memory.at;
	int rc = wr_source_read(reading, source);

	/* The values are needed only here, so their memory is freed. */
	reading->memory.at = mark;
	if (rc == 0 && reading->found_count <= WR_VALUES_MAX)
		return wr_rules_cost_largest(reading->values, reading->value_count, value);
	*value = INT64_MAX;
	return true;
}

/* Returns the cost of a body whose length is not known yet: the largest one that is possible. A
 * client chooses how it sends its body, so the cost must not be smaller than for a known length. */
static int64_t chunked_cost(const struct wr_rules_cost_source *source, uint64_t longest)
{
	if (longest && longest < (uint64_t)source->max)
		return (int64_t)longest;
	return source->max < WR_COST_MAX ? source->max : source->otherwise;
}

int64_t wr_source_cost(struct wr_rules_reading *reading, const struct wr_rules_cost_source *source,
		       enum wr_cost_note *note)
{
	const struct weir_http_view *view = reading->view;
	bool found = false;
	int64_t value = 0;

	if (source->source) {
		found = read_field(reading, source->source, &value);
	} else if (source->from == WR_COST_REQUEST_BYTES) {
		if (view->body_known == WEIR_LENGTH_LATER) {
			*note = WR_COST_LENGTH_LATER;
			return chunked_cost(source, view->body_bytes);
		}
		found = view->body_known == WEIR_LENGTH_KNOWN;
		value = view->body_bytes < INT64_MAX ? (int64_t)view->body_bytes : INT64_MAX;
	}
	return wr_rules_cost_value(source, found, value, note);
}
