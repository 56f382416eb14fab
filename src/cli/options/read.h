/* Between the parts of reading options. */
#ifndef WR_CLI_OPTIONS_READ_H
#define WR_CLI_OPTIONS_READ_H

#include "base/str.h"
#include "cli/options/options.h"

enum options_source { FROM_NOWHERE, FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_ARGUMENTS };

struct options_reader {
	const struct wr_command *command;
	struct wr_arena *arena;
	FILE *errors;
	bool wrong;
	enum options_source source;                 /* being read */
	enum options_source set_by[WR_OPTIONS_MAX]; /* by number over all groups */
	const char *config;
	bool help;
};

/* An option of the table, and where its value goes. */
struct options_spot {
	const struct wr_option *option; /* NULL: there is none of that name */
	char *field;
	size_t number;
};

struct options_spot options_find(const struct options_reader *reader, struct weir_str name);

/* Says what is wrong: "weir gateway: ", `where` (a flag, a variable, a line of a file), the rest.
 */
void options_wrong(struct options_reader *reader, const char *where, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The nearest name, or an empty string. */
struct weir_str options_guess(const struct options_reader *reader, struct weir_str name);

/* value.c: the text of a value into its field. A list grows if the same source gave it
 * before, and is begun anew otherwise. */
void options_set(struct options_reader *reader, const struct options_spot *spot, const char *where,
		 struct weir_str text);

/* WEIR_TLS_CERT of tls-cert. */
void options_variable(const char *option, char *name, size_t cap);

/* needs.c: says what was given without what it needs. */
void options_check_needs(struct options_reader *reader);

/* file.c */
void options_read_file(struct options_reader *reader, const char *path);

#endif
