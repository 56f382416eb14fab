/* Table files: made whole before they get a name, checked whole before they are used. */
#ifndef WR_TABLE_FILE_H
#define WR_TABLE_FILE_H

#include "table/paths.h"
#include "table/table.h"

/* What a new file is to be. */
struct wr_file_plan {
	uint64_t memory_bytes;
	uint64_t log_bytes;             /* 0: a share of the memory, by the next two */
	bool logs;                      /* limits are logs */
	const struct wr_header *before; /* the table it replaces, or NULL */
	uint64_t now_ns;
	const uint8_t *secret; /* NULL: a new one */
};

/* A table that has no name yet. */
struct wr_fresh_file {
	struct weir_table *table;
	int fd;
	char temporary[512]; /* "" when the file system can make nameless files */
};

/* Makes a file in the folder, with its room reserved, and maps it. */
int wr_file_make(const struct wr_place *place, const struct wr_file_plan *plan,
		 struct wr_fresh_file *fresh, struct weir_error *error);

/* Gives it its name: WEIR_EINVAL with errno EEXIST when the name is taken … */
int wr_file_publish(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* … or takes the name over from what is there. */
int wr_file_replace(struct wr_fresh_file *fresh, const char *path, struct weir_error *error);

/* Unmaps and forgets a file that is not to be. */
void wr_file_abandon(struct wr_fresh_file *fresh);

/* Maps an existing file after checking it. `private` is for reading: nothing goes back. */
int wr_file_open(const char *path, bool private, struct weir_table **table,
		 struct weir_error *error);

/* Copies every key that is not as good as new. `from` may be in use; `to` has no name yet. */
void wr_table_import(struct weir_table *to, struct weir_table *from, uint32_t now_s);

#endif
