/* Lists the files of a log: opens each one, finds its first time, and sorts the files. */
#include "lab/log/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/log/example.h"
#include "lab/log/given.h"
#include "lab/log/guess.h"

#define FILES_MAX 100000u

/* ---- paths ---- */

/* Adds a file. Takes over `path`, which may be NULL without memory. `st` is the status of the file, or
 * NULL if it is not known. */
static int add_path(struct wr_lab_files *files, char *path, const struct stat *st,
		    struct weir_error *error)
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
	if (st)
		items[files->count].identity =
			(struct wr_lab_identity){true, (uint64_t)st->st_dev, (uint64_t)st->st_ino};
	files->count++;
	return 0;
}

/* A pipe, a socket or a device in a directory is no log, and reading it could wait forever. */
static bool is_file(const char *path, struct stat *st)
{
	return stat(path, st) == 0 && S_ISREG(st->st_mode);
}

/* Adds the regular files of a directory. */
static int add_directory(struct wr_lab_files *files, const char *path, DIR *directory,
			 struct weir_error *error)
{
	size_t before = files->count;
	const struct dirent *entry;
	struct stat st = {0};
	char *file;
	int rc;

	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&file, "%s/%s", path, entry->d_name) < 0)
			file = NULL;
		if (file && !is_file(file, &st)) {
			free(file);
			continue;
		}
		rc = add_path(files, file, &st, error);
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
	bool standard = strcmp(path, "-") == 0, found;
	struct stat st = {0};
	DIR *directory;
	int rc;

	found = (standard ? fstat(STDIN_FILENO, &st) : stat(path, &st)) == 0;
	if (standard || !found || !S_ISDIR(st.st_mode))
		return add_path(files, strdup(path), found ? &st : NULL, error);
	directory = opendir(path);
	if (!directory)
		return wr_error_errno(error, WEIR_ESYS, "cannot read the directory %s",
				      wr_lab_show_path(path).text);
	rc = add_directory(files, path, directory, error);
	closedir(directory);
	return rc;
}

/* ---- files that several paths lead to ---- */

/* Sorts paths of the same file so that the path to keep is the first: a path that the user named
 * before one of a directory, and of these the first argument or the first name. */
static int compare_identity(const void *left, const void *right)
{
	const struct wr_lab_file *a = left, *b = right;

	if (a->identity.device != b->identity.device)
		return a->identity.device < b->identity.device ? -1 : 1;
	if (a->identity.inode != b->identity.inode)
		return a->identity.inode < b->identity.inode ? -1 : 1;
	if (a->listed != b->listed)
		return a->listed ? 1 : -1;
	if (a->listed && strcmp(a->path, b->path) != 0)
		return strcmp(a->path, b->path);
	return a->order < b->order ? -1 : 1;
}

static int compare_order(const void *left, const void *right)
{
	const struct wr_lab_file *a = left, *b = right;

	return a->order < b->order ? -1 : 1;
}

static bool is_same(const struct wr_lab_identity *a, const struct wr_lab_identity *b)
{
	return a->known && b->known && a->device == b->device && a->inode == b->inode;
}

/* Counts a path that is left out, and keeps it if it is the first one in the order of names. Takes
 * over `path`. */
static int count_again(struct wr_lab_files *files, char *path, const char *as,
		       struct weir_error *error)
{
	files->again++;
	if (files->again_path && strcmp(files->again_path, path) <= 0) {
		free(path);
		return 0;
	}
	free(files->again_path);
	free(files->again_as);
	files->again_path = path;
	files->again_as = strdup(as);
	if (!files->again_as)
		return wr_error(error, WEIR_EMEMORY, "no memory for the list of files");
	return 0;
}

/* Removes each path whose file another path of the list names already, because the requests of the
 * file would count twice. Example: Apache's rotatelogs -L keeps a link to the current log. */
static int drop_again(struct wr_lab_files *files, struct weir_error *error)
{
	size_t kept = 0;
	int rc = 0;

	if (files->count < 2)
		return 0;
	qsort(files->items, files->count, sizeof *files->items, compare_identity);
	for (size_t i = 0; i < files->count; i++) {
		const struct wr_lab_file *before = kept ? &files->items[kept - 1] : NULL;
		struct wr_lab_file *file = &files->items[i];

		if (rc || !before || !is_same(&before->identity, &file->identity))
			files->items[kept++] = *file;
		else
			rc = count_again(files, file->path, before->path, error);
	}
	files->count = kept;
	qsort(files->items, files->count, sizeof *files->items, compare_order);
	return rc;
}

/* ---- contents ---- */

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
	return compare_order(left, right);
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
		rc = drop_again(files, error);
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
	free(files->again_path);
	free(files->again_as);
	*files = (struct wr_lab_files){.items = NULL};
}
