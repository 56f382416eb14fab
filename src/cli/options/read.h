/* Shared by the files that read options: options.c, value.c, file.c, needs.c, arguments.c. */
#ifndef WR_CLI_OPTIONS_READ_H
#define WR_CLI_OPTIONS_READ_H

#include "base/str.h"
#include "cli/options/options.h"

enum wr_option_source {
	WR_FROM_NONE,
	WR_FROM_DEFAULT,
	WR_FROM_FILE,
	WR_FROM_ENVIRONMENT,
	WR_FROM_ARGUMENTS
};

struct wr_options_reader {
	const struct wr_command *command;
	struct wr_arena *arena;
	FILE *errors;
	size_t words_cap; /* words and repeated values that the arguments can hold */
	bool wrong;
	enum wr_option_source source;                 /* being read */
	enum wr_option_source set_by[WR_OPTIONS_MAX]; /* by number over all groups */
	const char *config;
	bool help;
};

/* An option of the table, and the field that receives its value. */
struct wr_option_ref {
	const struct wr_option *option; /* NULL: no option has that name */
	char *field;
	size_t number; /* over all groups */
};

/* Moves `ref` to the next option of the command; all zero is before the first. Returns false after
 * the last option. */
static inline bool wr_options_next(const struct wr_command *command, struct wr_option_ref *ref)
{
	size_t first = 0;

	if (ref->option)
		ref->number++;
	for (size_t g = 0; g < command->group_count; first += command->groups[g++].count) {
		const struct wr_option_group *group = &command->groups[g];

		if (ref->number >= first + group->count)
			continue;
		ref->option = &group->options[ref->number - first];
		ref->field = (char *)group->into + ref->option->at;
		return true;
	}
	return false;
}

struct wr_option_ref wr_options_find(const struct wr_command *command, struct weir_str name);

/* Writes an error: "weir gateway: ", `where` (a flag, a variable, a line of a file), the text. */
void wr_options_wrong(struct wr_options_reader *reader, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The option name nearest to `name`, or an empty string. */
struct weir_str wr_options_guess(const struct wr_options_reader *reader, struct weir_str name);

/* value.c: converts the text of a value and stores it in the field. A list grows if the same source
 * has set it before; otherwise the new value replaces it. */
void wr_options_set(struct wr_options_reader *reader, const struct wr_option_ref *ref,
		    const char *where, struct weir_str text);

/* Appends a copy of the text. */
void wr_options_add_word(struct wr_options_reader *reader, struct wr_words *words,
			 const char *where, struct weir_str text);

/* The option's environment variable: WEIR_TLS_CERT for tls-cert; "" if it has none. */
void wr_options_variable(const struct wr_option *option, char *name, size_t cap);

/* needs.c: reports options that were given without the option that they need. */
void wr_options_check_needs(struct wr_options_reader *reader);

/* file.c */
void wr_options_read_file(struct wr_options_reader *reader, const char *path);

#endif
