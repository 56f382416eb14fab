/* Reads `descriptors` into the tree. Files with the same domain add to one tree. */
#include "rules/read.h"

#include "base/assert.h"
#include "rules/path_text.h"

/* The keys that take true or false in a descriptor. X(key, flag of the tree node) */
#define FLAG_KEYS(X)                                                                               \
	X(SHADOW_MODE, WR_SHADOW)                                                                  \
	X(QUOTA_MODE, WR_QUOTA)                                                                    \
	X(DETAILED_METRIC, WR_DETAILED_METRIC)                                                     \
	X(VALUE_TO_METRIC, WR_VALUE_TO_METRIC)

/* The key and the value of a descriptor, with which requests are compared. */
struct matcher {
	struct weir_str key;
	struct weir_str value;
	const struct wr_address_ranges *ranges;
	int kind;
};

static bool read_matcher(struct wr_load *load, const struct wr_fields *f, struct matcher *m)
{
	*m = (struct matcher){.key = WR_STR(""), .value = WR_STR("")};
	wr_get_text(load, f, WR_KEY_KEY, &m->key);
	if (m->key.len == 0) {
		const struct wr_yaml *given = f->value[WR_KEY_KEY];

		if ((!given && !f->misread) ||
		    (given && given->kind == WR_YAML_TEXT && given->text.len == 0))
			wr_rules_report(load, WR_D_empty_key, f->at, NULL);
		return false;
	}
	if (f->value[WR_KEY_VALUE] && !wr_get_text(load, f, WR_KEY_VALUE, &m->value))
		return false;
	if (f->value[WR_KEY_CIDR]) {
		if (f->value[WR_KEY_VALUE])
			wr_rules_report(load, WR_D_value_and_cidr, f->key[WR_KEY_CIDR], NULL);
		m->ranges = wr_read_addresses(load, f, WR_KEY_CIDR, &m->value);
		m->kind = WR_NODE_CIDR;
		return m->ranges;
	}
	if (wr_str_has(m->key, '*') || wr_str_has(m->value, '*'))
		m->kind = WR_NODE_GLOB;
	else
		m->kind = m->value.len ? WR_NODE_EXACT : WR_NODE_ANY;
	return true;
}

static void report_duplicate(struct wr_load *load, const struct wr_fields *f,
			     const struct wr_node *first)
{
	const char *location = wr_load_print(load, &load->tree, "%s:%u:%u", first->more->file,
					     first->more->line, first->more->column);
	char path[256];

	wr_path_text(first, path, sizeof path);
	wr_rules_report(load, WR_D_duplicate_descriptor, f->at,
			WR_ARGS(wr_str(path), wr_str(location)));
}

/* Returns whether a descriptor has settings of its own, besides children. */
static bool has_settings(const struct wr_fields *f)
{
	return f->value[WR_KEY_RATE_LIMIT] || f->value[WR_KEY_RATE_LIMITS] ||
	       !f->value[WR_KEY_DESCRIPTORS];
}

/* Finds or makes the tree node of a descriptor. A descriptor can be in several files, but only one
 * of the files is allowed to give it settings. */
static struct wr_node *find_or_add(struct wr_load *load, const struct wr_fields *f,
				   struct wr_node *parent, const struct matcher *m)
{
	struct wr_node *node = wr_node_find(load, parent, m->kind, m->key, m->value);

	if (node && (node->more->file_index == load->file->index ||
		     (has_settings(f) && node->flags & WR_CLAIMED))) {
		report_duplicate(load, f, node);
		return NULL;
	}
	if (!node)
		node = wr_node_add(load, parent, m->kind, m->key, m->value, f->at);
	node->more->file_index = load->file->index;
	node->more->ranges = m->ranges;
	if (wr_str_has(m->key, '*'))
		node->flags |= WR_KEY_GLOB;
	if (has_settings(f))
		node->flags |= WR_CLAIMED;
	return node;
}

static void read_flags(struct wr_load *load, const struct wr_fields *f, struct wr_node *node)
{
	static const struct {
		enum wr_rules_key_id key;
		uint16_t flag;
	} flags[] = {
#define FLAG_ROW(key, flag) {WR_KEY_##key, flag},
		FLAG_KEYS(FLAG_ROW)
#undef FLAG_ROW
	};

	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		if (!wr_get_flag(load, f, flags[i].key))
			continue;
		node->flags |= flags[i].flag;
		if (!f->value[WR_KEY_RATE_LIMIT] && !f->value[WR_KEY_RATE_LIMITS] &&
		    flags[i].flag != WR_VALUE_TO_METRIC)
			wr_rules_report(load, WR_D_idle_flag, f->key[flags[i].key],
					WR_ARGS(wr_keys[flags[i].key].name));
	}
	if (node->flags & WR_DETAILED_METRIC && node->flags & WR_VALUE_TO_METRIC)
		wr_rules_report(load, WR_D_idle_value_to_metric,
				f->key[WR_KEY_VALUE_TO_METRIC] ? f->key[WR_KEY_VALUE_TO_METRIC]
							       : f->at,
				NULL);
}

static void read_share(struct wr_load *load, const struct wr_fields *f, struct wr_node *node)
{
	if (!wr_get_flag(load, f, WR_KEY_SHARE_THRESHOLD))
		return;
	if (!wr_node_is_wild(node))
		wr_rules_report(load, WR_D_share_without_wildcard, f->key[WR_KEY_SHARE_THRESHOLD],
				WR_ARGS(node->key));
	node->flags |= WR_SHARE;
}

static void read_descriptor(struct wr_load *load, const struct wr_yaml *map, struct wr_node *parent)
{
	struct wr_fields f;
	struct matcher m;
	struct wr_node *node;

	if (!wr_fields_read(load, map, WR_IN_DESCRIPTOR, WR_STR("descriptors"), &f) ||
	    !read_matcher(load, &f, &m))
		return;
	node = find_or_add(load, &f, parent, &m);
	if (!node)
		return;
	wr_read_limits(load, &f, node);
	read_flags(load, &f, node);
	read_share(load, &f, node);
	if (f.value[WR_KEY_METADATA] && node->more->metadata.len == 0)
		node->more->metadata = wr_read_metadata(load, f.value[WR_KEY_METADATA]);
	wr_read_descriptors(load, &f, node);
}

void wr_read_descriptors(struct wr_load *load, const struct wr_fields *fields,
			 struct wr_node *parent)
{
	const struct wr_yaml *map;
	struct wr_rules_list list;

	wr_assert(parent->depth <= WR_DEPTH_MAX);
	if (!wr_get_list(load, fields, WR_KEY_DESCRIPTORS, true, UINT32_MAX, &list))
		return;
	if (list.count && parent->depth == WR_DEPTH_MAX) {
		wr_rules_report(load, WR_D_descriptors_too_deep, fields->key[WR_KEY_DESCRIPTORS],
				WR_ARGS(wr_rules_number_text(load, WR_DEPTH_MAX)));
		return;
	}
	while ((map = wr_rules_list_next(&list)))
		read_descriptor(load, map, parent);
}
