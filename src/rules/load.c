/* weir_rules_load(): runs the steps of loading and frees the memory of the steps. */
#include "rules/load.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/versioned.h"
#include "rules/requests.h"

#define RULES_BYTES_MAX ((size_t)2048 * 1024 * 1024)
#define TREE_BYTES_MAX ((size_t)1024 * 1024 * 1024)
#define DOMAIN_LEAST (offsetof(struct weir_domain_info, name) + sizeof(struct weir_str))

const struct wr_bounds wr_default_bounds = {
	.files = 10000,
	.bytes = 64 * 1024 * 1024,
	.yaml_depth = 100,
	.yaml_values = 4000000,
	.wildcards = 4096,
	.requests = 4096,
	.addresses = 100000,
	.text_bytes = 4096,
	.body_bytes = 65536,
	.lint_steps = 2000000,
};

/* Returns a hash of the names and contents of all files. Two machines with the same hash have the
 * same rules. */
static uint64_t hash_files(const struct wr_load *load)
{
	uint64_t hash = 0;

	for (const struct wr_rules_file *file = load->files; file; file = file->next) {
		hash = XXH3_64bits_withSeed(file->name, strlen(file->name), hash);
		hash = XXH3_64bits_withSeed(file->content.ptr, file->content.len, hash);
	}
	return hash;
}

static void read_all(struct wr_load *load)
{
	/* Tree nodes point to the paths of their files, so the paths are copied before `texts` is
	 * freed. */
	for (struct wr_rules_file *file = load->files; file; file = file->next)
		file->path = wr_load_copy(load, &load->rules->arena, wr_str(file->path)).ptr;
	for (load->file = load->files; load->file; load->file = load->file->next) {
		uint32_t errors = load->diags.errors->errors;
		struct wr_yaml *root;

		if (load->file->content.ptr == NULL)
			continue; /* the file could not be read, which was reported */
		root = wr_yaml_read(load);
		if (root && load->diags.errors->errors == errors)
			wr_read_root(load, root);
		wr_arena_free(&load->tree);
		load->rules->file_count++;
	}
	load->file = load->files;
}

static void load_all(struct wr_load *load, const char *path)
{
	struct weir_rules *rules = load->rules;

	rules->fingerprint = weir_rules_fingerprint(path);
	rules->path = wr_load_copy(load, &rules->arena, wr_str(path)).ptr;
	wr_files_read(load, path);
	rules->hash = hash_files(load);
	read_all(load);
	wr_compile(load);
	if (load->diags.errors->errors == 0)
		wr_lint(load);
}

static void free_loading(struct wr_load *load)
{
	if (load->event_live)
		yaml_event_delete(&load->event);
	if (load->parser_live)
		yaml_parser_delete(&load->parser);
	for (int i = 0; i < WR_DIRECTORY_DEPTH; i++)
		if (load->directories[i])
			closedir(load->directories[i]);
	if (load->fd >= 0)
		close(load->fd);
	free(load->build.index.slots);
	wr_buf_free(&load->buf);
	wr_arena_free(&load->tree);
	wr_arena_free(&load->texts);
}

/* Makes a random secret. If the kernel provides no random numbers, makes the secret from the
 * address of `rules` in memory. */
static void make_secret(struct weir_rules *rules)
{
	if (getrandom(rules->secret, sizeof rules->secret, 0) == (ssize_t)sizeof rules->secret)
		return;
	for (size_t i = 0; i < sizeof rules->secret / 8; i++) {
		uintptr_t address = (uintptr_t)rules;
		uint64_t word = XXH3_64bits_withSeed(&address, sizeof address, i);

		memcpy(rules->secret + i * 8, &word, 8);
	}
}

static struct weir_rules *new_rules(void)
{
	struct weir_rules *rules = calloc(1, sizeof *rules);

	if (!rules)
		return NULL;
	wr_arena_init(&rules->arena, RULES_BYTES_MAX);
	wr_arena_init(&rules->nodes_arena, RULES_BYTES_MAX);
	make_secret(rules);
	return rules;
}

/* Runs the steps of loading. Returns 0 or WEIR_EMEMORY; all other errors are in the diagnostics. */
static int run_steps(struct wr_load *load, const char *path)
{
	if (setjmp(load->out_of_memory) != 0) {
		free_loading(load);
		return WEIR_EMEMORY;
	}
	load_all(load, path);
	free_loading(load);
	return 0;
}

static void init_loading(struct wr_load *load, const struct wr_bounds *bounds)
{
	load->bounds = *bounds;
	load->fd = -1;
	wr_buf_init(&load->buf, bounds->body_bytes);
	wr_arena_init(&load->tree, TREE_BYTES_MAX);
	wr_arena_init(&load->texts, 4 * bounds->bytes + TREE_BYTES_MAX / 16);
}

