/* What operators did, when, and who they were: the last ones, in the memory of this process. The
 * log has all of them. */
#include "serve/admin/changes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "serve/admin/admin.h"
#include "serve/service.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define KEPT 512u
#define WHAT_BYTES 320u

struct change {
	uint64_t at_ns;
	uint64_t key; /* 0: not about a key */
	char who[WR_ADMIN_WHO];
	char what[WHAT_BYTES];
};

struct wr_changes {
	pthread_mutex_t lock; /* of all below */
	uint64_t count;       /* ever noted; the last KEPT are here */
	struct change items[KEPT];
};

struct wr_changes *wr_changes_new(void)
{
	struct wr_changes *changes = calloc(1, sizeof *changes);

	if (changes)
		pthread_mutex_init(&changes->lock, NULL);
	return changes;
}

void wr_changes_free(struct wr_changes *changes)
{
	if (changes)
		pthread_mutex_destroy(&changes->lock);
	free(changes);
}

void wr_changes_note(struct wr_changes *changes, uint64_t now_ns, uint64_t key, const char *who,
		     const char *what)
{
	struct change *change;

	if (!changes)
		return;
	pthread_mutex_lock(&changes->lock);
	change = &changes->items[changes->count++ % KEPT];
	change->at_ns = now_ns;
	change->key = key;
	snprintf(change->who, sizeof change->who, "%s", who);
	snprintf(change->what, sizeof change->what, "%s", what);
	pthread_mutex_unlock(&changes->lock);
}

/* Lengths go in too: no two keys are told apart by where one entry ends alone. */
uint64_t wr_admin_key_number(const struct weir_entry *entries, size_t count, struct weir_str domain)
{
	uint64_t number = XXH3_64bits_withSeed(domain.ptr, domain.len, domain.len);

	for (size_t i = 0; i < count; i++) {
		number = XXH3_64bits_withSeed(entries[i].key.ptr, entries[i].key.len,
					      number + entries[i].key.len);
		number = XXH3_64bits_withSeed(entries[i].value.ptr, entries[i].value.len,
					      number + entries[i].value.len);
	}
	return number ? number : 1;
}

static void put_change(struct wr_text *out, const struct change *change)
{
	PUT(out, "{\"at\":");
	wr_json_put_seconds(out, change->at_ns);
	PUT(out, ",\"who\":");
	wr_json_put_bytes(out, wr_str(change->who));
	PUT(out, ",\"what\":");
	wr_json_put_bytes(out, wr_str(change->what));
	PUT(out, "}");
}

void wr_changes_write(struct wr_changes *changes, uint64_t key, struct wr_text *out)
{
	bool more = false;

	PUT(out, "{\"changes\":[");
	if (changes) {
		pthread_mutex_lock(&changes->lock);
		for (uint64_t i = 0; i < KEPT && i < changes->count; i++) {
			const struct change *change =
				&changes->items[(changes->count - 1 - i) % KEPT];

			if (key && change->key != key)
				continue;
			if (more)
				wr_text_char(out, ',');
			more = true;
			put_change(out, change);
		}
		pthread_mutex_unlock(&changes->lock);
	}
	PUT(out, "]}\n");
}

static void write_all(struct wr_text *out, void *context)
{
	wr_changes_write(((struct wr_service *)context)->changes, 0, out);
}

void wr_admin_changes(struct wr_http_request *request)
{
	wr_admin_reply(request, 200, "application/json", write_all,
		       wr_loop_service(request->server->loop));
}
