/* Converts the head of a request (URI, fields, …: see record.h) to bytes and back, and makes
 * tickets. Called by both backends. */
#include "queue/record.h"

#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/str.h"

#define VERSION 1
#define LEN_BYTES 4u
/* An idempotency key that the queue makes consists of OWN_KEY_PREFIX and hexadecimal digits. The
 * digits are the first OWN_KEY_BYTES bytes of the ticket's hash. */
#define OWN_KEY_BYTES 16u
#define OWN_KEY_PREFIX "weir-"
#define OWN_KEY_TEXT (sizeof OWN_KEY_PREFIX - 1 + 2 * OWN_KEY_BYTES)

/* ---- tickets ---- */

void wr_ticket_hash(const uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES])
{
	SHA256(ticket, WR_TICKET_BYTES, hash);
}

bool wr_ticket_make(uint8_t ticket[WR_TICKET_BYTES], uint8_t hash[WR_TICKET_HASH_BYTES])
{
	if (RAND_bytes(ticket, WR_TICKET_BYTES) != 1)
		return false;
	wr_ticket_hash(ticket, hash);
	return true;
}

/* ---- writing ---- */

enum wr_queue_reason wr_queue_record_check(const struct wr_queue_request *r,
					   const struct wr_seals *seals)
{
	size_t bytes = 0;

	if (r->rule.len > WR_QUEUE_REQUEST_NAME_MAX || r->domain.len > WR_QUEUE_REQUEST_NAME_MAX ||
	    r->method.len > WR_QUEUE_REQUEST_METHOD_MAX || r->uri.len > WR_QUEUE_REQUEST_URI_MAX ||
	    r->idempotency_key.len > WR_QUEUE_REQUEST_NAME_MAX ||
	    r->descriptors.len > WR_QUEUE_REQUEST_DESCRIPTORS_MAX ||
	    r->body.len > WR_QUEUE_REQUEST_BODY_MAX || r->field_count > WR_QUEUE_REQUEST_FIELDS_MAX)
		return WR_QUEUE_TOO_LARGE;
	for (size_t i = 0; i < r->field_count; i++) {
		const struct wr_queue_request_field *field = &r->fields[i];

		if (field->name.len > WR_QUEUE_REQUEST_FIELD_BYTES_MAX ||
		    field->value.len > WR_QUEUE_REQUEST_FIELD_BYTES_MAX)
			return WR_QUEUE_TOO_LARGE;
		bytes += field->name.len + field->value.len;
		if (field->secret && !seals)
			return WR_QUEUE_NO_KEY;
	}
	return bytes <= WR_QUEUE_REQUEST_FIELD_BYTES_MAX ? WR_QUEUE_OK : WR_QUEUE_TOO_LARGE;
}

static size_t text_size(size_t len)
{
	return LEN_BYTES + len;
}

size_t wr_queue_record_size(const struct wr_queue_request *r)
{
	size_t size = 1 + text_size(r->domain.len) + text_size(r->method.len) +
		      text_size(r->uri.len) +
		      text_size(r->idempotency_key.len ? r->idempotency_key.len : OWN_KEY_TEXT) +
		      text_size(r->descriptors.len) + LEN_BYTES;

	wr_assert(r->fields || r->field_count == 0);
	for (size_t i = 0; i < r->field_count; i++)
		size += 1 + text_size(r->fields[i].name.len) +
			text_size(r->fields[i].value.len +
				  (r->fields[i].secret ? WR_SEAL_EXTRA : 0));
	return size;
}

static uint8_t *put_number(uint8_t *at, size_t number)
{
	for (unsigned i = 0; i < LEN_BYTES; i++)
		*at++ = (uint8_t)(number >> (8 * i));
	return at;
}

static uint8_t *put_text(uint8_t *at, struct weir_str text)
{
	at = put_number(at, text.len);
	if (text.len)
		memcpy(at, text.ptr, text.len);
	return at + text.len;
}

static uint8_t *put_idempotency(uint8_t *at, struct weir_str given, const uint8_t *hash)
{
	if (given.len)
		return put_text(at, given);
	at = put_number(at, OWN_KEY_TEXT);
	memcpy(at, OWN_KEY_PREFIX, sizeof OWN_KEY_PREFIX - 1);
	at += sizeof OWN_KEY_PREFIX - 1;
	wr_queue_write_hex(hash, OWN_KEY_BYTES, (char *)at);
	return at + 2 * (size_t)OWN_KEY_BYTES;
}

