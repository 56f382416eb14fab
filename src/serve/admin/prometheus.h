/* Writes metrics as text in two formats: Prometheus' format 0.0.4 and OpenMetrics 1.0. The formats
 * differ in the name of a family and in the end of the text.
 *
 *   struct wr_prom prom = {.out = &out, .open = true};
 *
 *   wr_prom_family(&prom, &family);                    // HELP, TYPE, UNIT
 *   wr_prom_number(&prom, labels, 2, 17);              // samples of this family
 *   wr_prom_end(&prom);
 *
 * Label values may be any bytes: quotes, backslashes and line feeds are escaped, and a byte that is
 * not UTF-8 becomes U+FFFD. */
#ifndef WR_SERVE_ADMIN_PROMETHEUS_H
#define WR_SERVE_ADMIN_PROMETHEUS_H

#include <stdbool.h>

#include "base/buffer.h"

enum wr_prom_type {
	WR_PROM_COUNTER, /* samples have the name NAME_total */
	WR_PROM_GAUGE,
	WR_PROM_INFO, /* samples have the name NAME_info and the value 1; labels carry the data */
	WR_PROM_HISTOGRAM,
};

struct wr_prom_family {
	const char
		*name; /* without _total and _info; ends with the unit, if the family has a unit */
	enum wr_prom_type type;
	const char *unit; /* "seconds", "bytes", or "" for no unit */
	const char *help;
};

struct wr_prom_label {
	const char *name;
	struct weir_str value;
};

struct wr_prom {
	struct wr_buf *out;
	bool open; /* true: write OpenMetrics 1.0; false: Prometheus' format 0.0.4 */
	const struct wr_prom_family *family;
};

#define WR_PROM_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define WR_PROM_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Returns true if an Accept field asks for OpenMetrics 1.0, that is, if the field names this format
 * and no other supported format has a higher quality (q=). */
bool wr_prom_wants_open(struct weir_str accept);

/* Begins a family. The caller then writes its samples. */
void wr_prom_family(struct wr_prom *prom, const struct wr_prom_family *family);

/* Writes a sample of a family of type counter, gauge or info. */
void wr_prom_number(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t value);

/* Writes a sample with a value of `micros` millionths of the unit. */
void wr_prom_micros(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t micros);

/* A histogram. Each element of `counts` is the count of one bucket alone, not of all buckets up to
 * it. The last bucket is above all bounds. */
struct wr_prom_histogram {
	const uint64_t *bounds_ns;
	const uint64_t *counts; /* the counts of the bound_count + 1 buckets */
	size_t bound_count;
	uint64_t sum_ns;
};

void wr_prom_histogram(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		       const struct wr_prom_histogram *histogram);

/* Ends the text of the metrics: OpenMetrics 1.0 requires "# EOF" as the last line. */
void wr_prom_end(struct wr_prom *prom);

#endif
