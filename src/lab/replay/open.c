/* Makes a replay: its table, its engine, and the list of limits. Called by the commands that replay
 * a log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/replay/inner.h"
#include "lab/replay/table.h"

/* ---- the domain ---- */

/* Writes the names of domains as "a, b, c". */
static void list_domains(const struct weir_rules *rules, bool with_requests, char *text, size_t cap)
{
	size_t len = 0;

	text[0] = 0;
	for (const struct wr_node *d = rules->first_domain; d && len < cap; d = d->more->next)
		if (!with_requests || d->more->requests)
			len += (size_t)snprintf(text + len, cap - len, "%s%.*s", len ? ", " : "",
						(int)d->key.len, d->key.ptr);
}

/* Finds the domain with this name. If `name` is NULL, finds the only domain that can be used: with
 * --descriptor any domain, otherwise one that has `requests:`. Sets *count to the number of domains
 * that can be used. */
static const struct wr_node *find_domain(const struct weir_rules *rules, const char *name,
					 bool with_requests, size_t *count)
{
	const struct wr_node *found = NULL;

	*count = 0;
	for (const struct wr_node *d = rules->first_domain; d; d = d->more->next)
		if (name ? wr_str_equal(d->key, wr_str(name))
			 : !with_requests || d->more->requests) {
			found = d;
			++*count;
		}
	return found;
}

static int pick_domain(struct wr_lab_replay *replay, const struct weir_rules *rules,
		       const char *name, struct weir_error *error)
{
	bool with_requests = replay->descriptor_count == 0;
	char names[256];
	size_t count;

	replay->domain = find_domain(rules, name, with_requests, &count);
	list_domains(rules, count > 1 && with_requests, names, sizeof names);
	if (name && !replay->domain)
		return wr_error(error, WEIR_EINVAL,
				"--domain %s is not in the rules; the rules have: %s", name, names);
	if (count > 1)
		return wr_error(error, WEIR_EINVAL,
				"the rules have several domains; choose one with --domain: %s",
				names);
	if (!replay->domain || (with_requests && !replay->domain->more->requests))
		return wr_error(error, WEIR_EINVAL,
				"the rules have no requests:, which makes descriptors from HTTP "
				"requests; add it (docs/rules.md), or name fields of the log: "
				"--descriptor 'remote_address=client'");
	return 0;
}

static int read_descriptors(struct wr_lab_replay *replay, const struct wr_lab_replay_opts *opts,
			    struct weir_error *error)
{
	if (opts->descriptor_count > WR_LAB_DESCRIPTORS_MAX)
		return wr_error(error, WEIR_EINVAL, "there are more than %u --descriptor options",
				WR_LAB_DESCRIPTORS_MAX);
	replay->descriptor_count = opts->descriptor_count;
	for (size_t i = 0; i < opts->descriptor_count; i++) {
		int rc = wr_lab_descriptor_read(opts->descriptors[i], &replay->descriptors[i],
						error);

		if (rc)
			return rc;
	}
	return 0;
}

/* ---- the limits ---- */

/* Calls wr_limiter_node_next(), but only for the nodes of the replay's domain. */
static const struct wr_node *next_node(const struct wr_node *node)
{
	const struct wr_node *next = wr_limiter_node_next(node);

	return next && next->depth ? next : NULL;
}

static size_t count_limits(const struct wr_node *domain)
{
	size_t count = 0;

	for (const struct wr_node *node = domain; node; node = next_node(node))
		for (uint32_t i = 0; i < node->limit_count; i++)
			count += !node->limits[i].unlimited;
	return count;
}

/* Lists the limits in file order, and sets the index of each by its number in the generation. */
static void list_limits(struct wr_lab_replay *replay, const struct wr_generation *generation)
{
	size_t at = 0;

	for (const struct wr_node *node = replay->domain; node; node = next_node(node))
		for (uint32_t i = 0; i < node->limit_count; i++) {
			if (node->limits[i].unlimited)
				continue;
			/* A domain's first number is that of limits that come with requests. */
			replay->by_policy[generation->first[node->id] + i +
					  (node->kind == WR_NODE_DOMAIN)] = (uint32_t)at;
			replay->limits[at].rule = &node->limits[i];
			if (replay->algorithms)
				wr_lab_algorithms_set(replay->algorithms, at, &node->limits[i]);
			at++;
		}
}

