/* hammer DIR NAME LIMIT NOW_NS: takes one unit, prints "ready", waits for a byte on stdin, then
 * takes units at the fixed time NOW_NS until 1,000 takes are refused. Prints the number of admitted
 * takes. test_python.py runs it. */
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#define REFUSALS 1000

static _Noreturn void die(const char *text)
{
	fprintf(stderr, "hammer: %s\n", text);
	exit(1);
}

static int take_unit(struct weir_table *table, const struct weir_limit *limit, uint64_t now_ns)
{
	struct weir_decision d;
	int rc = weir_take(table, limit, "key", 3, 1, now_ns, &d);

	if (rc < 0)
		die(weir_strerror(rc));
	return d.admitted;
}

int main(int argc, char **argv)
{
	struct weir_opts opts = {.size = sizeof opts};
	struct weir_limit limit = {
		.size = sizeof limit, .algorithm = WEIR_TOKEN_BUCKET, .period_ns = 1000000000};
	struct weir_error error;
	struct weir_table *table;
	unsigned admitted, refused = 0;
	uint64_t now_ns;

	if (argc != 5)
		die("usage: hammer DIR NAME LIMIT NOW_NS");
	opts.dir = argv[1];
	opts.name = argv[2];
	opts.flags = WEIR_OPEN_EXISTING;
	limit.limit = (uint32_t)strtoul(argv[3], NULL, 10);
	now_ns = strtoull(argv[4], NULL, 10);
	if (weir_limit_check(&limit, &error) < 0 || weir_open(&opts, &table, &error) < 0)
		die(error.text);

	admitted = take_unit(table, &limit, now_ns);
	puts("ready");
	fflush(stdout);
	getchar();
	while (refused < REFUSALS) {
		int yes = take_unit(table, &limit, now_ns);

		admitted += yes;
		refused += !yes;
	}
	printf("%u\n", admitted);
	weir_close(table);
	return 0;
}
