/* Fuzzes the reader of numbers in JSON and in server-sent events. The first byte chooses the format
 * and the second the length of a piece. The rest is the body. A body has the same values at once, cut
 * into pieces, and byte by byte; for all pointers together, and for each alone. If jansson accepts the
 * body, /usage/total_tokens has the value that jansson finds. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <weir/reader.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct weir_str pointers[] = {
	{"", 0},        {"/a", 2},   {"/a/0/b", 6},     {"/usage/total_tokens", 19},
	{"/a~1b~0", 7}, {"/1/1", 4}, {"/\xc3\xa9/", 4}, {"//\xf0\x9f\x98\x80", 6},
};
#define POINTERS (sizeof pointers / sizeof *pointers)

struct reading {
	int results[POINTERS];
	int64_t values[POINTERS];
};

/* Feeds a copy, so that AddressSanitizer finds a read beyond the piece. A small piece is not copied:
 * AddressSanitizer keeps freed memory, and the fuzzer would run out of memory. */
static void feed(struct weir_reader *reader, const uint8_t *bytes, size_t len)
{
	uint8_t *copy = len < 16 ? NULL : malloc(len);

	if (copy)
		memcpy(copy, bytes, len);
	assert(weir_reader_feed(reader, copy ? copy : bytes, len) == 0);
	free(copy);
}

/* Reads the values of pointers[first] to pointers[first + count - 1]. */
static struct reading read_some(int format, const uint8_t *body, size_t len, size_t piece,
				size_t first, size_t count)
{
	static _Alignas(max_align_t) char memory[WEIR_READER_BYTES];
	struct reading reading = {0};
	struct weir_reader *reader;

	memset(memory, 0xa5, sizeof memory);
	assert(weir_reader_init(memory, sizeof memory, pointers + first, count, format, &reader) ==
	       0);
	for (size_t at = 0, n; at < len; at += n) {
		n = len - at < piece ? len - at : piece;
		feed(reader, body + at, n);
	}
	assert(weir_reader_end(reader) == 0);
	for (size_t i = 0; i < count; i++) {
		int result = weir_reader_value(reader, i, &reading.values[i]);

		assert(result == WEIR_READER_MISSING || result == WEIR_READER_FOUND ||
		       result == WEIR_READER_INVALID);
		assert(result == WEIR_READER_FOUND ? reading.values[i] >= 0
						   : reading.values[i] == 0);
		reading.results[i] = result;
	}
	return reading;
}

static struct reading read_pieces(int format, const uint8_t *body, size_t len, size_t piece)
{
	return read_some(format, body, len, piece, 0, POINTERS);
}

/* Reads each pointer alone, because the first pointer leads to every text. Without it, the reader
 * passes over events that do not contain the names of the pointer. Byte by byte, it reads every
 * event. */
static void compare_alone(int format, const uint8_t *body, size_t len, size_t piece)
{
	for (size_t i = 0; i < POINTERS; i++) {
		struct reading bytes = read_some(format, body, len, 1, i, 1);
		struct reading whole = read_some(format, body, len, SIZE_MAX, i, 1);
		struct reading pieces = read_some(format, body, len, piece, i, 1);

		assert(memcmp(&whole, &bytes, sizeof whole) == 0);
		assert(memcmp(&pieces, &bytes, sizeof pieces) == 0);
	}
}

/* Pointer 3 in the tree of jansson. */
static void check_usage(const struct reading *reading, const json_t *tree)
{
	const json_t *value = json_object_get(json_object_get(tree, "usage"), "total_tokens");

	if (!value)
		assert(reading->results[3] == WEIR_READER_MISSING);
	else if (!json_is_number(value) || json_number_value(value) < 0)
		assert(reading->results[3] == WEIR_READER_INVALID);
	else if (json_is_integer(value))
		assert(reading->values[3] == json_integer_value(value));
}

static void compare_with_jansson(const struct reading *reading, const uint8_t *body, size_t len)
{
	json_t *tree = json_loadb((const char *)body, len, JSON_DECODE_ANY, NULL);

	if (!tree)
		return;
	assert(reading->results[0] != WEIR_READER_MISSING);
	check_usage(reading, tree);
	json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reading whole, pieces, bytes;
	int format;

	if (size < 2)
		return 0;
	format = data[0] & 1 ? WEIR_READER_JSON : WEIR_READER_EVENTS;
	whole = read_pieces(format, data + 2, size - 2, SIZE_MAX);
	pieces = read_pieces(format, data + 2, size - 2, (size_t)data[1] + 1);
	bytes = read_pieces(format, data + 2, size - 2, 1);
	assert(memcmp(&whole, &pieces, sizeof whole) == 0);
	assert(memcmp(&whole, &bytes, sizeof whole) == 0);
	compare_alone(format, data + 2, size - 2, (size_t)data[1] + 1);
	if (format == WEIR_READER_JSON)
		compare_with_jansson(&whole, data + 2, size - 2);
	return 0;
}
