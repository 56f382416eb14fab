/* Prints the report of weir explain as text. Called by explain.c. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/str.h"
#include "rules/cost_text.h"
#include "rules/limit_text.h"
#include "rules/path_text.h"
#include "rules/requests.h"
#include "serve/admin/explain_find.h"

/* Prints a value with its control characters escaped, because values come from clients. */
static void print_value(struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];

		if (c < 0x20 || c == 0x7f)
			printf("\\x%02x", c);
		else
			putchar(c);
	}
}

static void print_node(const struct wr_node *node)
{
	char path[512];

	wr_path_text(node, path, sizeof path);
	printf("%s (%s:%u)", path, node->more->file, node->more->line);
}

static void print_step(const struct wr_rules_step *step)
{
	static const char *const names[] = {"this value", "wildcard", "any value", "not used",
					    "below"};

	printf("    %-12s ", names[step->kind]);
	if (step->kind == WR_STEP_LEVEL_EMPTY) {
		printf("the rule has no descriptors below it\n");
		return;
	}
	if (!step->node) {
		printf("no such rule\n");
		return;
	}
	print_node(step->node);
	if (step->kind == WR_STEP_PASSED)
		printf(": would match, but another rule has priority\n");
	else
		printf(step->matched ? "  <- used\n" : ": does not match\n");
}

static void print_steps(const struct wr_explain_walk *walk)
{
	size_t level = SIZE_MAX;

	for (size_t i = 0; i < walk->step_count; i++) {
		if (walk->steps[i].level != level) {
			level = walk->steps[i].level;
			printf("  ");
			print_value(walk->entries[level].key);
			putchar('=');
			print_value(walk->entries[level].value);
			putchar('\n');
		}
		print_step(&walk->steps[i]);
	}
	if (walk->steps_left_out)
		printf("    … and %zu more\n", walk->steps_left_out);
}

/* Prints "  ban          for 10m after 50 refusals within 1m, of the address in 'ip'". */
static void print_ban(const char *label, const struct wr_rules_limit *limit)
{
	const struct wr_node *node = limit->node;
	char text[160];

	if (!limit->ban)
		return;
	wr_rules_ban_text(limit->ban, text, sizeof text);
	printf("  %-12s %s", label, text);
	while (node->depth > limit->ban->address_depth)
		node = node->parent;
	if (node->depth) {
		printf("; the address is in '");
		print_value(node->key);
		putchar('\'');
	}
	putchar('\n');
}

static void print_limit(const struct wr_explain *explain, const struct wr_rules_limit *limit)
{
	const struct weir_limit *l = &limit->limit;
	char text[128], duration[WR_DURATION_TEXT];

	wr_rules_limit_text(limit, text, sizeof text);
	printf("  limit        %s", text);
	if (!limit->unlimited && l->algorithm != WEIR_CONCURRENT)
		printf(", %s", weir_algorithm_name((int)l->algorithm));
	if (l->burst)
		printf(", burst %u", l->burst);
	if (l->algorithm == WEIR_LEAKY_BUCKET)
		printf(", queue %u", l->queue_size);
	if (l->max_wait_ns && wr_duration_text(l->max_wait_ns, duration))
		printf(", wait at most %s", duration);
	if (l->soft_ceiling && wr_duration_text(l->soft_for_ns, duration))
		printf(", soft: up to %u for %s", l->soft_ceiling, duration);
	if (l->max_debt)
		printf(", max_debt %u", l->max_debt);
	if (l->flags & WEIR_NO_DEBT)
		printf(", no debt");
	if (limit->on_expiry == WR_EXPIRY_REFUND)
		printf(", reservations that expire are refunded");
	if (limit->name.len)
		printf(", name %s", limit->name.ptr);
	if (limit->enforce_ppm < 1000000)
		printf(", enforced for %g%% of keys", limit->enforce_ppm / 10000.0);
	if (limit->node->flags & WR_SHADOW)
		printf(", shadow: counted, never refused");
	if (limit->node->flags & WR_QUOTA)
		printf(", quota");
	if (limit->on_limit == WR_DEFER)
		printf(", requests over the limit are deferred");
	if (wr_explain_is_replaced(explain, limit))
		printf(" - replaced by another limit of this request");
	putchar('\n');
	print_ban("ban", limit);
	for (uint32_t i = 0; i < limit->candidate_count; i++) {
		wr_rules_limit_text(&limit->candidates[i], text, sizeof text);
		printf("  candidate    %s, %s\n", text,
		       weir_algorithm_name((int)limit->candidates[i].limit.algorithm));
		print_ban("  its ban", &limit->candidates[i]);
	}
}

/* Prints the entries that select the counter. Requests with equal entries share a counter. */
static void print_counter(const struct wr_explain_walk *walk)
{
	const struct wr_node *path[WR_DEPTH_MAX];

	for (const struct wr_node *n = walk->match.node; n->depth; n = n->parent)
		path[n->depth - 1] = n;
	printf("  counter      ");
	for (size_t i = 0; i < walk->count; i++) {
		bool shared = path[i]->flags & WR_SHARE;

		printf("%s", i ? ", " : "");
		print_value(walk->entries[i].key);
		putchar('=');
		print_value(shared ? path[i]->value : walk->entries[i].value);
		if (shared)
			printf(" (shared)");
	}
	putchar('\n');
}

