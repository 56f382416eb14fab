/* Fills in records: clients, header fields and request lines, as all formats have them. */
#include "lab/log/slot.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/str.h"
#include "lab/log/scan.h"

#define METHOD_MAX 32u

void wr_lab_slot_reset(struct wr_lab_slot *slot)
{
	struct wr_lab_record *record = &slot->record;

	/* Clears the record in two parts. For one large part, compilers use an instruction that is
	 * slow to start. */
	memset(record, 0, offsetof(struct wr_lab_record, method));
	memset(&record->method, 0, sizeof *record - offsetof(struct wr_lab_record, method));
	record->headers = slot->few;
	record->cost = 1;
	slot->whole = false;
	slot->late = false;
}

void wr_lab_slot_free(struct wr_lab_slot *slot)
{
	free(slot->many);
	slot->many = NULL;
}

/* ---- clients ---- */

/* Reads a number of an IPv4 address from its digits, which are bytes of 0 to 9. Sets *bad if it has
 * no digit, more than three, or a leading zero, or is above 255. */
static uint8_t octet(const uint8_t *digits, unsigned len, bool *bad)
{
	uint32_t word;
	unsigned value;

	memcpy(&word, digits, sizeof word);
	*bad |= len - 1 > 2 || (len > 1 && digits[0] == 0);
	word <<= 8 * ((4 - len) & 3);
	value = (word >> 8 & 0xff) * 100 + (word >> 16 & 0xff) * 10 + (word >> 24);
	*bad |= value > 255;
	return (uint8_t)value;
}

/* Reads "192.0.2.7". The text is part of a line. */
static bool read_v4(struct weir_str text, struct wr_address *address)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	uint32_t all, dots, numbers;
	__m128i bytes, values;
	uint8_t digits[16 + 4];
	unsigned start = 0;
	bool bad = false;

	if (text.len < 7 || text.len > 15)
		return false;
	all = (1u << text.len) - 1;
	bytes = wr_lab_load128(text.ptr);
	values = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
	numbers = (uint32_t)_mm_movemask_epi8(
		_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values));
	dots = wr_lab_match16(text.ptr, '.') & all;
	if ((dots | (numbers & all)) != all)
		return false;
	_mm_storeu_si128((__m128i *)(void *)digits, values);
	memset(digits + 16, 0, 4);
	dots |= 1u << text.len; /* the end of the text ends the last number */
	memcpy(address->bytes, mapped, sizeof mapped);
	for (unsigned i = 12; i < 16; i++) {
		unsigned end;

		if (dots == 0)
			return false;
		end = (unsigned)__builtin_ctz(dots);
		address->bytes[i] = octet(digits + start, end - start, &bad);
		dots &= dots - 1;
		start = end + 1;
	}
	return !bad && dots == 0;
}

/* Returns the address part of "10.0.0.1:80", "[::1]:80" and "[::1]". Returns other texts as they
 * are. */
static struct weir_str without_port(struct weir_str text)
{
	size_t colon, bracket;

	if (text.len && text.ptr[0] == '[') {
		bracket = wr_str_find(text, ']');
		return bracket < text.len ? (struct weir_str){text.ptr + 1, bracket - 1} : text;
	}
	colon = wr_str_find(text, ':');
	if (colon < text.len && !wr_str_has(wr_str_from(text, colon + 1), ':'))
		return wr_str_first(text, colon);
	return text;
}

/* Makes an address of fd00::/8 from the hash of a name. */
static struct wr_address stand_in_for(struct weir_str name)
{
	XXH128_hash_t hash = XXH3_128bits(name.ptr, name.len);
	struct wr_address address;

	memcpy(address.bytes, &hash, sizeof address.bytes);
	address.bytes[0] = 0xfd;
	return address;
}

/* Sets the client to an address, a name, or an address without its port. */
static void set_client(struct wr_lab_record *record, struct weir_str client)
{
	struct weir_str bare;

	record->client = client;
	if (wr_address_parse(client, &record->address) == 0)
		return;
	bare = without_port(client);
	if (bare.len < client.len && wr_address_parse(bare, &record->address) == 0) {
		record->client = bare;
		return;
	}
	record->address = stand_in_for(client);
	record->stand_in = true;
}

