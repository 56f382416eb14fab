/* Shared by the files that read options: options.c, value.c, file.c, needs.c, arguments.c. */
#ifndef WR_CLI_OPTIONS_READ_H
#define WR_CLI_OPTIONS_READ_H

#include "base/str.h"
#include "cli/options/options.h"

enum wr_cli_option_source {
	WR_FROM_NONE,
	WR_FROM_DEFAULT,
	WR_FROM_FILE,
	WR_FROM_ENVIRONMENT,
	WR_FROM_ARGUMENTS
};

struct wr_cli_options_reader {
	const struct wr_cli_command *command;
	struct wr_arena *arena;
	FILE *errors;
	/* maximum number of words, and maximum number of values of a repeated option */
	size_t words_cap;
	bool wrong;
	/* The source that is being read: the defaults, the file, the environment or the command
	 * line. */
	enum wr_cli_option_source source;
	/* The source of the value of each option, by option number. */
	enum wr_cli_option_source set_by[WR_CLI_OPTIONS_MAX];
	const char *config;
	bool help;
};

/* An option of the table and the field that receives its value. */
struct wr_cli_option_ref {
	/* NULL: there is no option with the name that was searched for */
	const struct wr_cli_option *option;
	char *field;
	size_t number; /* index of the option, counted over all groups */
};

/* Moves `ref` to the next option of the command. For the first option, the caller passes a zeroed
 * `ref`. Returns false if there are no more options. */
static inline bool wr_cli_options_next(const struct wr_cli_command *command,
				       struct wr_cli_option_ref *ref)
{
	size_t first = 0;

	if (ref->option)
		ref->number++;
	for (size_t g = 0; g < command->group_count; first += command->groups[g++].count) {
		const struct wr_cli_option_group *group = &command->groups[g];

		if (ref->number >= first + group->count)
			continue;
		ref->option = &group->options[ref->number - first];
		ref->field = (char *)group->into + ref->option->at;
		return true;
	}
	return false;
}

struct wr_cli_option_ref wr_cli_options_find(const struct wr_cli_command *command,
					     struct weir_str name);

/* Writes an error: "weir COMMAND: ", then `where` (a flag, a variable, or a line of a file), then
 * the text. */
void wr_cli_options_wrong(struct wr_cli_options_reader *reader, const char *where,
			  const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Returns the option name that is most similar to `name`, or an empty text if no name is similar.
 * */
struct weir_str wr_cli_options_guess(const struct wr_cli_options_reader *reader,
				     struct weir_str name);

/* Converts the text of a value and stores it in the option's field (value.c). A value for a list is
 * appended if the present items are from the same source: the file, the environment or the command
 * line. Otherwise it replaces the items. */
void wr_cli_options_set(struct wr_cli_options_reader *reader, const struct wr_cli_option_ref *ref,
			const char *where, struct weir_str text);

/* Appends a copy of the text to `words`. */
void wr_cli_options_add_word(struct wr_cli_options_reader *reader, struct wr_cli_words *words,
			     const char *where, struct weir_str text);

/* Writes the name of the option's environment variable: WEIR_TLS_CERT for tls-cert, or an empty
 * text if the option has no variable. */
void wr_cli_options_variable(const struct wr_cli_option *option, char *name, size_t cap);

/* Reports options that were given without the option that they need (needs.c). */
void wr_cli_options_check_needs(struct wr_cli_options_reader *reader);

/* Reads the options in a YAML file (file.c). */
void wr_cli_options_read_file(struct wr_cli_options_reader *reader, const char *path);

#endif
