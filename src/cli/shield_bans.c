/* weir shield add, release, flush and list: reads and writes bans in the table. */
#include "cli/shield.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/str.h"
#include "shield/lists.h"
#include "shield/suspend.h"
#include "table/ban.h"
#include "table/override.h"

#define SILENT_S 10 /* a shield without a report for this long was killed or hangs */

static uint32_t now_s(void)
{
	return (uint32_t)(wr_clock_wall_ns() / WR_SECOND_NS);
}

static int open_table(const struct wr_cli_table_choice *choice, struct weir_table **table)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = choice->name,
				 .dir = choice->dir};
	struct weir_error error;

	return weir_open(&opts, table, &error) < 0 ? wr_cli_fail("shield", &error, WR_EXIT_NO) : 0;
}

/* ---- add, release, flush ---- */

/* Fills in family, address and prefix of a bare ban. Returns 0 or the exit code of a usage
 * error. */
static int read_address(const char *text, struct wr_ban *ban)
{
	struct wr_address_range range;
	unsigned bits;

	*ban = (struct wr_ban){.flags = WR_BAN_BARE | WR_BAN_SHIELD};
	switch (wr_address_prefix_parse(wr_str(text), &range, &bits)) {
	case WR_ADDRESS_PREFIX_OK:
		break;
	case WR_ADDRESS_PREFIX_HOST_BITS:
		return wr_cli_usage("shield", "'%s' has bits behind its prefix; set them to 0",
				    text);
	case WR_ADDRESS_PREFIX_BAD:
		return wr_cli_usage(
			"shield", "'%s' is not an address or a prefix such as 192.0.2.0/24", text);
	}
	if (bits == 0)
		return wr_cli_usage("shield", "'%s' is every address", text);
	wr_ban_set_address(ban, &range.low, bits);
	return 0;
}

/* Reads the value of --for. Returns 0 or the exit code of a usage error. */
static int read_end(const char *span, uint32_t now, uint32_t *until_s)
{
	uint64_t ns, seconds;

	*until_s = WR_FOR_GOOD;
	if (strcmp(span, "ever") == 0)
		return 0;
	if (wr_duration_parse(wr_str(span), &ns) < 0 || ns == 0)
		return wr_cli_usage("shield", "--for '%s' is not a time such as 15m, 7d or ever",
				    span);
	seconds = ns / WR_SECOND_NS + (ns % WR_SECOND_NS != 0);
	if (seconds < WR_FOR_GOOD - now)
		*until_s = now + (uint32_t)seconds;
	return 0;
}

static struct wr_key key_of(const struct weir_table *table, const struct wr_ban *ban)
{
	return wr_ban_bare_key(table, ban->address, ban->family, ban->prefix_bits);
}

/* Prints a note if no shield runs, because the change then has no effect yet. */
static void note_missing_shield(const struct weir_table *table)
{
	struct wr_shield_state state;

	wr_shield_state_read(table, &state);
	if (state.pid == 0)
		puts("no shield runs on this table: the bans take effect when weir shield starts");
}

static int count_one(void *context, const struct wr_ban *ban)
{
	(void)ban;
	++*(unsigned *)context;
	return 0;
}

static int report_full(const struct weir_table *table)
{
	unsigned count = 0;

	wr_bans_each(table, now_s(), count_one, &count);
	fprintf(stderr,
		"weir shield: the list of bans is full: it has %u; release some, or enlarge the "
		"table with weir table resize\n",
		count);
	return WR_EXIT_NO;
}

int wr_cli_shield_add(const struct wr_cli_table_choice *choice, const char *address,
		      const char *span)
{
	struct weir_table *table;
	struct wr_ban ban;
	uint32_t now = now_s(), until_s;
	int code = read_address(address, &ban);

	if (code == 0)
		code = read_end(span, now, &until_s);
	if (code == 0)
		code = open_table(choice, &table);
	if (code)
		return code;
	ban.key = key_of(table, &ban);
	ban.since_s = now;
	ban.until_s = until_s;
	if (wr_ban_write(table, &ban, now)) {
		printf("added %s\n", address);
		note_missing_shield(table);
	} else {
		code = report_full(table);
	}
	weir_close(table);
	return code;
}

