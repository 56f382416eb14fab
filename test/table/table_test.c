/* Tables, folders and child processes for the suites of src/table and src/store. */
#include "table/table_test.h"
#include "store/store.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char where[64];
static pid_t caretaker;
/* Write end of a pipe; the reader sees the end of the pipe when the last process has ended. */
static int alive;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static void remove_folder(void)
{
	nftw(where, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static bool name_folder(const char *pattern)
{
	snprintf(where, sizeof where, "%s", pattern);
	return mkdtemp(where) != NULL;
}

static void take_care(int reader)
{
	char byte;

	setsid();
	while (read(reader, &byte, 1) < 0 && errno == EINTR)
		;
	remove_folder();
	_exit(0);
}

int folder_make(void **unused)
{
	int ends[2];

	(void)unused;
	if ((!name_folder("/dev/shm/weir-test-XXXXXX") && !name_folder("/tmp/weir-test-XXXXXX")) ||
	    pipe(ends) < 0)
		return -1;
	caretaker = fork();
	if (caretaker == 0) {
		close(ends[1]);
		take_care(ends[0]);
	}
	close(ends[0]);
	alive = ends[1];
	return caretaker > 0 ? 0 : -1;
}

int folder_drop(void **unused)
{
	(void)unused;
	close(alive);
	return reap(caretaker);
}

const char *folder(void)
{
	return where;
}

const char *in_folder(const char *name)
{
	static char paths[8][400];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", where, name);
	return path;
}

struct weir_opts opts_of(const char *name, uint64_t memory_bytes, uint64_t log_bytes)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .name = name,
				 .dir = where,
				 .memory_bytes = memory_bytes,
				 .log_bytes = log_bytes,
				 .now_ns = T0};

	return opts;
}

struct weir_table *table_open(const char *name, uint64_t memory_bytes, uint64_t log_bytes)
{
	struct weir_opts opts = opts_of(name, memory_bytes, log_bytes);
	struct weir_table *table = NULL;
	struct weir_error error = {0};

	if (weir_open(&opts, &table, &error) < 0)
		fail_msg("%s", error.text);
	return table;
}

struct weir_table *table_narrow(const char *name, uint64_t rows, uint32_t spans)
{
	struct weir_table *table = table_open(name, 256 * KIB, 128 * KIB);

	assert_true(rows >= 2 && rows <= table->row_count && spans <= table->span_count);
	table->row_count = rows;
	table->span_count = spans;
	return table;
}

void table_drop(struct weir_table *table)
{
	char path[512];

	memcpy(path, table->path, sizeof path);
	weir_close(table);
	assert_int_equal(unlink(path), 0);
}

void table_clear(struct weir_table *table)
{
	memset(table->rows, 0, table->row_count * sizeof *table->rows);
	memset(table->spans, 0, table->span_count * sizeof *table->spans);
	memset(table->slab, 0, (size_t)table->span_count * table->span_bytes);
	memset(table->tallies, 0, sizeof *table->tallies);
}

struct weir_info info_of(struct weir_table *table, uint64_t now_ns)
{
	struct weir_info info = {.size = sizeof info};

	assert_int_equal(weir_info(table, now_ns, &info), 0);
	return info;
}

/* weir_take() takes no negative cost, so units are given back as the engine does. */
static int take_or_give(struct weir_table *table, const struct weir_limit *limit, const char *key,
			int64_t cost, uint64_t now_ns, struct weir_decision *d)
{
	size_t len = strlen(key);

	if (cost >= 0)
		return weir_take(table, limit, key, len, cost, now_ns, d);
	wr_store_take(table, limit, wr_hash_key(table->secret, key, len, limit->checked), cost,
		      now_ns, d);
	return 0;
}

struct weir_decision take(struct weir_table *table, const struct weir_limit *limit, const char *key,
			  int64_t cost, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(take_or_give(table, limit, key, cost, now_ns, &d), 0);
	return d;
}

struct weir_decision give_back(struct weir_table *table, const struct weir_limit *limit,
			       const char *key, int64_t cost, uint64_t charged_ns, uint64_t now_ns)
{
	struct weir_decision d;

	assert_int_equal(weir_return(table, limit, key, strlen(key), cost, charged_ns, now_ns, &d),
			 0);
	return d;
}

static void name_nth(uint64_t number, char text[32])
{
	snprintf(text, 32, "k%llu", (unsigned long long)number);
}

struct weir_decision take_nth(struct weir_table *table, const struct weir_limit *limit,
			      uint64_t number, int64_t cost, uint64_t now_ns)
{
	struct weir_decision d = {0};
	char text[32];

	name_nth(number, text);
	if (take_or_give(table, limit, text, cost, now_ns, &d) < 0)
		abort();
	return d;
}

struct wr_key key_named(const struct weir_table *table, const struct weir_limit *limit,
			const char *key)
{
	return wr_hash_key(table->secret, key, strlen(key), limit->checked);
}

struct wr_key key_nth(const struct weir_table *table, const struct weir_limit *limit,
		      uint64_t number)
{
	char text[32];

	name_nth(number, text);
	return key_named(table, limit, text);
}

unsigned cells_of(const struct weir_table *table, struct wr_key key)
{
	unsigned found = 0;

	for (uint64_t r = 0; r < table->row_count; r++)
		for (unsigned i = 0; i < WR_CELLS; i++) {
			struct wr_pair hot;

			found += wr_cell_holds(&table->rows[r].cell[i], key, &hot);
		}
	return found;
}

static bool live_tag(const struct weir_table *table, uint64_t index, struct wr_key *key)
{
	const struct wr_cell *cell = &table->rows[0].cell[0] + index;
	struct wr_pair hot;

	key->tag = __atomic_load_n(&cell->id.lo, __ATOMIC_ACQUIRE);
	return wr_cell_holds(cell, *key, &hot);
}

static int by_tag(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

unsigned duplicates(const struct weir_table *table)
{
	uint64_t cells = table->row_count * WR_CELLS;
	uint64_t *tags = malloc(cells * sizeof *tags);
	uint64_t live = 0;
	unsigned found = 0;

	for (uint64_t i = 0; i < cells; i++) {
		struct wr_key key;

		if (live_tag(table, i, &key))
			tags[live++] = key.tag;
	}
	qsort(tags, live, sizeof *tags, by_tag);
	for (uint64_t i = 1; i < live; i++)
		found += tags[i] == tags[i - 1];
	free(tags);
	return found;
}

void *shared_memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

void shared_free(void *at, size_t bytes)
{
	munmap(at, bytes);
}

/* A child is killed when its parent dies. */
pid_t spawn(int (*run)(void *), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int code;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		code = run(arg);
		fflush(NULL);
		_exit(code);
	}
	assert_true(pid > 0);
	return pid;
}

int reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

int in_child(int (*run)(void *), void *arg)
{
	return reap(spawn(run, arg));
}

struct weir_limit sized(uint32_t algorithm, uint32_t size, uint64_t period_ns)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = algorithm,
				   .limit = size,
				   .period_ns = period_ns,
				   .queue_size = algorithm == WEIR_LEAKY_BUCKET ? size - 1 : 0};

	return checked(limit);
}
