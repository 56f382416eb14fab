/* Reads the YAML file of --config: a map of option names to values or to lists of values. Called by
 * options.c. */
#include "cli/options/read.h"

#include <errno.h>
#include <stdlib.h>
#include <yaml.h>

#define FILE_MAX ((size_t)1024 * 1024)

struct file_reader {
	struct wr_cli_options_reader *reader;
	const char *path;
	yaml_document_t document;
};

/* Reports an error: "PATH:LINE:COLUMN: WHAT". */
static void report_at(const struct file_reader *f, const yaml_mark_t *mark, const char *what)
{
	char where[512];

	snprintf(where, sizeof where, "%.400s:%zu:%zu:", f->path, mark->line + 1, mark->column + 1);
	wr_cli_options_wrong(f->reader, where, "%s", what);
}

static struct weir_str scalar_text(const yaml_node_t *node)
{
	return (struct weir_str){(const char *)node->data.scalar.value, node->data.scalar.length};
}

/* Sets an option to a value or to a list of values. */
static void read_value(struct file_reader *f, const struct wr_cli_option_ref *ref,
		       const char *where, const yaml_node_t *value)
{
	enum wr_cli_option_kind kind = ref->option->kind;

	if (value->type == YAML_SCALAR_NODE) {
		wr_cli_options_set(f->reader, ref, where, scalar_text(value));
		return;
	}
	if (value->type != YAML_SEQUENCE_NODE) {
		report_at(f, &value->start_mark, "has neither a value nor a list of values");
		return;
	}
	if (kind != WR_OPTION_LIST && kind != WR_OPTION_ADDRESSES) {
		report_at(f, &value->start_mark, "is a list; this option has one value");
		return;
	}
	for (const yaml_node_item_t *i = value->data.sequence.items.start;
	     i < value->data.sequence.items.top; i++) {
		const yaml_node_t *item = yaml_document_get_node(&f->document, *i);

		if (item->type == YAML_SCALAR_NODE)
			wr_cli_options_set(f->reader, ref, where, scalar_text(item));
		else
			report_at(f, &item->start_mark, "is not a value");
	}
}

static void read_pair(struct file_reader *f, const yaml_node_t *key, const yaml_node_t *value,
		      bool seen[WR_CLI_OPTIONS_MAX])
{
	char what[256], where[600];
	struct wr_cli_option_ref ref;
	struct weir_str name, near;

	if (key->type != YAML_SCALAR_NODE) {
		report_at(f, &key->start_mark, "is not the name of an option");
		return;
	}
	name = scalar_text(key);
	ref = wr_cli_options_find(f->reader->command, name);
	if (!ref.option) {
		near = wr_cli_options_guess(f->reader, name);
		snprintf(what, sizeof what,
			 near.len ? "there is no option '%.*s'; did you mean '%.*s'?"
				  : "there is no option '%.*s'",
			 (int)(name.len < 80 ? name.len : 80), name.ptr, (int)near.len, near.ptr);
		report_at(f, &key->start_mark, what);
		return;
	}
	if (seen[ref.number]) {
		snprintf(what, sizeof what, "%s occurs twice", ref.option->name);
		report_at(f, &key->start_mark, what);
	}
	seen[ref.number] = true;
	snprintf(where, sizeof where, "%.400s:%zu:%zu: %s", f->path, key->start_mark.line + 1,
		 key->start_mark.column + 1, ref.option->name);
	read_value(f, &ref, where, value);
}

static void read_document(struct file_reader *f)
{
	const yaml_node_t *root = yaml_document_get_root_node(&f->document);
	bool seen[WR_CLI_OPTIONS_MAX] = {false};

	if (!root)
		return; /* an empty file is valid */
	if (root->type != YAML_MAPPING_NODE) {
		report_at(f, &root->start_mark, "is not a list of `option: value`");
		return;
	}
	for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	     pair < root->data.mapping.pairs.top; pair++)
		read_pair(f, yaml_document_get_node(&f->document, pair->key),
			  yaml_document_get_node(&f->document, pair->value), seen);
}

/* Returns the content of the file; the caller frees it. On failure reports the error and returns
 * NULL. */
static char *read_bytes(struct wr_cli_options_reader *reader, const char *path, size_t *len)
{
	FILE *file = fopen(path, "re");
	char *bytes = malloc(FILE_MAX + 1);
	bool usable = false;

	*len = 0;
	if (!file || !bytes) {
		wr_cli_options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
	} else {
		*len = fread(bytes, 1, FILE_MAX + 1, file);
		if (ferror(file))
			wr_cli_options_wrong(reader, "--config", "%s: %s", path, strerror(errno));
		else if (*len > FILE_MAX)
			wr_cli_options_wrong(reader, "--config", "%s is larger than 1 MiB", path);
		else
			usable = true;
	}
	if (file)
		fclose(file);
	if (!usable)
		free(bytes);
	return usable ? bytes : NULL;
}

void wr_cli_options_read_file(struct wr_cli_options_reader *reader, const char *path)
{
	struct file_reader f = {.reader = reader, .path = path};
	yaml_parser_t parser;
	size_t len;
	char *bytes = read_bytes(reader, path, &len);

	if (!bytes)
		return;
	if (!yaml_parser_initialize(&parser)) {
		wr_cli_options_wrong(reader, "--config", "%s: out of memory", path);
		free(bytes);
		return;
	}
	reader->source = WR_FROM_FILE;
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, len);
	if (yaml_parser_load(&parser, &f.document)) {
		read_document(&f);
		yaml_document_delete(&f.document);
	} else {
		report_at(&f, &parser.problem_mark,
			  parser.problem ? parser.problem : "out of memory");
	}
	yaml_parser_delete(&parser);
	free(bytes);
}
