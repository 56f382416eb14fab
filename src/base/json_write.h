/* Writes JSON into a struct wr_buf, without spaces. The writer puts the commas:
 *
 *     struct wr_json_out json;
 *     wr_json_begin(&json, &buf);
 *     wr_json_object(&json);
 *     wr_json_key(&json, "rule");
 *     wr_json_string(&json, WR_STR("per-ip"));
 *     wr_json_key(&json, "counts");
 *     wr_json_array(&json);
 *     wr_json_uint(&json, 1);
 *     wr_json_uint(&json, 2);
 *     wr_json_end_array(&json);
 *     wr_json_end_object(&json);            {"rule":"per-ip","counts":[1,2]}
 *
 * No function fails. When the buffer is full or there is no memory, the rest of the document is
 * lost, and wr_buf_failed() reports it. Nesting is up to the caller: the writer does not check that
 * each object and array is ended. */
#ifndef WR_BASE_JSON_WRITE_H
#define WR_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct wr_json_out {
	struct wr_buf *buf;
	bool comma; /* the next key or value follows another one */
};

/* The document is appended to the content of the buffer. */
static inline void wr_json_begin(struct wr_json_out *json, struct wr_buf *buf)
{
	*json = (struct wr_json_out){.buf = buf};
}

void wr_json_object(struct wr_json_out *json); /* { */
void wr_json_end_object(struct wr_json_out *json);
void wr_json_array(struct wr_json_out *json); /* [ */
void wr_json_end_array(struct wr_json_out *json);

/* The name of the member whose value is written next. The name is escaped like a string. */
void wr_json_key(struct wr_json_out *json, const char *name);

/* A string. '"', '\', controls of ASCII and DEL are escaped; bytes above ASCII are copied, so the
 * text has to be UTF-8. */
void wr_json_string(struct wr_json_out *json, struct weir_str text);

/* A string of any bytes, as clients send them. Each byte that is no part of UTF-8 becomes U+FFFD.
 * Controls above ASCII and marks that change the direction of text are escaped. Returns whether
 * the text was UTF-8. */
bool wr_json_bytes(struct wr_json_out *json, struct weir_str text);

void wr_json_int(struct wr_json_out *json, int64_t number);
void wr_json_uint(struct wr_json_out *json, uint64_t number);

/* The shortest decimal that reads back as the same number; null for a number that is not finite. */
void wr_json_double(struct wr_json_out *json, double number);

void wr_json_bool(struct wr_json_out *json, bool value);
void wr_json_null(struct wr_json_out *json);

/* A value that is JSON already, copied as it is. Not empty. */
void wr_json_raw(struct wr_json_out *json, struct weir_str value);

#endif
