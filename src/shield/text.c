/* Writes commands of nftables; see text.h. */
#include "shield/text.h"

#include <arpa/inet.h>

#define METER_SIZE 65536 /* sources that --limit remembers at a time */
#define METER_TIME "60s" /* a source without new connections is forgotten after this time */
#define BURST_MIN 5      /* the least burst of --limit */
#define SIZE_SPARE 8192  /* room for elements that ended and that the kernel has not removed yet */

/* ---- the table ---- */

void wr_nft_text_remove(struct wr_buf *buf)
{
	/* `delete` fails if there is no table, so the table is added first. */
	wr_buf_printf(buf, "add table " WR_NFT_TABLE "\ndelete table " WR_NFT_TABLE "\n");
}

static void put_sets(struct wr_buf *buf, const struct wr_nft_design *design)
{
	for (unsigned set = 0; set < WR_NFT_SET_COUNT; set++)
		wr_buf_printf(buf, "\tset %s {\n\t\ttype %s\n\t\tflags %s\n\t\tsize %u\n\t}\n",
			      wr_nft_set_names[set],
			      wr_nft_set_is_v4(set) ? "ipv4_addr" : "ipv6_addr",
			      wr_nft_set_is_nets(set) ? "interval,timeout" : "timeout",
			      wr_nft_set_is_nets(set) ? 4 * WR_NFT_PREFIXES_MAX
						      : design->size + SIZE_SPARE);
	for (unsigned v = 4; v <= 6; v += 2)
		wr_buf_printf(buf,
			      "\tset never%u {\n\t\ttype ipv%u_addr\n\t\tflags interval\n\t}\n", v,
			      v);
	for (unsigned v = 4; v <= 6 && design->limit.count; v += 2)
		wr_buf_printf(buf,
			      "\tset rate%u {\n\t\ttype ipv%u_addr\n\t\tflags dynamic,timeout\n"
			      "\t\tsize %u\n\t\ttimeout " METER_TIME "\n\t}\n",
			      v, v, METER_SIZE);
}

/* The end of every path that refuses a packet. Protected addresses pass here too, in case that an
 * address became protected a moment ago. */
static void put_refuse(struct wr_buf *buf, const struct wr_nft_design *design)
{
	wr_buf_printf(buf, "\tchain refuse {\n"
			   "\t\tip saddr @never4 accept\n"
			   "\t\tip6 saddr @never6 accept\n");
	if (design->reject)
		wr_buf_printf(buf, "\t\tcounter name dropped\n"
				   "\t\tmeta l4proto tcp reject with tcp reset\n"
				   "\t\treject with icmpx admin-prohibited\n\t}\n");
	else
		wr_buf_printf(buf, "\t\tcounter name dropped drop\n\t}\n");
}

static void put_limit(struct wr_buf *buf, const struct wr_nft_design *design)
{
	uint32_t burst = design->limit.count < BURST_MIN ? BURST_MIN : design->limit.count;

	for (unsigned v = 4; v <= 6; v += 2) {
		wr_buf_printf(buf, "\t\ttcp dport {");
		for (size_t i = 0; i < design->port_count; i++)
			wr_buf_printf(buf, "%s %u", i ? "," : "", design->ports[i]);
		wr_buf_printf(buf,
			      " } tcp flags & (syn | ack) == syn update @rate%u { %s limit rate "
			      "over %u/%s burst %u packets } goto refuse\n",
			      v, v == 4 ? "ip saddr" : "ip6 saddr & ffff:ffff:ffff:ffff::",
			      design->limit.count, design->limit.unit, burst);
	}
}

static void put_chain(struct wr_buf *buf, const struct wr_nft_design *design, const char *hook,
		      int priority)
{
	wr_buf_printf(buf,
		      "\tchain %s {\n"
		      "\t\ttype filter hook %s priority %d; policy accept;\n"
		      "\t\tiifname \"lo\" accept\n"
		      "\t\tip saddr @banned4 goto refuse\n"
		      "\t\tip6 saddr & ffff:ffff:ffff:ffff:: @banned6 goto refuse\n"
		      "\t\tip saddr @nets4 goto refuse\n"
		      "\t\tip6 saddr @nets6 goto refuse\n",
		      hook, hook, priority);
	if (design->limit.count)
		put_limit(buf, design);
	wr_buf_printf(buf, "\t}\n");
}

