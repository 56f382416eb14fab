/* Writes the rules in force as JSON, and as text for /rlconfig. */
#include "serve/admin/rules_json.h"

#include "limiter/engine.h"
#include "rules/limit_text.h"
#include "serve/admin/admin.h"

/* ---- JSON ---- */

/* Writes the member "descriptor": the entries on the way from the domain to this tree node. With
 * `mark_open`, an entry whose value comes from the client has "open": true. */
static void write_descriptor(struct wr_json_out *json, const struct wr_node *node, bool mark_open)
{
	const struct wr_node *path[WR_DEPTH_MAX + 1];
	size_t count = 0;

	for (; node->depth; node = node->parent)
		path[count++] = node;
	wr_json_key(json, "descriptor");
	wr_json_array(json);
	while (count-- > 0) {
		wr_json_object(json);
		wr_json_member_string(json, "key", path[count]->key);
		if (path[count]->value.len)
			wr_json_member_string(json, "value", path[count]->value);
		if (mark_open && path[count]->kind != WR_NODE_EXACT &&
		    !(path[count]->flags & WR_SHARE))
			wr_json_member_bool(json, "open", true);
		wr_json_end_object(json);
	}
	wr_json_end_array(json);
}

static void write_ban(struct wr_json_out *json, const struct wr_rules_ban *ban)
{
	if (!ban) {
		wr_json_member_null(json, "ban");
		return;
	}
	wr_json_key(json, "ban");
	wr_json_object(json);
	wr_json_member_uint(json, "after", ban->after);
	wr_json_member_seconds(json, "within", ban->within_ns);
	wr_json_member_seconds(json, "for", ban->for_ns);
	wr_json_member_uint(json, "grow", ban->grow);
	wr_json_member_seconds(json, "max", ban->max_ns);
	wr_json_member_bool(json, "shield", ban->shield);
	wr_json_end_object(json);
}

static void write_rule_limit(struct wr_json_out *json, const struct wr_node *node,
			     const struct wr_rules_limit *limit, bool mark_open)
{
	const char *algorithm = weir_algorithm_name((int)limit->limit.algorithm);
	char words[256] = "unlimited";

	if (!limit->unlimited)
		wr_rules_limit_text(limit, words, sizeof words);
	wr_json_member_string_or_null(json, "rule", limit->stat);
	wr_json_member_string_or_null(json, "name", limit->name);
	write_descriptor(json, node, mark_open);
	wr_json_member_string(json, "limit", wr_str(words));
	wr_json_member_string_or_null(json, "algorithm",
				      wr_str(algorithm && !limit->unlimited ? algorithm : ""));
	wr_json_member_uint(json, "requests", limit->limit.limit);
	write_ban(json, limit->ban);
	wr_json_member_bool(json, "shadow", node->flags & WR_SHADOW);
	wr_json_member_bool(json, "quota", node->flags & WR_QUOTA);
	wr_json_member_string_or_null(json, "file",
				      wr_str(node->more->file ? node->more->file : ""));
	wr_json_member_uint(json, "line", node->more->line);
}

static void write_domain(struct wr_json_out *json, const struct wr_node *domain)
{
	wr_json_object(json);
	wr_json_member_string(json, "domain", domain->key);
	wr_json_member_bool(json, "makes_descriptors", domain->more->requests != NULL);
	wr_json_key(json, "rules");
	wr_json_array(json);
	/* After the last tree node of the domain, wr_limiter_node_next() returns the next domain. A
	 * domain has the depth 0, so the loop ends there. */
	for (const struct wr_node *n = wr_limiter_node_next(domain); n && n->depth;
	     n = wr_limiter_node_next(n))
		for (unsigned i = 0; i < n->limit_count; i++) {
			wr_json_object(json);
			write_rule_limit(json, n, &n->limits[i], false);
			wr_json_end_object(json);
		}
	wr_json_end_array(json);
	wr_json_end_object(json);
}

static void write_load(struct wr_json_out *json, const struct weir_engine_info *info)
{
	wr_json_member_uint(json, "generation", info->generation);
	wr_admin_json_hash(json, "hash", info->hash);
	wr_json_member_seconds(json, "loaded_at", info->loaded_ns);
	wr_json_member_uint(json, "loads_good", info->loads_good);
	wr_json_member_uint(json, "loads_failed", info->loads_failed);
	if (info->failed_ns == 0) {
		wr_json_member_null(json, "error");
		return;
	}
	wr_json_key(json, "error");
	wr_json_object(json);
	wr_json_member_seconds(json, "at", info->failed_ns);
	wr_json_member_string(json, "text", wr_str(info->error));
	wr_json_end_object(json);
}

