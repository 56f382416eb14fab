#include "serve/helper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/fleet/redis.h"
#include "serve/open.h"

static struct wr_core *make_core(struct bench *bench)
{
	struct weir_error error = {0};
	struct weir_rules *rules;
	struct wr_core *core = wr_core_open(&bench->service, true, &rules, &error);

	assert_non_null(core);
	return core;
}

static const char *write_rules(struct bench *bench, const char *text)
{
	static char path[96];
	FILE *file;

	snprintf(path, sizeof path, "%s/rules.yaml", bench->folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

void bench_open(struct bench *bench, const char *rules)
{
	bench_open_redis(bench, rules, NULL);
}

void bench_open_redis(struct bench *bench, const char *rules, const char *url)
{
	struct weir_error error = {0};

	memset(bench, 0, sizeof *bench);
	snprintf(bench->folder, sizeof bench->folder, "/tmp/weir-test-serve-XXXXXX");
	assert_non_null(mkdtemp(bench->folder));
	bench->service.settings = (struct wr_settings){
		.rules = write_rules(bench, rules),
		.table = "one",
		.table_dir = bench->folder,
		.memory_bytes = 1 << 20,
		.redis = {.url = url, .prefix = "weir", .timeout_ns = 20000000, .fleet_size = 1},
		.slow_ns = BENCH_SLOW_MS * 1000000ull,
		.drain_ns = BENCH_SLOW_MS * 1000000ull};
	pthread_mutex_init(&bench->service.lock, NULL);
	pthread_cond_init(&bench->service.woken, NULL);
	assert_int_equal(wr_serve_redis_new(&bench->service.settings.redis, 1,
					    &bench->service.redis, &error),
			 0);
	bench->service.core = make_core(bench);
	assert_int_equal(wr_loop_init(&bench->loop, &bench->service, 0), 0);
}

void bench_move(struct bench *bench, const char *table)
{
	struct wr_core *before = bench->service.core;

	bench->service.settings.table = table;
	bench->service.core = make_core(bench);
	wr_loop_notify(&bench->loop, WR_LOOP_CORE);
	wr_core_release(before);
	bench_turn(bench);
}

void bench_turn(struct bench *bench)
{
	for (int i = 0; i < 20; i++)
		uv_run(&bench->loop.uv, UV_RUN_NOWAIT);
}

void bench_close(struct bench *bench)
{
	char command[128];

	wr_loop_free(&bench->loop);
	wr_serve_redis_free(bench->service.redis);
	wr_core_release(bench->service.core);
	pthread_cond_destroy(&bench->service.woken);
	pthread_mutex_destroy(&bench->service.lock);
	weir_remove("one", bench->folder, NULL);
	weir_remove("two", bench->folder, NULL);
	snprintf(command, sizeof command, "%s/rules.yaml", bench->folder);
	unlink(command);
	assert_int_equal(rmdir(bench->folder), 0);
}
