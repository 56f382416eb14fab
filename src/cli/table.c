/* weir table: lists, shows, resizes and removes the shared tables of this machine. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/options/table.h"

#define NAME_MAX_LEN 64

static struct table_arguments {
	const char *dir;
	uint64_t log_bytes;
	bool json;
} given;
static struct wr_cli_words words; /* the verb, then its arguments */

#define AT(field) .at = offsetof(struct table_arguments, field)

static const struct wr_cli_option options[] = {
	{"log-memory", WR_OPTION_SIZE, "SIZE", NULL,
	 "resize: part of SIZE for sliding window logs, at most\n"
	 "three quarters; without it the present share",
	 AT(log_bytes), .min = 1, .variable = WR_NO_VARIABLE},
	{"dir", WR_OPTION_TEXT, "DIR", NULL, WR_TABLE_DIR_HELP, AT(dir),
	 .variable = "WEIR_TABLE_DIR"},
	{"json", WR_OPTION_SWITCH, NULL, NULL, "print the whole answer as JSON", AT(json),
	 .variable = WR_NO_VARIABLE},
};

static const struct wr_cli_option_group groups[] = {WR_OPTION_GROUP("Options", options, &given)};

static const struct wr_cli_command command = {
	"table",
	"weir table list\n"
	"weir table info   [NAME]\n"
	"weir table resize [NAME] SIZE [--log-memory SIZE]\n"
	"weir table rm     NAME\n"
	"\n"
	"Shows, resizes and removes the tables that gateways, services and programs share. "
	"Without\n"
	"NAME the table is \"default\". resize keeps the usage of every key and resets statistics "
	"to\n"
	"0. A running weir serve changes to the new table within a second, a weir gateway soon\n"
	"after, and your own nginx at its next reload. rm removes the file; processes that have "
	"the\n"
	"table open keep it and no longer share counters with others.\n",
	"Examples\n"
	"  weir table list\n"
	"  weir table info default\n"
	"  weir table resize default 256M\n"
	"  weir table resize default 256M --log-memory 64M\n"
	"\n"
	"Exit: 0 done, 1 the table does not exist or the change failed, 2 usage error.\n",
	groups,
	sizeof groups / sizeof *groups,
	.words = &words,
};

/* ---- info ---- */

static int read_info(const char *name, const char *dir, struct weir_info *info,
		     struct weir_error *error)
{
	struct weir_opts opts = {
		.size = sizeof opts, .flags = WEIR_OPEN_EXISTING, .name = name, .dir = dir};
	struct weir_table *table;
	int rc = weir_open(&opts, &table, error);

	if (rc < 0)
		return rc;
	*info = (struct weir_info){.size = sizeof *info};
	rc = weir_info(table, wr_clock_wall_ns(), info);
	weir_close(table);
	return rc;
}

static json_t *info_json(const char *name, const struct weir_info *info)
{
	return json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I}",
		"name", name, "path", info->path, "memory_bytes", (json_int_t)info->memory_bytes,
		"file_bytes", (json_int_t)info->file_bytes, "huge_bytes",
		(json_int_t)info->huge_bytes, "cells", (json_int_t)info->cells, "keys",
		(json_int_t)info->keys, "keys_refused", (json_int_t)info->keys_refused, "log_bytes",
		(json_int_t)info->log_bytes, "log_bytes_used", (json_int_t)info->log_bytes_used,
		"expired", (json_int_t)info->expired, "evicted", (json_int_t)info->evicted,
		"evicted_refused", (json_int_t)info->evicted_refused, "log_evicted",
		(json_int_t)info->log_evicted, "log_approximate", (json_int_t)info->log_approximate,
		"log_full", (json_int_t)info->log_full, "log_lost", (json_int_t)info->log_lost);
}

static void print_info(const struct weir_info *info)
{
	char memory[WR_SIZE_TEXT], file[WR_SIZE_TEXT], log[WR_SIZE_TEXT], huge[WR_SIZE_TEXT];
	uint64_t percent = info->cells ? info->keys * 100 / info->cells : 0;
	uint64_t evicted = info->evicted + info->evicted_refused;

	wr_size_text(info->memory_bytes, memory);
	wr_size_text(info->file_bytes, file);
	wr_size_text(info->log_bytes, log);
	wr_size_text(info->huge_bytes, huge);
	printf("path      %s\n", info->path);
	printf("memory    %s, of which %s for logs\n", memory, log);
	printf("pages     %s of %s in huge pages\n", huge, file);
	printf("keys      %llu of %llu, %llu %% full, %llu over their limit\n",
	       (unsigned long long)info->keys, (unsigned long long)info->cells,
	       (unsigned long long)percent, (unsigned long long)info->keys_refused);
	printf("logs      %llu bytes in use; %llu requests approximated for lack of room\n",
	       (unsigned long long)info->log_bytes_used, (unsigned long long)info->log_approximate);
	printf("evicted   %llu active keys, %llu of them over their limit; %llu expired keys "
	       "removed\n",
	       (unsigned long long)evicted, (unsigned long long)info->evicted_refused,
	       (unsigned long long)info->expired);
}

static int show_table(const char *name)
{
	struct weir_error error = {0};
	struct weir_info info;

	if (read_info(name, given.dir, &info, &error) < 0)
		return wr_cli_fail("table", &error, WR_EXIT_NO);
	if (given.json)
		return wr_cli_json_print(info_json(name, &info), WR_EXIT_YES);
	print_info(&info);
	return WR_EXIT_YES;
}

static int refuse_word(size_t i)
{
	return wr_cli_usage("table", "'%s' is an unexpected argument", words.items[i]);
}