void wr_lab_slot_client(struct wr_lab_slot *slot, struct weir_str client,
			struct wr_lab_client *last)
{
	struct wr_lab_record *record = &slot->record;

	if (client.len == 0 || (client.len == 1 && client.ptr[0] == '-'))
		return;
	record->has_address = true;
	if (read_v4(client, &record->address)) {
		record->client = client;
		return;
	}
	if (last->len == client.len && memcmp(last->text, client.ptr, client.len) == 0) {
		record->client = client;
		record->address = last->address;
		record->stand_in = last->stand_in;
		return;
	}
	set_client(record, client);
	if (record->client.len == client.len && client.len <= sizeof last->text) {
		memcpy(last->text, client.ptr, client.len);
		last->len = (uint32_t)client.len;
		last->address = record->address;
		last->stand_in = record->stand_in;
	}
}

/* ---- header fields ---- */

/* Moves the header fields of the slot to the larger room. Returns false without memory. */
static bool use_many(struct wr_lab_slot *slot)
{
	if (!slot->many) {
		slot->many = malloc(WR_LAB_HEADERS_MAX * sizeof *slot->many);
		if (!slot->many)
			return false;
	}
	memcpy(slot->many, slot->few, sizeof slot->few);
	slot->record.headers = slot->many;
	return true;
}

void wr_lab_slot_header(struct wr_lab_slot *slot, struct weir_str name, struct weir_str value)
{
	struct wr_lab_record *record = &slot->record;
	struct weir_header *headers;

	if (name.len == 0 || value.len == 0 || (value.len == 1 && value.ptr[0] == '-'))
		return;
	if (record->header_count == WR_LAB_HEADERS_MAX ||
	    (record->header_count == WR_LAB_SLOT_HEADERS && !use_many(slot)))
		return;
	headers = record->header_count < WR_LAB_SLOT_HEADERS ? slot->few : slot->many;
	headers[record->header_count++] = (struct weir_header){name, value};
}

/* ---- request lines ---- */

static bool is_method_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/* Returns the length of the target in "/a HTTP/1.1". A target may contain blanks. */
static size_t target_len(struct weir_str text)
{
	if (text.len > 9 && memcmp(text.ptr + text.len - 9, " HTTP/", 6) == 0)
		return text.len - 9;
	for (size_t i = text.len; i-- > 0;)
		if (text.ptr[i] == ' ')
			return wr_str_begins(wr_str_from(text, i + 1), WR_STR("HTTP/")) ? i
											: text.len;
	return text.len;
}

void wr_lab_slot_request(struct wr_lab_slot *slot, struct weir_str line)
{
	struct weir_str target;
	size_t method = 0;

	while (method < line.len && method <= METHOD_MAX && is_method_char(line.ptr[method]))
		method++;
	if (method == 0 || method > METHOD_MAX || method + 1 >= line.len || line.ptr[method] != ' ')
		return;
	target = wr_str_from(line, method + 1);
	target.len = target_len(target);
	if (target.len == 0)
		return;
	slot->record.method = wr_str_first(line, method);
	slot->record.target = target;
}

/* Returns the character of an escape with one letter, or 0. */
static char escaped_char(char c)
{
	switch (c) {
	case '"':
	case '\\':
	case '\'':
		return c;
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case 'b':
		return '\b';
	case 'v':
		return '\v';
	case 'f':
		return '\f';
	default:
		return 0;
	}
}

size_t wr_lab_unescape(char *text, size_t len)
{
	size_t to = 0;

	for (size_t from = 0; from < len; to++) {
		if (text[from] == '\\' && len - from >= 4 && text[from + 1] == 'x' &&
		    wr_hex(text[from + 2]) >= 0 && wr_hex(text[from + 3]) >= 0) {
			text[to] = (char)(wr_hex(text[from + 2]) * 16 + wr_hex(text[from + 3]));
			from += 4;
		} else if (text[from] == '\\' && len - from >= 2 && escaped_char(text[from + 1])) {
			text[to] = escaped_char(text[from + 1]);
			from += 2;
		} else {
			text[to] = text[from++];
		}
	}
	return to;
}
