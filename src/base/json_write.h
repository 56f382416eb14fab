/* Writes JSON into a struct wr_buf, without spaces. The writer adds the commas:
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
 * lost, and wr_buf_failed() returns true. The writer does not check that the caller ends each
 * object and array. */
#ifndef WR_BASE_JSON_WRITE_H
#define WR_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"

struct wr_json_out {
	struct wr_buf *buf;
	bool comma; /* the next key or value needs a comma before it */
};

/* Begins a document. The writer appends it to the content of the buffer. */
static inline void wr_json_begin(struct wr_json_out *json, struct wr_buf *buf)
{
	*json = (struct wr_json_out){.buf = buf};
}

void wr_json_object(struct wr_json_out *json); /* begins an object */
void wr_json_end_object(struct wr_json_out *json);
void wr_json_array(struct wr_json_out *json); /* begins an array */
void wr_json_end_array(struct wr_json_out *json);

/* Writes the name of a member; the caller writes its value next. wr_json_key() does not escape the
 * name. It is for names that are constants of the program and contain no character that needs an
 * escape. wr_json_key_str() escapes any name like a string. */
void wr_json_key_str(struct wr_json_out *json, struct weir_str name);

/* The compiler knows the length of a constant name, so the copy needs no call. */
static inline void wr_json_key(struct wr_json_out *json, const char *name)
{
	struct weir_str text = wr_str(name);
	size_t len = json->comma + text.len + 3;
	char *at = wr_buf_reserve(json->buf, len);

	if (!at)
		return;
	*at = ',';
	at += json->comma;
	*at++ = '"';
	memcpy(at, text.ptr, text.len);
	at[text.len] = '"';
	at[text.len + 1] = ':';
	wr_buf_commit(json->buf, len);
	json->comma = false;
}

/* Writes a string. '"', '\', ASCII control characters and DEL are escaped. Bytes above ASCII are
 * copied, so the text must be valid UTF-8. */
void wr_json_string(struct wr_json_out *json, struct weir_str text);
/* Writes a string, or null if the text is empty. */
void wr_json_string_or_null(struct wr_json_out *json, struct weir_str text);

/* Writes a string that may contain any bytes, such as text from clients. Each byte that is not part
 * of valid UTF-8 becomes U+FFFD. Control characters above ASCII and marks that change the direction
 * of text are escaped. Returns whether the text was valid UTF-8. */
bool wr_json_bytes(struct wr_json_out *json, struct weir_str text);

void wr_json_int(struct wr_json_out *json, int64_t number);
void wr_json_uint(struct wr_json_out *json, uint64_t number);

/* Writes a duration or a time since 1970 in seconds, with milliseconds: 1500000001 ns becomes
 * 1.501. The value is rounded up, so that waiting that long suffices. WEIR_NEVER becomes null. */
void wr_json_seconds(struct wr_json_out *json, uint64_t ns);

/* Writes milli / 1000 with three decimals: 1500 becomes 1.500. */
void wr_json_milli(struct wr_json_out *json, uint64_t milli);

void wr_json_bool(struct wr_json_out *json, bool value);
void wr_json_null(struct wr_json_out *json);

/* Appends a value that is already JSON. The value must not be empty. */
void wr_json_raw(struct wr_json_out *json, struct weir_str value);

/* The functions below write a member: a key and its value. */
static inline void wr_json_member_string(struct wr_json_out *json, const char *name,
					 struct weir_str text)
{
	wr_json_key(json, name);
	wr_json_string(json, text);
}

static inline void wr_json_member_string_or_null(struct wr_json_out *json, const char *name,
						 struct weir_str text)
{
	wr_json_key(json, name);
	wr_json_string_or_null(json, text);
}

static inline bool wr_json_member_bytes(struct wr_json_out *json, const char *name,
					struct weir_str text)
{
	wr_json_key(json, name);
	return wr_json_bytes(json, text);
}

static inline void wr_json_member_uint(struct wr_json_out *json, const char *name, uint64_t number)
{
	wr_json_key(json, name);
	wr_json_uint(json, number);
}

static inline void wr_json_member_seconds(struct wr_json_out *json, const char *name, uint64_t ns)
{
	wr_json_key(json, name);
	wr_json_seconds(json, ns);
}

static inline void wr_json_member_bool(struct wr_json_out *json, const char *name, bool value)
{
	wr_json_key(json, name);
	wr_json_bool(json, value);
}

static inline void wr_json_member_null(struct wr_json_out *json, const char *name)
{
	wr_json_key(json, name);
	wr_json_null(json);
}

#endif