void wr_nft_text_table(struct wr_buf *buf, const struct wr_nft_design *design, long pid)
{
	wr_nft_text_remove(buf);
	wr_buf_printf(buf,
		      "table " WR_NFT_TABLE " {\n"
		      "\tcounter dropped {\n\t}\n"
		      "\tcounter owner {\n\t\tcomment \"pid %ld\"\n\t}\n",
		      pid);
	put_sets(buf, design);
	put_refuse(buf, design);
	/* Before conntrack (-200) and routing, if nothing distinguishes the two hooks. Not with
	 * `reject`: conntrack would not know the connection of the answer, which a firewall of this
	 * machine may then drop as invalid; and Linux before 5.9 rejects nothing there. */
	if (design->input && design->forward && !design->reject) {
		put_chain(buf, design, "prerouting", -310);
	} else {
		if (design->input)
			put_chain(buf, design, "input", -310);
		if (design->forward)
			put_chain(buf, design, "forward", -310);
	}
	wr_buf_printf(buf, "}\n");
}

unsigned wr_nft_rules_of(const struct wr_nft_design *design)
{
	unsigned refuse = design->reject ? 5 : 3;
	unsigned chain = 5 + (design->limit.count ? 2 : 0);
	bool both = design->input && design->forward && design->reject;

	return refuse + (both ? 2 * chain : chain);
}

/* ---- elements ---- */

static void put_address(struct wr_buf *buf, const struct wr_address *address)
{
	char text[INET6_ADDRSTRLEN];
	bool v4 = wr_address_is_v4(address);

	inet_ntop(v4 ? AF_INET : AF_INET6, address->bytes + (v4 ? 12 : 0), text, sizeof text);
	wr_buf_add(buf, text, strlen(text));
}

static void put_timeout(struct wr_buf *buf, uint32_t until_s, uint64_t now_ms)
{
	uint64_t until_ms = until_s * UINT64_C(1000);

	wr_buf_printf(buf, " timeout %llums",
		      (unsigned long long)(until_ms > now_ms ? until_ms - now_ms : 1));
}

static void begin(struct wr_buf *buf, const char *verb, unsigned set)
{
	wr_buf_printf(buf, "%s element " WR_NFT_TABLE " %s {", verb, wr_nft_set_names[set]);
}

/* Writes a command with all of the items. now_ms 0: without their timeouts. */
static void put_items(struct wr_buf *buf, const char *verb, const struct wr_nft_element *items,
		      size_t count, uint64_t now_ms)
{
	begin(buf, verb, items[0].set);
	for (size_t i = 0; i < count; i++) {
		wr_buf_printf(buf, i ? ", " : " ");
		put_address(buf, &items[i].address);
		if (wr_nft_set_is_nets(items[i].set))
			wr_buf_printf(buf, "/%u", items[i].bits);
		if (now_ms)
			put_timeout(buf, items[i].until_s, now_ms);
		else if (verb[0] == 'a')
			wr_buf_printf(buf, " timeout 1s");
	}
	wr_buf_printf(buf, " }\n");
}

void wr_nft_text_delete(struct wr_buf *buf, const struct wr_nft_element *items, size_t count)
{
	if (count == 0)
		return;
	/* `delete` fails for an element whose timeout has ended, so it is added first. */
	put_items(buf, "add", items, count, 0);
	put_items(buf, "delete", items, count, 0);
}

void wr_nft_text_add(struct wr_buf *buf, const struct wr_nft_element *items, size_t count,
		     bool again, uint64_t now_ms)
{
	if (count == 0)
		return;
	if (again)
		wr_nft_text_delete(buf, items, count);
	put_items(buf, "add", items, count, now_ms);
}

void wr_nft_text_nets(struct wr_buf *buf, unsigned set, const struct wr_nft_elements *elements,
		      uint64_t now_ms)
{
	wr_buf_printf(buf, "flush set " WR_NFT_TABLE " %s\n", wr_nft_set_names[set]);
	if (elements->count)
		put_items(buf, "add", elements->items, elements->count, now_ms);
}

void wr_nft_text_never(struct wr_buf *buf, bool v4, const struct wr_protect_list *list)
{
	const char *set = v4 ? "never4" : "never6";

	wr_buf_printf(buf, "flush set " WR_NFT_TABLE " %s\n", set);
	if (list->count == 0)
		return;
	wr_buf_printf(buf, "add element " WR_NFT_TABLE " %s {", set);
	for (size_t i = 0; i < list->count; i++) {
		wr_buf_printf(buf, i ? ", " : " ");
		put_address(buf, &list->items[i].low);
		if (memcmp(&list->items[i].low, &list->items[i].high, sizeof(struct wr_address)) !=
		    0) {
			wr_buf_printf(buf, "-");
			put_address(buf, &list->items[i].high);
		}
	}
	wr_buf_printf(buf, " }\n");
}
