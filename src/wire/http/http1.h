/* Parses HTTP/1.1 requests (RFC 9112) without sockets: checks the head and splits it in place, and
 * decodes a chunked body.
 *
 *   end = wr_http1_head_end(bytes, len, &scanned);      // 0: the head is not complete yet
 *   status = wr_http1_read(&head, bytes, end);          // 0, or the status to respond with
 *   value = wr_http1_field(&head, "host");
 *
 * The parser is strict. If a proxy and a server read a request differently, a client can smuggle
 * requests past the proxy. So a head that RFC 9112 allows a server to refuse is refused: bare LF,
 * folded lines, blanks before a colon, two lengths, a length together with chunks. The caller
 * provides the memory; nothing is allocated. */
#ifndef WR_WIRE_HTTP_HTTP1_H
#define WR_WIRE_HTTP_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_HTTP1_LINE_MAX 8192u /* longest request line; a longer line gets status 414 */
/* maximum length of all header fields with their line ends; longer header fields get status 431 */
#define WR_HTTP1_FIELDS_MAX 32768u
#define WR_HTTP1_HEAD_MAX (WR_HTTP1_LINE_MAX + 2u + WR_HTTP1_FIELDS_MAX + 2u)
#define WR_HTTP1_METHOD_MAX 32u

struct wr_http1 {
	struct weir_str method;   /* a zero byte follows `method`, `path` and each field's value */
	struct weir_str path;     /* path of the target: percent-decoded, without the query */
	struct weir_str query;    /* query as the client sent it; empty: no query */
	const char *fields, *end; /* beginning and end of the header fields, for wr_http1_next */
	uint64_t content_length;  /* body length; valid only if `chunked` is false */
	uint8_t minor;            /* the minor version: 1 for HTTP/1.1 */
	bool chunked;
	bool keep_alive;
	bool expects_continue;
};

struct wr_http1_field {
	struct weir_str name, value;
};

/* Returns the length of the head, including the empty line, or 0 if the head is not complete. The
 * caller sets *scanned to 0 before the first call for a head. *scanned counts the bytes that
 * earlier calls have searched, which are not searched again. */
size_t wr_http1_head_end(const char *bytes, size_t len, size_t *scanned);

/* Checks whether an incomplete head can still become valid. Returns 0 if it can, otherwise the
 * status to respond with: 400, 414 or 431. An earlier call has checked the first `checked`
 * bytes. */
int wr_http1_part_check(const char *bytes, size_t len, size_t checked);

/* Reads a complete head of `len` bytes and changes the bytes in place. Returns 0, or the status to
 * respond with: 400, 414, 431, 501 or 505. */
int wr_http1_read(struct wr_http1 *head, char *bytes, size_t len);

/* Reads the header field that begins at `at`. For the first field, the caller passes head->fields.
 * Returns the beginning of the next field, to be passed as `at` to the next call. If no field
 * begins at `at`, returns NULL and does not change *field. */
const char *wr_http1_next(const struct wr_http1 *head, const char *at,
			  struct wr_http1_field *field);

/* Returns the value of the first field with this name; case is ignored. If there is no such field,
 * ptr is NULL. */
struct weir_str wr_http1_field(const struct wr_http1 *head, struct weir_str name);

/* Decodes %XX in place; if `plus` is true, + becomes a blank. Returns the new length, or SIZE_MAX
 * if an escape is malformed or stands for a zero byte. */
size_t wr_http1_unescape(char *text, size_t len, bool plus);

/* Returns whether the text is a token: a valid method or name of a header field (RFC 9110,
 * 5.6.2). */
bool wr_http1_is_token(struct weir_str text);

/* ---- chunked bodies ---- */

#define WR_HTTP1_CHUNK_LINE_MAX 256u /* maximum length of a line with a chunk's size */
/* maximum length of the trailer fields, which follow the last chunk; trailer fields are ignored */
#define WR_HTTP1_TRAILERS_MAX 8192u

struct wr_http1_chunks {
	uint64_t left; /* number of bytes of the current chunk that have not been read */
	uint32_t line; /* number of bytes read of the current line or of the trailers */
	uint8_t state;
	bool digits;
};

enum wr_http1_chunk {
	WR_CHUNK_BAD = -1,
	WR_CHUNK_MORE = 0, /* all input was consumed; the body is not complete */
	WR_CHUNK_DATA = 1, /* *data and *data_len describe a piece of the body */
	WR_CHUNK_END = 2,  /* the body is complete */
};

/* Decodes the next piece of a chunked body. Sets *used to the number of bytes consumed. The caller
 * zeroes *chunks before the first piece of a body. */
enum wr_http1_chunk wr_http1_dechunk(struct wr_http1_chunks *chunks, const char *bytes, size_t len,
				     size_t *used, const char **data, size_t *data_len);

#endif
