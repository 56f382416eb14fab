/* The values of a line of JSON or CSV, and the record that is made of them. */
#ifndef WR_LAB_LOG_VALUE_H
#define WR_LAB_LOG_VALUE_H

#include "lab/log/fields.h"
#include "lab/log/format.h"

enum wr_lab_value_kind {
	WR_LAB_VALUE_NONE,
	WR_LAB_VALUE_TEXT,
	WR_LAB_VALUE_INTEGER,
	WR_LAB_VALUE_REAL,
};

struct wr_lab_value {
	enum wr_lab_value_kind kind;
	uint8_t rank;
	uint64_t unit_ns;
	struct weir_str text; /* of an integer: its digits */
	int64_t integer;
	double real;
};

/* The best value of each meaning. All zero is empty. */
struct wr_lab_values {
	struct wr_lab_value items[WR_LAB_MEANINGS_COUNT];
	int64_t cost; /* sum of the costs with the rank of items[WR_LAB_MEANS_COST] */
};

/* Returns whether a value with this meaning would be used. */
bool wr_lab_values_want(const struct wr_lab_values *values, const struct wr_lab_meaning *meaning);

/* Notes a value that wr_lab_values_want() wants. A cost that is not a number is left out. The rank
 * and the unit of `value` are taken from `meaning`. */
void wr_lab_values_put(struct wr_lab_values *values, const struct wr_lab_meaning *meaning,
		       struct wr_lab_value value);

/* Makes a record. The texts of the values are in the line. Returns NULL, or why the line is
 * unreadable. */
const char *wr_lab_values_record(struct wr_lab_values *values, struct wr_lab_parser *parser,
				 struct wr_lab_slot *slot);

/* Reads a number such as "250", "0.25", "250ms" or "1.5s" as a duration. A number without a unit is
 * in seconds if it has a fraction, and in milliseconds otherwise. Returns 0 for other texts. */
uint64_t wr_lab_duration(struct weir_str text, uint64_t unit_ns);

/* Returns the last element of a list such as X-Forwarded-For, which the last proxy has added. */
struct weir_str wr_lab_last_of(struct weir_str list);

#endif
