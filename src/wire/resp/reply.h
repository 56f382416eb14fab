/* Writes replies in RESP2 or RESP3 into the buffer of the connection.
 *
 * The caller of a session provides the first buffer, and the callback `more` provides further room.
 * If `more` fails, the rest of the reply is dropped and `failed` is set. The connection then has to
 * be closed, because the client would wait for the rest of the reply. Types that RESP2 lacks are
 * written as Redis writes them: maps and sets as arrays, null as $-1.
 */
#ifndef WR_WIRE_RESP_REPLY_H
#define WR_WIRE_RESP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/rules.h>

#define WR_REPLY_NUMBER_BYTES 24 /* maximum length of a line such as ":-7", with its CRLF */

struct wr_resp_out {
	uint8_t *begin, *at, *end; /* `begin` to `at` is written, `at` to `end` is free */
	/* Takes over the bytes from `begin` to `at`, and sets the three pointers to memory with
	 * room for at least `need` bytes. Returns false if there is no memory. */
	bool (*more)(struct wr_resp_out *out, size_t need);
	void *context;
	size_t taken;     /* number of bytes that `more` has taken over */
	bool failed;      /* `more` failed */
	uint8_t protocol; /* RESP version: 2 or 3 */
};

static inline size_t wr_reply_written(const struct wr_resp_out *out)
{
	return out->taken + (size_t)(out->at - out->begin);
}

/* Makes room for `need` bytes. On failure returns false, and the caller must write nothing. */
static inline bool wr_reply_room(struct wr_resp_out *out, size_t need)
{
	if (__builtin_expect((size_t)(out->end - out->at) >= need, 1))
		return true;
	if (!out->failed)
		out->failed = !out->more(out, need);
	return !out->failed;
}

/* Writes a number at `at`, where the caller has made room. Returns the end of the number. */
static inline uint8_t *wr_reply_put_number(uint8_t *at, int64_t number)
{
	uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
	uint8_t digits[20];
	size_t first = sizeof digits;

	if (number < 0)
		*at++ = '-';
	if (rest < 10) {
		*at++ = (uint8_t)('0' + rest);
		return at;
	}
	for (; rest; rest /= 10)
		digits[--first] = (uint8_t)('0' + rest % 10);
	memcpy(at, digits + first, sizeof digits - first);
	return at + (sizeof digits - first);
}

/* Writes `mark` (the type of a RESP value, such as ':'), a number and CRLF at `at`, where the
 * caller has made room. Returns the end of the line. */
static inline uint8_t *wr_reply_put_line(uint8_t *at, char mark, int64_t number)
{
	*at++ = (uint8_t)mark;
	at = wr_reply_put_number(at, number);
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

static inline void wr_reply_line(struct wr_resp_out *out, char mark, int64_t number)
{
	if (wr_reply_room(out, WR_REPLY_NUMBER_BYTES))
		out->at = wr_reply_put_line(out->at, mark, number);
}

static inline void wr_reply_integer(struct wr_resp_out *out, int64_t number)
{
	wr_reply_line(out, ':', number);
}

static inline void wr_reply_array(struct wr_resp_out *out, size_t count)
{
	wr_reply_line(out, '*', (int64_t)count);
}

static inline void wr_reply_map(struct wr_resp_out *out, size_t pairs)
{
	wr_reply_line(out, out->protocol == 3 ? '%' : '*',
		      (int64_t)(out->protocol == 3 ? pairs : 2 * pairs));
}

static inline void wr_reply_set(struct wr_resp_out *out, size_t count)
{
	wr_reply_line(out, out->protocol == 3 ? '~' : '*', (int64_t)count);
}

/* Writes bytes of a reply that are already in RESP. */
void wr_reply_raw(struct wr_resp_out *out, const char *bytes, size_t len);

void wr_reply_null(struct wr_resp_out *out);
void wr_reply_bulk(struct wr_resp_out *out, struct weir_str bytes);
void wr_reply_cstr(struct wr_resp_out *out, const char *text);   /* a C string as a bulk string */
void wr_reply_simple(struct wr_resp_out *out, const char *text); /* a simple string: +OK */

/* Writes a text for people: a verbatim string in RESP3, a bulk string in RESP2. */
void wr_reply_verbatim(struct wr_resp_out *out, struct weir_str text);

/* Writes an error; the format is "CODE sentence". CR and LF become blanks, because the arguments of
 * the format may come from the client. */
void wr_reply_error(struct wr_resp_out *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
