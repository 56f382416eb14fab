/* Adds domains and descriptors to the tree while rules are loaded, and builds the indexes that
 * matching uses. */
#include "rules/read.h"

#include <stdlib.h>

#include "base/assert.h"
#include "rules/index.h"

#define SLOTS_MIN 16

/* Replaces the index by a larger index. While rules are loaded, the index is not in an arena,
 * because an arena could not free the old index. */
static void grow_index(struct wr_load *load)
{
	struct wr_index old = load->build.index;
	struct wr_index *index = &load->build.index;
	uint64_t slots = old.slots ? 2 * (old.mask + 1) : SLOTS_MIN;
	struct wr_index_slot *larger = calloc(slots, sizeof *larger);

	if (!larger)
		longjmp(load->out_of_memory, 1);
	*index = (struct wr_index){larger, slots - 1};
	for (uint64_t i = 0; old.slots && i <= old.mask; i++)
		if (old.slots[i].item)
			wr_index_put(index, old.slots[i].hash, old.slots[i].item);
	free(old.slots);
}

static uint64_t hash_of(const struct wr_load *load, const struct wr_node *parent, int kind,
			struct weir_str key, struct weir_str value)
{
	struct wr_node node = {
		.key = key, .value = value, .parent = parent, .kind = (uint8_t)kind & 15};

	return wr_index_hash_node(load->rules->secret, &node);
}

struct wr_node *wr_node_find(struct wr_load *load, const struct wr_node *parent, int kind,
			     struct weir_str key, struct weir_str value)
{
	if (!load->build.index.slots)
		return NULL;
	return (struct wr_node *)wr_index_find(&load->build.index,
					       hash_of(load, parent, kind, key, value), parent,
					       kind, key, value);
}

static void append_child(struct weir_rules *rules, struct wr_node *parent, struct wr_node *node)
{
	struct wr_node **first = parent ? &parent->more->first_child : &rules->first_domain;
	struct wr_node **last = parent ? &parent->more->last_child : &rules->last_domain;

	if (*last)
		(*last)->more->next = node;
	else
		*first = node;
	*last = node;
	if (!parent) {
		rules->domain_count++;
		return;
	}
	node->more->order = parent->more->child_count++;
	parent->flags |= WR_HAS_CHILDREN;
	if (wr_node_is_wild(node))
		parent->flags |= WR_HAS_WILD;
	if (node->kind == WR_NODE_EXACT)
		parent->flags |= WR_HAS_EXACT;
}

/* Makes a tree node on a cache line of its own. The text of its value follows the node in memory.
 * The previous sibling usually has the same key; the two nodes then share the text of the key. */
static struct wr_node *new_node(struct wr_load *load, const struct wr_node *parent,
				struct weir_str key, struct weir_str value)
{
	const struct wr_node *sibling = parent ? parent->more->last_child : NULL;
	struct wr_arena *arena = &load->rules->nodes_arena;
	struct wr_node *node = wr_arena_alloc_line(arena, sizeof *node + value.len + 1);

	if (!node)
		longjmp(load->out_of_memory, 1);
	if (value.len)
		memcpy(node + 1, value.ptr, value.len);
	node->value = (struct weir_str){(char *)(node + 1), value.len};
	node->key = sibling && wr_str_equal(sibling->key, key)
			    ? sibling->key
			    : wr_load_copy(load, &load->rules->arena, key);
	node->more = wr_load_alloc(load, &load->rules->arena, sizeof *node->more);
	return node;
}

struct wr_node *wr_node_add(struct wr_load *load, struct wr_node *parent, int kind,
			    struct weir_str key, struct weir_str value, const struct wr_yaml *at)
{
	struct weir_rules *rules = load->rules;
	struct wr_node *node = new_node(load, parent, key, value);

	wr_assert(kind >= 0 && kind <= 15 && (!parent || parent->depth < WR_DEPTH_MAX));
	node->parent = parent;
	node->id = ++rules->node_count;
	node->kind = (uint8_t)kind & 15;
	node->depth = parent ? (uint8_t)(parent->depth + 1) : 0;
	*node->more = (struct wr_node_more){.metadata = WR_STR(""),
					    .file = load->file->path,
					    .line = at->line,
					    .column = at->column,
					    .file_index = UINT32_MAX};
	append_child(rules, parent, node);
	load->wild_count += wr_node_is_wild(node);
	if (!load->build.index.slots || load->build.count * 2 > load->build.index.mask)
		grow_index(load);
	wr_index_put(&load->build.index, hash_of(load, parent, kind, key, value), node);
	load->build.count++;
	return node;
}

/* Makes an index for `count` tree nodes that is at most half full, so that a search for a missing
 * node soon finds an empty slot. */
