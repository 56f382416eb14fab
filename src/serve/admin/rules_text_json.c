/* Rule files as they are on disk, with what is wrong with them. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "limiter/engine.h"
#include "wire/json.h"
#include "serve/admin/rules_json.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))
#define FILES_MAX 100u
#define FILE_BYTES ((size_t)1 << 20) /* of a file that are shown */
#define ALL_BYTES ((size_t)8 << 20)

struct names {
	char *items[FILES_MAX];
	size_t count, left_out;
};

/* ---- which files ---- */

static void add_name(struct names *names, const char *name)
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

static void add_rules(struct names *names, const struct weir_rules *rules)
{
	for (const struct wr_node *n = rules ? rules->first_domain : NULL; n; n = wr_node_next(n))
		add_name(names, n->more->file);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- what is in them ---- */

/* Like the loader: not blocking, for somebody may have put a FIFO there. */
static size_t read_text(const char *name, char *text, size_t cap)
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

static void put_file(struct wr_text *out, const char *name, char *text, size_t *room)
{
	size_t cap = *room < FILE_BYTES ? *room : FILE_BYTES;
	size_t len = read_text(name, text, cap + 1);
	bool cut = len > cap;

	if (cut)
		len = cap;
	*room -= len;
	PUT(out, "{\"name\":");
	wr_json_put_bytes(out, wr_str(name));
	PUT(out, ",\"text\":");
	wr_json_put_bytes(out, (struct weir_str){text, len});
	wr_text_put(out, cut ? WR_STR(",\"cut\":true}") : WR_STR(",\"cut\":false}"));
}

static void put_diagnostics(struct wr_text *out, const struct weir_errors *errors)
{
	json_t *list = wr_json_diagnostics(errors);
	char *text = json_dumps(list, JSON_COMPACT);

	PUT(out, ",\"diagnostics\":");
	wr_text_put(out, wr_str(text ? text : "[]"));
	free(text);
	json_decref(list);
}

static int put_all(struct wr_text *out, struct names *names, const struct weir_errors *errors)
{
	char *text = malloc(FILE_BYTES + 1);
	size_t room = ALL_BYTES;

	if (!text)
		return WEIR_EMEMORY;
	qsort(names->items, names->count, sizeof *names->items, compare);
	PUT(out, "\"files\":[");
	for (size_t i = 0; i < names->count; i++) {
		if (i)
			wr_text_char(out, ',');
		put_file(out, names->items[i], text, &room);
	}
	PUT(out, "],\"left_out\":");
	wr_text_number(out, names->left_out);
	put_diagnostics(out, errors);
	free(text);
	return 0;
}

int wr_rules_text_json(struct weir_engine *engine, const char *path, struct wr_text *out)
{
	struct weir_errors errors = {.size = sizeof errors};
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);
	struct names names = {.count = 0};
	struct weir_rules *fresh = NULL;
	int rc;

	weir_rules_load(path, &fresh, &errors);
	add_rules(&names, fresh ? fresh : held->rules);
	for (size_t i = 0; i < errors.count; i++)
		add_name(&names, errors.items[i].file);
	wr_generation_release(engine, held, shard);
	rc = put_all(out, &names, &errors);
	for (size_t i = 0; i < names.count; i++)
		free(names.items[i]);
	weir_rules_free(fresh);
	weir_errors_free(&errors);
	return rc;
}
