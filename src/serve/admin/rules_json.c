#include "serve/admin/rules_json.h"

#include <stdio.h>

#include "limiter/engine.h"
#include "rules/limit_text.h"
#include "wire/json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

struct view {
	const struct weir_rules *rules; /* NULL: none yet */
	struct weir_engine_info info;
};

/* ---- walking ---- */

/* The next in file order, children before siblings; NULL behind the last of this domain. */
static const struct wr_node *next_node(const struct wr_node *node)
{
	if (node->more->first_child)
		return node->more->first_child;
	while (node->depth && !node->more->next)
		node = node->parent;
	return node->depth ? node->more->next : NULL;
}

static struct weir_str unit_name(const struct wr_limit *limit)
{
	switch (limit->unit) {
#define UNIT_CASE(name, number, text, seconds)                                                     \
	case number:                                                                               \
		return WR_STR(text);
		WR_UNITS(UNIT_CASE)
#undef UNIT_CASE
	default:
		return WR_STR("unknown");
	}
}

/* ---- JSON ---- */

/* From the domain down; rules are as deep as WR_DEPTH_MAX. */
static void put_path(struct wr_text *out, const struct wr_node *node, bool tell_open)
{
	const struct wr_node *path[WR_DEPTH_MAX + 1];
	size_t count = 0;

	for (; node->depth; node = node->parent)
		path[count++] = node;
	PUT(out, "[");
	for (size_t i = count; i-- > 0;) {
		PUT(out, "{\"key\":");
		wr_json_put_text(out, path[i]->key);
		if (path[i]->value.len) {
			PUT(out, ",\"value\":");
			wr_json_put_text(out, path[i]->value);
		}
		if (tell_open && path[i]->kind != WR_NODE_EXACT && !(path[i]->flags & WR_SHARE))
			PUT(out, ",\"open\":true");
		wr_text_put(out, i ? WR_STR("},") : WR_STR("}"));
	}
	PUT(out, "]");
}

static void put_words(struct wr_text *out, const struct wr_limit *limit)
{
	char words[256];
	size_t len = wr_limit_text(limit, words, sizeof words);

	wr_json_put_text(out,
			 (struct weir_str){words, len < sizeof words ? len : sizeof words - 1});
}

static void put_bool(struct wr_text *out, bool flag)
{
	wr_text_put(out, flag ? WR_STR("true") : WR_STR("false"));
}

static void put_rule(struct wr_text *out, const struct wr_node *node, const struct wr_limit *limit,
		     bool tell_open)
{
	const char *algorithm = weir_algorithm_name((int)limit->limit.algorithm);

	PUT(out, "\"rule\":");
	wr_json_put_text_or_null(out, limit->stat);
	PUT(out, ",\"name\":");
	wr_json_put_text_or_null(out, limit->name);
	PUT(out, ",\"descriptor\":");
	put_path(out, node, tell_open);
	PUT(out, ",\"limit\":");
	if (limit->unlimited)
		PUT(out, "\"unlimited\"");
	else
		put_words(out, limit);
	PUT(out, ",\"algorithm\":");
	wr_json_put_text_or_null(out, wr_str(algorithm && !limit->unlimited ? algorithm : ""));
	PUT(out, ",\"requests\":");
	wr_text_number(out, limit->limit.limit);
	PUT(out, ",\"shadow\":");
	put_bool(out, node->flags & WR_SHADOW);
	PUT(out, ",\"quota\":");
	put_bool(out, node->flags & WR_QUOTA);
	PUT(out, ",\"file\":");
	wr_json_put_text_or_null(out, wr_str(node->more->file ? node->more->file : ""));
	PUT(out, ",\"line\":");
	wr_text_number(out, node->more->line);
}

static void put_domain(struct wr_text *out, const struct wr_node *domain)
{
	bool first = true;

	PUT(out, "{\"domain\":");
	wr_json_put_text(out, domain->key);
	PUT(out, ",\"makes_descriptors\":");
	put_bool(out, domain->more->requests != NULL);
	PUT(out, ",\"rules\":[");
	for (const struct wr_node *n = next_node(domain); n; n = next_node(n))
		for (unsigned i = 0; i < n->limit_count; i++) {
			wr_text_put(out, first ? WR_STR("{") : WR_STR(",{"));
			first = false;
			put_rule(out, n, &n->limits[i], false);
			PUT(out, "}");
		}
	PUT(out, "]}");
}

static void put_hash(struct wr_text *out, uint64_t hash)
{
	char text[20];

	snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)hash);
	wr_text_put(out, wr_str(text));
}

