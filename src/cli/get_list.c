/* The URLs of `weir get`: words of the command line, then lines of a file. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/get.h"

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

/* Reads the rest of a line that is longer than the buffer. */
static void skip_line(FILE *file)
{
	int c;

	do
		c = getc(file);
	while (c != EOF && c != '\n');
}

/* Removes blanks and the end of the line. Returns the rest, which is empty for a comment. */
static char *trim(char *text)
{
	size_t len = strlen(text);

	while (len && strchr(" \t\r\n", text[len - 1]))
		text[--len] = '\0';
	text += strspn(text, " \t");
	return *text == '#' ? text + strlen(text) : text;
}

const char *wr_cli_get_list_next(struct get_list *list, const char **wrong)
{
	*wrong = NULL;
	if (list->next_word < list->words->count)
		return list->words->items[list->next_word++];
	while (list->file && fgets(list->text, sizeof list->text, list->file)) {
		size_t len = strlen(list->text);
		const char *url;

		list->line++;
		list->bytes += len;
		if (len == sizeof list->text - 1 && list->text[len - 1] != '\n') {
			skip_line(list->file);
			list->text[64] = '\0';
			*wrong = "the line is longer than 64 KiB";
			return list->text;
		}
		url = trim(list->text);
		if (*url)
			return url;
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
