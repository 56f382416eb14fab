/* Writes and reads the record of an ask: its descriptors as bytes. The deliverer of a deferred
 * request adds these descriptors to a new ask, maybe in another process. A record contains
 *
 *   the version (8 bits), then for each descriptor:
 *     the cost (64 bits)
 *     the number of the entry of `requests:` that settles the request (64 bits), or 0
 *     the number of entries (8 bits), then for each entry:
 *       key, value and source, each as its length (32 bits) and its bytes
 *
 * Numbers are little endian. There is no padding. Version 1 has no numbers of entries of
 * `requests:`; queues can still have such records. */
#include <string.h>

#include "limiter/defer.h"
#include "rules/http.h"

#define VERSION 2u
#define VERSION_PLAIN 1u /* without numbers of entries of `requests:` */

static void append_to_record(struct weir_ask *ask, const void *bytes, size_t len)
{
	if (len > ask->record_cap - ask->record_len) {
		ask->unrecorded = true;
		return;
	}
	if (len)
		memcpy(ask->record + ask->record_len, bytes, len);
	ask->record_len += len;
}

static void append_text(struct weir_ask *ask, struct weir_str text)
{
	uint32_t len = (uint32_t)text.len;

	if (text.len > ask->record_cap) {
		ask->unrecorded = true;
		return;
	}
	append_to_record(ask, &len, sizeof len);
	append_to_record(ask, text.ptr, text.len);
}

int weir_ask_record(struct weir_ask *ask, void *memory, size_t cap)
{
	uint8_t version = VERSION;

	if (!wr_ask_ok(ask) || !memory || ask->state != WR_ASK_OPEN || ask->descriptor_count)
		return WEIR_EINVAL;
	ask->record = memory;
	ask->record_cap = cap;
	ask->record_len = 0;
	ask->unrecorded = false;
	append_to_record(ask, &version, sizeof version);
	return 0;
}

void wr_ask_record_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count,
			      const struct weir_limit *override, int64_t hits)
{
	uint64_t request = ask->request ? wr_rules_request_id(ask->request) : 0;
	uint8_t number = (uint8_t)count;

	if (override) {
		ask->unrecorded = true;
		return;
	}
	if (count > WR_DEPTH_MAX) /* no rule has this many levels, so no rule can match */
		return;
	append_to_record(ask, &hits, sizeof hits);
	append_to_record(ask, &request, sizeof request);
	append_to_record(ask, &number, sizeof number);
	for (size_t i = 0; i < count; i++) {
		append_text(ask, entries[i].key);
		append_text(ask, entries[i].value);
		append_text(ask, entries[i].source);
	}
}

struct weir_str weir_ask_recorded(const struct weir_ask *ask)
{
	if (!wr_ask_ok(ask) || !ask->record || !ask->defer_need || ask->unrecorded)
		return (struct weir_str){"", 0};
	return (struct weir_str){(const char *)ask->record, ask->record_len};
}

/* ---- reading: the bytes come from a disk or from another node ---- */

struct record_reader {
	const uint8_t *at;
	size_t left;
	uint8_t version;
};

/* One descriptor of a record. */
struct recorded {
	struct weir_entry entries[WR_DEPTH_MAX];
	uint8_t count;
	int64_t hits;
	uint64_t request; /* number of the entry of `requests:`, or 0 */
};

static bool read_bytes(struct record_reader *in, void *bytes, size_t len)
{
	if (len > in->left)
		return false;
	memcpy(bytes, in->at, len);
	in->at += len;
	in->left -= len;
	return true;
}

static bool read_record_text(struct record_reader *in, struct weir_str *text)
{
	uint32_t len;

	if (!read_bytes(in, &len, sizeof len) || len > in->left)
		return false;
	*text = (struct weir_str){(const char *)in->at, len};
	in->at += len;
	in->left -= len;
	return true;
}

static bool read_descriptor(struct record_reader *in, struct recorded *one)
{
	one->request = 0;
	if (!read_bytes(in, &one->hits, sizeof one->hits) ||
	    (in->version != VERSION_PLAIN && !read_bytes(in, &one->request, sizeof one->request)) ||
	    !read_bytes(in, &one->count, sizeof one->count) || one->count > WR_DEPTH_MAX ||
	    one->hits == WEIR_HITS_UNSET)
		return false;
	for (uint8_t i = 0; i < one->count; i++)
		if (!read_record_text(in, &one->entries[i].key) ||
		    !read_record_text(in, &one->entries[i].value) ||
		    !read_record_text(in, &one->entries[i].source))
			return false;
	return true;
}

static bool read_version(struct record_reader *in)
{
	return read_bytes(in, &in->version, sizeof in->version) &&
	       (in->version == VERSION || in->version == VERSION_PLAIN);
}

static bool is_record(struct record_reader in)
{
	struct recorded one;

	if (!read_version(&in))
		return false;
	while (in.left)
		if (!read_descriptor(&in, &one))
			return false;
	return true;
}

/* Returns whether the recorded units can be those of a body of unknown length. The deliverer knows
 * the length, and settles the request with it. */
static bool has_late_length(const struct wr_rules_request *request)
{
	return request && request->cost && request->cost->arrival.from == WR_COST_REQUEST_BYTES;
}

/* Adds a recorded descriptor. If its entry of `requests:` still exists, the entry settles the
 * request. */
static int add_recorded(struct weir_ask *ask, const struct recorded *one)
{
	uint8_t at = ask->descriptor_count;
	int rc;

	ask->request = ask->domain && one->request
			       ? wr_rules_request_find(ask->domain, one->request)
			       : NULL;
	rc = weir_ask_add(ask, one->entries, one->count, NULL, one->hits);
	if (rc == 0 && ask->descriptor_count > at && has_late_length(ask->request))
		ask->descriptors[at].cost_note = WR_COST_LENGTH_LATER;
	ask->request = NULL;
	return rc;
}

int weir_ask_replay(struct weir_ask *ask, const void *bytes, size_t len)
{
	struct record_reader in = {bytes, len, 0};
	struct recorded one;
	int rc = 0;

	if (!wr_ask_ok(ask) || !bytes || ask->state != WR_ASK_OPEN)
		return WEIR_EINVAL;
	if (!is_record(in))
		return WEIR_EFORMAT;
	read_version(&in);
	while (in.left && rc == 0)
		rc = read_descriptor(&in, &one) ? add_recorded(ask, &one) : WEIR_EFORMAT;
	return rc;
}
