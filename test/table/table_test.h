/* Shared by the suites of src/table and src/store: a folder for table files, tables of any size,
 * children, and functions that look at all cells. */
#ifndef TEST_TABLE_H
#define TEST_TABLE_H

#include <sys/types.h>

#include "algo/algo_test.h"
#include "table/table.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Group fixtures. The folder is in /dev/shm and goes away with the last process of the test, even
 * if all of them are killed. */
int folder_make(void **unused);
int folder_drop(void **unused);
const char *folder(void);
/* A path in the folder, valid until the next eight calls. */
const char *in_folder(const char *name);

/* Options of a table in the folder. */
struct weir_opts opts_of(const char *name, uint64_t memory_bytes, uint64_t log_bytes);
struct weir_table *table_open(const char *name, uint64_t memory_bytes, uint64_t log_bytes);
/* A new table that uses only some of its rows and spans, so that a few keys crowd it. Children
 * inherit that with the handle. */
struct weir_table *table_narrow(const char *name, uint64_t rows, uint32_t spans);
/* Closes it and removes its file. */
void table_drop(struct weir_table *table);
/* Clears the table: no keys, and every tally 0. */
void table_clear(struct weir_table *table);

struct weir_info info_of(struct weir_table *table, uint64_t now_ns);
struct weir_decision take(struct weir_table *table, const struct weir_limit *limit, const char *key,
			  int64_t cost, uint64_t now_ns);
struct weir_decision give_back(struct weir_table *table, const struct weir_limit *limit,
			       const char *key, int64_t cost, uint64_t charged_ns, uint64_t now_ns);
/* The key "k<number>". */
struct weir_decision take_nth(struct weir_table *table, const struct weir_limit *limit,
			      uint64_t number, int64_t cost, uint64_t now_ns);
struct wr_key key_nth(const struct weir_table *table, const struct weir_limit *limit,
		      uint64_t number);

/* Number of cells that hold this key, live. */
unsigned cells_of(const struct weir_table *table, struct wr_key key);
/* Number of cells whose key is in an earlier cell as well. */
unsigned duplicates(const struct weir_table *table);

/* Memory that children share with their parent. */
void *shared_memory(size_t bytes);
void shared_free(void *at, size_t bytes);

/* Runs in a child, whose exit code is what `run` returns. */
pid_t spawn(int (*run)(void *), void *arg);
/* Waits for it: its exit code, or 256 + the signal that ended it. */
int reap(pid_t pid);
/* spawn() and reap(). */
int in_child(int (*run)(void *), void *arg);

/* For children, where cmocka's assertions do not work: prints the condition and returns 1 from
 * `run`. */
#define CHILD_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* A limit that can give `size` at once; a leaky bucket lets size - 1 wait. */
struct weir_limit sized(uint32_t algorithm, uint32_t size, uint64_t period_ns);

#endif
