/* Dates of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT". */
#ifndef WR_FETCH_DATE_H
#define WR_FETCH_DATE_H

#include <stdint.h>

#include <weir/rules.h>

/* Reads a date in one of the three forms of RFC 9110:
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT
 *     Sunday, 06-Nov-94 08:49:37 GMT
 *     Sun Nov  6 08:49:37 1994
 *
 * A year of two digits is between 1970 and 2069. Sets *seconds to the time since 1970. Returns 0, or
 * -1 if the text is not a date from 1970 to 9999. The name of the weekday is not compared with the
 * date. */
int wr_fetch_date_parse(struct weir_str text, uint64_t *seconds);

#endif
