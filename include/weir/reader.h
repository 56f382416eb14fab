/* Reads numbers from the JSON of a response, while the response is being sent.
 *
 *   struct weir_str pointer = {"/usage/total_tokens", 19};
 *   _Alignas(max_align_t) char memory[WEIR_READER_BYTES];
 *   struct weir_reader *reader;
 *   int64_t tokens;
 *
 *   weir_reader_init(memory, sizeof memory, &pointer, 1, WEIR_READER_JSON, &reader);
 *   while (…)
 *           weir_reader_feed(reader, bytes, len);            // each part of the body, as it passes
 *   weir_reader_end(reader);
 *   if (weir_reader_value(reader, 0, &tokens) == WEIR_READER_FOUND)
 *           …
 *
 * The reader allocates nothing, and uses the same memory for a body of any length and any depth. It
 * copies at most 512 bytes at a time: the beginning of an event whose rest has not arrived yet. It
 * does not check that the body is valid JSON. Values before the first error of a text are found. */
#ifndef WEIR_READER_H
#define WEIR_READER_H

#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reader;

#define WEIR_READER_BYTES 2048      /* enough memory for a reader */
#define WEIR_READER_POINTERS_MAX 8  /* maximum number of JSON pointers of one reader */
#define WEIR_READER_DEPTH_MAX 16    /* maximum number of steps of a JSON pointer */
#define WEIR_READER_POINTER_MAX 256 /* maximum length of a JSON pointer in bytes */

enum weir_reader_format {
	/* One JSON text, or several one after the other, such as one in each line. The value is
	 * that of the last text that has the pointer. After an error in a text, the next line
	 * begins a new text. */
	WEIR_READER_JSON = 1,
	/* Server-sent events (text/event-stream) whose data is JSON. The value is that of the last
	 * event that has the pointer. Data that is not JSON, such as "[DONE]", is skipped. */
	WEIR_READER_EVENTS = 2,
};

enum weir_reader_result {
	WEIR_READER_MISSING = 0, /* the body has no value at the pointer */
	WEIR_READER_FOUND = 1,
	WEIR_READER_INVALID = 2, /* the value is not a number, or is negative */
};

/* Returns the format of a body with this Content-Type, or 0 if the reader cannot read such a body.
 * application/json, application/x-ndjson, application/jsonl and types such as
 * application/problem+json are WEIR_READER_JSON; text/event-stream is WEIR_READER_EVENTS.
 * Parameters and upper case make no difference. */
WEIR_API int weir_reader_format(struct weir_str content_type);

/* Returns 0 if the text is a JSON pointer (RFC 6901) that a reader can look for, or WEIR_EINVAL. */
WEIR_API int weir_reader_check_pointer(struct weir_str pointer);

/* Creates a reader in `memory`, which must be aligned for any object. The texts of the pointers
 * must stay valid as long as the caller uses the reader. A reader needs no call to free it. Returns
 * 0, WEIR_EINVAL (no pointer, too many pointers, or an invalid one), or WEIR_EROOM if `size` is
 * below WEIR_READER_BYTES. */
WEIR_API int weir_reader_init(void *memory, size_t size, const struct weir_str *pointers,
			      size_t count, int format, struct weir_reader **reader);

/* Reads the next part of the body. Parts may be cut anywhere. Returns 0, or WEIR_EINVAL after
 * weir_reader_end. A body that is not valid is not an error. */
WEIR_API int weir_reader_feed(struct weir_reader *reader, const void *bytes, size_t len);

/* Ends the body. The body may be incomplete, because a connection was closed. A number in an object
 * or array counts only if another byte of its text follows it: in {"tokens":12 the rest of the number
 * can be missing. In {"usage":{"tokens":12} the number is complete, although the text is not. A
 * number that does not count replaces no value of an earlier text or event. A number that is the
 * whole text counts at the end of the body; in an event, it counts when its line has ended. The empty
 * line that ends an event ends its text too. A second call does nothing. Returns 0 or WEIR_EINVAL. */
WEIR_API int weir_reader_end(struct weir_reader *reader);

/* Reads the value at pointer `i`: sets *value and returns WEIR_READER_FOUND, or returns another
 * enum weir_reader_result, or WEIR_EINVAL. A number can have a fraction and an exponent, such as
 * 1.5e3. A number with a fraction is rounded up. A number above INT64_MAX is INT64_MAX. If a member
 * occurs twice in an object, the value is that of the last one. A null does not replace a value of
 * an earlier text or event. If all values are null, the result is WEIR_READER_INVALID. Before
 * weir_reader_end, the result is that of the body so far; an event that is not complete may be
 * missing. */
WEIR_API int weir_reader_value(const struct weir_reader *reader, size_t i, int64_t *value);

#ifdef __cplusplus
}
#endif
#endif
