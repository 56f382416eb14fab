/* Lists the files of a log: opens each one, finds its first time, and sorts the files. */
#include "lab/log/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lab/log/guess.h"

#define FILES_MAX 100000u

/* Adds a file. Takes over `path`, which may be NULL without memory. */
static int add_path(struct wr_lab_files *files, char *path, struct weir_error *error)
{
	struct wr_lab_file *items;

	if (path && files->count == FILES_MAX) {
		wr_error(error, WEIR_EMANY,
			 "more than %u files: join them and give them on standard input",
			 FILES_MAX);
		free(path);
		return WEIR_EMANY;
	}
	items = path ? realloc(files->items, (files->count + 1) * sizeof *items) : NULL;
	if (!items) {
		free(path);
		return wr_error(error, WEIR_EMEMORY, "no memory for the list of files");
	}
	files->items = items;
	items[files->count] = (struct wr_lab_file){.path = path, .order = files->count};
	files->count++;
	return 0;
}

/* A pipe, a socket or a device in a directory is no log, and reading it could wait forever. */
static bool is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Adds the regular files of a directory. */
static int add_directory(struct wr_lab_files *files, const char *path, DIR *directory,
			 struct weir_error *error)
{
	size_t before = files->count;
	const struct dirent *entry;
	char *file;
	int rc;

	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&file, "%s/%s", path, entry->d_name) < 0)
			file = NULL;
		if (file && !is_file(file)) {
			free(file);
			continue;
		}
		rc = add_path(files, file, error);
		if (rc)
			return rc;
	}
	if (files->count == before)
		return wr_error(error, WEIR_ENOENT, "there is no file in the directory %s", path);
	return 0;
}

static int add_argument(struct wr_lab_files *files, const char *path, struct weir_error *error)
{
	struct stat st;
	DIR *directory;
	int rc;

	if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return add_path(files, strdup(path), error);
	directory = opendir(path);
	if (!directory)
		return wr_error_errno(error, WEIR_ESYS, "cannot read the directory %s", path);
	rc = add_directory(files, path, directory, error);
	closedir(directory);
	return rc;
}

/* Opens a file and finds its first time. */
static int probe(struct wr_lab_file *file, enum wr_lab_format format, struct wr_lab_fields *fields,
		 uint64_t *bytes, struct weir_error *error)
{
	struct wr_lab_parser parser;
	struct wr_lab_input *input;
	bool again;
	int rc = wr_lab_input_open(file->path, &input, error);

	if (rc)
		return rc;
	if (wr_lab_guess(&parser, format, fields, input, &file->first_ns) != 0) {
		wr_lab_input_close(input);
		return wr_error(error, WEIR_EMEMORY, "no memory to read %s", file->path);
	}
	wr_lab_input_stat(input, bytes, &again);
	if (again && strcmp(file->path, "-") != 0)
		wr_lab_input_close(input);
	else
		file->input = input;
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct wr_lab_file *a = left, *b = right;

	if (a->first_ns != b->first_ns)
		return a->first_ns < b->first_ns ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

int wr_lab_files_list(struct wr_lab_files *files, const struct wr_lab_log_opts *opts,
		      struct wr_lab_fields *fields, struct weir_error *error)
{
	bool known = true;
	uint64_t bytes = 0;
	int rc = 0;

	*files = (struct wr_lab_files){.items = NULL};
	for (size_t i = 0; i < opts->path_count && rc == 0; i++)
		rc = add_argument(files, opts->paths[i], error);
	for (size_t i = 0; i < files->count && rc == 0; i++) {
		rc = probe(&files->items[i], opts->format, fields, &bytes, error);
		known = known && rc == 0 && !files->items[i].input;
		files->bytes += bytes;
	}
	if (rc) {
		wr_lab_files_free(files);
		return rc;
	}
	if (!known)
		files->bytes = 0;
	if (files->count)
		qsort(files->items, files->count, sizeof *files->items, compare);
	return 0;
}

void wr_lab_files_free(struct wr_lab_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		wr_lab_input_close(files->items[i].input);
		free(files->items[i].path);
	}
	free(files->items);
	*files = (struct wr_lab_files){.items = NULL};
}
