/* --config FILE: a map of option names to values, or to lists of them. */
#include "cli/options/read.h"

#include <errno.h>
#include <stdlib.h>
#include <yaml.h>

#define FILE_MAX ((size_t)1024 * 1024)

struct file_reader {
	struct options_reader *reader;
	const char *path;
	yaml_parser_t parser;
	yaml_event_t event;
	bool event_live;
};

static void place(const struct file_reader *f, const yaml_mark_t *mark, char text[512])
{
	snprintf(text, 512, "%.400s:%zu:%zu:", f->path, mark->line + 1, mark->column + 1);
}

/* Moves on; false after an error, which has been said. */
static bool next(struct file_reader *f)
{
	char where[512];

	if (f->event_live)
		yaml_event_delete(&f->event);
	f->event_live = yaml_parser_parse(&f->parser, &f->event);
	if (!f->event_live) {
		place(f, &f->parser.problem_mark, where);
		options_wrong(f->reader, where, "%s",
			      f->parser.problem ? f->parser.problem : "out of memory");
	}
	return f->event_live;
}

static void wrong_here(struct file_reader *f, const char *what)
{
	char where[512];

	place(f, &f->event.start_mark, where);
	options_wrong(f->reader, where, "%s", what);
}

/* A scalar, or a list of them, whose option may be unknown (then it is only passed over). */
static bool read_value(struct file_reader *f, const struct options_spot *spot, const char *where)
{
	bool in_list = f->event.type == YAML_SEQUENCE_START_EVENT;

	if (in_list && spot->option && spot->option->kind != WR_OPTION_LIST &&
	    spot->option->kind != WR_OPTION_ADDRESSES) {
		wrong_here(f, "is a list; this option has one value");
		return false;
	}
	if (in_list && !next(f))
		return false;
	while (f->event.type == YAML_SCALAR_EVENT) {
		struct weir_str text = {(const char *)f->event.data.scalar.value,
					f->event.data.scalar.length};

		if (spot->option)
			options_set(f->reader, spot, where, text);
		if (!in_list)
			return true;
		if (!next(f))
			return false;
	}
	if (in_list && f->event.type == YAML_SEQUENCE_END_EVENT)
		return true;
	wrong_here(f, "has neither a value nor a list of values");
	return false;
}

static bool read_pair(struct file_reader *f, bool seen[WR_OPTIONS_MAX])
{
	char where[600];
	struct weir_str name = {(const char *)f->event.data.scalar.value,
				f->event.data.scalar.length};
	struct options_spot spot = options_find(f->reader, name);
	struct weir_str near = options_guess(f->reader, name);

	place(f, &f->event.start_mark, where);
	if (!spot.option && near.len)
		options_wrong(f->reader, where, "there is no option '%.*s'; did you mean '%.*s'?",
			      (int)(name.len < 80 ? name.len : 80), name.ptr, (int)near.len,
			      near.ptr);
	else if (!spot.option)
		options_wrong(f->reader, where, "there is no option '%.*s'",
			      (int)(name.len < 80 ? name.len : 80), name.ptr);
	else if (seen[spot.number])
		options_wrong(f->reader, where, "%s is there twice", spot.option->name);
	if (spot.option) {
		seen[spot.number] = true;
		snprintf(where + strlen(where), sizeof where - strlen(where), " %s",
			 spot.option->name);
	}
	return next(f) && read_value(f, &spot, where) && next(f);
}

static void read_document(struct file_reader *f)
{
	bool seen[WR_OPTIONS_MAX] = {false};

	if (!next(f) || f->event.type != YAML_STREAM_START_EVENT)
		return;
	if (!next(f) || f->event.type != YAML_DOCUMENT_START_EVENT)
		return; /* an empty file says nothing */
	if (!next(f))
		return;
	if (f->event.type != YAML_MAPPING_START_EVENT) {
		wrong_here(f, "is not a list of `option: value`");
		return;
	}
	if (!next(f))
		return;
	while (f->event.type == YAML_SCALAR_EVENT)
		if (!read_pair(f, seen))
			return;
	if (f->event.type != YAML_MAPPING_END_EVENT)
		wrong_here(f, "is not the name of an option");
}

/* The whole file, to be freed; NULL after saying why. */
static char *read_bytes(struct options_reader *reader, const char *path, size_t *len)
{
	FILE *file = fopen(path, "re");
	char *bytes = malloc(FILE_MAX + 1);
	bool usable = false;

	*len = 0;
	if (!file || !bytes) {
		options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
	} else {
		*len = fread(bytes, 1, FILE_MAX + 1, file);
		if (ferror(file))
			options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
		else if (*len > FILE_MAX)
			options_wrong(reader, "--config", "%s has more than a megabyte", path);
		else
			usable = true;
	}
	if (file)
		fclose(file);
	if (!usable)
		free(bytes);
	return usable ? bytes : NULL;
}

void options_read_file(struct options_reader *reader, const char *path)
{
	struct file_reader f = {.reader = reader, .path = path};
	size_t len;
	char *bytes = read_bytes(reader, path, &len);

	if (!bytes)
		return;
	if (!yaml_parser_initialize(&f.parser)) {
		options_wrong(reader, "--config", "%s: out of memory", path);
		free(bytes);
		return;
	}
	reader->source = FROM_FILE;
	yaml_parser_set_input_string(&f.parser, (const unsigned char *)bytes, len);
	read_document(&f);
	if (f.event_live)
		yaml_event_delete(&f.event);
	yaml_parser_delete(&f.parser);
	free(bytes);
}
