/* Reads the map `ban`: how many refusals of a key start a ban, and how long the ban is. */
#include "rules/read.h"

#include "base/duration.h"

#define NS_PER_S 1000000000ull
#define DAY_NS (86400 * NS_PER_S)

/* Each refusal of a key that is not banned takes 8 bytes of the table's memory for logs, so the log
 * of a key has at most 80 KB. A rule that needs more refusals than this needs a higher limit, not a
 * later ban. */
#define AFTER_MAX 10000u
#define WITHIN_MAX_NS DAY_NS
/* The product of the longest ban and the largest factor fits into 64 bits. */
#define FOR_MAX_NS (366 * DAY_NS)
#define GROW_MAX 100u

#define WITHIN_DEFAULT_NS (60 * NS_PER_S)
#define GROW_DEFAULT 2u
#define MAX_DEFAULT_NS DAY_NS

/* Gets a duration of whole seconds, because a ban in the table ends at a full second. */
static bool get_seconds(struct wr_load *load, const struct wr_fields *f, enum wr_rules_key_id key,
			uint64_t max_ns, uint64_t *ns)
{
	char most[WR_DURATION_TEXT];
	uint64_t given_ns;

	if (!wr_get_duration(load, f, key, &given_ns))
		return false;
	if (given_ns < NS_PER_S || given_ns > max_ns || given_ns % NS_PER_S) {
		wr_duration_text(max_ns, most);
		wr_rules_report(load, WR_D_bad_ban_duration, f->value[key],
				WR_ARGS(wr_keys[key].name, WR_STR("1s"), wr_str(most)));
		return false;
	}
	*ns = given_ns;
	return true;
}

/* Reads `for` and `max`. Without `max`, a ban lasts at most a day, or for the duration of the first
 * ban if that is longer. */
static void read_spans(struct wr_load *load, const struct wr_fields *f, struct wr_rules_ban *ban)
{
	char first[WR_DURATION_TEXT], most[WR_DURATION_TEXT];
	bool has_for = get_seconds(load, f, WR_KEY_FOR, FOR_MAX_NS, &ban->for_ns);

	if (!get_seconds(load, f, WR_KEY_MAX, FOR_MAX_NS, &ban->max_ns)) {
		ban->max_ns = ban->for_ns > MAX_DEFAULT_NS ? ban->for_ns : MAX_DEFAULT_NS;
		return;
	}
	if (!has_for || ban->max_ns >= ban->for_ns)
		return;
	wr_duration_text(ban->for_ns, first);
	wr_duration_text(ban->max_ns, most);
	wr_rules_report(load, WR_D_ban_max_below_for, f->value[WR_KEY_MAX],
			WR_ARGS(wr_str(most), wr_str(first)));
}

/* Sets the limit that counts refusals. The limit is checked when it gets its identity
 * (limit_id.c). */
static void set_refusals(struct wr_rules_ban *ban)
{
	if (ban->after < 2)
		return;
	ban->refusals = (struct weir_limit){
		.size = sizeof ban->refusals,
		.algorithm = WEIR_SLIDING_LOG,
		.limit = ban->after - 1,
		.period_ns = ban->within_ns,
	};
}

void wr_read_ban(struct wr_load *load, const struct wr_fields *f, struct wr_rules_limit *limit)
{
	const struct wr_yaml *value = f->value[WR_KEY_BAN];
	struct wr_rules_ban *ban;
	struct wr_fields fields;

	if (!value)
		return;
	if (limit->on_limit == WR_DEFER)
		wr_rules_report(load, WR_D_ban_and_defer, f->key[WR_KEY_BAN], NULL);
	if (!wr_fields_read(load, value, WR_IN_BAN, WR_STR("ban"), &fields))
		return;
	if ((!fields.value[WR_KEY_AFTER] || !fields.value[WR_KEY_FOR]) && !fields.misread)
		wr_rules_report(load, WR_D_ban_incomplete, value, NULL);
	ban = wr_load_alloc(load, &load->rules->arena, sizeof *ban);
	ban->after = 1;
	ban->grow = GROW_DEFAULT;
	ban->within_ns = WITHIN_DEFAULT_NS;
	ban->file = load->file->path;
	ban->line = f->key[WR_KEY_BAN]->line;
	ban->column = f->key[WR_KEY_BAN]->column;
	wr_get_number(load, &fields, WR_KEY_AFTER, 1, AFTER_MAX, &ban->after);
	get_seconds(load, &fields, WR_KEY_WITHIN, WITHIN_MAX_NS, &ban->within_ns);
	wr_get_number(load, &fields, WR_KEY_GROW, 1, GROW_MAX, &ban->grow);
	read_spans(load, &fields, ban);
	ban->shield = wr_get_flag(load, &fields, WR_KEY_SHIELD);
	set_refusals(ban);
	limit->ban = ban;
}
