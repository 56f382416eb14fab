/* Two processes share one limit. `embed-demo` uses a private table. `embed-demo NAME` uses the
 * table of that name and does not remove it, so that other programs can use it (embed.py). */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

static int ask(struct weir_table *table, const struct weir_limit *limit)
{
	struct weir_decision d;
	int admitted = 0;

	for (int i = 0; i < 8; i++) {
		int rc = weir_take(table, limit, "user 7", 6, 1, weir_now_ns(), &d);

		if (rc < 0) {
			fprintf(stderr, "embed-demo: %s\n", weir_strerror(rc));
			break;
		}
		admitted += d.admitted;
		printf("process %d: %s, %u left, retry after %.0f s\n", (int)getpid(),
		       d.admitted ? "admitted" : "refused", d.remaining, d.retry_after_ns / 1e9);
		usleep(5000); /* lets the other process run */
	}
	return admitted;
}

int main(int argc, char **argv)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_TOKEN_BUCKET,
				   .limit = 10,
				   .period_ns = 3600 * 1000000000ull};
	struct weir_opts opts = {.size = sizeof opts, .memory_bytes = 1 << 20};
	struct weir_table *table;
	struct weir_error error;
	char name[32];
	int status = 0, admitted;

	setvbuf(stdout, NULL, _IOLBF, 0); /* line buffered, even if stdout is a pipe */
	snprintf(name, sizeof name, "embed-demo-%d", (int)getpid());
	opts.name = argc > 1 ? argv[1] : name;
	opts.dir = argc > 1 ? NULL : "/dev/shm"; /* NULL: the default folder */
	if (weir_limit_check(&limit, &error) < 0 || weir_open(&opts, &table, &error) < 0) {
		fprintf(stderr, "embed-demo: %s\n", error.text);
		return 1;
	}
	if (argc == 1) /* removes the name; the memory is freed when both processes exit */
		weir_remove(opts.name, opts.dir, NULL);
	if (fork() == 0)
		_exit(ask(table, &limit)); /* a child process may use the inherited handle */
	admitted = ask(table, &limit);
	wait(&status);
	admitted += WEXITSTATUS(status);
	printf("2 processes asked 16 times, %d admitted; the limit is %u\n", admitted, limit.limit);
	weir_close(table);
	return 0;
}
