/* Descriptors in the arguments of commands, and decisions in replies. Shared by the commands of
 * commands_check.c and commands_reserve.c. */
#ifndef WR_WIRE_RESP_COMMANDS_CHECK_H
#define WR_WIRE_RESP_COMMANDS_CHECK_H

#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

#define WR_RESP_ENTRIES_MAX 32 /* maximum number of entries in a descriptor */

/* Reads the arguments after the domain, one descriptor at a time. The words `|`, HITS and FROM, and
 * the option of the command, have their special meaning only where a key is expected. A key that is
 * one of these words, or that begins with a backslash, must be sent with a backslash before it. */
struct wr_resp_arguments {
	const struct wr_resp_call *call;
	uint32_t at;
	bool costs;   /* the command allows HITS */
	bool refunds; /* HITS may be negative */
	int64_t hits;
	bool has_hits;      /* the present descriptor has HITS */
	const char *option; /* the option of wr_resp_read_option, or NULL */
	size_t count;
	struct weir_entry entries[WR_RESP_ENTRIES_MAX];
};

/* Reads one descriptor, up to a `|` or the last argument. On failure writes an error and returns
 * false. */
bool wr_resp_read_descriptor(struct wr_resp_arguments *reader);

/* Reads `NAME n` at the present argument, if it is there. Called before descriptors are read. At a
 * later argument, NAME is then an error. `least` and `most` are the limits of n.
 * Returns 1 and sets *number if it is there, 0 if it is not, or -1 after writing an error. */
int wr_resp_read_option(struct wr_resp_arguments *reader, const char *name, int64_t least,
			int64_t most, int64_t *number);

/* Adds all descriptors of the command to the ask. On failure writes an error and returns false. */
bool wr_resp_add_descriptors(struct weir_ask *ask, struct wr_resp_arguments *reader);

/* Writes an error about the arguments. Returns false. */
bool wr_resp_syntax_error(const struct wr_resp_arguments *reader, const char *why);

/* Writes a decision as a map. The caller writes `more` further members of the map. Writes the
 * decision with wait->verdict, which may differ from the verdict of the ask: in shadow mode
 * wait->verdict is WEIR_ADMIT even if the ask was refused. */
void wr_resp_write_decision(struct wr_resp_wait *wait, struct wr_resp_out *out, uint32_t more);

#endif
