/* Writes the text formats of Prometheus; see prometheus.h. Called by metrics*.c. */
#include "serve/admin/prometheus.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/utf8.h"

#define MICROS 6u /* number of decimals of a value that is given in millionths */
#define NANOS 9u

static const struct {
	const char *name, *open_name, *suffix;
} types[] = {
	[WR_PROM_COUNTER] = {"counter", "counter", "_total"},
	[WR_PROM_GAUGE] = {"gauge", "gauge", ""},
	[WR_PROM_INFO] = {"gauge", "info", "_info"},
	[WR_PROM_HISTOGRAM] = {"histogram", "histogram", ""},
};

/* ---- the format ---- */

/* Reads a quality such as "q=0.75" as thousandths: 750. Returns 1000 for any other text. */
static unsigned read_quality(struct weir_str parameter)
{
	static const unsigned weights[] = {100, 10, 1};
	unsigned q;

	if (parameter.len < 3 || wr_lower(parameter.ptr[0]) != 'q' || parameter.ptr[1] != '=')
		return 1000;
	q = parameter.ptr[2] == '0' ? 0 : 1000;
	for (size_t i = 4; q < 1000 && i < parameter.len && i < 7; i++)
		if (parameter.ptr[i] >= '0' && parameter.ptr[i] <= '9')
			q += weights[i - 4] * (unsigned)(parameter.ptr[i] - '0');
	return q;
}

/* Reads one format of an Accept field: "application/openmetrics-text;version=1.0.0;q=0.5". Returns
 * its quality in thousandths, or 0 for a format or a version that is not supported. */
static unsigned read_choice(struct weir_str choice, bool *open)
{
	size_t end = wr_str_find(choice, ';');
	struct weir_str type = wr_str_trim(wr_str_first(choice, end));
	unsigned q = 1000;

	*open = wr_str_equal_nocase(type, WR_STR("application/openmetrics-text"));
	if (!*open && !wr_str_equal_nocase(type, WR_STR("text/plain")) &&
	    !wr_str_equal(type, WR_STR("*/*")) && !wr_str_equal_nocase(type, WR_STR("text/*")))
		return 0;
	while (end < choice.len) {
		struct weir_str parameter;

		choice = wr_str_from(choice, end + 1);
		end = wr_str_find(choice, ';');
		parameter = wr_str_trim(wr_str_first(choice, end));
		if (*open && wr_str_begins(parameter, WR_STR("version=")) &&
		    !wr_str_equal(parameter, WR_STR("version=1.0.0")))
			return 0;
		if (parameter.len && wr_lower(parameter.ptr[0]) == 'q')
			q = read_quality(parameter);
	}
	return q;
}

bool wr_prom_wants_open(struct weir_str accept)
{
	unsigned best_open = 0, best_text = 0;

	while (accept.len) {
		size_t end = wr_str_find(accept, ',');
		bool open;
		unsigned q = read_choice(wr_str_first(accept, end), &open);
		unsigned *best = open ? &best_open : &best_text;

		if (q > *best)
			*best = q;
		accept = wr_str_from(accept, end < accept.len ? end + 1 : end);
	}
	return best_open > 0 && best_open >= best_text;
}

/* ---- pieces ---- */

static bool is_plain(char c)
{
	return c >= ' ' && c < 0x7f && c != '\\' && c != '"';
}

/* Writes a label value with escapes. Runs of plain characters are copied as a whole. */
static void write_escaped(struct wr_buf *out, struct weir_str text)
{
	for (size_t i = 0; i < text.len;) {
		size_t plain = 0, len;

		while (i + plain < text.len && is_plain(text.ptr[i + plain]))
			plain++;
		wr_buf_add_str(out, (struct weir_str){text.ptr + i, plain});
		i += plain;
		if (i == text.len)
			return;
		len = wr_utf8_len(text.ptr + i, text.len - i);
		if (len == 0)
			wr_buf_add_str(out, WR_STR(WR_UTF8_UNKNOWN));
		else if (text.ptr[i] == '\n')
			wr_buf_add_str(out, WR_STR("\\n"));
		else if (text.ptr[i] == '\\' || text.ptr[i] == '"')
			wr_buf_add_str(out, text.ptr[i] == '"' ? WR_STR("\\\"") : WR_STR("\\\\"));
		else
			wr_buf_add_str(out, (struct weir_str){text.ptr + i, len});
		i += len ? len : 1;
	}
}

static void write_label(struct wr_buf *out, const struct wr_prom_label *label, bool first)
{
	wr_buf_add_char(out, (char)(first ? '{' : ','));
	wr_buf_add_str(out, wr_str(label->name));
	wr_buf_add_str(out, WR_STR("=\""));
	write_escaped(out, label->value);
	wr_buf_add_char(out, '"');
}

