/* Reads the options of a command. One table defines flags, environment variables, the keys of a
 * file, and the help text:
 *
 *   static const struct wr_cli_option listening[] = {
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

/* A list of values without a fixed maximum. `items` is in the reader's arena. */
struct wr_cli_words {
	size_t count;
	const char **items;
};

/* X(kind, type of the field that receives the value): the kinds of options. */
#define WR_OPTION_KINDS(X)                                                                         \
	X(WR_OPTION_TEXT, const char *)                                                            \
	X(WR_OPTION_LIST, struct wr_text_list)     /* values a,b,c; the flag may be repeated */    \
	X(WR_OPTION_REPEATED, struct wr_cli_words) /* one value per flag; can contain commas */    \
	X(WR_OPTION_SWITCH, bool)                  /* --x or --x=off */                            \
	X(WR_OPTION_NUMBER, uint64_t)                                                              \
	X(WR_OPTION_SIGNED, int64_t)                    /* a number from -max to max */            \
	X(WR_OPTION_SIZE, uint64_t)                     /* 64M, stored in bytes */                 \
	X(WR_OPTION_DURATION, uint64_t)                 /* 30s, stored in nanoseconds */           \
	X(WR_OPTION_ADDRESSES, struct wr_endpoint_list) /* addresses a,b,c; may be repeated */

enum wr_cli_option_kind {
#define WR_OPTION_ENUM(kind, type) kind,
	WR_OPTION_KINDS(WR_OPTION_ENUM)
#undef WR_OPTION_ENUM
};

#define WR_CLI_OPTIONS_MAX 96 /* maximum number of options of a command */
#define WR_OPTION_VALUE 16384 /* maximum length of a value, in bytes */

/* Value of wr_cli_option.variable that means: the option has no environment variable. This is for
 * options that select what a command does, such as --all of `weir queue drop`. A forgotten variable
 * in the environment must not set such an option. */
#define WR_NO_VARIABLE ""

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order in which rows are written
struct wr_cli_option {
	const char *name; /* name without dashes: "tls-cert" */
	enum wr_cli_option_kind kind;
	const char *argument;  /* name of the value in the help text; NULL for a switch */
	const char *otherwise; /* default value as a user would write it; NULL: no default */
	const char *help;      /* help text; \n separates lines */
	size_t at;             /* offset of the option's field in the struct of its group */
	uint64_t min, max;     /* bounds of numbers, sizes and durations; max 0: no maximum */
	const char *choices;   /* allowed values of a text: "x ietf none"; NULL: any text */
	bool secret;           /* error messages do not contain the value */
	/* other options, one of which must be given too: "redis", "queue", "queue:redis" for a
	 * --queue whose URL begins with redis, or "redis queue:redis"; NULL: no other option is
	 * needed */
	const char *needs;
	/* name of the environment variable, or WR_NO_VARIABLE; NULL: made from the option's name,
	 * WEIR_TLS_CERT for tls-cert */
	const char *variable;
	char letter; /* short form: 'H' for -H; 0: no short form */
	/* offset of a bool that is set if the option is on the command line; 0: no such bool */
	size_t given_at;
};

struct wr_cli_option_group {
	const char *
		title; /* heading in the help text; NULL: the options continue the previous group */
	const struct wr_cli_option *options;
	size_t count;
	void *into;
};

#define WR_OPTION_GROUP(title, options, into)                                                      \
	{                                                                                          \
		title, options, sizeof(options) / sizeof *(options), into                          \
	}

struct wr_cli_command {
	const char *name;     /* name of the subcommand: "gateway" */
	const char *intro;    /* the first part of the help text */
	const char *examples; /* the last part of the help text */
	const struct wr_cli_option_group *groups;
	size_t group_count;
	bool has_config;        /* the command has --config FILE and WEIR_CONFIG */
	bool has_default_queue; /* the command may have a queue although --queue is not given */
	struct wr_cli_words
		*words;   /* receives arguments that are not options; NULL: none is allowed */
	size_t words_max; /* maximum number of words; 0: no maximum */
};

enum wr_cli_options_outcome { WR_OPTIONS_READ, WR_OPTIONS_HELP, WR_OPTIONS_WRONG };

/* Sets the field of every option: first to the default, then from the file, the environment and the
 * command line. Texts belong to argv, the environment or the arena. If there are errors, writes all
 * of them to `errors` and returns WR_OPTIONS_WRONG. If the command has words, the first "--" ends
 * its options. */
enum wr_cli_options_outcome wr_cli_options_read(const struct wr_cli_command *command, int argc,
						char **argv, char **environment,
						struct wr_arena *arena, FILE *errors);

void wr_cli_options_help(const struct wr_cli_command *command, FILE *out);

#endif
