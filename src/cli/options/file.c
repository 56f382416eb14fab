/* Reads the YAML file of --config: a map of option names to values or to lists of values. Called by
 * options.c. */
#include "cli/options/read.h"

#include <errno.h>
#include <stdlib.h>
#include <yaml.h>

#define FILE_MAX ((size_t)1024 * 1024)

struct file_reader {
	struct wr_options_reader *reader;
	const char *path;
	yaml_parser_t parser;
	yaml_event_t event;
	bool event_live;
};

static void write_location(const struct file_reader *f, const yaml_mark_t *mark, char text[512])
{
	snprintf(text, 512, "%.400s:%zu:%zu:", f->path, mark->line + 1, mark->column + 1);
}

/* Reads the next YAML event. On failure reports the error and returns false. */
static bool next_event(struct file_reader *f)
{
	char where[512];

	if (f->event_live)
		yaml_event_delete(&f->event);
	f->event_live = yaml_parser_parse(&f->parser, &f->event);
	if (!f->event_live) {
		write_location(f, &f->parser.problem_mark, where);
		wr_options_wrong(f->reader, where, "%s",
				 f->parser.problem ? f->parser.problem : "out of memory");
	}
	return f->event_live;
}

static void report_here(struct file_reader *f, const char *what)
{
	char where[512];

	write_location(f, &f->event.start_mark, where);
	wr_options_wrong(f->reader, where, "%s", what);
}

/* Reads a value or a list of values. Skips the value of an unknown option. On failure reports the
 * error and returns false. */
static bool read_value(struct file_reader *f, const struct wr_option_ref *ref, const char *where)
{
	bool in_list = f->event.type == YAML_SEQUENCE_START_EVENT;

	if (in_list && ref->option && ref->option->kind != WR_OPTION_LIST &&
	    ref->option->kind != WR_OPTION_ADDRESSES) {
		report_here(f, "is a list; this option has one value");
		return false;
	}
	if (in_list && !next_event(f))
		return false;
	while (f->event.type == YAML_SCALAR_EVENT) {
		struct weir_str text = {(const char *)f->event.data.scalar.value,
					f->event.data.scalar.length};

		if (ref->option)
			wr_options_set(f->reader, ref, where, text);
		if (!in_list)
			return true;
		if (!next_event(f))
			return false;
	}
	if (in_list && f->event.type == YAML_SEQUENCE_END_EVENT)
		return true;
	report_here(f, "has neither a value nor a list of values");
	return false;
}

static bool read_pair(struct file_reader *f, bool seen[WR_OPTIONS_MAX])
{
	char where[600];
	struct weir_str name = {(const char *)f->event.data.scalar.value,
				f->event.data.scalar.length};
	struct wr_option_ref ref = wr_options_find(f->reader->command, name);
	struct weir_str near = wr_options_guess(f->reader, name);

	write_location(f, &f->event.start_mark, where);
	if (!ref.option && near.len)
		wr_options_wrong(
			f->reader, where, "there is no option '%.*s'; did you mean '%.*s'?",
			(int)(name.len < 80 ? name.len : 80), name.ptr, (int)near.len, near.ptr);
	else if (!ref.option)
		wr_options_wrong(f->reader, where, "there is no option '%.*s'",
				 (int)(name.len < 80 ? name.len : 80), name.ptr);
	else if (seen[ref.number])
		wr_options_wrong(f->reader, where, "%s occurs twice", ref.option->name);
	if (ref.option) {
		seen[ref.number] = true;
		snprintf(where + strlen(where), sizeof where - strlen(where), " %s",
			 ref.option->name);
	}
	return next_event(f) && read_value(f, &ref, where) && next_event(f);
}

static void read_document(struct file_reader *f)
{
	bool seen[WR_OPTIONS_MAX] = {false};

	if (!next_event(f) || f->event.type != YAML_STREAM_START_EVENT)
		return;
	if (!next_event(f) || f->event.type != YAML_DOCUMENT_START_EVENT)
		return; /* an empty file is valid */
	if (!next_event(f))
		return;
	if (f->event.type != YAML_MAPPING_START_EVENT) {
		report_here(f, "is not a list of `option: value`");
		return;
	}
	if (!next_event(f))
		return;
	while (f->event.type == YAML_SCALAR_EVENT)
		if (!read_pair(f, seen))
			return;
	if (f->event.type != YAML_MAPPING_END_EVENT)
		report_here(f, "is not the name of an option");
}

/* Returns the content of the file; the caller frees it. On failure reports the error and returns
 * NULL. */
static char *read_bytes(struct wr_options_reader *reader, const char *path, size_t *len)
{
	FILE *file = fopen(path, "re");
	char *bytes = malloc(FILE_MAX + 1);
	bool usable = false;

	*len = 0;
	if (!file || !bytes) {
		wr_options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
	} else {
		*len = fread(bytes, 1, FILE_MAX + 1, file);
		if (ferror(file))
			wr_options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
		else if (*len > FILE_MAX)
			wr_options_wrong(reader, "--config", "%s is larger than 1 MiB", path);
		else
			usable = true;
	}
	if (file)
		fclose(file);
	if (!usable)
		free(bytes);
	return usable ? bytes : NULL;
}

void wr_options_read_file(struct wr_options_reader *reader, const char *path)
{
	struct file_reader f = {.reader = reader, .path = path};
	size_t len;
	char *bytes = read_bytes(reader, path, &len);

	if (!bytes)
		return;
	if (!yaml_parser_initialize(&f.parser)) {
		wr_options_wrong(reader, "--config", "%s: out of memory", path);
		free(bytes);
		return;
	}
	reader->source = WR_FROM_FILE;
	yaml_parser_set_input_string(&f.parser, (const unsigned char *)bytes, len);
	read_document(&f);
	if (f.event_live)
		yaml_event_delete(&f.event);
	yaml_parser_delete(&f.parser);
	free(bytes);
}
