/* Reads the number of units that a request costs from a text, and applies `default` and `max`. The
 * rules use these functions when a request arrives, and the limiter uses them for values of the
 * response. */
#ifndef WR_RULES_COST_H
#define WR_RULES_COST_H

#include "rules/http.h"
#include "rules/requests.h"

#define WR_COST_RESERVED (-1) /* the reservation is the cost */

/* Reads a number: decimal digits, perhaps a point and more digits, perhaps blanks around. A
 * fraction is rounded up, and a number above INT64_MAX is INT64_MAX. Returns false if the text is
 * anything else, such as a negative number. */
bool wr_rules_cost_parse(struct weir_str text, int64_t *value);

/* Returns the cost for a value of the source, which is lowered to `max`. If `found` is false or
 * `value` is negative, returns `default`, which is WR_COST_RESERVED if the source defaults to the
 * reservation. The cost of a plain number does not depend on `found` and `value`. */
int64_t wr_rules_cost_value(const struct wr_rules_cost_source *source, bool found, int64_t value,
			    enum wr_cost_note *note);

/* Reads the value of a header field with the values `values`: the largest valid number of all
 * elements, which commas separate. Returns false if no element is a valid number. */
bool wr_rules_cost_largest(const struct weir_str *values, size_t count, int64_t *value);

#endif
