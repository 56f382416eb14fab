/* Parses requests in the Redis protocol into commands and their arguments.
 *
 * In RESP2 and RESP3 a request is an array of bulk strings, *2 CRLF $4 CRLF ECHO CRLF $2 CRLF hi
 * CRLF, or a line of words as people type it, PING CRLF. The arguments of an array point into the
 * input, so they are not copied.
 *
 *   struct wr_resp_parser parser = {0};        // one per connection
 *   struct wr_resp_reader *reader;             // one per thread, because it is large
 *
 *   switch (wr_resp_read(&parser, trust, bytes, len, reader, &command)) {
 *   case WR_RESP_COMMAND:  use command.argv; the next command begins at bytes + command.bytes
 *   case WR_RESP_PARTIAL:  call again when at least reader->wanted more bytes have arrived, with
 *                          the old and the new bytes; the old bytes may be at another address
 *   case WR_RESP_FULL:     run the commands read before, call wr_resp_forget(reader), call again
 *   case WR_RESP_BAD:      reply with reader->error and close the connection
 *   }
 *
 * The parser remembers how far it has read a partial command, so a client that sends single bytes
 * causes no more work than a client that sends whole commands.
 */
#ifndef WR_WIRE_RESP_RESP_H
#define WR_WIRE_RESP_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_RESP_ARGS_MAX 1024u       /* maximum number of arguments, including the command's name */
#define WR_RESP_ARG_BYTES_MAX 65536u /* maximum length of one argument */
#define WR_RESP_COMMAND_BYTES_MAX 262144u /* maximum length of a whole command in the input */
#define WR_RESP_LINE_BYTES_MAX 4096u      /* maximum length of a command typed as a line */

/* Limits for clients that have not logged in. Redis uses the same numbers. */
#define WR_RESP_STRANGER_ARGS_MAX 10u
#define WR_RESP_STRANGER_ARG_BYTES_MAX 16384u

/* Limits for WEIR.DEFER, with which nginx workers send whole HTTP requests over a Unix socket
 * (wire/resp/commands_defer.h). */
#define WR_RESP_LARGE_ARG_BYTES_MAX (16u << 20)
#define WR_RESP_LARGE_BYTES_MAX (WR_RESP_LARGE_ARG_BYTES_MAX + (128u << 10))

/* The kind of client, which determines how long its commands may be. */
enum wr_resp_trust {
	WR_RESP_STRANGER = 0, /* a client that has not logged in */
	WR_RESP_TRUSTED = 1,
	WR_RESP_PEER = 2, /* an nginx worker on a Unix socket, after WEIR.LINK */
};

enum wr_resp_outcome {
	WR_RESP_BAD = -1,
	WR_RESP_PARTIAL = 0,
	WR_RESP_COMMAND = 1, /* a command was read; the caller skips it if it has no arguments */
	WR_RESP_FULL = 2, /* no room for more arguments until the commands read so far have run */
};

/* The progress in the current command. All zero: nothing has been read. */
struct wr_resp_parser {
	uint32_t at; /* number of bytes read */
	/* Number of arguments in the command's first line; 0: that line has not been read. */
	uint32_t args;
	uint32_t done; /* number of arguments read */
	bool large;    /* the command is WEIR.DEFER, which is allowed to be large */
};

struct wr_resp_command {
	size_t bytes; /* length of the command in the input */
	uint32_t argc;
	const struct weir_str *argv;
};

/* Memory for the arguments of several commands, so that commands can be read in a batch before the
 * first one runs. */
struct wr_resp_reader {
	size_t wanted;           /* after WR_RESP_PARTIAL: at least this many bytes are missing */
	struct weir_error error; /* after WR_RESP_BAD: the error, worded as in Redis */
	uint32_t used;           /* number of elements of `args` in use */
	struct weir_str args[WR_RESP_ARGS_MAX];
	/* arguments of a command typed as a line; the quotes around arguments are removed */
	char words[WR_RESP_LINE_BYTES_MAX];
};

/* Reads the next command of the input. Returns an enum wr_resp_outcome. */
int wr_resp_read(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		 size_t len, struct wr_resp_reader *reader, struct wr_resp_command *command);

/* Makes the memory for arguments free again. Called when the commands read so far have run. The
 * arguments of these commands become invalid. */
static inline void wr_resp_forget(struct wr_resp_reader *reader)
{
	reader->used = 0;
}

/* Splits a line (without its line end) into arguments at blanks. An argument with blanks is quoted:
 * "…" with the escapes \n \r \t \b \a \xHH \" \\, or '…' with the escape \'. Returns false if a
 * quote is not closed, or if text directly follows the closing quote. */
bool wr_resp_split(const char *line, size_t len, struct wr_resp_reader *reader);

/* Parses a decimal integer by the rules of Redis: no blanks, no plus sign, no leading zeros.
 * Returns false if the text is not such an integer. */
bool wr_resp_integer(struct weir_str text, int64_t *value);

#endif