static int read_document(struct wr_load *load, const char *path, wr_yaml_read_fn *read,
			 void *context)
{
	const struct wr_yaml *root;

	if (setjmp(load->out_of_memory) != 0) {
		free_loading(load);
		return WEIR_EMEMORY;
	}
	wr_files_read(load, path);
	load->file = load->files;
	root = load->file && load->file->content.ptr ? wr_yaml_read(load) : NULL;
	if (root && load->diags.errors->errors == 0)
		read(load, root, context);
	free_loading(load);
	return 0;
}

int wr_yaml_load(const char *path, const struct wr_bounds *bounds, wr_yaml_read_fn *read,
		 void *context, struct weir_errors *errors)
{
	struct wr_load *load = calloc(1, sizeof *load);
	int rc;

	wr_assert(path && bounds && errors);
	if (!load)
		return WEIR_EMEMORY;
	init_loading(load, bounds);
	rc = wr_diags_init(&load->diags, errors);
	if (rc == 0)
		rc = read_document(load, path, read, context);
	if (load->diags.arena)
		wr_diags_finish(&load->diags);
	if (rc == 0 && errors->errors)
		rc = WEIR_ERULES;
	free(load);
	return rc;
}

int wr_rules_load_within(const char *path, const struct wr_bounds *bounds,
			 const char *zone_directory, struct weir_rules **rules,
			 struct weir_errors *errors)
{
	struct weir_errors own = {.size = sizeof own};
	struct wr_load *load;
	int rc;

	wr_assert(path && bounds);
	*rules = NULL;
	load = calloc(1, sizeof *load);
	if (!load)
		return WEIR_EMEMORY;
	init_loading(load, bounds);
	load->zone_directory = zone_directory;
	load->rules = new_rules();
	rc = wr_diags_init(&load->diags, errors ? errors : &own);
	if (load->rules && rc == 0)
		rc = run_steps(load, path);
	else
		rc = WEIR_EMEMORY;
	if (load->diags.arena)
		wr_diags_finish(&load->diags);
	if (rc == 0 && load->diags.errors->errors)
		rc = WEIR_ERULES;
	if (rc == 0)
		*rules = load->rules;
	else
		weir_rules_free(load->rules);
	free(load);
	weir_errors_free(&own);
	return rc;
}

int weir_rules_load(const char *path, struct weir_rules **rules, struct weir_errors *errors)
{
	struct weir_errors known = {.size = sizeof known}, *out = NULL;
	int rc;

	if (errors)
		out = wr_versioned_target(errors, &known, sizeof known, WR_ERRORS_LEAST);
	if (!path || !rules || (errors && !out))
		return WEIR_EINVAL;
	rc = wr_rules_load_within(path, &wr_default_bounds, WR_ZONE_DIRECTORY, rules, out);
	if (errors)
		wr_versioned_write(errors, out, sizeof known);
	return rc;
}

void weir_rules_free(struct weir_rules *rules)
{
	if (!rules)
		return;
	wr_arena_free(&rules->arena);
	wr_arena_free(&rules->nodes_arena);
	free(rules);
}

int weir_rules_changed(const struct weir_rules *rules)
{
	return weir_rules_fingerprint(rules->path) != rules->fingerprint;
}

void weir_rules_stamp(struct weir_rules *rules, uint64_t generation, uint64_t loaded_ns)
{
	rules->generation = generation;
	rules->loaded_ns = loaded_ns;
}

int weir_rules_info(const struct weir_rules *rules, struct weir_rules_info *info)
{
	struct weir_rules_info known, *out;

	if (!rules || !info)
		return WEIR_EINVAL;
	out = wr_versioned_target(info, &known, sizeof known,
				  offsetof(struct weir_rules_info, hash));
	if (!out)
		return WEIR_EINVAL;
	*out = (struct weir_rules_info){
		.size = sizeof *out,
		.files = rules->file_count,
		.domains = rules->domain_count,
		.descriptors = rules->node_count - rules->domain_count,
		.limits = rules->limit_count,
		.requests = rules->request_count,
		.hash = rules->hash,
		.bytes = rules->arena.held + rules->nodes_arena.held + sizeof *rules,
		.generation = rules->generation,
		.loaded_ns = rules->loaded_ns,
		.logs = rules->log_count,
	};
	wr_versioned_write(info, out, sizeof known);
	return 0;
}

int weir_rules_domain(const struct weir_rules *rules, size_t i, struct weir_domain_info *info)
{
	struct weir_domain_info known, *out;
	const struct wr_node *domain;

	if (!rules || !info)
		return WEIR_EINVAL;
	out = wr_versioned_target(info, &known, sizeof known, DOMAIN_LEAST);
	if (!out)
		return WEIR_EINVAL;
	for (domain = rules->first_domain; domain && i > 0; i--)
		domain = domain->more->next;
	if (!domain)
		return WEIR_ENOENT;
	*out = (struct weir_domain_info){
		.size = sizeof *out,
		.requests = domain->more->requests ? domain->more->requests->count : 0,
		.name = domain->key,
	};
	wr_versioned_write(info, out, sizeof known);
	return 0;
}
