/* Functions that allocate memory and report diagnostics while rules are loaded. */
#include "rules/load.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"

void *wr_load_alloc(struct wr_load *load, struct wr_arena *arena, size_t size)
{
	void *memory = wr_arena_alloc(arena, size);

	if (!memory)
		longjmp(load->out_of_memory, 1);
	return memory;
}

struct weir_str wr_load_copy(struct wr_load *load, struct wr_arena *arena, struct weir_str text)
{
	char *copy = wr_arena_copy(arena, text.ptr, text.len);

	wr_assert(text.ptr || text.len == 0);
	if (!copy)
		longjmp(load->out_of_memory, 1);
	return (struct weir_str){copy, text.len};
}

char *wr_load_print(struct wr_load *load, struct wr_arena *arena, const char *format, ...)
{
	va_list args;
	char *text;
	int len;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	text = wr_load_alloc(load, arena, (size_t)len + 1);
	va_start(args, format);
	vsnprintf(text, (size_t)len + 1, format, args);
	va_end(args);
	return text;
}

struct weir_str wr_rules_number_text(struct wr_load *load, uint64_t number)
{
	return wr_str(wr_load_print(load, &load->tree, "%llu", (unsigned long long)number));
}

void wr_rules_report(struct wr_load *load, enum wr_diag_id id, const struct wr_yaml *at,
		     const struct weir_str *args)
{
	struct wr_rules_location mark = {load->file, at->line, at->column, at->width};

	wr_diags_add(&load->diags, id, mark, args);
}

void wr_rules_report_at(struct wr_load *load, enum wr_diag_id id, const char *path, uint32_t line,
			uint32_t column, const struct weir_str *args)
{
	struct wr_rules_file *file = load->files;

	while (file->next && file->path != path)
		file = file->next;
	wr_diags_add(&load->diags, id, (struct wr_rules_location){file, line, column, 1}, args);
}

void wr_rules_report_node(struct wr_load *load, enum wr_diag_id id, const struct wr_node *at,
			  const struct weir_str *args)
{
	wr_rules_report_at(load, id, at->more->file, at->more->line, at->more->column, args);
}

void wr_rules_report_file(struct wr_load *load, enum wr_diag_id id, struct wr_rules_file *file,
			  const struct weir_str *args)
{
	wr_diags_add(&load->diags, id, (struct wr_rules_location){.file = file}, args);
}
