/* Header fields in one piece of memory: "name\0value\0name\0value\0". A response and a file of the
 * cache keep their fields in this form, called a block of fields. */
#ifndef WR_FETCH_FIELDS_H
#define WR_FETCH_FIELDS_H

#include <weir/client.h>

#include "base/buffer.h"

#define WR_FETCH_FIELDS_MAX ((size_t)256 << 10) /* maximum length of a block */
#define WR_FETCH_FIELD_COUNT 1024u              /* maximum number of fields of a block */
#define WR_FETCH_LENGTH_NONE UINT64_MAX         /* the fields do not tell the length of the body */

/* Sets *name and *value to the first field of *rest, and *rest to the fields after it. Returns false
 * if *rest is empty. The block is valid. */
bool wr_fetch_fields_next(struct weir_str *rest, struct weir_str *name, struct weir_str *value);

/* Returns whether the bytes are a block: complete fields, and not more than WR_FETCH_FIELD_COUNT. */
bool wr_fetch_fields_valid(struct weir_str block);

/* Appends a field. Returns false if the buffer is full. */
bool wr_fetch_fields_add(struct wr_buf *block, struct weir_str name, struct weir_str value);

/* Sets *value to the value of the first field with the name, and returns true. Returns false if there
 * is no such field. */
bool wr_fetch_fields_get(struct weir_str block, struct weir_str name, struct weir_str *value);

/* Returns whether a comma-separated list of the field, in one or several fields, has the item. Case
 * does not matter. */
bool wr_fetch_fields_list_has(struct weir_str block, struct weir_str name, struct weir_str item);

/* Reads the length of the body from all Content-Length fields. A chunked body has none, whatever they
 * say. Returns false if a value is not a number below 2^63, or if two values differ (RFC 9112, section
 * 6.3). */
bool wr_fetch_fields_length(struct weir_str block, uint64_t *length);

/* Appends the fields of a stored response after the server has confirmed it with a 304: a field of
 * the 304 replaces all stored fields of its name. Fields that describe the body or the connection
 * stay as they were stored. */
void wr_fetch_fields_update(struct weir_str stored, struct weir_str confirmed,
			    struct wr_buf *block);

/* Returns whether the text can be the name of a field: one or more characters of a token. */
bool wr_fetch_is_token(struct weir_str text);

/* Returns whether the text can be the value of a field: no control character other than a tab. */
bool wr_fetch_is_value(struct weir_str text);

#endif
