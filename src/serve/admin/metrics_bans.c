/* Writes the metrics of the bans in force and of weir shield. Called by metrics.c. */
#include "base/assert.h"
#include "base/clock.h"
#include "serve/admin/metrics_families.h"
#include "table/ban.h"
#include "table/ban_order.h"

/* weir shield writes its state every few seconds. An older state belongs to a shield that was
 * killed. */
#define SHIELD_SILENT_S 30u

/* X(field, flag, text): the kinds of bans. Each ban has one kind, the first whose flag is set. */
#define BAN_KINDS(X)                                                                               \
	X(shadow, WR_BAN_SHADOW, "shadow")                                                         \
	X(shield, WR_BAN_BARE, "shield")                                                           \
	X(automatic, WR_BAN_AUTOMATIC, "automatic")                                                \
	X(operators, 0xff, "operator")

struct ban_kinds {
#define KIND_FIELD(field, flag, text) uint64_t field;
	BAN_KINDS(KIND_FIELD)
#undef KIND_FIELD
};

static int count_kind(void *context, const struct wr_ban *ban)
{
	struct ban_kinds *kinds = context;

#define COUNT_KIND(field, flag, text)                                                              \
	if (ban->flags & (flag) || (flag) == 0xff) {                                               \
		kinds->field++;                                                                    \
		return 0;                                                                          \
	}
	BAN_KINDS(COUNT_KIND)
#undef COUNT_KIND
	return 0;
}

static void write_kinds(struct wr_prom *prom, const struct ban_kinds *kinds)
{
	wr_prom_family(prom, &wr_metrics[WR_METRIC_bans_in_force]);
#define WRITE_KIND(field, flag, text)                                                              \
	wr_prom_number(prom, &(struct wr_prom_label){"kind", WR_STR(text)}, 1, kinds->field);
	BAN_KINDS(WRITE_KIND)
#undef WRITE_KIND
}

static void write_element(struct wr_prom *prom, const char *kind, uint64_t count)
{
	wr_prom_number(prom, &(struct wr_prom_label){"kind", wr_str(kind)}, 1, count);
}

static void write_shield(struct wr_prom *prom, const struct weir_table *table, uint64_t now_ns)
{
	struct wr_shield_state state;
	bool up;

	wr_shield_state_read(table, &state);
	up = state.pid && state.updated_s + SHIELD_SILENT_S >= now_ns / WR_SECOND_NS;
	wr_metrics_put(prom, WR_METRIC_shield_up, up);
	if (!up)
		return;
	wr_prom_family(prom, &wr_metrics[WR_METRIC_shield_elements]);
	write_element(prom, "ipv4", state.elements_v4);
	write_element(prom, "ipv6", state.elements_v6);
	write_element(prom, "prefix", state.prefixes);
	wr_metrics_put(prom, WR_METRIC_shield_packets, state.packets);
	wr_metrics_put(prom, WR_METRIC_shield_bytes, state.bytes);
	wr_metrics_put(prom, WR_METRIC_shield_skipped, state.skipped);
	wr_metrics_put(prom, WR_METRIC_shield_left_out, state.left_out);
	wr_metrics_put(prom, WR_METRIC_shield_failures, state.failures);
}

void wr_metrics_put_bans(struct wr_prom *prom, struct weir_table *table,
			 const struct weir_info *info, uint64_t now_ns)
{
	struct ban_kinds kinds = {0};

	wr_assert(table && info);
	wr_bans_each(table, wr_seconds(now_ns), count_kind, &kinds);
	write_kinds(prom, &kinds);
	wr_metrics_put(prom, WR_METRIC_bans_unlisted, info->ban_unlisted);
	write_shield(prom, table, now_ns);
}
