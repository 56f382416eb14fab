/* Identifies entries of `requests:` across reloads, so that a deferred request can be settled by the
 * entry that made its descriptors. */
#include "rules/requests.h"

#include "base/hash.h"
#include "base/str.h"

static void feed_text(XXH3_state_t *state, struct weir_str text)
{
	uint64_t len = text.len;

	XXH3_64bits_update(state, &len, sizeof len);
	XXH3_64bits_update(state, text.ptr, text.len);
}

static void feed_texts(XXH3_state_t *state, struct wr_texts texts)
{
	XXH3_64bits_update(state, &texts.count, sizeof texts.count);
	for (uint32_t i = 0; i < texts.count; i++)
		feed_text(state, texts.items[i]);
}

uint64_t wr_rules_request_id(const struct wr_rules_request *request)
{
	XXH3_state_t state;
	uint64_t id;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset(&state);
	feed_texts(&state, request->methods);
	feed_texts(&state, request->hosts);
	for (uint32_t i = 0; i < request->path_count; i++)
		feed_text(&state, request->paths[i].text);
	for (uint32_t i = 0; i < request->part_count; i++) {
		feed_text(&state, request->parts[i].key);
		feed_text(&state, request->parts[i].value);
		for (uint32_t j = 0; j < request->parts[i].source_count; j++)
			feed_text(&state, request->parts[i].sources[j].label);
	}
	id = XXH3_64bits_digest(&state);
	return id ? id : 1;
}

const struct wr_rules_request *wr_rules_request_find(const struct wr_node *domain, uint64_t id)
{
	const struct wr_rules_requests *requests = domain->more->requests;

	for (const struct wr_rules_request *request = requests ? requests->first : NULL; request;
	     request = request->next)
		if ((request->cost || request->count) && wr_rules_request_id(request) == id)
			return request;
	return NULL;
}
