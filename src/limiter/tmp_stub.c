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
WEAK int weir_reader_feed(struct weir_reader *r, const void *b, size_t l)
{
	(void)r;
	(void)b;
	(void)l;
	return 0;
}
WEAK int weir_reader_end(struct weir_reader *r)
{
	(void)r;
	return 0;
}
