/* Shared by the suites of the reader: reads a body in pieces. */
#ifndef TEST_LIMITER_READER_TEST_H
#define TEST_LIMITER_READER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <weir/reader.h>

struct reading {
	int result;
	int64_t value; /* 0 unless the result is WEIR_READER_FOUND */
};

struct reader_rig {
	_Alignas(max_align_t) char memory[WEIR_READER_BYTES];
	struct weir_reader *reader;
};

static inline struct weir_str str_of(const char *text)
{
	return (struct weir_str){text, strlen(text)};
}

static inline void reader_open(struct reader_rig *rig, int format, const struct weir_str *pointers,
			       size_t count)
{
	memset(rig->memory, 0xa5, sizeof rig->memory);
	assert_int_equal(weir_reader_init(rig->memory, sizeof rig->memory, pointers, count, format,
					  &rig->reader),
			 0);
}

/* Feeds a copy whose memory ends with the last byte, so that AddressSanitizer finds a read beyond
 * it. */
static inline void reader_feed(struct reader_rig *rig, const char *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);

	memcpy(copy, bytes, len);
	assert_int_equal(weir_reader_feed(rig->reader, copy, len), 0);
	free(copy);
}

static inline struct reading reader_result(const struct reader_rig *rig, size_t i)
{
	struct reading reading = {0};

	reading.result = weir_reader_value(rig->reader, i, &reading.value);
	return reading;
}

static inline struct reading reader_close(struct reader_rig *rig)
{
	assert_int_equal(weir_reader_end(rig->reader), 0);
	return reader_result(rig, 0);
}

#endif
