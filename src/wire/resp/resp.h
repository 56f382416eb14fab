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
 *   case WR_RESP_BAD:      answer reader->error and close: what follows has no meaning
 *   }
 *
 * What was read of a partial command is not read again, so that a client that sends single bytes
 * costs no more than they do.
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

/* Clients that have not given a password yet have less to say; these two are Redis's numbers. */
#define WR_RESP_STRANGER_ARGS_MAX 10u
#define WR_RESP_STRANGER_ARG_BYTES_MAX 16384u

/* Processes on this machine's Unix sockets may hand over whole requests: WEIR.DEFER, see
 * wire/resp/commands_defer.h. */
#define WR_RESP_LARGE_ARG_BYTES_MAX (16u << 20)
#define WR_RESP_LARGE_BYTES_MAX (WR_RESP_LARGE_ARG_BYTES_MAX + (128u << 10))

/* How much a client may say. */
enum wr_resp_trust {
	WR_RESP_STRANGER = 0, /* it has not given the password yet */
	WR_RESP_TRUSTED = 1,
	WR_RESP_PEER = 2, /* on a Unix socket, and who it is was checked */
};

enum wr_resp_outcome {
	WR_RESP_BAD = -1,
	WR_RESP_PARTIAL = 0,
	WR_RESP_COMMAND = 1, /* one without arguments is to be passed over */
	WR_RESP_FULL = 2,    /* there is no room for it beside those that were read before */
};

/* How far the command at hand has been read. All zero: not at all. */
struct wr_resp_parser {
	uint32_t at;   /* bytes read */
	uint32_t args; /* announced; 0: that line is not read yet */
	uint32_t done; /* arguments read */
	bool large;    /* it is one of those that may be */
};

struct wr_resp_command {
	size_t bytes; /* of the input that it took */
	uint32_t argc;
	const struct weir_str *argv;
};

/* Where arguments are noted. Commands can be read one after the other before the first is done. */
struct wr_resp_reader {
	size_t wanted;           /* partial: how many more there must be, or 1 */
	struct weir_error error; /* of WR_RESP_BAD, worded as in Redis */
	uint32_t used;           /* of `args` */
	struct weir_str args[WR_RESP_ARGS_MAX];
	char words[WR_RESP_LINE_BYTES_MAX]; /* arguments of a line, without their quotes */
};

int wr_resp_read(struct wr_resp_parser *parser, enum wr_resp_trust trust, const uint8_t *bytes,
		 size_t len, struct wr_resp_reader *reader, struct wr_resp_command *command);

/* The commands read so far are done with. */
static inline void wr_resp_forget(struct wr_resp_reader *reader)
{
	reader->used = 0;
}

/* Splits a line (without its end) into arguments: blanks part them, "…" with \n \r \t \b \a \xHH \"
 * \\ or '…' with \' hold them together. False: quotes that do not end, or run into the next word.
 */
bool wr_resp_split(const char *line, size_t len, struct wr_resp_reader *reader);

/* A decimal integer as Redis takes it: no blanks, no plus, no leading zeros. */
bool wr_resp_integer(struct weir_str text, int64_t *value);

#endif
