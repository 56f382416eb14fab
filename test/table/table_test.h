/* Shared by the suites of src/table and src/store: a folder for table files, tables of any size,
 * children, and functions that look at all cells. */
#ifndef TEST_TABLE_H
#define TEST_TABLE_H

#include <sys/types.h>

#include "algo/algo_test.h"
#include "table/table.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Group fixtures: folder_make() makes the folder of the test in /dev/shm. The folder is removed
 * when the last process of the test has ended, even if all processes are killed. */
int folder_make(void **unused);
int folder_drop(void **unused);
const char *folder(void);
/* Returns a path in the folder. The text is valid for the next eight calls. */
const char *in_folder(const char *name);

/* Returns the options of a table in the folder. */
struct weir_opts opts_of(const char *name, uint64_t memory_bytes, uint64_t log_bytes);
struct weir_table *table_open(const char *name, uint64_t memory_bytes, uint64_t log_bytes);
/* Makes a table that uses only some of its rows and spans, so that a few keys fill it. A child
 * process that inherits the handle uses the same rows and spans. */
struct weir_table *table_narrow(const char *name, uint64_t rows, uint32_t spans);
/* Closes the table and removes its file. */
void table_drop(struct weir_table *table);
/* Clears the table: no keys, and every tally 0. */
void table_clear(struct weir_table *table);

struct weir_info info_of(struct weir_table *table, uint64_t now_ns);
struct weir_decision take(struct weir_table *table, const struct weir_limit *limit, const char *key,
			  int64_t cost, uint64_t now_ns);
struct weir_decision give_back(struct weir_table *table, const struct weir_limit *limit,
			       const char *key, int64_t cost, uint64_t charged_ns, uint64_t now_ns);
/* Takes `cost` units for the key "k<number>". */
struct weir_decision take_nth(struct weir_table *table, const struct weir_limit *limit,
			      uint64_t number, int64_t cost, uint64_t now_ns);
struct wr_key key_named(const struct weir_table *table, const struct weir_limit *limit,
			const char *key);
/* Returns the key "k<number>". */
struct wr_key key_nth(const struct weir_table *table, const struct weir_limit *limit,
		      uint64_t number);

/* Returns the number of live cells that belong to this key. */
unsigned cells_of(const struct weir_table *table, struct wr_key key);
/* Returns the number of cells whose key is also in an earlier cell. */
unsigned duplicates(const struct weir_table *table);

/* Returns memory that child processes share with their parent. */
void *shared_memory(size_t bytes);
void shared_free(void *at, size_t bytes);

/* Runs `run` in a child process. Its exit code is the result of `run`. */
pid_t spawn(int (*run)(void *), void *arg);
/* Waits for a child process. Returns its exit code, or 256 plus the number of the signal that ended
 * it. */
int reap(pid_t pid);
/* spawn() and reap(). */
int in_child(int (*run)(void *), void *arg);

/* For child processes, in which cmocka's assertions do not work: if the condition is false, prints
 * it and returns 1 from `run`. */
#define CHILD_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* Returns a limit that admits `size` units at once. In a leaky bucket size - 1 of them wait. */
struct weir_limit sized(uint32_t algorithm, uint32_t size, uint64_t period_ns);

#endif