static int run_info(void)
{
	return words.count > 2 ? refuse_word(2)
			       : show_table(words.count > 1 ? words.items[1] : "default");
}

/* ---- list ---- */

/* Copies NAME from a file name "PREFIXNAME.vLAYOUT". Returns false if the file name has another
 * form. */
static bool read_name(const char *file, const char *prefix, char name[NAME_MAX_LEN + 1])
{
	const char *end = strrchr(file, '.');
	size_t skip = strlen(prefix);

	if (!end || end[1] != 'v' || !end[2] || strspn(end + 2, "0123456789") != strlen(end + 2) ||
	    strncmp(file, prefix, skip) != 0 || end <= file + skip ||
	    (size_t)(end - file) - skip > NAME_MAX_LEN)
		return false;
	memcpy(name, file + skip, (size_t)(end - file) - skip);
	name[(size_t)(end - file) - skip] = 0;
	return true;
}

/* Adds the tables of one folder to the list. A table that cannot be opened, because of its layout
 * or its owner, gets a member "error". */
static void list_folder(const char *dir, const char *prefix, const char *open_dir, json_t *list)
{
	char name[NAME_MAX_LEN + 1];
	struct dirent *entry;
	DIR *folder = opendir(dir);

	while (folder && (entry = readdir(folder))) {
		struct weir_error error = {0};
		struct weir_info info;

		if (!read_name(entry->d_name, prefix, name))
			continue;
		if (read_info(name, open_dir, &info, &error) < 0)
			json_array_append_new(list, json_pack("{s:s, s:s++, s:s}", "name", name,
							      "path", dir, "/", entry->d_name,
							      "error", error.text));
		else
			json_array_append_new(list, info_json(name, &info));
	}
	if (folder)
		closedir(folder);
}

static void list_default_folders(json_t *list)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	char text[512];

	list_folder("/run/weir", "", "/run/weir", list);
	if (session && session[0] == '/' &&
	    (size_t)snprintf(text, sizeof text, "%s/weir", session) < sizeof text)
		list_folder(text, "", text, list);
	snprintf(text, sizeof text, "weir-%u-", (unsigned)geteuid());
	list_folder("/dev/shm", text, NULL, list);
}

static void print_list(const json_t *list)
{
	if (json_array_size(list) == 0)
		puts("there is no table");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *table = json_array_get(list, i);
		const json_t *error = json_object_get(table, "error");
		char memory[WR_SIZE_TEXT];

		printf("%-20s ", json_string_value(json_object_get(table, "name")));
		if (error) {
			puts(json_string_value(error));
			continue;
		}
		wr_size_text((uint64_t)json_integer_value(json_object_get(table, "memory_bytes")),
			     memory);
		printf("%6s  %lld of %lld keys  %s\n", memory,
		       (long long)json_integer_value(json_object_get(table, "keys")),
		       (long long)json_integer_value(json_object_get(table, "cells")),
		       json_string_value(json_object_get(table, "path")));
	}
}

static int run_list(void)
{
	json_t *list;

	if (words.count > 1)
		return refuse_word(1);
	list = json_array();
	if (given.dir)
		list_folder(given.dir, "", given.dir, list);
	else
		list_default_folders(list);
	if (given.json)
		return wr_cli_json_print(list, WR_EXIT_YES);
	print_list(list);
	json_decref(list);
	return WR_EXIT_YES;
}

/* ---- resize, rm ---- */

static int run_resize(void)
{
	const char *name = words.count > 2 ? words.items[1] : "default";
	const char *size = words.items[words.count - 1];
	struct weir_opts opts = {
		.size = sizeof opts, .name = name, .dir = given.dir, .log_bytes = given.log_bytes};
	struct weir_error error = {0};
	struct weir_info info;

	if (words.count < 2 || words.count > 3)
		return wr_cli_usage("table", "resize needs SIZE, or NAME and SIZE");
	if (wr_size_parse(wr_str(size), &opts.memory_bytes) < 0)
		return wr_cli_usage("table", "'%s' is not a size such as 256M", size);
	if (read_info(name, given.dir, &info, &error) < 0 ||
	    weir_resize(&opts, wr_clock_wall_ns(), &error) < 0)
		return wr_cli_fail("table", &error, WR_EXIT_NO);
	return show_table(name);
}

static int run_rm(void)
{
	struct weir_error error = {0};

	if (words.count != 2)
		return wr_cli_usage("table", "rm needs NAME");
	if (weir_remove(words.items[1], given.dir, &error) < 0)
		return wr_cli_fail("table", &error, WR_EXIT_NO);
	if (given.json)
		return wr_cli_json_print(json_pack("{s:s}", "removed", words.items[1]),
					 WR_EXIT_YES);
	puts("removed; restart the processes that have the table open: they no longer share it");
	return WR_EXIT_YES;
}

int wr_cli_table(int argc, char **argv)
{
	static const struct {
		const char *verb;
		int (*run)(void);
	} verbs[] = {
		{"list", run_list}, {"info", run_info}, {"resize", run_resize}, {"rm", run_rm}};
	int code;

	if (!wr_cli_read(&command, argc, argv, &code))
		return code;
	if (words.count == 0)
		return wr_cli_usage("table", "list, info, resize or rm is needed");
	if (given.log_bytes && strcmp(words.items[0], "resize") != 0)
		return wr_cli_usage("table", "--log-memory is for resize");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (strcmp(words.items[0], verbs[i].verb) == 0)
			return verbs[i].run();
	return wr_cli_usage("table", "'%s' is not one of: list, info, resize, rm", words.items[0]);
}
