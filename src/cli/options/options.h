/* The options of a command: one table for flags, environment variables, a file, and the help text.
 *
 *   static const struct wr_option listening[] = {
 *           {"listen", WR_OPTION_ADDRESSES, "ADDR,…", "8080", "where clients connect",
 *            .at = offsetof(struct settings, listen)},
 *   };
 *
 * defines --listen 8080, WEIR_LISTEN=8080, and `listen: 8080` in the file that --config or
 * WEIR_CONFIG names. The command line overrides the environment, and the environment overrides the
 * file. */
#ifndef WR_CLI_OPTIONS_OPTIONS_H
#define WR_CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/endpoint.h"
#include "base/text_list.h"

/* Values without a fixed maximum; `items` is in the reader's arena. */
struct wr_words {
	size_t count;
	const char **items;
};

/* X(kind, type of the field that receives the value) */
#define WR_OPTION_KINDS(X)                                                                         \
	X(WR_OPTION_TEXT, const char *)                                                            \
	X(WR_OPTION_LIST, struct wr_text_list) /* a,b,c; a flag may repeat */                      \
	X(WR_OPTION_REPEATED, struct wr_words) /* one value for each flag; commas do not split */  \
	X(WR_OPTION_SWITCH, bool)              /* --x, --x=off */                                  \
	X(WR_OPTION_NUMBER, uint64_t)                                                              \
	X(WR_OPTION_SIGNED, int64_t)                    /* from -max to max */                     \
	X(WR_OPTION_SIZE, uint64_t)                     /* 64M; in bytes */                        \
	X(WR_OPTION_DURATION, uint64_t)                 /* 30s; in nanoseconds */                  \
	X(WR_OPTION_ADDRESSES, struct wr_endpoint_list) /* like a list */

enum wr_option_kind {
#define WR_OPTION_ENUM(kind, type) kind,
	WR_OPTION_KINDS(WR_OPTION_ENUM)
#undef WR_OPTION_ENUM
};

#define WR_OPTIONS_MAX 96     /* options of one command */
#define WR_OPTION_VALUE 16384 /* bytes of one value */

/* For options that select what a command does, such as --all of `weir queue drop`: a variable that
 * was left in the environment must not select it. */
#define WR_NO_VARIABLE ""

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order tables are read
struct wr_option {
	const char *name; /* "tls-cert" */
	enum wr_option_kind kind;
	const char *argument;  /* the value's name in help; NULL for a switch */
	const char *otherwise; /* the default, as a user would write it; NULL: none */
	const char *help;      /* lines separated by \n */
	size_t at;             /* offset of the field in the group's struct */
	uint64_t min, max;     /* numbers, sizes, durations; max 0: no bound */
	const char *choices;   /* text: "x ietf none"; NULL: any */
	bool secret;           /* error messages do not contain the value */
	const char *needs;     /* the option requires one of these: "redis queue"; or NULL */
	const char *variable;  /* NULL: WEIR_ and the name; or another name, or WR_NO_VARIABLE */
	char letter;           /* 'H': -H is the same option; 0: none */
	size_t given_at; /* offset of a bool that is set if the command line has it; 0: none */
};

struct wr_option_group {
	const char *title;
	const struct wr_option *options;
	size_t count;
	void *into;
};

#define WR_OPTION_GROUP(title, options, into)                                                      \
	{                                                                                          \
		title, options, sizeof(options) / sizeof *(options), into                          \
	}

struct wr_command {
	const char *name;     /* "gateway" */
	const char *intro;    /* the first part of the help text */
	const char *examples; /* … and the last part */
	const struct wr_option_group *groups;
	size_t group_count;
	bool has_config;        /* --config FILE and WEIR_CONFIG are options */
	struct wr_words *words; /* receives the arguments that are not options; NULL: errors */
	size_t words_max;       /* 0: no bound */
};

enum wr_options_outcome { WR_OPTIONS_READ, WR_OPTIONS_HELP, WR_OPTIONS_WRONG };

/* Sets every field: to its default, then from the file, the environment and the command line. Texts
 * belong to argv, the environment or the arena. Writes every error to `errors` before it returns
 * WR_OPTIONS_WRONG. The first "--" ends the options of a command that has words. */
enum wr_options_outcome wr_options_read(const struct wr_command *command, int argc, char **argv,
					char **environment, struct wr_arena *arena, FILE *errors);

void wr_options_help(const struct wr_command *command, FILE *out);

#endif
