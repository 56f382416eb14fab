/* Fuzzes control messages of other nodes: resets, grants, bans and releases. A message that is
 * accepted is carried out, and gives the same bytes when it is written again. */
#include "fuzz.h"

#include <stdbool.h>

#include "base/address.h"
#include "limiter/order.h"
#include "table/ban.h"

#define NOW_NS (1794787200ull * 1000000000)
#define MESSAGE_MAX 4096u
#define FOR_EVER UINT64_MAX

static const char yaml[] = "domain: d\n"
			   "descriptors:\n"
			   "- key: remote_address\n"
			   "  rate_limit: {unit: hour, requests_per_unit: 1, ban: {after: 2, for: "
			   "10m, shield: true}}\n"
			   "- {key: \"*\", rate_limit: {unit: day, requests_per_unit: 5}}\n";

static struct weir_engine *engine;
static struct weir_table *table;

/* Every listed ban is one that the shield can carry without a check of its own. */
static int check_ban(void *context, const struct wr_ban *ban)
{
	char text[WR_ADDRESS_TEXT];
	struct wr_address address;

	(void)context;
	require((ban->flags & ~(WR_BAN_AUTOMATIC | WR_BAN_SHIELD)) == 0);
	require(ban->family || !(ban->flags & WR_BAN_SHIELD));
	require(ban->until_s > NOW_NS / 1000000000);
	address = wr_address_from(ban->address, ban->family == 4 ? 4 : 16);
	require(wr_address_text(&address, ban->prefix_bits, text) <= sizeof text);
	return 0;
}

/* The order has the same bytes when it is written again. A message may have bits that have no
 * meaning for its verb; the second writing clears them. */
static void check_written(const struct wr_order_text *text, size_t size)
{
	static uint8_t again[MESSAGE_MAX], third[MESSAGE_MAX];
	struct wr_order order = text->order;
	struct wr_order_text copy;
	size_t len;

	if (text->left_ns > INT64_MAX && text->left_ns != FOR_EVER)
		return;
	order.until_ns = text->left_ns == FOR_EVER ? WEIR_NEVER
			 : text->left_ns           ? NOW_NS + text->left_ns
						   : 0;
	len = wr_order_write(&order, NOW_NS, again, sizeof again);
	require(len == size);
	require(wr_order_read(again, len, &copy));
	order = copy.order;
	order.until_ns = copy.left_ns == FOR_EVER ? WEIR_NEVER
			 : copy.left_ns           ? NOW_NS + copy.left_ns
						  : 0;
	require(wr_order_write(&order, NOW_NS, third, sizeof third) == len);
	require(memcmp(again, third, len) == 0);
}

/* The first byte of the input is the age of the message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wr_order_text text;
	struct weir_error error = {0};
	uint64_t age_ns;
	int rc;

	if (!engine) {
		table = make_table(1 << 20);
		require(weir_engine_new(table, load_rules(yaml), NULL, &engine) == 0);
	}
	if (size == 0 || size > MESSAGE_MAX)
		return 0;
	age_ns = data[0] ? 1ull << (data[0] & 63) : 0;
	if (!wr_order_read(data + 1, size - 1, &text))
		return 0;
	check_written(&text, size - 1);
	if (!wr_order_end(&text, age_ns, NOW_NS))
		return 0;
	rc = wr_order_apply(engine, &text.order, NOW_NS, &error);
	require(rc >= 0 || error.text[0] || rc == WEIR_ENOENT);
	wr_bans_each(table, NOW_NS / 1000000000, check_ban, NULL);
	return 0;
}
