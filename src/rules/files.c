/* Finds and reads the files of a rule set.
 *
 * Names that start with a dot are skipped: they are copies made by editors, or the directory ..data
 * of a Kubernetes ConfigMap. The files in ..data are read through links in its parent directory. A
 * file with two names is read once. */
#include "rules/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"

/* Maximum number of files and directories that weir_rules_fingerprint() visits. The maximum is
 * needed because links may form loops. */
#define LOOKS_MAX 100000

static bool is_rule_file(struct weir_str name)
{
	return wr_str_ends(name, WR_STR(".yaml")) || wr_str_ends(name, WR_STR(".yml")) ||
	       wr_str_ends(name, WR_STR(".json"));
}

static struct wr_rules_file *new_file(struct wr_load *load, const char *path, const char *name)
{
	struct wr_rules_file *file = wr_load_alloc(load, &load->texts, sizeof *file);

	file->path = path;
	file->name = name;
	return file;
}

/* Reports a diagnostic about a path that is not one of load->files. The diagnostic is sorted behind
 * the diagnostics about the contents of files. */
static void report_path(struct wr_load *load, enum wr_diag_id id, const char *path,
			struct weir_str arg)
{
	struct wr_rules_file *file = new_file(load, path, path);

	file->index = UINT32_MAX;
	wr_rules_report_file(load, id, file, WR_ARGS(arg));
}

static bool is_in_list(const struct wr_rules_file *file, const struct stat *st)
{
	for (; file; file = file->next)
		if (file->device == st->st_dev && file->inode == st->st_ino)
			return true;
	return false;
}

static void add_file(struct wr_load *load, const char *path, const char *name,
		     const struct stat *st)
{
	struct wr_rules_file *file;

	if (is_in_list(load->files, st) || load->file_count++ >= load->bounds.files)
		return;
	file = new_file(load, path, name);
	file->device = st->st_dev;
	file->inode = st->st_ino;
	file->next = load->files;
	load->files = file;
}

static void list_directory(struct wr_load *load, const char *path, const char *name,
			   unsigned depth);

static void list_entry(struct wr_load *load, const char *directory, const char *name,
		       const char *entry, unsigned depth)
{
	char *path = wr_load_print(load, &load->texts, "%s/%s", directory, entry);
	char *below = wr_load_print(load, &load->texts, "%s%s%s", name, *name ? "/" : "", entry);
	struct stat st;

	if (stat(path, &st) != 0)
		report_path(load, WR_D_cannot_read, path, wr_str(strerror(errno)));
	else if (S_ISDIR(st.st_mode))
		list_directory(load, path, below, depth + 1);
	else if (!is_rule_file(wr_str(entry)))
		report_path(load, WR_D_other_file, path, WR_STR(""));
	else
		add_file(load, path, below, &st);
}

/* Returns whether the directory was visited before. If not, adds the directory to the list of
 * visited directories. Each directory is read only once, because links may lead back to a
 * parent. */
static bool is_visited(struct wr_load *load, const char *path)
{
	struct wr_rules_file *file;
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	if (is_in_list(load->visited, &st))
		return true;
	file = new_file(load, path, path);
	file->device = st.st_dev;
	file->inode = st.st_ino;
	file->next = load->visited;
	load->visited = file;
	return false;
}

static void list_directory(struct wr_load *load, const char *path, const char *name, unsigned depth)
{
	const struct dirent *entry;

	if (is_visited(load, path))
		return;
	if (depth == WR_DIRECTORY_DEPTH) {
		report_path(load, WR_D_directory_too_deep, path,
			    wr_rules_number_text(load, WR_DIRECTORY_DEPTH));
		return;
	}
	load->directories[depth] = opendir(path);
	if (!load->directories[depth]) {
		if (errno == ENOMEM)
			longjmp(load->out_of_memory, 1);
		report_path(load, WR_D_cannot_read, path, wr_str(strerror(errno)));
		return;
	}
	while ((entry = readdir(load->directories[depth])) &&
	       load->file_count <= load->bounds.files)
		if (entry->d_name[0] != '.')
			list_entry(load, path, name, entry->d_name, depth);
	closedir(load->directories[depth]);
	load->directories[depth] = NULL;
}

