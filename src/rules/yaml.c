/* Turns libyaml's events into a tree of values with their locations.
 *
 * An alias points to the value of its anchor and copies nothing, so that nested aliases cannot use
 * up the memory. Every value stores the number of values that it would contain with aliases
 * expanded. This number is bounded. */
#include "rules/load.h"

#include "base/assert.h"

#define ANCHORS_MAX 4096
#define ANCHOR_BUCKETS 256

struct anchor {
	struct weir_str name;
	struct wr_yaml *node;
	bool open; /* the value of the anchor is not complete yet */
	struct anchor *next;
};

struct parse {
	struct wr_load *load;
	struct anchor *anchors[ANCHOR_BUCKETS];
	uint32_t anchor_count;
	bool failed;
};

static struct wr_yaml *parse_value(struct parse *p, uint32_t depth);

static struct wr_yaml *fail_at(struct parse *p, enum wr_diag_id id, const struct wr_yaml *at,
			       const struct weir_str *args)
{
	if (!p->failed)
		wr_rules_report(p->load, id, at, args);
	p->failed = true;
	return NULL;
}

/* Reports an error of libyaml. libyaml gives two locations for it; problem_mark is the more useful
 * one. */
static void report_syntax(struct wr_load *load)
{
	const yaml_parser_t *parser = &load->parser;
	struct wr_yaml at = {.line = (uint32_t)parser->problem_mark.line + 1,
			     .column = (uint32_t)parser->problem_mark.column + 1};
	const char *problem = parser->problem ? parser->problem : "unknown error";

	if (parser->error == YAML_READER_ERROR) {
		at.column = at.line = 1;
		for (size_t i = 0; i < parser->problem_offset && i < load->file->content.len; i++) {
			at.column++;
			if (load->file->content.ptr[i] == '\n') {
				at.line++;
				at.column = 1;
			}
		}
	}
	if (parser->context)
		problem = wr_load_print(load, &load->tree, "%s: %s", parser->context, problem);
	wr_rules_report(load, WR_D_yaml_syntax, &at, WR_ARGS(wr_str(problem)));
}

static bool next_event(struct parse *p)
{
	struct wr_load *load = p->load;

	if (load->event_live)
		yaml_event_delete(&load->event);
	load->event_live = false;
	if (!yaml_parser_parse(&load->parser, &load->event)) {
		if (load->parser.error == YAML_MEMORY_ERROR)
			longjmp(load->out_of_memory, 1);
		if (!p->failed)
			report_syntax(load);
		p->failed = true;
		return false;
	}
	load->event_live = true;
	return true;
}

/* Skips an event that has no value: the start of the stream or the end of a document. */
static bool skip_event(struct parse *p)
{
	return next_event(p);
}

static struct wr_yaml *new_node(struct parse *p, enum wr_yaml_kind kind)
{
	const yaml_event_t *event = &p->load->event;
	struct wr_yaml *node = wr_load_alloc(p->load, &p->load->tree, sizeof *node);

	node->kind = (uint8_t)kind;
	node->line = (uint32_t)event->start_mark.line + 1;
	node->column = (uint32_t)event->start_mark.column + 1;
	node->size = 1;
	node->width = 1;
	if (event->start_mark.line == event->end_mark.line)
		node->width = (uint32_t)(event->end_mark.column - event->start_mark.column);
	return node;
}

static struct anchor **anchor_bucket(struct parse *p, struct weir_str name)
{
	uint32_t hash = 5381;

	for (size_t i = 0; i < name.len; i++)
		hash = hash * 33 + (unsigned char)name.ptr[i];
	return &p->anchors[hash % ANCHOR_BUCKETS];
}

/* Adds an anchor. An alias refers to the latest anchor with its name. */
static struct anchor *add_anchor(struct parse *p, const yaml_char_t *name, struct wr_yaml *node)
{
	struct anchor **bucket, *anchor;

