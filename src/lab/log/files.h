/* The files of a log, in the order of their first times. */
#ifndef WR_LAB_LOG_FILES_H
#define WR_LAB_LOG_FILES_H

#include "lab/log/log.h"
#include "lab/log/fields.h"
#include "lab/log/input.h"

/* Which file a path leads to. Hard and symbolic links to a file have the same identity. */
struct wr_lab_identity {
	bool known; /* false: the path does not exist, or cannot be examined */
	uint64_t device, inode;
};

struct wr_lab_file {
	char *path;
	struct wr_lab_identity identity;
	/* An input that cannot be opened again, such as a pipe, stays open. Otherwise NULL. */
	struct wr_lab_input *input;
	uint64_t first_ns; /* UINT64_MAX: none of the first lines is readable */
	uint64_t bytes;    /* size of the file; 0: not known */
	bool listed;       /* found in a directory, not named by the user */
	bool foreign;      /* a listed file without a readable line: it is no access log */
	size_t order;      /* place in the arguments, for files with the same first time */
};

struct wr_lab_files {
	struct wr_lab_file *items;
	size_t count;
	uint64_t bytes; /* size of all files; 0: not known */
	/* Files of directories that are left out because they are no access logs, such as
	 * error.log, and the path of the first of them in the order of names. */
	size_t left_out;
	char *left_out_path;
	/* Paths that are left out because another path leads to the same file, the first of them in
	 * the order of names, and the path that is read instead of it. */
	size_t again;
	char *again_path, *again_as;
};

/* Opens each file to see whether it can be read, and sorts the files. A directory stands for the
 * files in it, without those whose names begin with a dot, and without those whose first lines are
 * all unreadable. If no file of the log has a readable line, such files stay. A file that several
 * paths lead to is in the list once. Returns 0, or an error. */
int wr_lab_files_list(struct wr_lab_files *files, const struct wr_lab_log_opts *opts,
		      struct wr_lab_fields *fields, struct weir_error *error);
void wr_lab_files_free(struct wr_lab_files *files);

#endif
