/* Requests in the Redis protocol: bytes in, a command and its arguments out.
 *
 * A request is an array of bulk strings, *2 CRLF $4 CRLF ECHO CRLF $2 CRLF hi CRLF, in RESP2 and
 * RESP3 alike, or a line of words as people type it, PING CRLF. Arguments point into the input as
 * long as a command is whole there: nothing is copied.
 *
 *   struct wr_resp_parser parser = {0};        // of a connection
 *   struct wr_resp_reader *reader;             // large: one for a thread
 *
 *   switch (wr_resp_read(&parser, trust, bytes, len, reader, &command)) {
 *   case WR_RESP_COMMAND:  command.argv; go on at bytes + command.bytes
 *   case WR_RESP_PARTIAL:  call again with the same bytes and more behind them, at least
 *                          reader->wanted; they may have moved
 *   case WR_RESP_FULL:     do what was read before, wr_resp_forget(reader), call again
 *   case WR_RESP_BAD:      reply with reader->error and close the connection
 *   }
 *
 * The parser remembers how far it has read a partial command, so a client that sends single bytes
 * causes no more work than one that sends whole commands.
 */
#ifndef WR_WIRE_RESP_RESP_H
#define WR_WIRE_RESP_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#define WR_RESP_ARGS_MAX 1024u            /* arguments of a command, its name included */
#define WR_RESP_ARG_BYTES_MAX 65536u      /* of one argument */
#define WR_RESP_COMMAND_BYTES_MAX 262144u /* of all of it, as it comes in */
#define WR_RESP_LINE_BYTES_MAX 4096u      /* of a command typed as a line */

/* Bounds for clients that have not logged in yet; the numbers are Redis's. */
#define WR_RESP_STRANGER_ARGS_MAX 10u
#define WR_RESP_STRANGER_ARG_BYTES_MAX 16384u

/* Processes on this machine's Unix sockets may hand over whole requests: WEIR.DEFER, see
 * wire/resp/commands_defer.h. */
#define WR_RESP_LARGE_ARG_BYTES_MAX (16u << 20)
#define WR_RESP_LARGE_BYTES_MAX (WR_RESP_LARGE_ARG_BYTES_MAX + (128u << 10))

/* How long the commands of a client may be. */
enum wr_resp_trust {
	WR_RESP_STRANGER = 0, /* has not logged in yet */
	WR_RESP_TRUSTED = 1,
	WR_RESP_PEER = 2, /* an nginx worker on a Unix socket, after WEIR.LINK */
};

enum wr_resp_outcome {
	WR_RESP_BAD = -1,
	WR_RESP_PARTIAL = 0,
	WR_RESP_COMMAND = 1, /* skip a command without arguments */
	WR_RESP_FULL = 2,    /* no room beside the commands that were read before */
};

/* How far the current command has been read. All zero: nothing of it. */
struct wr_resp_parser {
	uint32_t at;   /* bytes read */
	uint32_t args; /* announced; 0: that line is not read yet */
	uint32_t done; /* arguments read */
	bool large;    /* it may be large: WEIR.DEFER */
};

struct wr_resp_command {
	size_t bytes; /* of input */
	uint32_t argc;
	const struct weir_str *argv;
};

/* Memory for the arguments of several commands, which can be read before the first of them runs. */
struct wr_resp_reader {
	size_t wanted;           /* after WR_RESP_PARTIAL: bytes that are missing at least */
	struct weir_error error; /* of WR_RESP_BAD, worded as in Redis */
	uint32_t used;           /* of `args` */
	struct weir_str args[WR_RESP_ARGS_MAX];
	char words[WR_RESP_LINE_BYTES_MAX]; /* arguments of a line, without their quotes */
};

int wr_resp_read(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		 size_t len, struct wr_resp_reader *reader, struct wr_resp_command *command);

/* The commands read so far have run: their arguments are void. */
static inline void wr_resp_forget(struct wr_resp_reader *reader)
{
	reader->used = 0;
}

/* Splits a line (without its end) into arguments at blanks. Quotes group: "…" with \n \r \t \b \a
 * \xHH \" \\, or '…' with \'. Returns false if a quote does not end, or text follows it directly.
 */
bool wr_resp_split(const char *line, size_t len, struct wr_resp_reader *reader);

/* A decimal integer as Redis takes it: no blanks, no plus, no leading zeros. */
bool wr_resp_integer(struct weir_str text, int64_t *value);

#endif