static void print_outcome(const struct wr_explain *explain, const struct wr_explain_walk *walk)
{
	switch (walk->match.outcome) {
	case WR_NO_RULE:
		puts("  no rule matches: not limited");
		return;
	case WR_PASS_NODE:
		puts("  the rule has no limit of its own, only descriptors below it: not limited");
		return;
	case WR_WHITELISTED:
		puts("  the rule has no limit: not limited");
		return;
	case WR_LIMITED:
	case WR_UNLIMITED:
	default:
		break;
	}
	printf("  rule         ");
	print_node(walk->match.node);
	putchar('\n');
	for (size_t i = 0; i < walk->match.limit_count; i++)
		print_limit(explain, &walk->match.limits[i]);
	if (walk->match.outcome == WR_LIMITED)
		print_counter(walk);
}

/* Prints the units that are charged when the request arrives, and where they come from. */
static void print_units(const struct wr_explain_walk *walk, const struct wr_rules_cost *cost)
{
	static const char *const before[] = {" from ", ", the default: ", ", the maximum: ",
					     " until the body has been received, then "};
	static const char *const after[] = {"", " is missing or not a number", " is larger", ""};

	printf("  cost         %lld", (long long)walk->cost);
	if (cost->arrival.from == WR_COST_NUMBER) {
		puts(cost->settles ? ", reserved" : "");
		return;
	}
	printf("%s", before[walk->cost_note]);
	print_value(cost->arrival.label);
	puts(after[walk->cost_note]);
}

static void print_actual(const struct wr_rules_cost_source *actual)
{
	printf("  settled by   ");
	print_value(actual->label);
	if (actual->defaults_to_reserved)
		printf(", default: as reserved");
	else
		printf(", default %lld", (long long)actual->otherwise);
	if (actual->max < WR_COST_MAX)
		printf(", at most %lld", (long long)actual->max);
	putchar('\n');
}

/* Prints "  counts       only if the status is 401, 403 or 5xx". */
static void print_count(const struct wr_rules_count *count)
{
	bool except = wr_rules_count_is_except(count);
	char text[WR_STATUS_TEXT], next[WR_STATUS_TEXT];
	uint32_t status = 100;
	bool more = wr_rules_count_next(count, !except, &status, text);
	bool first = true;

	if (!more) {
		printf("  counts       %s\n",
		       except ? "whatever the status is" : "only if there is no response");
		return;
	}
	printf("  counts       %s the status is ", except ? "unless" : "only if");
	while (more) {
		more = wr_rules_count_next(count, !except, &status, next);
		printf("%s%s", first ? "" : more ? ", " : " or ", text);
		first = false;
		memcpy(text, next, sizeof text);
	}
	putchar('\n');
}

static void print_cost(const struct wr_explain_walk *walk)
{
	const struct wr_rules_cost *cost = walk->request->cost;

	if (cost)
		print_units(walk, cost);
	if (cost && cost->settles)
		print_actual(&cost->actual);
	if (walk->request->count)
		print_count(walk->request->count);
}

static void print_walk(const struct wr_explain *explain, const struct wr_explain_walk *walk)
{
	printf("descriptor     ");
	for (size_t i = 0; i < walk->count; i++) {
		printf("%s", i ? ", " : "");
		print_value(walk->entries[i].key);
		putchar('=');
		print_value(walk->entries[i].value);
		if (walk->entries[i].source.len) {
			printf(" (from ");
			print_value(walk->entries[i].source);
			putchar(')');
		}
	}
	if (walk->request)
		printf("  made by %s:%u%s", walk->request->file, walk->request->line,
		       walk->certain ? ""
				     : ", by some interpretations of the request only: grants no "
				       "exemption");
	putchar('\n');
	if (walk->request)
		print_cost(walk);
	print_steps(walk);
	print_outcome(explain, walk);
}

void wr_cli_explain_print(const struct wr_explain *explain)
{
	printf("domain         ");
	print_value(explain->domain_name);
	puts(explain->domain ? "" : ": no domain has this name, so nothing is limited");
	if (!explain->domain)
		return;
	if (explain->http) {
		printf("request        ");
		print_value((struct weir_str){explain->http, strlen(explain->http)});
		putchar('\n');
	}
	if (explain->result.allowed)
		printf("allowed by %s:%u: no rule of this domain limits the request\n",
		       explain->result.allowed_by->file, explain->result.allowed_by->line);
	if (explain->result.denied)
		printf("refused by %s:%u: a required value is missing or ambiguous\n",
		       explain->result.denied_by->file, explain->result.denied_by->line);
	if (explain->http && explain->walk_count == 0 && !explain->result.allowed &&
	    !explain->result.denied)
		puts("no entry of `requests` matches this request, so nothing is limited");
	for (size_t i = 0; i < explain->walk_count; i++)
		print_walk(explain, &explain->walks[i]);
}
