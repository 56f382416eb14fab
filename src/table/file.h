/* Table files. A file is complete before it gets its name, and it is checked before it is used. */
#ifndef WR_TABLE_FILE_H
#define WR_TABLE_FILE_H

#include "table/paths.h"
#include "table/table.h"

/* Sizes and contents of a new file. */
struct wr_file_plan {
	uint64_t memory_bytes;
	/* Number of bytes for logs; 0: a part of memory_bytes, which depends on `logs` and
	 * `before`. */
	uint64_t log_bytes;
	bool logs;                      /* true if some limits are sliding window logs */
	const struct wr_header *before; /* header of the table that the file replaces, or NULL */
	uint64_t now_ns;
	const uint8_t *secret; /* secret of the key hash; NULL: a new random secret */
};

/* A table whose file has no name yet. */
struct wr_fresh_file {
	struct weir_table *table;
	int fd;
	/* Temporary name; "" if the file system can make files without a name. */
	char temporary[512];
};

/* Creates a file in the folder, reserves its pages and maps it. Returns 0 or an error. */
int wr_file_make(const struct wr_table_paths *paths, const struct wr_file_plan *plan,
		 struct wr_fresh_file *fresh, struct weir_error *error);

/* Gives the file its name. Returns 0 or an error: WEIR_EINVAL with errno EEXIST if the name
 * exists. */
int wr_file_publish(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* Gives the file its name, and replaces the file that has this name. Returns 0 or an error. */
int wr_file_replace(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* Unmaps the table, closes the file, and removes its temporary name. */
void wr_file_abandon(struct wr_fresh_file *fresh);

/* Checks an existing file and maps it. With `private`, changes in memory are not written to the
 * file. Returns 0 or an error. */
int wr_file_open(const char *path, bool private, struct weir_table **table,
		 struct weir_error *error);

#endif