int wr_cli_shield_release(const struct wr_cli_table_choice *choice, const char *address)
{
	struct weir_table *table;
	struct wr_ban ban, found;
	int code = read_address(address, &ban);

	if (code == 0)
		code = open_table(choice, &table);
	if (code)
		return code;
	ban.key = key_of(table, &ban);
	if (wr_ban_read(table, ban.key, now_s(), &found)) {
		wr_ban_forget(table, ban.key);
		printf("released %s\n", address);
	} else {
		fprintf(stderr,
			"weir shield: no weir shield add has banned %s; weir ban release ends bans "
			"of rules\n",
			address);
		code = WR_EXIT_NO;
	}
	weir_close(table);
	return code;
}

/* The bans of a table, copied so that the table can change meanwhile. */
struct bans {
	struct wr_ban *items;
	size_t count, room;
	bool out_of_memory;
	bool bare_only;
};

static int collect(void *context, const struct wr_ban *ban)
{
	struct bans *bans = context;

	if (!(ban->flags & WR_BAN_SHIELD) || ban->flags & WR_BAN_SHADOW || ban->family == 0 ||
	    (bans->bare_only && !(ban->flags & WR_BAN_BARE)))
		return 0;
	if (bans->count == bans->room) {
		size_t room = bans->room ? bans->room * 2 : 256;
		struct wr_ban *items = reallocarray(bans->items, room, sizeof *items);

		bans->out_of_memory = !items;
		if (!items)
			return 1;
		bans->items = items;
		bans->room = room;
	}
	bans->items[bans->count++] = *ban;
	return 0;
}

int wr_cli_shield_flush(const struct wr_cli_table_choice *choice)
{
	struct bans bans = {.bare_only = true};
	struct weir_table *table;
	int code = open_table(choice, &table);

	if (code)
		return code;
	wr_bans_each(table, now_s(), collect, &bans);
	for (size_t i = 0; i < bans.count; i++)
		wr_ban_forget(table, bans.items[i].key);
	printf("released %zu\n", bans.count);
	free(bans.items);
	weir_close(table);
	return WR_EXIT_YES;
}

/* ---- list ---- */

/* The bans that end last come first. */
static int compare_ends(const void *a, const void *b)
{
	const struct wr_ban *x = a, *y = b;

	if (x->until_s != y->until_s)
		return x->until_s > y->until_s ? -1 : 1;
	return memcmp(x->address, y->address, sizeof x->address);
}

static void address_text(const struct wr_ban *ban, char text[WR_ADDRESS_TEXT])
{
	struct wr_address address = wr_address_from(ban->address, ban->family == 4 ? 4 : 16);
	bool whole = ban->prefix_bits >= (ban->family == 4 ? 32 : 128);

	text[wr_address_text(&address, whole ? WR_ADDRESS_WHOLE : ban->prefix_bits, text)] = 0;
}

static const char *origin_of(const struct wr_ban *ban)
{
	if (ban->flags & WR_BAN_BARE)
		return "weir shield add";
	return ban->flags & WR_BAN_AUTOMATIC ? "rule" : "operator";
}

/* Returns the reason for which a shield skips the ban, or "". The shield reads the same rules if it
 * has the same --rules. Protected addresses are not known here. */
static const char *skip_of(const struct wr_ban *ban, const struct wr_suspend *suspend)
{
	return wr_suspend_reason(wr_suspend_find(suspend, ban));
}

static json_t *ban_json(const struct wr_ban *ban, const char *skip)
{
	char text[WR_ADDRESS_TEXT];
	json_t *until = ban->until_s == WR_FOR_GOOD ? json_null() : json_integer(ban->until_s);

	address_text(ban, text);
	return json_pack("{s:s, s:o, s:I, s:s, s:o}", "address", text, "until", until, "since",
			 (json_int_t)ban->since_s, "origin", origin_of(ban), "skipped",
			 skip[0] ? json_string(skip) : json_null());
}