static void make_index(struct wr_load *load, struct wr_index *index, size_t count)
{
	uint64_t slots = SLOTS_MIN;

	while (slots < 2 * count)
		slots *= 2;
	index->slots = wr_load_alloc(load, &load->rules->arena, slots * sizeof *index->slots);
	index->mask = slots - 1;
}

static uint64_t wild_hash(const struct weir_rules *rules, const struct wr_node *node)
{
	return wr_index_mix(node->parent, wr_index_text(rules->secret, node->key), WR_INDEX_ANY);
}

/* Counts a wildcard. All wildcards with the same parent and key are in one list. The tree is
 * visited twice: add_wild() counts the wildcards of each list, then fill_wild() fills the lists. */
static void add_wild(struct wr_load *load, const struct wr_node *node)
{
	struct weir_rules *rules = load->rules;
	uint64_t hash = wild_hash(rules, node);
	struct wr_wild *wild =
		(struct wr_wild *)wr_index_find_wild(&rules->wilds, hash, node->parent, node->key);

	if (!wild) {
		wild = wr_load_alloc(load, &rules->arena, sizeof *wild);
		*wild = (struct wr_wild){.parent = node->parent, .key = node->key};
		wr_index_put(&rules->wilds, hash, wild);
	}
	wild->count++;
}

static void fill_wild(struct wr_load *load, const struct wr_node *node)
{
	struct weir_rules *rules = load->rules;
	struct wr_wild *wild = (struct wr_wild *)wr_index_find_wild(
		&rules->wilds, wild_hash(rules, node), node->parent, node->key);
	uint32_t count = wild->count;

	if (!wild->nodes) {
		if (count > load->bounds.wildcards)
			wr_rules_report_node(
				load, WR_D_too_many, node,
				WR_ARGS(wr_rules_number_text(load, load->bounds.wildcards),
					WR_STR("values with * or `cidr` lists for one key")));
		wild->nodes = wr_load_alloc(load, &rules->arena,
					    (size_t)count * sizeof(struct wr_node *));
		wild->count = 0;
	}
	/* The first call of fill_wild() for this list has set wild->count to 0. Since then,
	 * wild->count is the number of wildcards that have been stored in the list. */
	wild->nodes[wild->count++] = node;
}

static void fill_key_globs(struct wr_load *load, struct wr_node *parent)
{
	uint32_t count = 0;

	for (const struct wr_node *node = parent->more->first_child; node; node = node->more->next)
		count += wr_node_is_wild(node) && node->flags & WR_KEY_GLOB;
	if (count == 0)
		return;
	if (count > load->bounds.wildcards)
		wr_rules_report_node(load, WR_D_too_many, parent->more->first_child,
				     WR_ARGS(wr_rules_number_text(load, load->bounds.wildcards),
					     WR_STR("keys with * under one parent")));
	parent->more->key_globs =
		wr_load_alloc(load, &load->rules->arena, (size_t)count * sizeof(struct wr_node *));
	for (const struct wr_node *node = parent->more->first_child; node; node = node->more->next)
		if (wr_node_is_wild(node) && node->flags & WR_KEY_GLOB)
			parent->more->key_globs[parent->more->key_glob_count++] = node;
}

static void each_wild(struct wr_load *load, struct wr_node *parent,
		      void (*visit)(struct wr_load *, const struct wr_node *))
{
	for (struct wr_node *node = parent->more->first_child; node; node = node->more->next) {
		if (wr_node_is_wild(node) && !(node->flags & WR_KEY_GLOB))
			visit(load, node);
		each_wild(load, node, visit);
	}
}

/* Puts the tree nodes below `parent` into the index rules->nodes, except wildcards: matching finds
 * them through lists. Makes the lists of wildcards whose key is a pattern. */
static void index_below(struct wr_load *load, struct wr_node *parent)
{
	for (struct wr_node *node = parent->more->first_child; node; node = node->more->next) {
		if (!wr_node_is_wild(node))
			wr_index_put(&load->rules->nodes,
				     wr_index_hash_node(load->rules->secret, node), node);
		index_below(load, node);
	}
	if (parent->flags & WR_HAS_WILD)
		fill_key_globs(load, parent);
}

void wr_compile(struct wr_load *load)
{
	struct weir_rules *rules = load->rules;

	wr_assert(rules);
	make_index(load, &rules->nodes, rules->node_count);
	make_index(load, &rules->wilds, load->wild_count);
	for (struct wr_node *domain = rules->first_domain; domain; domain = domain->more->next) {
		wr_index_put(&rules->nodes, wr_index_hash_node(rules->secret, domain), domain);
		index_below(load, domain);
	}
	for (struct wr_node *domain = rules->first_domain; domain; domain = domain->more->next)
		each_wild(load, domain, add_wild);
	for (struct wr_node *domain = rules->first_domain; domain; domain = domain->more->next)
		each_wild(load, domain, fill_wild);
}
