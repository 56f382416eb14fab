/* Fuzzes an HTTP/1.1 request. The path and the fields of a parsed head lie within it. The head has
 * the same end whether it arrives at once or in pieces, and no prefix of it is refused. A chunked
 * body is the same in pieces of one byte. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/http/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char bytes[WR_HTTP1_HEAD_MAX], one[65536], many[65536];

static bool within(const char *text, size_t len, size_t head_len)
{
	return text >= bytes && text + len <= bytes + head_len;
}

static void check_head(struct wr_http1 *head, size_t len)
{
	struct wr_http1_field field;
	size_t count = 0;

	assert(within(head->path.ptr, head->path.len, len) && head->path.len > 0);
	assert(strlen(head->path.ptr) == head->path.len);
	assert(head->query.len == 0 || within(head->query.ptr, head->query.len, len));
	assert(!(head->chunked && head->content_length));
	for (const char *at = head->fields; (at = wr_http1_next(head, at, &field)); count++) {
		assert(within(field.name.ptr, field.name.len, len) && field.name.len > 0);
		assert(within(field.value.ptr, field.value.len, len));
		assert(!memchr(field.value.ptr, '\n', field.value.len));
	}
	assert(head->minor == 0 || count > 0);
}

static size_t read_head(const uint8_t *data, size_t size)
{
	struct wr_http1 head;
	size_t len = size < sizeof bytes ? size : sizeof bytes, scanned = 0, end = 0;
	size_t whole = wr_http1_head_end((const char *)data, len, &scanned);
	int status;

	scanned = 0;
	for (size_t cut = 1; cut <= len && !end; cut++)
		end = wr_http1_head_end((const char *)data, cut, &scanned);
	assert(end == whole);
	if (!end)
		return len;
	memcpy(bytes, data, end);
	status = wr_http1_read(&head, bytes, end);
	assert(status == 0 || status == 400 || status == 414 || status == 431 || status == 501 ||
	       status == 505);
	if (status == 0)
		check_head(&head, end);
	for (size_t cut = 1; status == 0 && cut < end; cut++)
		assert(wr_http1_part_check((const char *)data, cut, cut - 1) == 0);
	return end;
}

static int read_chunks(const char *data, size_t size, size_t piece, char *out, size_t *out_len)
{
	struct wr_http1_chunks chunks = {0};
	size_t at = 0;
	int what = WR_CHUNK_MORE;

	*out_len = 0;
	while (at < size && what != WR_CHUNK_BAD && what != WR_CHUNK_END) {
		size_t used, data_len, left = size - at;
		const char *part;

		what = wr_http1_dechunk(&chunks, data + at, left < piece ? left : piece, &used,
					&part, &data_len);
		at += used;
		if (what == WR_CHUNK_DATA) {
			memcpy(out + *out_len, part, data_len);
			*out_len += data_len;
			what = WR_CHUNK_MORE;
		}
	}
	return what;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t head, one_len, many_len;
	const char *rest;
	int by_one, at_once;

	if (size > sizeof one)
		return 0;
	head = read_head(data, size);
	rest = (const char *)data + head;
	by_one = read_chunks(rest, size - head, 1, one, &one_len);
	at_once = read_chunks(rest, size - head, 65536, many, &many_len);
	assert(by_one == at_once);
	assert(one_len == many_len && memcmp(one, many, one_len) == 0);
	return 0;
}