static json_t *list_json(const struct bans *bans, const struct wr_suspend *suspend,
			 const struct wr_shield_state *state)
{
	json_t *shield = json_object(), *list = json_array();

#define STATE_FIELD(field, meaning)                                                                \
	json_object_set_new(shield, #field, json_integer((json_int_t)state->field));
	WR_SHIELD_FIELDS(STATE_FIELD)
#undef STATE_FIELD
	for (size_t i = 0; i < bans->count; i++)
		json_array_append_new(list,
				      ban_json(&bans->items[i], skip_of(&bans->items[i], suspend)));
	return json_pack("{s:o, s:o}", "shield", shield, "bans", list);
}

/* Writes a number and what it counts. */
static void print_count(uint64_t count, const char *one, const char *many)
{
	printf("%llu %s", (unsigned long long)count, count == 1 ? one : many);
}

static void print_carried(const struct wr_shield_state *state)
{
	printf("carried   ");
	print_count(state->elements_v4, "IPv4 address, ", "IPv4 addresses, ");
	print_count(state->elements_v6, "IPv6 network, ", "IPv6 networks, ");
	print_count(state->prefixes, "prefix\n", "prefixes\n");
	printf("dropped   ");
	print_count(state->packets, "packet, ", "packets, ");
	print_count(state->bytes, "byte\n", "bytes\n");
	printf("skipped   ");
	print_count(state->skipped, "ban: a protected address, or a suspended rule\n",
		    "bans: protected addresses, or suspended rules\n");
	printf("left out  %llu without room; ", (unsigned long long)state->left_out);
	print_count(state->failures, "failure\n", "failures\n");
}

static void print_state(const struct wr_shield_state *state)
{
	if (state->pid == 0)
		puts("no shield runs on this table");
	else if (state->updated_s + SILENT_S < now_s())
		printf("shield    process %llu was killed or hangs: no report since %llu s\n",
		       (unsigned long long)state->pid,
		       (unsigned long long)(now_s() - state->updated_s));
	else
		printf("shield    process %llu\n", (unsigned long long)state->pid);
	print_carried(state);
}

static void print_bans(const struct bans *bans, const struct wr_suspend *suspend)
{
	for (size_t i = 0; i < bans->count; i++) {
		const struct wr_ban *ban = &bans->items[i];
		const char *skip = skip_of(ban, suspend);
		char address[WR_ADDRESS_TEXT], until[32] = "ever";
		time_t at = ban->until_s;
		struct tm local;

		address_text(ban, address);
		if (ban->until_s != WR_FOR_GOOD) {
			localtime_r(&at, &local);
			strftime(until, sizeof until, "%F %T", &local);
		}
		printf("%-43s until %-19s  %s%s%s\n", address, until, origin_of(ban),
		       skip[0] ? ", skipped: " : "", skip);
	}
}

/* Loads the rules of --rules, if there are any. Returns 0 or an exit code. */
static int load_rules(const char *path, struct weir_rules **rules)
{
	struct weir_error error;

	*rules = NULL;
	return path && wr_nft_load_rules(path, rules, &error) < 0
		       ? wr_cli_fail("shield", &error, WR_EXIT_NO)
		       : 0;
}

/* Prints the list of an open table. Returns an exit code. */
static int print_list(struct weir_table *table, const struct weir_rules *rules, bool json)
{
	struct wr_shield_state state;
	struct wr_suspend suspend;
	struct bans bans = {0};
	int code = WR_EXIT_YES;

	wr_shield_state_read(table, &state);
	bans.out_of_memory = !wr_suspend_read(&suspend, table, rules);
	if (!bans.out_of_memory)
		wr_bans_each(table, now_s(), collect, &bans);
	if (bans.count)
		qsort(bans.items, bans.count, sizeof *bans.items, compare_ends);
	if (bans.out_of_memory) {
		fputs("weir shield: out of memory\n", stderr);
		code = WR_EXIT_NO;
	} else if (json) {
		code = wr_cli_json_print(list_json(&bans, &suspend, &state), WR_EXIT_YES);
	} else {
		print_state(&state);
		print_bans(&bans, &suspend);
	}
	wr_suspend_free(&suspend);
	free(bans.items);
	return code;
}

int wr_cli_shield_list(const struct wr_cli_table_choice *choice, const char *rules_path, bool json)
{
	struct weir_rules *rules;
	struct weir_table *table;
	int code = load_rules(rules_path, &rules);

	if (code == 0)
		code = open_table(choice, &table);
	if (code == 0) {
		code = print_list(table, rules, json);
		weir_close(table);
	}
	weir_rules_free(rules);
	return code;
}