static bool make_statistics(struct wr_lab_replay *replay, const struct wr_lab_replay_opts *opts)
{
	size_t count = count_limits(replay->domain), groups = count + 1;
	const struct weir_rules *rules = replay->rules;

	replay->limit_count = count;
	replay->limits = calloc(count + 1, sizeof *replay->limits);
	replay->by_policy =
		calloc((size_t)rules->limit_count + rules->domain_count + 1, sizeof(uint32_t));
	replay->timelines = opts->timelines;
	if (opts->timelines)
		replay->timeline = calloc(1, sizeof *replay->timeline);
	if (opts->algorithms)
		replay->algorithms = wr_lab_algorithms_new(count, WR_LAB_ALGORITHMS_BYTES);
	return replay->limits && replay->by_policy && wr_lab_replay_make_open(replay, 2) &&
	       (!opts->timelines || replay->timeline) &&
	       (!opts->algorithms || replay->algorithms) &&
	       wr_lab_keys_init(&replay->keys, (uint32_t)groups, WR_LAB_KEYS_MAX) &&
	       wr_lab_top_init(&replay->top, (uint32_t)groups, WR_LAB_TOP_MAX);
}

/* ---- the replay ---- */

static bool ends_before(const struct wr_heap_node *a, const struct wr_heap_node *b)
{
	return wr_container_of(a, const struct wr_lab_open, node)->end_ns <
	       wr_container_of(b, const struct wr_lab_open, node)->end_ns;
}

static int set_up(struct wr_lab_replay *replay, struct weir_rules *rules,
		  const struct wr_lab_replay_opts *opts, struct weir_error *error)
{
	struct weir_engine_opts engine = {.size = sizeof engine, .flags = WEIR_ENGINE_NO_STATS};
	int rc = read_descriptors(replay, opts, error);

	if (rc == 0)
		rc = pick_domain(replay, rules, opts->domain, error);
	if (rc)
		return rc;
	replay->rules = rules;
	wr_heap_init(&replay->open, ends_before, WR_LAB_OPEN_MAX);
	if (!make_statistics(replay, opts))
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = wr_lab_replay_table(opts->memory_bytes, rules->log_count > 0, &replay->table, error);
	if (rc)
		return rc;
	rc = weir_engine_new(replay->table, rules, &engine, &replay->engine);
	if (rc)
		return wr_error(error, rc, "cannot make an engine: %s", weir_strerror(rc));
	list_limits(replay, replay->engine->current);
	replay->view = (struct weir_http_view){
		.size = sizeof replay->view, .header = wr_lab_replay_header, .context = replay};
	return 0;
}

int wr_lab_replay_open(struct weir_rules *rules, const struct wr_lab_replay_opts *opts,
		       struct wr_lab_replay **made, struct weir_error *error)
{
	struct wr_lab_replay *replay = calloc(1, sizeof *replay);
	int rc;

	if (!replay)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = set_up(replay, rules, opts, error);
	if (rc) {
		wr_lab_replay_close(replay);
		return rc;
	}
	*made = replay;
	return 0;
}

void wr_lab_replay_close(struct wr_lab_replay *replay)
{
	if (!replay)
		return;
	wr_lab_replay_free_open(replay);
	if (replay->engine)
		weir_engine_free(replay->engine);
	if (replay->table)
		weir_close(replay->table);
	for (size_t i = 0; replay->limits && i < replay->limit_count; i++)
		free(replay->limits[i].timeline);
	free(replay->limits);
	free(replay->by_policy);
	free(replay->timeline);
	wr_lab_keys_free(&replay->keys);
	wr_lab_top_free(&replay->top);
	wr_lab_algorithms_free(replay->algorithms);
	free(replay);
}