static int compare_names(const void *a, const void *b)
{
	const struct wr_rules_file *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void sort_files(struct wr_load *load)
{
	struct wr_rules_file **files;
	size_t count = 0;

	for (struct wr_rules_file *file = load->files; file; file = file->next)
		count++;
	files = wr_load_alloc(load, &load->texts, (count + 1) * sizeof(struct wr_rules_file *));
	count = 0;
	for (struct wr_rules_file *file = load->files; file; file = file->next)
		files[count++] = file;
	qsort(files, count, sizeof(struct wr_rules_file *), compare_names);
	for (size_t i = 0; i < count; i++) {
		files[i]->index = (uint32_t)i;
		files[i]->next = files[i + 1];
	}
	load->files = files[0];
}

/* Reads a file to its end. Does not use the size of the file, because the size may change
 * meanwhile. */
static void read_content(struct wr_load *load, struct wr_rules_file *file)
{
	uint64_t left = load->bounds.bytes - load->bytes;
	size_t cap = 0, len = 0;
	char *content = NULL;
	ssize_t n = 1;

	while (n > 0 && len <= left) {
		if (len == cap) {
			char *larger;

			cap = cap ? 2 * cap : 16384;
			larger = wr_load_alloc(load, &load->texts, cap);
			if (content)
				memcpy(larger, content, len);
			content = larger;
		}
		n = read(load->fd, content + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		wr_rules_report_file(load, WR_D_cannot_read, file,
				     WR_ARGS(wr_str(strerror(errno))));
		return;
	}
	if (len > left) {
		wr_rules_report_file(load, WR_D_file_too_large, file,
				     WR_ARGS(wr_rules_number_text(load, load->bounds.bytes)));
		return;
	}
	load->bytes += len;
	file->content = (struct weir_str){content, len};
}

static void read_rule_file(struct wr_load *load, struct wr_rules_file *file)
{
	/* The path may be a FIFO. With O_NONBLOCK, opening a FIFO does not wait. */
	load->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (load->fd < 0) {
		wr_rules_report_file(load, WR_D_cannot_read, file,
				     WR_ARGS(wr_str(strerror(errno))));
		return;
	}
	read_content(load, file);
	close(load->fd);
	load->fd = -1;
}

void wr_files_read(struct wr_load *load, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		report_path(load, WR_D_cannot_read, path, wr_str(strerror(errno)));
		return;
	}
	if (S_ISDIR(st.st_mode))
		list_directory(load, path, "", 0);
	else
		add_file(load, path, "", &st);
	if (load->file_count > load->bounds.files)
		wr_rules_report_file(load, WR_D_too_many, new_file(load, path, ""),
				     WR_ARGS(wr_rules_number_text(load, load->bounds.files),
					     WR_STR("rule files")));
	sort_files(load);
	if (!load->files && load->diags.errors->errors == 0)
		report_path(load, WR_D_no_rule_files, path, WR_STR(""));
	for (struct wr_rules_file *file = load->files; file; file = file->next)
		read_rule_file(load, file);
}

/* Returns a hash of the path, size and times of one file. The hashes of all files are added up, so
 * that the order of the files does not matter. */
static uint64_t stat_number(const char *path, const struct stat *st)
{
	uint64_t words[] = {st->st_dev,
			    st->st_ino,
			    (uint64_t)st->st_size,
			    (uint64_t)st->st_mtim.tv_sec,
			    (uint64_t)st->st_mtim.tv_nsec,
			    (uint64_t)st->st_ctim.tv_sec,
			    (uint64_t)st->st_ctim.tv_nsec};

	return XXH3_64bits_withSeed(words, sizeof words, XXH3_64bits(path, strlen(path)));
}

static uint64_t fingerprint_path(char path[PATH_MAX], unsigned depth, unsigned *budget)
{
	size_t len = strlen(path);
	const struct dirent *entry;
	struct stat st;
	uint64_t sum;
	DIR *dir;

	if (*budget == 0 || stat(path, &st) != 0)
		return 0;
	--*budget;
	sum = stat_number(path, &st);
	if (!S_ISDIR(st.st_mode) || depth == WR_DIRECTORY_DEPTH)
		return sum;
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		size_t room = PATH_MAX - len;

		if (entry->d_name[0] != '.' &&
		    (size_t)snprintf(path + len, room, "/%s", entry->d_name) < room)
			sum += fingerprint_path(path, depth + 1, budget);
		path[len] = '\0';
	}
	if (dir)
		closedir(dir);
	return sum;
}

uint64_t weir_rules_fingerprint(const char *path)
{
	unsigned budget = LOOKS_MAX;
	char copy[PATH_MAX];

	if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
		return 0;
	return fingerprint_path(copy, 0, &budget);
}
