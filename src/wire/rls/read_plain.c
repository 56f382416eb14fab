/* Reads the plain requests that plain.h describes. The functions return false if a message is not
 * plain or does not fit into memory. Called by ask.c. */
#include "wire/rls/plain.h"

#include <string.h>

#define VARINT 0u
#define LENGTH 2u
#define LENGTH_BYTES 5 /* maximum size of a 32-bit length, which has seven bits in each byte */
#define FIELD(number, type) ((number) << 3 | (type))
#define NO_LIST 0 /* argument of read_tag() for messages in which no field may be repeated */

/* The bytes from `at` to `end` have not been read yet. `items` is the number of list items that may
 * still be read: memory is allocated for this many. */
struct plain_reader {
	const uint8_t *at, *end;
	size_t items;
};

/* Reads a number of one to ten bytes. Each byte has seven bits of the number, and the lowest bits
 * come first. Returns false if the last byte of the number is missing. */
static bool read_varint(struct plain_reader *r, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/* Reads a length and sets *part to the bytes after the length. Returns false if the length has more
 * than LENGTH_BYTES bytes or exceeds the input. */
static bool read_part(struct plain_reader *r, struct plain_reader *part)
{
	const uint8_t *begin = r->at;
	uint64_t len;

	if (!read_varint(r, &len) || r->at - begin > LENGTH_BYTES ||
	    len > (uint64_t)(r->end - r->at))
		return false;
	*part = (struct plain_reader){.at = r->at, .end = r->at + len};
	r->at += len;
	return true;
}

/* Reads the tag of a field. If the tag is `list`, the field is allowed r->items more times, and
 * r->items is reduced by 1. Any other field is allowed once, and its bit in *seen is set. Returns
 * false if the field has occurred too often. Also returns false if the tag is longer than a byte,
 * because no known field has such a tag. */
static bool read_tag(struct plain_reader *r, uint32_t *seen, uint8_t list, uint8_t *tag)
{
	uint32_t bit;

	*tag = *r->at++;
	if (*tag == list)
		return r->items-- > 0;
	bit = UINT32_C(1) << (*tag >> 3);
	if (*tag & 0x80 || *seen & bit)
		return false;
	*seen |= bit;
	return true;
}

static bool read_plain_text(struct plain_reader *r, ProtobufCBinaryData *text)
{
	struct plain_reader part;

	if (!read_part(r, &part))
		return false;
	*text = (ProtobufCBinaryData){(size_t)(part.end - part.at), (uint8_t *)part.at};
	return true;
}

static bool read_entry(struct plain_reader r, struct wr_rls_memory *memory,
		       Pb__RateLimitDescriptor__Entry **out)
{
	Pb__RateLimitDescriptor__Entry *entry = wr_rls_alloc(memory, sizeof *entry);
	uint32_t seen = 0;

	if (!entry)
		return false;
	pb__rate_limit_descriptor__entry__init(entry);
	*out = entry;
	while (r.at < r.end) {
		uint8_t tag;

		if (!read_tag(&r, &seen, NO_LIST, &tag) ||
		    (tag != FIELD(1, LENGTH) && tag != FIELD(2, LENGTH)) ||
		    !read_plain_text(&r, tag == FIELD(1, LENGTH) ? &entry->key : &entry->value))
			return false;
	}
	return true;
}

static bool read_override(struct plain_reader r, struct wr_rls_memory *memory,
			  Pb__RateLimitDescriptor__RateLimitOverride **out)
{
	Pb__RateLimitDescriptor__RateLimitOverride *limit = wr_rls_alloc(memory, sizeof *limit);
	uint32_t seen = 0;

	if (!limit)
		return false;
	pb__rate_limit_descriptor__rate_limit_override__init(limit);
	*out = limit;
	while (r.at < r.end) {
		uint64_t value;
		uint8_t tag;

		if (!read_tag(&r, &seen, NO_LIST, &tag) || !read_varint(&r, &value))
			return false;
		if (tag == FIELD(1, VARINT))
			limit->requests_per_unit = (uint32_t)value;
		else if (tag == FIELD(2, VARINT))
			limit->unit = (Pb__RateLimitUnit)value;
		else
			return false;
	}
	return true;
}

static bool read_hits(struct plain_reader r, struct wr_rls_memory *memory, Pb__UInt64Value **out)
{
	Pb__UInt64Value *hits = wr_rls_alloc(memory, sizeof *hits);

	if (!hits)
		return false;
	pb__uint64_value__init(hits);
	*out = hits;
	if (r.at == r.end)
		return true;
	return *r.at++ == FIELD(1, VARINT) && read_varint(&r, &hits->value) && r.at == r.end;
}

/* Returns the number of fields with the tag `wanted` before the first field that is not plain. */
static size_t count_parts(struct plain_reader r, uint8_t wanted)
{
	size_t count = 0;

	while (r.at < r.end) {
		struct plain_reader part;
		uint64_t value;
		uint8_t tag = *r.at++;

		if (tag & 0x80 ||
		    !((tag & 7) == LENGTH ? read_part(&r, &part) : read_varint(&r, &value)))
			break;
		count += tag == wanted;
	}
	return count;
}

static bool read_descriptor_field(Pb__RateLimitDescriptor *descriptor, uint8_t tag,
				  struct plain_reader *r, struct wr_rls_memory *memory)
{
	struct plain_reader part;
	uint64_t value;

	if (tag == FIELD(4, VARINT)) {
		if (!read_varint(r, &value))
			return false;
		descriptor->is_negative_hits = value != 0;
		return true;
	}
	if (!read_part(r, &part))
		return false;
	if (tag == FIELD(1, LENGTH))
		return read_entry(part, memory, &descriptor->entries[descriptor->n_entries++]);
	if (tag == FIELD(2, LENGTH))
		return read_override(part, memory, &descriptor->limit);
	return tag == FIELD(3, LENGTH) && read_hits(part, memory, &descriptor->hits_addend);
}

static bool read_descriptor(struct plain_reader r, struct wr_rls_memory *memory,
			    Pb__RateLimitDescriptor **out)
{
	Pb__RateLimitDescriptor *descriptor = wr_rls_alloc(memory, sizeof *descriptor);
	uint32_t seen = 0;
	uint8_t tag;

	if (!descriptor)
		return false;
	pb__rate_limit_descriptor__init(descriptor);
	*out = descriptor;
	r.items = count_parts(r, FIELD(1, LENGTH));
	descriptor->entries = wr_rls_alloc_many(memory, r.items, sizeof(void *));
	if (!descriptor->entries)
		return false;
	while (r.at < r.end)
		if (!read_tag(&r, &seen, FIELD(1, LENGTH), &tag) ||
		    !read_descriptor_field(descriptor, tag, &r, memory))
			return false;
	return true;
}

static bool read_request_field(Pb__RateLimitRequest *request, uint8_t tag, struct plain_reader *r,
			       struct wr_rls_memory *memory)
{
	struct plain_reader part;
	uint64_t value;

	if (tag == FIELD(1, LENGTH))
		return read_plain_text(r, &request->domain);
	if (tag == FIELD(2, LENGTH))
		return read_part(r, &part) &&
		       read_descriptor(part, memory,
				       &request->descriptors[request->n_descriptors++]);
	if (tag != FIELD(3, VARINT) || !read_varint(r, &value))
		return false;
	request->hits_addend = (uint32_t)value;
	return true;
}

Pb__RateLimitRequest *wr_rls_read_plain(struct weir_str bytes, struct wr_rls_memory *memory)
{
	const uint8_t *first = (const uint8_t *)bytes.ptr;
	struct plain_reader r = {.at = first, .end = first + bytes.len};
	Pb__RateLimitRequest *request = wr_rls_alloc(memory, sizeof *request);
	uint32_t seen = 0;
	uint8_t tag;

	if (!request)
		return NULL;
	pb__rate_limit_request__init(request);
	r.items = count_parts(r, FIELD(2, LENGTH));
	request->descriptors = wr_rls_alloc_many(memory, r.items, sizeof(void *));
	if (!request->descriptors)
		return NULL;
	while (r.at < r.end)
		if (!read_tag(&r, &seen, FIELD(2, LENGTH), &tag) ||
		    !read_request_field(request, tag, &r, memory))
			return NULL;
	return request;
}