void wr_admin_json_rules(struct wr_json_out *json, struct weir_engine *engine)
{
	struct weir_engine_info info = {.size = sizeof info};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);

	weir_engine_info(engine, &info);
	/* The response shows the rules in `held`, but `info` can describe newer rules. So the
	 * generation, the hash and the load time in `info` are replaced by those of `held`. */
	if (held->rules) {
		info.generation = held->number;
		info.hash = held->rules->hash;
		info.loaded_ns = held->rules->loaded_ns;
	}
	wr_json_object(json);
	write_load(json, &info);
	wr_json_key(json, "domains");
	wr_json_array(json);
	for (const struct wr_node *d = held->rules ? held->rules->first_domain : NULL; d;
	     d = d->more->next)
		write_domain(json, d);
	wr_json_end_array(json);
	wr_json_end_object(json);
	wr_generation_release(engine, held, shard);
}

/* ---- one limit ---- */

static const struct wr_rules_limit *find_limit(const struct weir_rules *rules, struct weir_str stat)
{
	for (const struct wr_node *n = rules ? rules->first_domain : NULL; n;
	     n = wr_limiter_node_next(n))
		for (unsigned i = 0; i < n->limit_count; i++)
			if (wr_str_equal(n->limits[i].stat, stat))
				return &n->limits[i];
	return NULL;
}

void wr_admin_json_limit(struct wr_json_out *json, struct weir_engine *engine, struct weir_str stat)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	const struct wr_rules_limit *limit = find_limit(held->rules, stat);

	if (limit) {
		const struct wr_node *domain = limit->node;

		while (domain->depth)
			domain = domain->parent;
		wr_json_object(json);
		wr_json_member_string(json, "domain", domain->key);
		write_rule_limit(json, limit->node, limit, true);
		wr_json_end_object(json);
	} else {
		wr_json_null(json);
	}
	wr_generation_release(engine, held, shard);
}

/* ---- /rlconfig: the rules as envoyproxy/ratelimit prints them ---- */

/* Writes the domain, and the keys and values of the tree nodes from the domain to `node`, as
 * domain.key_value.key. */
static void write_full_key(struct wr_buf *out, const struct wr_node *node)
{
	const struct wr_node *path[WR_DEPTH_MAX + 1];
	size_t count = 0;

	for (; node->depth; node = node->parent)
		path[count++] = node;
	wr_buf_add_str(out, node->key);
	while (count-- > 0) {
		wr_buf_add_char(out, '.');
		wr_buf_add_str(out, path[count]->key);
		if (path[count]->value.len) {
			wr_buf_add_char(out, '_');
			wr_buf_add_str(out, path[count]->value);
		}
	}
}

static void write_config_line(struct wr_buf *out, const struct wr_node *node,
			      const struct wr_rules_limit *limit)
{
	struct weir_str unit;

	switch (limit->unit) {
#define UNIT_CASE(name, number, text, seconds)                                                     \
	case number:                                                                               \
		unit = WR_STR(text);                                                               \
		break;
		WR_UNITS(UNIT_CASE)
#undef UNIT_CASE
	default:
		unit = WR_STR("unknown");
	}
	write_full_key(out, node);
	wr_buf_add_str(out, WR_STR(": unit="));
	for (size_t i = 0; i < unit.len; i++)
		wr_buf_add_char(out, (char)(unit.ptr[i] - ('a' - 'A')));
	wr_buf_printf(out, " requests_per_unit=%u, shadow_mode: %s, quota_mode: %s\n",
		      limit->limit.limit, node->flags & WR_SHADOW ? "true" : "false",
		      node->flags & WR_QUOTA ? "true" : "false");
}

void wr_admin_write_rlconfig(struct wr_buf *out, struct weir_engine *engine)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);

	for (const struct wr_node *n = held->rules ? held->rules->first_domain : NULL; n;
	     n = wr_limiter_node_next(n))
		for (unsigned i = 0; i < n->limit_count; i++)
			write_config_line(out, n, &n->limits[i]);
	wr_generation_release(engine, held, shard);
}
