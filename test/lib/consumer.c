/* A program that uses an installed libweir, compiled as C and as C++. Prints the version of the
 * library and how many of 20 requests a limit of 7 admits. */
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

int main(int argc, char **argv)
{
	struct weir_error error;
	struct weir_opts opts;
	struct weir_limit limit;
	struct weir_decision d;
	struct weir_table *table;
	int admitted = 0;

	if (argc != 2)
		return 2;
	memset(&opts, 0, sizeof opts);
	opts.size = sizeof opts;
	opts.name = "consumer";
	opts.dir = argv[1];
	opts.memory_bytes = 1 << 20;
	memset(&limit, 0, sizeof limit);
	limit.size = sizeof limit;
	limit.algorithm = WEIR_SLIDING_LOG;
	limit.limit = 7;
	limit.period_ns = 1000000000;
	if (weir_limit_check(&limit, &error) < 0 || weir_open(&opts, &table, &error) < 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	for (int i = 0; i < 20; i++)
		if (weir_take(table, &limit, "key", 3, 1, 1000000000, &d) == 0)
			admitted += d.admitted;
	weir_close(table);
	if (weir_remove(opts.name, opts.dir, &error) < 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	printf("%s %d\n", weir_version(), admitted);
	return 0;
}
