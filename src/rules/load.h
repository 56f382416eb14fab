/* State shared by the steps of loading: files → YAML → tree of rules → index.
 *
 * Memory: the arena of `rules` stays after loading, `tree` holds the YAML of one file at a time,
 * and `texts` holds the text that diagnostics quote. All steps allocate with wr_load_alloc(). If
 * there is no memory, wr_load_alloc() does not return: it jumps to weir_rules_load(), which frees
 * everything. So no step checks for NULL, and a step must keep everything that has to be freed in
 * struct wr_load. */
#ifndef WR_RULES_LOAD_H
#define WR_RULES_LOAD_H

#include <dirent.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/str.h"
#include "rules/diag.h"
#include "rules/keys.h"
#include "rules/rules.h"
#include "rules/zone.h"

#define WR_DIRECTORY_DEPTH 8

/* Bounds on rule files, because rule files are not trusted. Tests use lower bounds. */
struct wr_bounds {
	uint32_t files;
	uint64_t bytes; /* maximum number of bytes of all files together */
	uint32_t yaml_depth;
	uint32_t yaml_values; /* maximum number of values in one file, with aliases expanded */
	uint32_t wildcards;   /* maximum number of wildcards with the same parent and key */
	uint32_t requests;    /* maximum number of entries of `requests:` of one domain */
	uint32_t addresses;   /* maximum number of addresses in one list */
	uint32_t text_bytes;  /* maximum number of bytes of a key, value or name */
	uint32_t body_bytes;  /* maximum number of bytes of the body of a response */
	uint64_t lint_steps;  /* maximum number of steps of the search for warnings */
};

extern const struct wr_bounds wr_default_bounds;

struct wr_rules_file {
	const char *path;
	const char *name; /* path of the file relative to the path that was loaded */
	struct weir_str content;
	dev_t device;
	ino_t inode;
	uint32_t index; /* position of the file when all files are sorted by name */
	struct wr_rules_file *next;
};

enum wr_yaml_kind { WR_YAML_TEXT, WR_YAML_MAP, WR_YAML_LIST };

struct wr_yaml_item;

/* A YAML value. A value with an anchor can occur several times in the document, through
 * aliases. */
struct wr_yaml {
	struct weir_str text;
	struct wr_yaml_item *items;
	uint32_t line;
	uint32_t column;
	uint32_t width;
	uint32_t size; /* number of values in this value, including itself, with aliases expanded */
	uint8_t kind;
	bool plain; /* the text is not quoted, so it may be a number, a boolean or null */
};

struct wr_yaml_item {
	struct wr_yaml *key; /* NULL in a list */
	struct wr_yaml *value;
	/* True if the pair comes from a map that `<<` names. The pair is then ignored if the map
	 * that contains `<<` has the same key itself. */
	bool merged;
	struct wr_yaml_item *next;
};

/* An index of tree nodes that grows while the nodes are made. */
struct wr_build_index {
	struct wr_index index;
	size_t count;
};

struct wr_load {
	struct weir_rules *rules;
	struct wr_bounds bounds;
	const char *zone_directory;
	struct wr_diags diags;
	struct wr_arena tree;
	struct wr_arena texts;
	struct wr_rules_file *files;
	struct wr_rules_file *file;    /* the file being read */
	struct wr_rules_file *visited; /* directories that were visited */
	uint64_t bytes;
	uint32_t file_count;
	struct wr_build_index build;
	size_t wild_count;
	struct wr_zone *zones;
	uint64_t lint_steps;
	uint64_t address_steps; /* steps of the search for addresses in keys without `ban` */

	/* The fields from here on hold memory and files, which are freed even if loading stops with
	 * an error. */
	jmp_buf out_of_memory;
	struct wr_buf buf; /* `metadata` is written here as JSON, at most bounds.body_bytes */
	DIR *directories[WR_DIRECTORY_DEPTH];
	int fd;
	yaml_parser_t parser;
	yaml_event_t event;
	bool parser_live;
	bool event_live;
};

/* alloc.c: allocates from an arena. Never returns NULL. */
void *wr_load_alloc(struct wr_load *load, struct wr_arena *arena, size_t size);
struct weir_str wr_load_copy(struct wr_load *load, struct wr_arena *arena, struct weir_str text);
char *wr_load_print(struct wr_load *load, struct wr_arena *arena, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reports a diagnostic about a value of the file that is being read. `args` is as for
 * wr_diags_add(). */
void wr_rules_report(struct wr_load *load, enum wr_diag_id id, const struct wr_yaml *at,
		     const struct weir_str *args);
/* Reports a diagnostic about a line. `path` is the path of one of load->files. */
void wr_rules_report_at(struct wr_load *load, enum wr_diag_id id, const char *path, uint32_t line,
			uint32_t column, const struct weir_str *args);
void wr_rules_report_node(struct wr_load *load, enum wr_diag_id id, const struct wr_node *at,
			  const struct weir_str *args);
void wr_rules_report_file(struct wr_load *load, enum wr_diag_id id, struct wr_rules_file *file,
			  const struct weir_str *args);
#define WR_ARGS(...) ((const struct weir_str[]){__VA_ARGS__})

/* Returns a number as text, for a message. */
struct weir_str wr_rules_number_text(struct wr_load *load, uint64_t number);

/* files.c: finds and reads the files into load->files. */
void wr_files_read(struct wr_load *load, const char *path);

/* yaml.c: returns the first document of load->file, or NULL after an error. The memory is in
 * load->tree. */
struct wr_yaml *wr_yaml_read(struct wr_load *load);

/* load.c: reads one YAML file that is no rule file, and calls `read` with its document. `read`
 * reports errors with the functions above, and must keep memory of its own where the caller of this
 * function can free it, because wr_load_alloc() does not return if there is no memory. load->rules
 * is NULL. Returns 0, WEIR_ERULES (`errors` has the reasons) or WEIR_EMEMORY. The caller frees
 * `errors` in all cases. */
typedef void wr_yaml_read_fn(struct wr_load *load, const struct wr_yaml *root, void *context);
int wr_yaml_load(const char *path, const struct wr_bounds *bounds, wr_yaml_read_fn *read,
		 void *context, struct weir_errors *errors);

/* read_file.c: reads one document into the domains of load->rules. */
void wr_read_root(struct wr_load *load, const struct wr_yaml *root);

/* compile.c: builds the indexes. lint.c: reports the warnings that need the rules of all files. */
void wr_compile(struct wr_load *load);
void wr_lint(struct wr_load *load);

/* Counts one step of the search for warnings. Returns false if the search has to stop. The bound on
 * steps means that large rule sets get fewer warnings instead of slow loads. */
static inline bool wr_lint_step(struct wr_load *load)
{
	return load->lint_steps++ < load->bounds.lint_steps;
}

/* lint_requests.c: compares `requests:` with the tree of descriptors, and reports warnings. */
void wr_lint_requests(struct wr_load *load, struct wr_node *domain);

/* lint_ban.c: finds the address in the keys of limits, and reports bans that a client can
 * turn against other clients. Called after all files have been read. */
void wr_lint_bans(struct wr_load *load, const struct wr_node *domain);

/* Does the work of weir_rules_load(), with the given bounds and directory of time zones. */
int wr_rules_load_within(const char *path, const struct wr_bounds *bounds,
			 const char *zone_directory, struct weir_rules **rules,
			 struct weir_errors *errors);

#endif