	if (!name)
		return NULL;
	if (p->anchor_count++ == ANCHORS_MAX) {
		fail_at(p, WR_D_too_many, node,
			WR_ARGS(wr_rules_number_text(p->load, ANCHORS_MAX), WR_STR("anchors")));
		return NULL;
	}
	anchor = wr_load_alloc(p->load, &p->load->tree, sizeof *anchor);
	anchor->name = wr_load_copy(p->load, &p->load->tree, wr_str((const char *)name));
	anchor->node = node;
	bucket = anchor_bucket(p, anchor->name);
	anchor->next = *bucket;
	*bucket = anchor;
	return anchor;
}

static struct wr_yaml *parse_alias(struct parse *p)
{
	struct wr_yaml *at = new_node(p, WR_YAML_TEXT);
	struct weir_str name = wr_load_copy(p->load, &p->load->tree,
					    wr_str((const char *)p->load->event.data.alias.anchor));

	for (struct anchor *a = *anchor_bucket(p, name); a; a = a->next)
		if (wr_str_equal(a->name, name))
			return a->open ? fail_at(p, WR_D_yaml_alias_loop, at, WR_ARGS(name))
				       : a->node;
	return fail_at(p, WR_D_yaml_alias_unknown, at, WR_ARGS(name));
}

static struct wr_yaml *parse_scalar(struct parse *p)
{
	const yaml_event_t *event = &p->load->event;
	struct wr_yaml *node = new_node(p, WR_YAML_TEXT);
	struct weir_str text = {(const char *)event->data.scalar.value, event->data.scalar.length};

	node->text = wr_load_copy(p->load, &p->load->tree, text);
	node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	add_anchor(p, event->data.scalar.anchor, node);
	return node;
}

/* Adds the size of a new child to the size of its parent. Reports an error at the child if there
 * are too many values. */
static bool count_values(struct parse *p, struct wr_yaml *node, const struct wr_yaml *added)
{
	if (added->size > p->load->bounds.yaml_values - node->size) {
		fail_at(p, WR_D_yaml_too_large, added,
			WR_ARGS(wr_rules_number_text(p->load, p->load->bounds.yaml_values)));
		return false;
	}
	node->size += added->size;
	return true;
}

static void append_item(struct parse *p, struct wr_yaml_item ***end, struct wr_yaml *key,
			struct wr_yaml *value, bool merged)
{
	struct wr_yaml_item *item = wr_load_alloc(p->load, &p->load->tree, sizeof *item);

	*item = (struct wr_yaml_item){key, value, merged, NULL};
	**end = item;
	*end = &item->next;
}

static struct wr_yaml *parse_list(struct parse *p, uint32_t depth)
{
	struct wr_yaml *node = new_node(p, WR_YAML_LIST);
	struct anchor *anchor = add_anchor(p, p->load->event.data.sequence_start.anchor, node);
	struct wr_yaml_item **end = &node->items;

	if (anchor)
		anchor->open = true;
	while (next_event(p) && p->load->event.type != YAML_SEQUENCE_END_EVENT) {
		struct wr_yaml *value = parse_value(p, depth + 1);

		if (!value || !count_values(p, node, value))
			return NULL;
		append_item(p, &end, NULL, value, false);
	}
	if (anchor)
		anchor->open = false;
	return p->failed ? NULL : node;
}

/* Handles `<<: *defaults`: adds the pairs of another map. The added pairs come last and are marked
 * as merged, because a merged pair is ignored if the map itself has the same key. */
static bool merge_map(struct parse *p, struct wr_yaml_item ***end, const struct wr_yaml *from)
{
	for (const struct wr_yaml_item *item = from->items; item; item = item->next) {
		if (from->kind == WR_YAML_LIST) {
			if (item->value->kind != WR_YAML_MAP)
				return false;
			if (!merge_map(p, end, item->value))
				return false;
		} else {
			append_item(p, end, item->key, item->value, true);
		}
	}
	return from->kind != WR_YAML_TEXT;
}

