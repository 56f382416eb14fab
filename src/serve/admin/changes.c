/* Keeps a list of the latest changes that operators made through the admin API, each with its time
 * and its client. The list is in the memory of this process and is bounded; the log has all
 * changes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/hash.h"
#include "serve/admin/admin.h"
#include "serve/service.h"

#define CHANGES_MAX 512u
#define WHAT_BYTES 320u

struct admin_change {
	uint64_t at_ns;
	uint64_t key; /* 0: the change does not concern a key */
	char who[WR_ADMIN_WHO];
	char what[WHAT_BYTES];
};

struct wr_changes {
	pthread_mutex_t lock; /* protects the fields below */
	uint64_t count;       /* number of changes since the start */
	struct admin_change
		items[CHANGES_MAX]; /* the latest changes; change number n is at n % CHANGES_MAX */
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
	struct admin_change *change;

	wr_assert(who && what);
	if (!changes)
		return;
	pthread_mutex_lock(&changes->lock);
	change = &changes->items[changes->count++ % CHANGES_MAX];
	change->at_ns = now_ns;
	change->key = key;
	snprintf(change->who, sizeof change->who, "%s", who);
	snprintf(change->what, sizeof change->what, "%s", what);
	pthread_mutex_unlock(&changes->lock);
}

/* Hashes the lengths too, so that ("ab", "c") and ("a", "bc") differ. */
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

void wr_changes_write(struct wr_changes *changes, uint64_t key, struct wr_json_out *json)
{
	wr_json_object(json);
	wr_json_key(json, "changes");
	wr_json_array(json);
	if (changes)
		pthread_mutex_lock(&changes->lock);
	for (uint64_t i = 0; changes && i < CHANGES_MAX && i < changes->count; i++) {
		const struct admin_change *change =
			&changes->items[(changes->count - 1 - i) % CHANGES_MAX];

		if (key && change->key != key)
			continue;
		wr_json_object(json);
		wr_json_member_seconds(json, "at", change->at_ns);
		wr_json_member_bytes(json, "who", wr_str(change->who));
		wr_json_member_bytes(json, "what", wr_str(change->what));
		wr_json_end_object(json);
	}
	if (changes)
		pthread_mutex_unlock(&changes->lock);
	wr_json_end_array(json);
	wr_json_end_object(json);
}

static void write_all_changes(struct wr_json_out *json, void *context)
{
	wr_changes_write(context, 0, json);
}

void wr_admin_changes(struct wr_serve_http_request *request)
{
	wr_admin_reply(request, 200, write_all_changes,
		       wr_loop_service(request->server->loop)->changes);
}