static void write_labels(struct wr_buf *out, const struct wr_prom_label *labels, size_t count,
			 const struct wr_prom_label *last)
{
	for (size_t i = 0; i < count; i++)
		write_label(out, &labels[i], i == 0);
	if (last)
		write_label(out, last, count == 0);
	if (count || last)
		wr_buf_add_char(out, '}');
	wr_buf_add_char(out, ' ');
}

/* Writes number / 10^decimals without trailing zeros: 1500000 with 6 decimals is "1.5". */
static void write_decimal(struct wr_buf *out, uint64_t number, unsigned decimals)
{
	char digits[32];
	size_t end, point;

	if (decimals == 0) {
		wr_buf_add_uint(out, number);
		return;
	}
	end = (size_t)snprintf(digits, sizeof digits, "%0*llu", (int)decimals + 1,
			       (unsigned long long)number);
	point = end - decimals;
	while (end > point && digits[end - 1] == '0')
		end--;
	wr_buf_add_str(out, (struct weir_str){digits, point});
	if (end == point)
		return;
	wr_buf_add_char(out, '.');
	wr_buf_add_str(out, (struct weir_str){digits + point, end - point});
}

static void write_name(const struct wr_prom *prom, const char *suffix)
{
	wr_buf_add_str(prom->out, wr_str(prom->family->name));
	wr_buf_add_str(prom->out, wr_str(suffix));
}

/* ---- families and samples ---- */

static void write_comment(const struct wr_prom *prom, const char *what, struct weir_str text)
{
	wr_buf_add_str(prom->out, WR_STR("# "));
	wr_buf_add_str(prom->out, wr_str(what));
	wr_buf_add_char(prom->out, ' ');
	write_name(prom, prom->open ? "" : types[prom->family->type].suffix);
	wr_buf_add_char(prom->out, ' ');
	wr_buf_add_str(prom->out, text);
	wr_buf_add_char(prom->out, '\n');
}

void wr_prom_family(struct wr_prom *prom, const struct wr_prom_family *family)
{
	prom->family = family;
	write_comment(prom, "HELP", wr_str(family->help));
	write_comment(
		prom, "TYPE",
		wr_str(prom->open ? types[family->type].open_name : types[family->type].name));
	if (prom->open && family->unit[0])
		write_comment(prom, "UNIT", wr_str(family->unit));
}

/* Writes a line: the name with its suffix, the labels, and value / 10^decimals. `last` is a label
 * that follows the other labels, or NULL. */
static void write_sample(const struct wr_prom *prom, const char *suffix,
			 const struct wr_prom_label *labels, size_t count,
			 const struct wr_prom_label *last, uint64_t value, unsigned decimals)
{
	write_name(prom, suffix);
	write_labels(prom->out, labels, count, last);
	write_decimal(prom->out, value, decimals);
	wr_buf_add_char(prom->out, '\n');
}

void wr_prom_number(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t value)
{
	wr_assert(prom->family && (labels || count == 0));
	write_sample(prom, types[prom->family->type].suffix, labels, count, NULL, value, 0);
}

void wr_prom_micros(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t micros)
{
	wr_assert(prom->family && (labels || count == 0));
	write_sample(prom, types[prom->family->type].suffix, labels, count, NULL, micros, MICROS);
}

void wr_prom_histogram(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		       const struct wr_prom_histogram *histogram)
{
	static const struct wr_prom_label above = {"le", {"+Inf", 4}};
	uint64_t sum = 0;

	wr_assert(prom->family && (labels || count == 0));
	for (size_t i = 0; i < histogram->bound_count; i++) {
		char text[32];
		struct wr_buf bound;

		wr_buf_init_fixed(&bound, text, sizeof text);
		sum += histogram->counts[i];
		write_decimal(&bound, histogram->bounds_ns[i], NANOS);
		/* OpenMetrics requires that the bounds of a histogram are floats, such as "1.0". */
		if (histogram->bounds_ns[i] % WR_SECOND_NS == 0)
			wr_buf_add_str(&bound, WR_STR(".0"));
		write_sample(prom, "_bucket", labels, count,
			     &(struct wr_prom_label){"le", wr_buf_str(&bound)}, sum, 0);
	}
	sum += histogram->counts[histogram->bound_count];
	write_sample(prom, "_bucket", labels, count, &above, sum, 0);
	write_sample(prom, "_sum", labels, count, NULL, histogram->sum_ns, NANOS);
	write_sample(prom, "_count", labels, count, NULL, sum, 0);
}

void wr_prom_end(struct wr_prom *prom)
{
	if (prom->open)
		wr_buf_add_str(prom->out, WR_STR("# EOF\n"));
}