static void put_load(struct wr_text *out, const struct weir_engine_info *info)
{
	PUT(out, "\"generation\":");
	wr_text_number(out, info->generation);
	PUT(out, ",\"hash\":");
	put_hash(out, info->hash);
	PUT(out, ",\"loaded_at\":");
	wr_json_put_seconds(out, info->loaded_ns);
	PUT(out, ",\"loads_good\":");
	wr_text_number(out, info->loads_good);
	PUT(out, ",\"loads_failed\":");
	wr_text_number(out, info->loads_failed);
	PUT(out, ",\"error\":");
	if (info->failed_ns == 0) {
		PUT(out, "null");
		return;
	}
	PUT(out, "{\"at\":");
	wr_json_put_seconds(out, info->failed_ns);
	PUT(out, ",\"text\":");
	wr_json_put_text(out, wr_str(info->error));
	PUT(out, "}");
}

static void write_rules(struct wr_text *out, const struct view *view)
{
	bool first = true;

	PUT(out, "{");
	put_load(out, &view->info);
	PUT(out, ",\"domains\":[");
	for (const struct wr_node *d = view->rules ? view->rules->first_domain : NULL; d;
	     d = d->more->next) {
		if (!first)
			PUT(out, ",");
		first = false;
		put_domain(out, d);
	}
	PUT(out, "]}\n");
}

/* ---- as the reference prints them ---- */

/* domain.key_value.key */
static void put_full_key(struct wr_text *out, const struct wr_node *node)
{
	const struct wr_node *path[WR_DEPTH_MAX + 1];
	size_t count = 0;

	for (; node->depth; node = node->parent)
		path[count++] = node;
	wr_text_put(out, node->key);
	while (count-- > 0) {
		wr_text_char(out, '.');
		wr_text_put(out, path[count]->key);
		if (path[count]->value.len) {
			wr_text_char(out, '_');
			wr_text_put(out, path[count]->value);
		}
	}
}

static void put_upper(struct wr_text *out, struct weir_str text)
{
	for (size_t i = 0; i < text.len; i++)
		wr_text_char(out, (char)(text.ptr[i] - ('a' - 'A')));
}

static void put_config_line(struct wr_text *out, const struct wr_node *node,
			    const struct wr_limit *limit)
{
	put_full_key(out, node);
	PUT(out, ": unit=");
	put_upper(out, unit_name(limit));
	PUT(out, " requests_per_unit=");
	wr_text_number(out, limit->limit.limit);
	PUT(out, ", shadow_mode: ");
	put_bool(out, node->flags & WR_SHADOW);
	PUT(out, ", quota_mode: ");
	put_bool(out, node->flags & WR_QUOTA);
	PUT(out, "\n");
}

static void write_rlconfig(struct wr_text *out, const struct view *view)
{
	for (const struct wr_node *d = view->rules ? view->rules->first_domain : NULL; d;
	     d = d->more->next)
		for (const struct wr_node *n = next_node(d); n; n = next_node(n))
			for (unsigned i = 0; i < n->limit_count; i++)
				put_config_line(out, n, &n->limits[i]);
}

/* ---- holding what is shown ---- */

static void write_held(struct weir_engine *engine, struct wr_text *out,
		       void (*write)(struct wr_text *out, const struct view *view))
{
	struct view view = {.info = {.size = sizeof view.info}};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);

	weir_engine_info(engine, &view.info);
	view.rules = held->rules;
	if (held->rules) { /* these, whatever was loaded just now */
		view.info.generation = held->number;
		view.info.hash = held->rules->hash;
		view.info.loaded_ns = held->rules->loaded_ns;
	}
	write(out, &view);
	wr_generation_release(engine, held, shard);
}

/* ---- one of them ---- */

static const struct wr_limit *find_limit(const struct weir_rules *rules, struct weir_str stat)
{
	for (const struct wr_node *d = rules ? rules->first_domain : NULL; d; d = d->more->next)
		for (const struct wr_node *n = next_node(d); n; n = next_node(n))
			for (unsigned i = 0; i < n->limit_count; i++)
				if (wr_str_equal(n->limits[i].stat, stat))
					return &n->limits[i];
	return NULL;
}

static void put_found(struct wr_text *out, const struct wr_limit *limit)
{
	const struct wr_node *domain = limit->node;

	while (domain->depth)
		domain = domain->parent;
	PUT(out, "{\"domain\":");
	wr_json_put_text(out, domain->key);
	PUT(out, ",");
	put_rule(out, limit->node, limit, true);
	PUT(out, "}");
}

void wr_rules_json_one(struct weir_engine *engine, struct weir_str stat, struct wr_text *out)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	const struct wr_limit *limit = find_limit(held->rules, stat);

	if (limit)
		put_found(out, limit);
	else
		PUT(out, "null");
	wr_generation_release(engine, held, shard);
}

void wr_rules_json(struct weir_engine *engine, struct wr_text *out)
{
	write_held(engine, out, write_rules);
}

void wr_rules_rlconfig(struct weir_engine *engine, struct wr_text *out)
{
	write_held(engine, out, write_rlconfig);
}
