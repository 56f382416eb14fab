/* Lists the files of a log: opens each one, finds its first time, and sorts the files. */
#include "lab/log/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "lab/log/example.h"
#include "lab/log/given.h"
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
	items[files->count] =
		(struct wr_lab_file){.path = path, .order = files->count, .first_ns = UINT64_MAX};
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
		files->items[files->count - 1].listed = true;
	}
	if (files->count == before)
		return wr_error(error, WEIR_ENOENT, "there is no file in the directory %s",
				wr_lab_show_path(path).text);
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
		return wr_error_errno(error, WEIR_ESYS, "cannot read the directory %s",
				      wr_lab_show_path(path).text);
	rc = add_directory(files, path, directory, error);
	closedir(directory);
	return rc;
}

/* Returns whether a file has a line that is not empty. */
static bool has_lines(struct wr_lab_input *input)
{
	size_t len;
	const char *head = wr_lab_input_peek(input, &len);

	for (size_t i = 0; head && i < len; i++)
		if (head[i] != '\n' && head[i] != '\r')
			return true;
	return false;
}

/* Finds the format and the first time of a file, and checks the names of the user. */
static int examine(struct wr_lab_file *file, struct wr_lab_input *input, enum wr_lab_format *format,
		   struct wr_lab_fields *fields, struct weir_error *error)
{
	struct wr_lab_parser parser;
	bool guessed = *format == WR_LAB_GUESS, readable;

	if (wr_lab_guess(&parser, *format, fields, input, &file->first_ns) != 0)
		return wr_error(error, WEIR_EMEMORY, "no memory to read %s",
				wr_lab_show_path(file->path).text);
	*format = parser.format;
	readable = file->first_ns != UINT64_MAX;
	file->foreign = file->listed && !readable && has_lines(input);
	if (file->foreign)
		return 0;
	if (parser.format == WR_LAB_CSV || (guessed && !readable))
		return wr_lab_given_columns(fields, input, parser.format == WR_LAB_CSV, file->path,
					    error);
	return 0;
}

/* Opens a file and examines it. Sets *format to the format of the file. */
static int probe(struct wr_lab_file *file, enum wr_lab_format *format, struct wr_lab_fields *fields,
		 struct weir_error *error)
{
	struct wr_lab_input *input;
	bool again;
	int rc = wr_lab_input_open(file->path, &input, error);

	if (rc)
		return rc;
	rc = examine(file, input, format, fields, error);
	wr_lab_input_stat(input, &file->bytes, &again);
	if (rc || (again && strcmp(file->path, "-") != 0))
		wr_lab_input_close(input);
	else
		file->input = input;
	return rc;
}

/* Opens each file. If all readable files have formats without names, names of the user are an
 * error. */
static int probe_all(struct wr_lab_files *files, enum wr_lab_format forced,
		     struct wr_lab_fields *fields, struct weir_error *error)
{
	const struct wr_lab_file *unnamed = NULL;
	enum wr_lab_format format, unnamed_format = WR_LAB_GUESS;
	bool named = false;
	int rc;

	for (size_t i = 0; i < files->count; i++) {
		format = forced;
		rc = probe(&files->items[i], &format, fields, error);
		if (rc)
			return rc;
		if (files->items[i].first_ns == UINT64_MAX)
			continue;
		if (wr_lab_format_named(format)) {
			named = true;
		} else if (!unnamed) {
			unnamed = &files->items[i];
			unnamed_format = format;
		}
	}
	if (unnamed && !named)
		return wr_lab_given_format(fields, unnamed_format, unnamed->path, error);
	return 0;
}

static bool any_readable(const struct wr_lab_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		if (files->items[i].first_ns != UINT64_MAX)
			return true;
	return false;
}

/* Takes the foreign files from the list. */
static void leave_out(struct wr_lab_files *files)
{
	size_t kept = 0;

	for (size_t i = 0; i < files->count; i++) {
		struct wr_lab_file *file = &files->items[i];

		if (!file->foreign) {
			files->items[kept++] = *file;
			continue;
		}
		files->left_out++;
		wr_lab_input_close(file->input);
		if (files->left_out_path && strcmp(files->left_out_path, file->path) < 0) {
			free(file->path);
		} else {
			free(files->left_out_path);
			files->left_out_path = file->path;
		}
	}
	files->count = kept;
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
	int rc = 0;

	*files = (struct wr_lab_files){.items = NULL};
	if (opts->format != WR_LAB_GUESS)
		rc = wr_lab_given_format(fields, opts->format, NULL, error);
	for (size_t i = 0; i < opts->path_count && rc == 0; i++)
		rc = add_argument(files, opts->paths[i], error);
	if (rc == 0)
		rc = probe_all(files, opts->format, fields, error);
	if (rc) {
		wr_lab_files_free(files);
		return rc;
	}
	if (any_readable(files))
		leave_out(files);
	for (size_t i = 0; i < files->count; i++) {
		known = known && !files->items[i].input;
		files->bytes += files->items[i].bytes;
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
	free(files->left_out_path);
	*files = (struct wr_lab_files){.items = NULL};
}
