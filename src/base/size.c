/* Reads and writes the sizes in options and rule files. */
#include "base/size.h"

#include <stdio.h>

#include "base/str.h"

static const char letters[] = "KMGT"; /* units of 1024, 1024², 1024³ and 1024⁴ bytes */

int wr_size_parse(struct weir_str text, uint64_t *bytes)
{
	uint64_t value = 0;
	size_t digits = 0;
	struct weir_str unit;
	unsigned power = 0; /* the unit is 1024 to this power */

	for (; digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9'; digits++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text.ptr[digits] - '0'), &value))
			return -1;
	unit = wr_str_from(text, digits);
	for (unsigned i = 0; unit.len && letters[i]; i++)
		if (wr_lower(unit.ptr[0]) == wr_lower(letters[i]))
			power = i + 1;
	if (power)
		unit = wr_str_from(unit, 1);
	if (digits == 0 || !(unit.len == 0 || wr_str_equal_nocase(unit, WR_STR("b")) ||
			     (power && wr_str_equal_nocase(unit, WR_STR("ib")))))
		return -1;
	if (value > (uint64_t)INT64_MAX >> (10 * power))
		return -1;
	*bytes = value << (10 * power);
	return 0;
}

size_t wr_size_text(uint64_t bytes, char text[WR_SIZE_TEXT])
{
	unsigned power = 0;

	while (bytes && bytes % 1024 == 0 && power < sizeof letters - 1) {
		bytes /= 1024;
		power++;
	}
	return (size_t)snprintf(text, WR_SIZE_TEXT, power ? "%llu%c" : "%llu",
				(unsigned long long)bytes, power ? letters[power - 1] : 0);
}
