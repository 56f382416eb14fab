/* Fuzzes a rule file. It is refused with errors, or loaded, and every node of it can be matched. */
#include "fuzz.h"

#include "base/str.h"
#include "rules/key.h"
#include "rules/load.h"
#include "rules/match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *context, const struct wr_rules_step *step)
{
	(void)context;
	(void)step;
}

/* Writes a descriptor that matches the node, unless an earlier node matches it. */
static size_t entries_to(const struct wr_node *node, struct weir_entry entries[WR_DEPTH_MAX])
{
	size_t count = node->depth;

	for (; node->depth; node = node->parent)
		entries[node->depth - 1] = (struct weir_entry){node->key, node->value, WR_STR("")};
	return count;
}

static void check_ban(const struct wr_node *node, const struct wr_rules_ban *ban)
{
	if (!ban)
		return;
	require(ban->after == ban->refusals.limit + 1);
	require((ban->after > 1) == (ban->refusals.checked != 0));
	require(ban->within_ns && ban->for_ns && ban->max_ns >= ban->for_ns);
	require(ban->grow && ban->max_ns <= UINT64_MAX / ban->grow);
	require(ban->address_depth <= node->depth && (ban->address_depth || !ban->shield));
}

static void check_node(const struct weir_rules *rules, const struct wr_node *domain,
		       const struct wr_node *node)
{
	struct weir_entry entries[WR_DEPTH_MAX];
	size_t count = entries_to(node, entries);
	struct wr_tracer tracer = {ignore, NULL};
	struct wr_match match, traced;
	char key[64];

	require(node->more->address_depth <= node->depth);
	wr_rules_match(rules, domain, entries, count, &match);
	wr_rules_explain(rules, domain, entries, count, &traced, &tracer);
	require(match.node == traced.node && match.outcome == traced.outcome);
	if (node->kind == WR_NODE_EXACT && node->parent == domain)
		require(match.node == node);
	if (match.node)
		wr_rules_key_write(domain, match.node, entries, count, key, sizeof key);
	for (size_t i = 0; i < match.limit_count; i++) {
		require(match.limits[i].unlimited || match.limits[i].limit.checked);
		check_ban(match.limits[i].node, match.limits[i].ban);
	}
	for (const struct wr_node *child = node->more->first_child; child;
	     child = child->more->next)
		check_node(rules, domain, child);
}

static void check_errors(const struct weir_errors *errors)
{
	char text[700];

	for (size_t i = 0; i < errors->count; i++) {
		weir_diagnostic_text(&errors->items[i], text, sizeof text);
		require(strlen(text) < sizeof text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct wr_bounds bounds = wr_default_bounds;
	struct weir_rules *rules;
	static int fd = -1;
	char path[64];
	int rc;

	if (fd < 0)
		fd = memfd_create("rules", 0);
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	bounds.yaml_values = 20000;
	bounds.lint_steps = 200000; /* a search stays below libFuzzer's timeout */
	rc = wr_rules_load_within(path, &bounds, WR_ZONE_DIRECTORY, &rules, &errors);
	require(rc == 0 || rc == WEIR_ERULES);
	require((rc == 0) == (errors.errors == 0) && (rc == 0) == (rules != NULL));
	check_errors(&errors);
	for (const struct wr_node *d = rules ? rules->first_domain : NULL; d; d = d->more->next) {
		require(wr_rules_domain(rules, d->key) == d);
		check_node(rules, d, d);
	}
	weir_rules_free(rules);
	weir_errors_free(&errors);
	return 0;
}
