/* Table files. A file is complete before it gets its name, and checked before it is used. */
#ifndef WR_TABLE_FILE_H
#define WR_TABLE_FILE_H

#include "table/paths.h"
#include "table/table.h"

/* Sizes and contents of a new file. */
struct wr_file_plan {
	uint64_t memory_bytes;
	uint64_t log_bytes; /* 0: a share of the memory that follows from the next two */
	bool logs;          /* limits are logs */
	const struct wr_header *before; /* the table it replaces, or NULL */
	uint64_t now_ns;
	const uint8_t *secret; /* NULL: a new one */
};

/* A table whose file has no name yet. */
struct wr_fresh_file {
	struct weir_table *table;
	int fd;
	char temporary[512]; /* "" when the file system can make nameless files */
};

/* Creates a file in the folder, reserves its pages and maps it. */
int wr_file_make(const struct wr_place *place, const struct wr_file_plan *plan,
		 struct wr_fresh_file *fresh, struct weir_error *error);

/* Gives the file its name. Returns WEIR_EINVAL with errno EEXIST if the name exists. */
int wr_file_publish(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* Gives the file its name and replaces the file that has it. */
int wr_file_replace(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* Unmaps the file and removes it. */
void wr_file_abandon(struct wr_fresh_file *fresh);

/* Checks an existing file and maps it. With `private` it is only read: changes are not written
 * back. */
int wr_file_open(const char *path, bool private, struct weir_table **table,
		 struct weir_error *error);

/* Copies every key that has not expired. `from` may be in use; `to` has no name yet. */
void wr_table_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

#endif
