/* Tells ids and other changing texts in paths from the names of resources. */
#include "base/str.h"
#include "base/utf8.h"
#include "lab/tune/routes.h"

#define LITERAL_BYTES 64 /* a longer segment is not the name of a resource */
#define HASH_DIGITS 12   /* shortest hexadecimal text that counts as a hash */
#define TOKEN_BYTES 24   /* shortest mix of letters and digits that counts as an id */

static const char *const names[] = {
#define SEGMENT_NAME(name, text) text,
	WR_LAB_SEGMENTS(SEGMENT_NAME)
#undef SEGMENT_NAME
};

const char *wr_lab_segment_name(enum wr_lab_segment kind)
{
	return names[kind];
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns whether the text has the form of `shape`, in which 'd' is a digit, 'x' a hexadecimal
 * digit, and any other character stands for itself. */
static bool has_shape(struct weir_str text, const char *shape)
{
	for (size_t i = 0; i < text.len; i++) {
		if (shape[i] == 'd'   ? !is_digit(text.ptr[i])
		    : shape[i] == 'x' ? wr_hex(text.ptr[i]) < 0
				      : shape[i] != text.ptr[i])
			return false;
	}
	return shape[text.len] == '\0';
}

struct characters {
	size_t digits, hex, upper, lower;
};

static struct characters count_characters(struct weir_str text)
{
	struct characters count = {0};

	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		count.digits += is_digit(c);
		count.hex += wr_hex(c) >= 0;
		count.upper += c >= 'A' && c <= 'Z';
		count.lower += c >= 'a' && c <= 'z';
	}
	return count;
}

/* Returns whether a path pattern and a YAML file can contain the text as it is. Marks that change
 * the direction of text are left out, because a reader could not see them. */
static bool is_plain(struct weir_str text)
{
	for (size_t i = 0; i < text.len;) {
		size_t len = wr_utf8_len(text.ptr + i, text.len - i);
		uint32_t point = len ? wr_utf8_point(text.ptr + i, len) : 0;

		if (point <= ' ' || (point >= 0x7f && point <= 0xa0) ||
		    (point < 0x7f && wr_str_has(WR_STR("%?#*{}\\;"), (char)point)) ||
		    (point >= 0x2000 && point <= 0x206f) || point == 0xfeff ||
		    (point & 0xfffe) == 0xfffe)
			return false;
		i += len;
	}
	return true;
}

/* Returns the text without an ending of up to four letters or digits: "17" for "17.json". */
static struct weir_str without_ending(struct weir_str text)
{
	size_t dot = text.len;

	while (dot > 1 && text.ptr[dot - 1] != '.' && text.len - dot < 4)
		dot--;
	return dot > 1 && text.ptr[dot - 1] == '.' ? wr_str_first(text, dot - 1) : text;
}

enum wr_lab_segment wr_lab_segment_kind(struct weir_str segment)
{
	struct weir_str stem = without_ending(segment);
	struct characters count = count_characters(stem);

	if (segment.len > LITERAL_BYTES || !is_plain(segment))
		return WR_LAB_SEGMENT_NAME;
	if (has_shape(segment, "dddd") && (segment.ptr[0] == '1' || segment.ptr[0] == '2'))
		return WR_LAB_SEGMENT_YEAR;
	if (stem.len && count.digits == stem.len)
		return WR_LAB_SEGMENT_ID;
	if (has_shape(stem, "dddd-dd-dd"))
		return WR_LAB_SEGMENT_DATE;
	if (has_shape(stem, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
		return WR_LAB_SEGMENT_UUID;
	if (stem.len >= HASH_DIGITS && count.hex == stem.len && count.digits)
		return WR_LAB_SEGMENT_HASH;
	if (stem.len >= TOKEN_BYTES && count.digits >= 2 && count.upper >= 2 && count.lower >= 2)
		return WR_LAB_SEGMENT_ID;
	return WR_LAB_SEGMENT_LITERAL;
}

bool wr_lab_path_is_static(struct weir_str path)
{
	static const char *const endings[] = {
		".css",  ".js",    ".mjs",  ".map",  ".png",  ".jpg", ".jpeg", ".gif",
		".svg",  ".ico",   ".webp", ".avif", ".bmp",  ".ttf", ".otf",  ".eot",
		".woff", ".woff2", ".mp3",  ".mp4",  ".webm", ".ogg", ".swf",  ".pdf",
	};

	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		struct weir_str ending = wr_str(endings[i]);

		if (path.len > ending.len &&
		    wr_str_equal_nocase(wr_str_from(path, path.len - ending.len), ending))
			return true;
	}
	return false;
}
