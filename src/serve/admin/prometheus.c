#include "serve/admin/prometheus.h"

#include <stdio.h>

#include "base/utf8.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define MICROS 6u /* decimals */
#define NANOS 9u
#define SECOND_NS 1000000000u

static const struct {
	const char *name, *open_name, *suffix;
} types[] = {
	[WR_PROM_COUNTER] = {"counter", "counter", "_total"},
	[WR_PROM_GAUGE] = {"gauge", "gauge", ""},
	[WR_PROM_INFO] = {"gauge", "info", "_info"},
	[WR_PROM_HISTOGRAM] = {"histogram", "histogram", ""},
};

/* ---- which format ---- */

/* A q of 0 to 1 in thousandths: "q=0.75". What cannot be read counts as 1, as if it were not there.
 */
static unsigned quality(struct weir_str parameter)
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

/* "application/openmetrics-text;version=1.0.0;q=0.5": how much a format is liked, and whether it is
 * OpenMetrics. Versions that we do not speak are not liked at all. */
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
			q = quality(parameter);
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

/* Nearly all of it is plain: that is copied in runs. */
static void put_escaped(struct wr_text *out, struct weir_str text)
{
	for (size_t i = 0; i < text.len;) {
		size_t plain = 0, len;

		while (i + plain < text.len && is_plain(text.ptr[i + plain]))
			plain++;
		wr_text_put(out, (struct weir_str){text.ptr + i, plain});
		i += plain;
		if (i == text.len)
			return;
		len = wr_utf8_len(text.ptr + i, text.len - i);
		if (len == 0)
			PUT(out, WR_UTF8_UNKNOWN);
		else if (text.ptr[i] == '\n')
			PUT(out, "\\n");
		else if (text.ptr[i] == '\\' || text.ptr[i] == '"')
			wr_text_put(out, text.ptr[i] == '"' ? WR_STR("\\\"") : WR_STR("\\\\"));
		else
			wr_text_put(out, (struct weir_str){text.ptr + i, len});
		i += len ? len : 1;
	}
}

static void put_label(struct wr_text *out, const struct wr_prom_label *label, bool first)
{
	wr_text_char(out, (char)(first ? '{' : ','));
	wr_text_put(out, wr_str(label->name));
	PUT(out, "=\"");
	put_escaped(out, label->value);
	wr_text_char(out, '"');
}

static void put_labels(struct wr_text *out, const struct wr_prom_label *labels, size_t count,
		       const struct wr_prom_label *last)
{
	for (size_t i = 0; i < count; i++)
		put_label(out, &labels[i], i == 0);
	if (last)
		put_label(out, last, count == 0);
	if (count || last)
		wr_text_char(out, '}');
	wr_text_char(out, ' ');
}

/* With so many decimals as it needs: 1500000 with 6 is "1.5". */
static void put_decimal(struct wr_text *out, uint64_t number, unsigned decimals)
{
	char digits[32];
	int len = snprintf(digits, sizeof digits, "%0*llu", (int)decimals + 1,
			   (unsigned long long)number);
	size_t end = (size_t)len, point = end - decimals;

	while (end > point && digits[end - 1] == '0')
		end--;
	wr_text_put(out, (struct weir_str){digits, point});
	if (end == point)
		return;
	wr_text_char(out, '.');
	wr_text_put(out, (struct weir_str){digits + point, end - point});
}

static void put_name(const struct wr_prom *prom, const char *suffix)
{
	wr_text_put(prom->out, wr_str(prom->family->name));
	wr_text_put(prom->out, wr_str(suffix));
}

/* ---- families and samples ---- */

static void put_comment(const struct wr_prom *prom, const char *what, struct weir_str text)
{
	PUT(prom->out, "# ");
	wr_text_put(prom->out, wr_str(what));
	wr_text_char(prom->out, ' ');
	put_name(prom, prom->open ? "" : types[prom->family->type].suffix);
	wr_text_char(prom->out, ' ');
	wr_text_put(prom->out, text);
	wr_text_char(prom->out, '\n');
}

void wr_prom_family(struct wr_prom *prom, const struct wr_prom_family *family)
{
	prom->family = family;
	put_comment(prom, "HELP", wr_str(family->help));
	put_comment(prom, "TYPE",
		    wr_str(prom->open ? types[family->type].open_name : types[family->type].name));
	if (prom->open && family->unit[0])
		put_comment(prom, "UNIT", wr_str(family->unit));
}

void wr_prom_number(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t value)
{
	put_name(prom, types[prom->family->type].suffix);
	put_labels(prom->out, labels, count, NULL);
	wr_text_number(prom->out, value);
	wr_text_char(prom->out, '\n');
}

void wr_prom_micros(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		    uint64_t micros)
{
	put_name(prom, types[prom->family->type].suffix);
	put_labels(prom->out, labels, count, NULL);
	put_decimal(prom->out, micros, MICROS);
	wr_text_char(prom->out, '\n');
}

static void put_bucket(const struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		       struct weir_str bound, uint64_t value)
{
	struct wr_prom_label le = {"le", bound};

	put_name(prom, "_bucket");
	put_labels(prom->out, labels, count, &le);
	wr_text_number(prom->out, value);
	wr_text_char(prom->out, '\n');
}

void wr_prom_histogram(struct wr_prom *prom, const struct wr_prom_label *labels, size_t count,
		       const struct wr_prom_histogram *histogram)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < histogram->bound_count; i++) {
		char text[32];
		struct wr_text bound = {text, sizeof text, 0};

		sum += histogram->counts[i];
		put_decimal(&bound, histogram->bounds_ns[i], NANOS);
		if (histogram->bounds_ns[i] % SECOND_NS == 0)
			PUT(&bound, ".0"); /* OpenMetrics: a bound is a float */
		put_bucket(prom, labels, count, (struct weir_str){text, bound.len}, sum);
	}
	sum += histogram->counts[histogram->bound_count];
	put_bucket(prom, labels, count, WR_STR("+Inf"), sum);
	put_name(prom, "_sum");
	put_labels(prom->out, labels, count, NULL);
	put_decimal(prom->out, histogram->sum_ns, NANOS);
	wr_text_char(prom->out, '\n');
	put_name(prom, "_count");
	put_labels(prom->out, labels, count, NULL);
	wr_text_number(prom->out, sum);
	wr_text_char(prom->out, '\n');
}

void wr_prom_end(struct wr_prom *prom)
{
	if (prom->open)
		PUT(prom->out, "# EOF\n");
}
