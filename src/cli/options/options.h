/* Options of a command: one table for flags, the environment, a file, and the help text.
 *
 *   static const struct wr_option listening[] = {
 *           {"listen", WR_OPTION_ADDRESSES, "ADDR,…", "8080", "where clients connect",
 *            .at = offsetof(struct settings, listen)},
 *   };
 *
 * is --listen 8080, WEIR_LISTEN=8080, and `listen: 8080` in the file that --config or WEIR_CONFIG
 * names. The command line goes before the environment, and that before the file. */
#ifndef WR_CLI_OPTIONS_OPTIONS_H
#define WR_CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/endpoint.h"
#include "base/text_list.h"

/* X(kind, type of the field it is read into) */
#define WR_OPTION_KINDS(X)                                                                         \
	X(WR_OPTION_TEXT, const char *)                                                            \
	X(WR_OPTION_LIST, struct wr_text_list) /* a,b,c; a flag may repeat */                      \
	X(WR_OPTION_SWITCH, bool)              /* --x, --x=off */                                  \
	X(WR_OPTION_NUMBER, uint64_t)                                                              \
	X(WR_OPTION_SIZE, uint64_t)                     /* 64M; in bytes */                        \
	X(WR_OPTION_DURATION, uint64_t)                 /* 30s; in nanoseconds */                  \
	X(WR_OPTION_ADDRESSES, struct wr_endpoint_list) /* like a list */

enum wr_option_kind {
#define WR_OPTION_ENUM(kind, type) kind,
	WR_OPTION_KINDS(WR_OPTION_ENUM)
#undef WR_OPTION_ENUM
};

#define WR_OPTIONS_MAX 96    /* of one command */
#define WR_OPTION_VALUE 4096 /* bytes of one value */

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order tables are read
struct wr_option {
	const char *name; /* "tls-cert" */
	enum wr_option_kind kind;
	const char *argument;  /* what help calls the value; NULL for a switch */
	const char *otherwise; /* the default, written as a user would; NULL: none */
	const char *help;      /* lines parted by \n */
	size_t at;             /* of the field in the group's struct */
	uint64_t min, max;     /* numbers, sizes, durations; max 0: no bound */
	const char *choices;   /* text: "x ietf none"; NULL: any */
	bool secret;           /* never shown, not even in an error */
	const char *needs;     /* it means nothing without one of these: "redis queue"; or NULL */
};

struct wr_option_group {
	const char *title;
	const struct wr_option *options;
	size_t count;
	void *into;
};

struct wr_command {
	const char *name;     /* "gateway" */
	const char *intro;    /* what help begins with */
	const char *examples; /* … and ends with */
	const struct wr_option_group *groups;
	size_t group_count;
};

enum wr_options_outcome { WR_OPTIONS_READ, WR_OPTIONS_HELP, WR_OPTIONS_WRONG };

/* Fills in every field: default, file, environment, command line. Texts are argv's, environ's or
 * the arena's. What is wrong has been said to `errors`, all of it, by the time this returns. */
enum wr_options_outcome wr_options_read(const struct wr_command *command, int argc, char **argv,
					char **environment, struct wr_arena *arena, FILE *errors);

void wr_options_help(const struct wr_command *command, FILE *out);

#endif
