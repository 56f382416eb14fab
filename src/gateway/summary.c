/* Describes a running gateway in a few lines. Called by the subcommand `weir gateway`. */
#include "gateway/plan.h"

#include <string.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/size.h"
#include "base/str.h"
#include "rules/limit_text.h"
#include "rules/path_text.h"
#include "rules/rules.h"

#define LIMITS_SHOWN 50

/* Writes a text from the rules. Replaces control characters, because they could disturb the
 * terminal. */
static void put_clean(FILE *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
	}
}

/* Writes which requests share a counter, such as "for each user_id", "for each route and ip" or
 * "for all together". */
static void put_counter_keys(const struct wr_node *node, FILE *out)
{
	const struct wr_node *path[WR_DEPTH_MAX];
	size_t depth = 0, each = 0;

	for (; node->depth && depth < WR_DEPTH_MAX; node = node->parent)
		if (node->kind != WR_NODE_EXACT && !(node->flags & WR_SHARE))
			path[depth++] = node;
	for (; depth; each++) {
		fputs(each ? " and " : " for each ", out);
		depth--;
		put_clean(out, path[depth]->key.ptr, path[depth]->key.len);
	}
	if (!each)
		fputs(" for all together", out);
}

static void put_extras(const struct wr_rules_limit *limit, FILE *out)
{
	const struct weir_limit *l = &limit->limit;
	char text[WR_DURATION_TEXT], ban[160];

	if (l->algorithm != WEIR_CONCURRENT) /* the text of the limit says so already */
		fprintf(out, ", %s", weir_algorithm_name((int)l->algorithm));
	if (l->algorithm == WEIR_TOKEN_BUCKET)
		fprintf(out, ", burst %u", l->capacity);
	if (l->algorithm == WEIR_LEAKY_BUCKET)
		fprintf(out, ", %u may wait", l->queue_size);
	if (l->max_wait_ns && wr_duration_text(l->max_wait_ns, text))
		fprintf(out, " at most %s", text);
	if (l->soft_ceiling && wr_duration_text(l->soft_for_ns, text))
		fprintf(out, ", soft: up to %u for %s", l->soft_ceiling, text);
	if (limit->enforce_ppm < 1000000)
		fprintf(out, ", enforced for %g%% of keys", limit->enforce_ppm / 10000.0);
	if (limit->node->flags & WR_SHADOW)
		fputs(", counted but never refused", out);
	if (limit->ban && wr_rules_ban_text(limit->ban, ban, sizeof ban))
		fprintf(out, ", banned %s", ban);
}

/* Writes one limit as text: "api/user_id: 2 per second for each user_id, token_bucket, burst 4". */
static void put_limit(const struct wr_rules_limit *limit, FILE *out)
{
	char text[512];

	wr_path_text(limit->node, text, sizeof text);
	put_clean(out, text, strlen(text));
	wr_rules_limit_text(limit, text, sizeof text);
	fputs(": ", out);
	put_clean(out, text, strlen(text));
	if (!limit->unlimited) {
		put_counter_keys(limit->node, out);
		put_extras(limit, out);
	}
	fputc('\n', out);
}

static void put_limits(const struct wr_node *node, FILE *out)
{
	size_t count = 0;

	for (; node; node = wr_gateway_next_node(node))
		for (size_t i = 0; i < node->limit_count; i++)
			if (count++ < LIMITS_SHOWN) {
				fputs("            ", out);
				put_limit(&node->limits[i], out);
			}
	if (count > LIMITS_SHOWN)
		fprintf(out, "            … and %zu more\n", count - LIMITS_SHOWN);
	if (!count)
		fputs("            none\n", out);
}

static void put_table(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
		      uint64_t now_ns, FILE *out)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = WEIR_OPEN_EXISTING,
				 .name = plan->settings->table,
				 .now_ns = now_ns};
	struct weir_info info = {.size = sizeof info};
	struct weir_error error;
	struct weir_table *table;
	char size[WR_SIZE_TEXT], advice[1024];

	if (weir_open(&opts, &table, &error) != 0) {
		fprintf(out, "  table     %s: %s\n", plan->settings->table, error.text);
		return;
	}
	weir_info(table, now_ns, &info);
	wr_size_text(info.memory_bytes, size);
	fprintf(out, "  table     %s, %s, %llu keys held, room for %llu\n", info.path, size,
		(unsigned long long)info.keys, (unsigned long long)info.cells);
	if (info.keys > info.cells / 5 * 4)
		fputs("            the table is nearly full: a larger --memory keeps all counts\n",
		      out);
	if (weir_log_advice(table, &opts, rules, advice, sizeof advice))
		fprintf(out, "            %s\n", advice);
	weir_close(table);
}

static void put_listens(const struct wr_gateway_plan *plan, FILE *out)
{
	const struct wr_gateway_settings *s = plan->settings;
	char text[WR_ENDPOINT_TEXT];

	for (size_t i = 0; i < s->listen.count; i++) {
		bool is_unix = s->listen.items[i].kind == WR_ENDPOINT_UNIX;

		wr_endpoint_text(&s->listen.items[i], text);
		fprintf(out, "  listens   %s%s%s\n",
			is_unix          ? ""
			: plan->tls_cert ? "https://"
					 : "http://",
			text, plan->tls_cert ? " (HTTP/1.1 and HTTP/2)" : "");
	}
	for (size_t i = 0; i < s->h2c.count; i++) {
		wr_endpoint_text(&s->h2c.items[i], text);
		fprintf(out, "  listens   %s (HTTP/2 without TLS)\n", text);
	}
	for (size_t i = 0; i < s->upstream.count; i++)
		fprintf(out, "  upstream  %s\n", s->upstream.items[i]);
	if (s->auth)
		fprintf(out, "  auth      %s\n", s->auth);
}

void wr_plan_summary_write(const struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   uint64_t now_ns, FILE *out)
{
	struct weir_rules_info info = {.size = sizeof info};
	const struct wr_node *domain = wr_gateway_find_domain(rules, plan->domain);

	wr_assert(plan->settings && plan->domain);
	weir_rules_info(rules, &info);
	put_listens(plan, out);
	put_table(plan, rules, now_ns, out);
	fprintf(out, "  rules     %s: %u file%s, generation %llu, hash %016llx\n", plan->rules,
		info.files, info.files == 1 ? "" : "s", (unsigned long long)info.generation,
		(unsigned long long)info.hash);
	fprintf(out, "  limits    of domain %s%s:\n", plan->domain,
		plan->settings->dry_run ? " (dry run: counted, never enforced)" : "");
	if (domain)
		put_limits(domain, out);
	fflush(out);
}
