/* HTTP/1.1 requests without sockets (RFC 9112): a head is checked and split in place, a chunked
 * body is decoded.
 *
 *   end = wr_http1_head_end(bytes, len, &scanned);      // 0: the head is not complete yet
 *   status = wr_http1_read(&head, bytes, end);          // 0, or the status to answer with
 *   value = wr_http1_field(&head, "host");
 *
 * The reader is strict. Two readings of one request are how requests are smuggled past a proxy, so
 * a head that RFC 9112 allows a server to refuse is refused: bare LF, folded lines, blanks before a
 * colon, two lengths, a length beside chunks. The memory is the caller's; nothing is allocated. */
#ifndef WR_WIRE_HTTP_HTTP1_H
#define WR_WIRE_HTTP_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

#define WR_HTTP1_LINE_MAX 8192u    /* the request line; longer ones are 414 */
#define WR_HTTP1_FIELDS_MAX 32768u /* all header fields with their line ends; more is 431 */
#define WR_HTTP1_HEAD_MAX (WR_HTTP1_LINE_MAX + 2u + WR_HTTP1_FIELDS_MAX + 2u)
#define WR_HTTP1_METHOD_MAX 32u

struct wr_http1 {
	struct weir_str method;   /* terminated by a zero, like `path` and the values of fields */
	struct weir_str path;     /* decoded, without the query */
	struct weir_str query;    /* as it came; empty: none */
	const char *fields, *end; /* see wr_http1_next */
	uint64_t content_length;  /* without `chunked` */
	uint8_t minor;            /* HTTP/1.x */
	bool chunked;
	bool keep_alive;
	bool expects_continue;
};

struct wr_http1_field {
	struct weir_str name, value;
};

/* The length of the head with its empty line, or 0: it is not complete. Bytes before *scanned have
 * been searched by an earlier call. */
size_t wr_http1_head_end(const char *bytes, size_t len, size_t *scanned);

/* Whether a head that is not complete can become valid: 0, or 400, 414 or 431. Bytes before
 * `checked` have been looked at by an earlier call. */
int wr_http1_part_check(const char *bytes, size_t len, size_t checked);

/* Reads a complete head of `len` bytes and changes it in place. Returns 0, or 400, 414, 431, 501 or
 * 505. */
int wr_http1_read(struct wr_http1 *head, char *bytes, size_t len);

/* The field behind `at`, which begins as head->fields. Returns where the next one is, or NULL:
 * there is no more. */
const char *wr_http1_next(const struct wr_http1 *head, const char *at,
			  struct wr_http1_field *field);

/* The first value of that name in any case; ptr is NULL without one. */
struct weir_str wr_http1_field(const struct wr_http1 *head, struct weir_str name);

/* Decodes %XX in place (`plus`: + is a blank, too). Returns the new length, or SIZE_MAX: a bad
 * escape or a zero byte. */
size_t wr_http1_unescape(char *text, size_t len, bool plus);

/* ---- chunked bodies ---- */

#define WR_HTTP1_CHUNK_LINE_MAX 256u /* a chunk's size with extensions */
#define WR_HTTP1_TRAILERS_MAX 8192u  /* fields behind the last chunk; they are dropped */

struct wr_http1_chunks {
	uint64_t left; /* of the chunk at hand */
	uint32_t line; /* bytes of the line at hand, or of the trailers */
	uint8_t state;
	bool digits;
};

enum wr_http1_chunk {
	WR_CHUNK_BAD = -1,
	WR_CHUNK_MORE = 0, /* all input was used */
	WR_CHUNK_DATA = 1, /* *data and *data_len are a piece of the body */
	WR_CHUNK_END = 2,  /* the body is complete */
};

/* Decodes the next piece; *used is the number of bytes consumed. A zeroed struct is at the
 * beginning of a body. */
enum wr_http1_chunk wr_http1_dechunk(struct wr_http1_chunks *chunks, const char *bytes, size_t len,
				     size_t *used, const char **data, size_t *data_len);

#endif
