/* The URLs of `weir get`: words of the command line, then lines of a file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/get.h"

#define LINE_SHOWN 64 /* bytes of a line that is not a URL */

int wr_cli_get_list_open(struct get_list *list, const struct wr_cli_words *words, const char *path)
{
	struct stat info;

	list->words = words;
	list->path = path;
	if (!path)
		return 0;
	list->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!list->file) {
		fprintf(stderr, "weir get: cannot open %s: ", path);
		perror(NULL);
		return -1;
	}
	if (fstat(fileno(list->file), &info) == 0 && S_ISREG(info.st_mode))
		list->bytes_all = (uint64_t)info.st_size;
	return 0;
}

void wr_cli_get_list_close(struct get_list *list)
{
	if (list->file && list->file != stdin)
		fclose(list->file);
	list->file = NULL;
}

/* ---- lines ---- */

/* Reads a line of any bytes into list->text, without its end. Sets *len to its length, or to
 * GET_URL_MAX + 1 if the line is longer than the maximum; the rest is skipped. Returns false at the
 * end of the file and on an error. A line that an error has cut off is not used. */
static bool read_line(struct get_list *list, size_t *len)
{
	int c = getc(list->file);
	bool has_line = c != EOF;

	for (*len = 0; c != EOF && c != '\n'; c = getc(list->file)) {
		list->bytes++;
		if (*len <= GET_URL_MAX)
			list->text[(*len)++] = (char)c;
	}
	if (c == EOF && ferror(list->file)) {
		list->failed_errno = errno;
		return false;
	}
	list->bytes += c == '\n';
	list->line++;
	return has_line;
}

/* Returns the line without blanks at its beginning and end. A comment is an empty line. */
static struct weir_str trim(const char *text, size_t len)
{
	struct weir_str line = {text, len};

	if (line.len && line.ptr[line.len - 1] == '\r')
		line.len--;
	line = wr_str_trim(line);
	return wr_str_first(line, line.len && *line.ptr == '#' ? 0 : line.len);
}

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 127;
}

/* Replaces control characters by question marks. Returns whether there were any. */
static bool replace_controls(char *text, size_t len)
{
	bool found = false;

	for (size_t i = 0; i < len; i++)
		if (is_control(text[i])) {
			text[i] = '?';
			found = true;
		}
	return found;
}

/* Says why the line is not a URL. Returns what can be shown of it. */
static const char *refuse(struct get_list *list, char *text, const char **wrong, const char *why)
{
	snprintf(list->wrong, sizeof list->wrong, "%.400s:%llu: %s", list->path,
		 (unsigned long long)list->line, why);
	*wrong = list->wrong;
	if (strlen(text) > LINE_SHOWN)
		text[LINE_SHOWN] = '\0';
	return text;
}

const char *wr_cli_get_list_next(struct get_list *list, const char **wrong)
{
	size_t len;

	*wrong = NULL;
	if (list->next_word < list->words->count)
		return list->words->items[list->next_word++];
	while (list->file && read_line(list, &len)) {
		struct weir_str url = trim(list->text, len);
		char *text = list->text + (url.ptr - list->text);

		text[url.len] = '\0';
		if (replace_controls(text, url.len))
			return refuse(list, text, wrong, "the line has a control character");
		if (len > GET_URL_MAX)
			return refuse(list, text, wrong, "the line is longer than 64 KiB");
		if (url.len)
			return text;
	}
	return NULL;
}

double wr_cli_get_list_part(const struct get_list *list)
{
	if (!list->path)
		return list->words->count ? (double)list->next_word / (double)list->words->count
					  : 1;
	return list->bytes_all ? (double)list->bytes / (double)list->bytes_all : -1;
}
