/* The reader of weir/reader.h: the state of its parts.
 *
 *   reader.c         the calls of weir/reader.h
 *   reader_events.c  server-sent events: passes the data of each event on as a JSON text
 *   reader_json.c    JSON texts: follows the pointers to their values
 *   reader_name.c    compares names of members and indexes of elements with the pointers
 *   reader_number.c  the value of a JSON number
 *
 * All parts read bytes as they come. Their whole state is in these structs, so a body may be cut at
 * any byte. */
#ifndef WR_LIMITER_READER_H
#define WR_LIMITER_READER_H

#include <stdbool.h>

#include <weir/reader.h>

#define WR_READER_MAGIC 0x72646572u
/* A container at a deeper level holds no value of a pointer. The container at this level is only
 * entered to check its first byte. */
#define WR_READER_LEVELS (WEIR_READER_DEPTH_MAX + 1)
#define WR_READER_KEPT 512 /* longer events are read in parts */
#define WR_READER_NULL 3 /* the value is null: an enum weir_reader_result that callers never see */

/* A JSON pointer, and its value. A set of pointers is a uint8_t: bit i is pointer i. */
struct wr_reader_pointer {
	struct weir_str text;
	int64_t value;      /* in the current text, if `result` is WEIR_READER_FOUND */
	int64_t kept_value; /* in the texts before, if `kept` is WEIR_READER_FOUND */
	uint8_t result;     /* enum weir_reader_result or WR_READER_NULL */
	uint8_t kept;       /* the same */
	uint8_t steps;
	/* Number, from 1 on, of a step that only the name of a member can match, and that is written
	 * in JSON as it is here, or with \uXXXX. A text that has no such name has no value at the
	 * pointer. 0: there is no such step. */
	uint8_t name_step;
	uint16_t at; /* while a name is compared: index in `text` of the next character */
	/* Index in `text` of the first character of each step. The last entry is what the index of
	 * a further step would be. */
	uint16_t step_at[WEIR_READER_DEPTH_MAX + 1];
};

/* A number as it is read: mantissa * 10^(scale + exponent). */
struct wr_reader_number {
	uint64_t mantissa; /* the first 19 significant digits */
	int64_t scale;
	int64_t exponent;
	uint8_t part; /* enum number_part of reader_number.c */
	bool negative;
	bool exponent_negative;
	bool more; /* a digit that is not 0 followed the digits of the mantissa */
};

/* An object or array that is being read. */
struct wr_reader_level {
	uint64_t index;  /* of the next element */
	uint64_t wanted; /* smallest index from `index` on that a pointer of `live` names */
	uint8_t live;    /* pointers to values within the container that can still be found */
	uint8_t ends;    /* pointers that name the container itself, which is not a number */
	bool array;
};

struct wr_reader_json {
	uint8_t state;  /* enum json_state of reader_json.c */
	uint8_t string; /* enum string_kind of reader_json.c */
	uint8_t depth;  /* number of open containers in `levels` */
	uint8_t token_result;
	bool lines; /* after an error, the next line is a new text */
	uint8_t pointer_count;
	uint8_t escaped;    /* pointers whose text contains ~0 or ~1 */
	uint8_t value;      /* pointers to the next value, or to values within it */
	uint8_t ends;       /* pointers to the current string, number or other scalar */
	uint8_t names;      /* pointers whose step is equal to the name so far */
	uint8_t hex_digits; /* number of digits of \uXXXX that are read */
	uint16_t hex;
	uint16_t high;    /* the first half of a surrogate pair, or 0 */
	uint64_t skipped; /* in a container that is skipped: number of open containers */
	struct wr_reader_number number;
	uint8_t ends_at[WR_READER_LEVELS + 1]; /* pointers with this number of steps */
	struct wr_reader_level levels[WR_READER_LEVELS + 1]; /* the first is not used */
	struct wr_reader_pointer pointers[WEIR_READER_POINTERS_MAX];
};