/* Reads a pair of a map. The value of `<<` is stored in *merged until the map is complete. */
static bool parse_pair(struct parse *p, struct wr_yaml *node, struct wr_yaml_item ***end,
		       struct wr_yaml **merged, uint32_t depth)
{
	struct wr_yaml *key = parse_value(p, depth + 1);
	struct wr_yaml *value;

	if (!key || !next_event(p))
		return false;
	if (key->kind != WR_YAML_TEXT)
		return fail_at(p, WR_D_yaml_key_type, key, NULL);
	value = parse_value(p, depth + 1);
	if (!value || !count_values(p, node, key) || !count_values(p, node, value))
		return false;
	if (!key->plain || !wr_str_equal(key->text, WR_STR("<<")))
		append_item(p, end, key, value, false);
	else if (value->kind == WR_YAML_TEXT)
		return fail_at(p, WR_D_yaml_merge, value, NULL);
	else
		*merged = value;
	return true;
}

static struct wr_yaml *parse_map(struct parse *p, uint32_t depth)
{
	struct wr_yaml *node = new_node(p, WR_YAML_MAP);
	struct anchor *anchor = add_anchor(p, p->load->event.data.mapping_start.anchor, node);
	struct wr_yaml_item **end = &node->items;
	struct wr_yaml *merged = NULL;

	if (anchor)
		anchor->open = true;
	while (next_event(p) && p->load->event.type != YAML_MAPPING_END_EVENT)
		if (!parse_pair(p, node, &end, &merged, depth))
			return NULL;
	if (anchor)
		anchor->open = false;
	if (merged && !merge_map(p, &end, merged))
		return fail_at(p, WR_D_yaml_merge, merged, NULL);
	return p->failed ? NULL : node;
}

/* Reads the value that the current event starts. */
static struct wr_yaml *parse_value(struct parse *p, uint32_t depth)
{
	if (depth > p->load->bounds.yaml_depth)
		return fail_at(p, WR_D_yaml_too_deep, new_node(p, WR_YAML_TEXT),
			       WR_ARGS(wr_rules_number_text(p->load, p->load->bounds.yaml_depth)));
	switch (p->load->event.type) {
	case YAML_ALIAS_EVENT:
		return parse_alias(p);
	case YAML_SCALAR_EVENT:
		return parse_scalar(p);
	case YAML_SEQUENCE_START_EVENT:
		return parse_list(p, depth);
	case YAML_MAPPING_START_EVENT:
		return parse_map(p, depth);
	default:
		return NULL;
	}
}

/* Reads the first document. Then reads one more event, and warns if it begins a second document. */
static struct wr_yaml *parse_stream(struct parse *p)
{
	struct wr_yaml *root;

	if (!skip_event(p) || !next_event(p))
		return NULL;
	if (p->load->event.type == YAML_STREAM_END_EVENT)
		return new_node(p, WR_YAML_TEXT); /* an empty file counts as null */
	if (!next_event(p))
		return NULL;
	root = parse_value(p, 0);
	if (!root || !skip_event(p) || !next_event(p))
		return NULL;
	if (p->load->event.type == YAML_DOCUMENT_START_EVENT)
		wr_rules_report(p->load, WR_D_yaml_more_documents, new_node(p, WR_YAML_TEXT), NULL);
	return root;
}

struct wr_yaml *wr_yaml_read(struct wr_load *load)
{
	struct parse p = {.load = load};
	struct wr_yaml *root;

	wr_assert(!load->parser_live);
	if (!yaml_parser_initialize(&load->parser))
		longjmp(load->out_of_memory, 1);
	load->parser_live = true;
	yaml_parser_set_input_string(&load->parser, (const unsigned char *)load->file->content.ptr,
				     load->file->content.len);
	root = parse_stream(&p);
	if (load->event_live)
		yaml_event_delete(&load->event);
	load->event_live = false;
	yaml_parser_delete(&load->parser);
	load->parser_live = false;
	return root;
}
