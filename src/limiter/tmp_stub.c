#include "rules/http_cost.h"
#include <weir/reader.h>
#define WEAK __attribute__((weak))
WEAK int weir_reader_format(struct weir_str t)
{
	(void)t;
	return 0;
}
WEAK int weir_reader_init(void *m, size_t s, const struct weir_str *p, size_t c, int f,
			  struct weir_reader **r)
{
	(void)m;
	(void)s;
	(void)p;
	(void)c;
	(void)f;
	(void)r;
	return WEIR_EINVAL;
}
WEAK int weir_reader_value(const struct weir_reader *r, size_t i, int64_t *v)
{
	(void)r;
	(void)i;
	(void)v;
	return 0;
}
WEAK bool wr_rules_cost_parse(struct weir_str t, int64_t *v)
{
	(void)t;
	(void)v;
	return false;
}
WEAK int64_t wr_rules_cost_value(const struct wr_rules_cost_source *s, bool f, int64_t v,
				 enum wr_cost_note *n)
{
	*n = f ? 0 : 1;
	return f ? v : s->otherwise;
}