struct wr_reader_events {
	uint8_t state;     /* enum line_state of reader_events.c */
	uint8_t name_len;  /* number of bytes of "data" that the line begins with */
	bool after_cr;     /* the last byte was a CR: an LF that follows belongs to it */
	bool has_data;     /* the event has a line with data */
	uint16_t kept_len; /* number of bytes in reader->kept */
};

struct weir_reader {
	uint32_t magic;
	uint8_t format;
	uint8_t bom_len; /* number of bytes of a byte order mark that the body begins with */
	bool bom_done;
	bool ended;
	struct wr_reader_events events;
	struct wr_reader_json json;
	/* The beginning of an event whose end has not arrived yet. */
	char kept[WR_READER_KEPT];
};

_Static_assert(sizeof(struct weir_reader) <= WEIR_READER_BYTES, "a reader fits its memory");
_Static_assert(WEIR_READER_POINTERS_MAX <= 8, "a set of pointers is a uint8_t");

/* Returns whether the texts before the current one decide the result. A null does not replace
 * another value. */
static inline bool wr_reader_pointer_keeps(const struct wr_reader_pointer *pointer)
{
	return pointer->result == WEIR_READER_MISSING ||
	       (pointer->result == WR_READER_NULL && pointer->kept != WEIR_READER_MISSING);
}

/* reader_json.c */

/* Reads a part of the body. */
void wr_reader_json_feed(struct wr_reader_json *json, const char *at, const char *end);

/* Ends a text, even if it is not complete. A number that ends with the text counts only if it is the
 * whole text: in a container, another byte would follow a complete number. The next byte begins a
 * new text. */
void wr_reader_json_end(struct wr_reader_json *json);

/* The bytes so far cannot be the beginning of a text. */
void wr_reader_json_break(struct wr_reader_json *json);

/* reader_events.c */
void wr_reader_events_feed(struct weir_reader *reader, const char *at, const char *end);

/* Ends the body. The body can have cut off its last line, so a number at the end of this line does
 * not count. */
void wr_reader_events_end(struct weir_reader *reader);

/* The body begins with bytes that are not the beginning of a line with data. */
void wr_reader_events_ignore_line(struct weir_reader *reader);

/* reader_name.c */

/* Splits the text into steps. Sets *escaped if the text contains ~0 or ~1. Returns 0 or
 * WEIR_EINVAL. */
int wr_reader_pointer_read(struct wr_reader_pointer *pointer, struct weir_str text, bool *escaped);

/* Returns the live pointers of the current object whose next step is `name`. The name has no
 * backslash. */
uint8_t wr_reader_name_find(struct wr_reader_json *json, struct weir_str name);

/* The same for a name that is read byte by byte: json->names is the set of pointers whose step
 * begins with the bytes so far. */
void wr_reader_name_begin(struct wr_reader_json *json);
void wr_reader_name_byte(struct wr_reader_json *json, char c);
void wr_reader_name_code_point(struct wr_reader_json *json, uint32_t point);
uint8_t wr_reader_name_end(struct wr_reader_json *json);

/* Begins an array. The pointers of level->live that name no element of an array leave the set. */
void wr_reader_index_begin(struct wr_reader_json *json, struct wr_reader_level *level);

/* Takes the next element: returns the pointers that name it, and removes them from level->live. */
uint8_t wr_reader_index_next(struct wr_reader_json *json, struct wr_reader_level *level);

/* Returns the first byte of [at, end) at which a name that leads to the value of pointer i can begin,
 * or `end`. Names that are written with \uXXXX are not found. Returns `at` if the pointer has no
 * step that can be searched for. */
const char *wr_reader_name_search(const struct wr_reader_json *json, size_t i, const char *at,
				  const char *end);

/* reader_number.c */

/* The first byte is '-' or a digit. wr_reader_number_byte must be called for it too. */
void wr_reader_number_begin(struct wr_reader_number *number);
void wr_reader_number_byte(struct wr_reader_number *number, char c);

/* Returns WEIR_READER_FOUND and sets *value, or returns WEIR_READER_INVALID. */
int wr_reader_number_end(const struct wr_reader_number *number, int64_t *value);

#endif
