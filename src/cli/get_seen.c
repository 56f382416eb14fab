/* The names that a list of URLs had so far: a hash table of their digests. */
#include <stdlib.h>

#include "base/blake.h"
#include "cli/get.h"

#define FIRST_SLOTS 1024u /* a power of two, as all later sizes */

static bool is_free(const struct get_digest *slot)
{
	return !slot->word[0] && !slot->word[1];
}

/* Returns the slot of the digest, or the free slot in which it belongs. */
static struct get_digest *find(struct get_digest *slots, size_t count, struct get_digest digest)
{
	size_t at = digest.word[0] & (count - 1);

	while (!is_free(&slots[at]) &&
	       (slots[at].word[0] != digest.word[0] || slots[at].word[1] != digest.word[1]))
		at = (at + 1) & (count - 1);
	return &slots[at];
}

/* Doubles the table. At least half of its slots stay free. */
static int grow(struct get_seen *seen)
{
	size_t slots = seen->slots ? 2 * seen->slots : FIRST_SLOTS;
	struct get_digest *digests = calloc(slots, sizeof *digests);

	if (!digests)
		return -1;
	for (size_t i = 0; i < seen->slots; i++)
		if (!is_free(&seen->digests[i]))
			*find(digests, slots, seen->digests[i]) = seen->digests[i];
	free(seen->digests);
	seen->digests = digests;
	seen->slots = slots;
	return 0;
}

int wr_cli_get_seen_add(struct get_seen *seen, const char *name)
{
	struct get_digest digest, *slot;
	uint8_t bytes[WR_BLAKE_BYTES];
	struct wr_blake blake;

	if (2 * (seen->used + 1) > seen->slots && grow(seen) < 0)
		return -1;
	wr_blake_begin(&blake);
	wr_blake_feed(&blake, name, strlen(name));
	wr_blake_end(&blake, bytes);
	memcpy(&digest, bytes, sizeof digest);
	slot = find(seen->digests, seen->slots, digest);
	if (!is_free(slot))
		return 1;
	*slot = digest;
	seen->used++;
	return 0;
}

void wr_cli_get_seen_free(struct get_seen *seen)
{
	free(seen->digests);
	*seen = (struct get_seen){0};
}