bool wr_queue_record_write(const struct wr_queue_request *r, const uint8_t *ticket_hash,
			   const struct wr_seals *seals, uint8_t *head)
{
	uint8_t *at = head;

	wr_assert(r->fields || r->field_count == 0);
	*at++ = VERSION;
	at = put_text(at, r->domain);
	at = put_text(at, r->method);
	at = put_text(at, r->uri);
	at = put_idempotency(at, r->idempotency_key, ticket_hash);
	at = put_text(at, r->descriptors);
	at = put_number(at, r->field_count);
	for (size_t i = 0; i < r->field_count; i++) {
		const struct wr_queue_request_field *field = &r->fields[i];

		*at++ = field->secret;
		at = put_text(at, field->name);
		if (!field->secret) {
			at = put_text(at, field->value);
			continue;
		}
		at = put_number(at, field->value.len + WR_SEAL_EXTRA);
		if (!wr_seal(seals, ticket_hash, field->name, field->value, at))
			return false;
		at += field->value.len + WR_SEAL_EXTRA;
	}
	return true;
}

/* ---- reading ---- */

/* Functions that read the bytes of a stored head. The bytes come from a disk or a server and may be
 * damaged. */
struct record_cursor {
	uint8_t *at, *end;
	bool bad;
};

static size_t get_number(struct record_cursor *c)
{
	size_t number = 0;

	if ((size_t)(c->end - c->at) < LEN_BYTES) {
		c->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < LEN_BYTES; i++)
		number |= (size_t)*c->at++ << (8 * i);
	return number;
}

static struct weir_str get_text(struct record_cursor *c)
{
	size_t len = get_number(c);
	struct weir_str text = {(const char *)c->at, len};

	if (c->bad || (size_t)(c->end - c->at) < len) {
		c->bad = true;
		return WR_STR("");
	}
	c->at += len;
	return text;
}

static void get_field(struct record_cursor *c, struct wr_queue_request_field *field,
		      const struct wr_queue_request *row, const struct wr_seals *seals)
{
	struct weir_str value;

	if (c->at == c->end) {
		c->bad = true;
		return;
	}
	field->secret = *c->at++ != 0;
	field->name = get_text(c);
	value = get_text(c);
	field->value = value;
	if (c->bad || !field->secret)
		return;
	field->locked = !seals || !wr_unseal(seals, row->ticket_hash, field->name,
					     c->at - value.len, value.len, &field->value);
	if (field->locked)
		field->value = WR_STR("");
}

/* Returns the maximum number of fields that a head of this length can contain. */
static size_t most_fields(size_t len)
{
	size_t most = len / (1 + 2 * LEN_BYTES);

	return most < WR_QUEUE_REQUEST_FIELDS_MAX ? most : WR_QUEUE_REQUEST_FIELDS_MAX;
}

/* Parses a head. The array `fields` has room for most_fields() elements. Returns false if the head
 * is damaged. */
static bool get_head(struct record_cursor *c, struct wr_queue_request *row,
		     struct wr_queue_request_field *fields, const struct wr_seals *seals)
{
	size_t most = most_fields((size_t)(c->end - c->at));

	if (c->at == c->end || *c->at++ != VERSION)
		return false;
	row->domain = get_text(c);
	row->method = get_text(c);
	row->uri = get_text(c);
	row->idempotency_key = get_text(c);
	row->descriptors = get_text(c);
	row->field_count = get_number(c);
	if (c->bad || row->field_count > most)
		return false;
	for (size_t i = 0; i < row->field_count; i++)
		get_field(c, &fields[i], row, seals);
	row->fields = fields;
	return !c->bad && c->at == c->end;
}

static struct weir_str copy_row_text(char **at, struct weir_str text)
{
	struct weir_str copy = {*at, text.len};

	if (text.len)
		memcpy(*at, text.ptr, text.len);
	*at += text.len;
	return copy;
}

struct wr_queue_request *wr_queue_record_read(const struct wr_queue_record *record,
					      const struct wr_seals *seals)
{
	size_t field_bytes = most_fields(record->head.len) * sizeof(struct wr_queue_request_field);
	size_t text_bytes =
		record->rule.len + record->reason.len + record->head.len + record->body.len;
	char *memory = calloc(1, sizeof(struct wr_queue_request) + field_bytes + text_bytes);
	struct wr_queue_request *row = (struct wr_queue_request *)memory;
	struct record_cursor head;
	char *at;

	if (!memory)
		return NULL;
	at = memory + sizeof *row + field_bytes;
	*row = record->row;
	row->memory = memory;
	row->next = NULL;
	row->rule = copy_row_text(&at, record->rule);
	row->reason = copy_row_text(&at, record->reason);
	row->body = copy_row_text(&at, record->body);
	if (record->head.len == 0)
		return row;
	head.at = (uint8_t *)at;
	copy_row_text(&at, record->head);
	head.end = (uint8_t *)at;
	head.bad = false;
	if (!get_head(&head, row, (struct wr_queue_request_field *)(memory + sizeof *row),
		      record->open ? seals : NULL)) {
		row->domain = row->method = row->uri = row->idempotency_key = row->descriptors =
			(struct weir_str){"", 0};
		row->fields = NULL;
		row->field_count = 0;
		row->reason = WR_STR("the stored data of this request is damaged");
	}
	return row;
}
