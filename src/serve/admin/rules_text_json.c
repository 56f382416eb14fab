/* Writes the body of GET /v1/rules/text: the rule files as they are on disk, and their errors.
 * Called by rules.c. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "limiter/engine.h"
#include "serve/admin/rules_json.h"
#include "wire/json.h"

#define FILES_MAX 100u
#define FILE_BYTES ((size_t)1 << 20) /* maximum number of bytes shown of each file */
#define ALL_BYTES ((size_t)8 << 20)  /* maximum number of bytes shown of all files together */

struct file_names {
	char *items[FILES_MAX];
	size_t count, left_out;
};

/* ---- the names of the files ---- */

static void add_name(struct file_names *names, const char *name)
{
	if (!name || !name[0])
		return;
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i], name) == 0)
			return;
	if (names->count == FILES_MAX || !(names->items[names->count] = strdup(name)))
		names->left_out++;
	else
		names->count++;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- the texts of the files ---- */

/* Reads up to `cap` bytes of a rule file, and returns their number. Opens the file without
 * blocking, as the loader does, because the file can be a FIFO. */
static size_t read_rule_text(const char *name, char *text, size_t cap)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n = 1;

	if (fd < 0)
		return 0;
	while (n > 0 && len < cap) {
		n = read(fd, text + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	return len;
}

static void write_file(struct wr_json_out *json, const char *name, char *text, size_t *room)
{
	size_t cap = *room < FILE_BYTES ? *room : FILE_BYTES;
	size_t len = read_rule_text(name, text, cap + 1);
	bool cut = len > cap;

	if (cut)
		len = cap;
	*room -= len;
	wr_json_object(json);
	wr_json_member_bytes(json, "name", wr_str(name));
	wr_json_member_bytes(json, "text", (struct weir_str){text, len});
	wr_json_member_bool(json, "cut", cut);
	wr_json_end_object(json);
}

static void write_diagnostics(struct wr_json_out *json, const struct weir_errors *errors)
{
	json_t *list = wr_wire_json_diagnostics(errors);
	char *text = json_dumps(list, JSON_COMPACT);

	wr_json_key(json, "diagnostics");
	wr_json_raw(json, wr_str(text ? text : "[]"));
	free(text);
	json_decref(list);
}

static int write_files(struct wr_json_out *json, struct file_names *names)
{
	char *text = malloc(FILE_BYTES + 1);
	size_t room = ALL_BYTES;

	if (!text)
		return WEIR_EMEMORY;
	qsort(names->items, names->count, sizeof *names->items, compare_names);
	wr_json_key(json, "files");
	wr_json_array(json);
	for (size_t i = 0; i < names->count; i++)
		write_file(json, names->items[i], text, &room);
	wr_json_end_array(json);
	wr_json_member_uint(json, "left_out", names->left_out);
	free(text);
	return 0;
}

int wr_admin_json_rules_text(struct wr_json_out *json, struct weir_engine *engine, const char *path)
{
	struct weir_errors errors = {.size = sizeof errors};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	struct file_names names = {.count = 0};
	const struct weir_rules *rules;
	struct weir_rules *fresh = NULL;
	int rc;

	weir_rules_load(path, &fresh, &errors);
	rules = fresh ? fresh : held->rules;
	for (const struct wr_node *n = rules ? rules->first_domain : NULL; n;
	     n = wr_limiter_node_next(n))
		add_name(&names, n->more->file);
	for (size_t i = 0; i < errors.count; i++)
		add_name(&names, errors.items[i].file);
	wr_generation_release(engine, held, shard);
	rc = write_files(json, &names);
	if (rc == 0)
		write_diagnostics(json, &errors);
	for (size_t i = 0; i < names.count; i++)
		free(names.items[i]);
	weir_rules_free(fresh);
	weir_errors_free(&errors);
	return rc;
}
