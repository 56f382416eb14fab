/* Draws samples of decisions for the top keys. Called by weir_ask_add and by the statistics. */
#include "limiter/sample.h"

#include <string.h>

/* The text of a key is copied for at least one request in 2^4, even if fewer requests are sampled.
 * The reason is that refusals are sampled after the verdict, when the text is no longer
 * available. */
#define TEXT_SHIFT 4u

_Static_assert(WEIR_DESCRIPTORS_MAX * sizeof(struct wr_stats_key_text) <= WR_ASK_ENTRIES_AT,
	       "a text for each descriptor");
_Static_assert(_Alignof(struct wr_stats_key_text) == 1, "anywhere in the ask's text");

static struct wr_stats_key_text *text_of(const struct weir_ask *ask, size_t descriptor)
{
	return (struct wr_stats_key_text *)ask->text + descriptor;
}

static void append_value(struct wr_stats_key_text *text, const char *bytes, size_t len)
{
	size_t room = WEIR_TOP_TEXT - text->len;

	if (len > room) {
		text->kind = WEIR_TOP_CUT;
		len = room;
	}
	if (len)
		memcpy(text->bytes + text->len, bytes, len);
	text->len = (uint8_t)(text->len + len);
}

/* Writes the values that come from the client and are part of the key. Omits a value that the rule
 * itself contains, and a value that shares one counter with all values of a pattern
 * (`share_threshold`). */
static void write_text(const struct wr_node *node, const struct weir_entry *entries, size_t count,
		       struct wr_stats_key_text *text)
{
	static const char between = WEIR_TOP_BETWEEN;
	const struct wr_node *path[WR_DEPTH_MAX] = {NULL};
	bool any = false;

	text->kind = WEIR_TOP_WHOLE;
	text->len = 0;
	for (; node && node->depth; node = node->parent)
		path[node->depth - 1] = node;
	for (size_t i = 0; i < count; i++) {
		const struct wr_node *level = i < WR_DEPTH_MAX ? path[i] : NULL;

		if (level && (level->kind == WR_NODE_EXACT || level->flags & WR_SHARE))
			continue;
		if (any)
			append_value(text, &between, 1);
		append_value(text, entries[i].value.ptr, entries[i].value.len);
		any = true;
	}
}

/* Returns true with probability 1 / 2^shift. */
static bool is_drawn(uint32_t random, unsigned shift)
{
	return (random & ((1u << shift) - 1)) == 0;
}

void wr_ask_sample(struct weir_ask *ask, struct wr_ask_descriptor *descriptor,
		   const struct weir_entry *entries, size_t count)
{
	struct weir_engine *engine = ask->engine;
	const uint32_t *tracks = engine->stats.map.history.track;
	bool wanted = false;
	uint32_t random;

	if (engine->keys == WEIR_KEYS_HIDDEN || engine->uncounted || !engine->stats.usable)
		return;
	random = wr_lane_random(wr_lane_mine(&engine->stats));
	for (uint8_t i = 0; i < descriptor->need_count; i++) {
		struct wr_ask_need *need = &ask->needs[descriptor->first_need + i];
		/* Acquire: paired with the store in give_series() of stats/tick.c. A thread that
		 * sees a new track also sees its new series. */
		uint32_t track = __atomic_load_n(&tracks[need->slot], __ATOMIC_ACQUIRE);
		unsigned shift = wr_track_shift(track, WEIR_TOP_HOT);

		need->track = track;
		need->looked_at = is_drawn(random, shift);
		wanted |= track && is_drawn(random, shift < TEXT_SHIFT ? shift : TEXT_SHIFT);
	}
	if (!wanted || engine->keys != WEIR_KEYS_TEXT)
		return;
	write_text(descriptor->node, entries, count, text_of(ask, ask->descriptor_count));
	descriptor->has_text = true;
}

void wr_ask_need_count_key(const struct weir_ask *ask, struct wr_lane *lane,
			   const struct wr_ask_need *need, bool over)
{
	const struct wr_history_map *history = &ask->engine->stats.map.history;
	uint32_t series = wr_track_series(need->track);
	unsigned hot = wr_track_shift(need->track, WEIR_TOP_HOT);
	unsigned refused = wr_track_shift(need->track, WEIR_TOP_REFUSED);
	bool as_refused = over && is_drawn(wr_lane_random(lane), refused);
	const struct wr_stats_key_text *text = NULL;
	struct wr_top *top;

	if (!need->looked_at && !as_refused)
		return;
	/* While the request waited for the central store, the rule's series (stats/history.h) may
	 * have been given to another rule. Then the key is not counted. */
	if (series == 0 || series >= history->series_count ||
	    wr_track_series(__atomic_load_n(&history->track[need->slot], __ATOMIC_RELAXED)) !=
		    series)
		return;
	top = &history->tops[series - 1];
	if (ask->descriptors[need->descriptor].has_text)
		text = text_of(ask, need->descriptor);
	if (need->looked_at)
		wr_top_add(top, WEIR_TOP_HOT, need->need.key.tag, 1u << hot, text);
	if (as_refused)
		wr_top_add(top, WEIR_TOP_REFUSED, need->need.key.tag, 1u << refused, text);
}
