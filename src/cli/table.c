/* weir table: the shared tables of this machine. */
#include <dirent.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/size.h"
#include "base/str.h"
#include "cli/cli.h"

#define NAME_MAX_LEN 64

static const char help[] =
	"weir table list\n"
	"weir table info   [NAME]\n"
	"weir table resize [NAME] SIZE [--log-memory SIZE]\n"
	"weir table rm     NAME\n"
	"\n"
	"Shows, resizes and removes the tables that gateways, services and programs share. "
	"Without\n"
	"NAME the table is \"default\". resize keeps what every key has used, and statistics "
	"begin\n"
	"at 0: a running weir serve moves over within a second, a weir gateway soon after, an\n"
	"nginx of your own at its next reload. rm\n"
	"takes the file away; processes that have it open go on with it, alone.\n"
	"\n"
	"  --log-memory SIZE\n"
	"              of it for sliding window logs, at most three quarters (otherwise: the "
	"share\n"
	"              that the table has)\n"
	"  --dir DIR   where tables are (otherwise: where weir itself looks for them, /run/weir,\n"
	"              $XDG_RUNTIME_DIR/weir, /dev/shm)\n"
	"  --json      the whole answer\n"
	"\n"
	"Exit: 0 done, 1 there is no such table or it cannot be done, 2 not understood.\n"
	"\n"
	"  weir table list\n"
	"  weir table info default\n"
	"  weir table resize default 256M\n"
	"  weir table resize default 256M --log-memory 64M\n";

struct arguments {
	const char *verb, *name, *dir, *log_memory;
	char **words;
	int word_count;
	bool json, help;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
						{"log-memory", required_argument, NULL, 'l'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'd')
			a->dir = optarg;
		else if (option == 'l')
			a->log_memory = optarg;
		else if (option == 'j')
			a->json = true;
		else if (option == 'h')
			a->help = true;
		else
			return wr_cli_usage("table", "'%s' is not understood", argv[optind - 1]);
	}
	if (a->help)
		return 0;
	if (optind == argc)
		return wr_cli_usage("table", "list, info, resize or rm is needed");
	a->verb = argv[optind];
	a->words = argv + optind + 1;
	a->word_count = argc - optind - 1;
	return 0;
}

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
	rc = weir_info(table, now_ns(), info);
	weir_close(table);
	return rc;
}

static json_t *info_json(const char *name, const struct weir_info *info)
{
	return json_pack(
		"{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"name", name, "path", info->path, "memory_bytes", (json_int_t)info->memory_bytes,
		"file_bytes", (json_int_t)info->file_bytes, "cells", (json_int_t)info->cells,
		"keys", (json_int_t)info->keys, "keys_refused", (json_int_t)info->keys_refused,
		"log_bytes", (json_int_t)info->log_bytes, "log_bytes_used",
		(json_int_t)info->log_bytes_used, "expired", (json_int_t)info->expired, "evicted",
		(json_int_t)info->evicted, "evicted_refused", (json_int_t)info->evicted_refused,
		"log_evicted", (json_int_t)info->log_evicted, "log_approximate",
		(json_int_t)info->log_approximate, "log_full", (json_int_t)info->log_full,
		"log_lost", (json_int_t)info->log_lost);
}

static void tell_info(const struct weir_info *info)
{
	char memory[WR_SIZE_TEXT], log[WR_SIZE_TEXT];
	uint64_t percent = info->cells ? info->keys * 100 / info->cells : 0;

	wr_size_text(info->memory_bytes, memory);
	wr_size_text(info->log_bytes, log);
	printf("path      %s\n", info->path);
	printf("memory    %s, of which %s for logs\n", memory, log);
	printf("keys      %llu of %llu, %llu %% full; %llu were refused last\n",
	       (unsigned long long)info->keys, (unsigned long long)info->cells,
	       (unsigned long long)percent, (unsigned long long)info->keys_refused);
	printf("logs      %llu bytes in use; %llu requests approximated for want of room\n",
	       (unsigned long long)info->log_bytes_used, (unsigned long long)info->log_approximate);
	printf("forgotten %llu live keys, %llu refused ones; %llu as good as new\n",
	       (unsigned long long)info->evicted, (unsigned long long)info->evicted_refused,
	       (unsigned long long)info->expired);
}

static int fail(const struct weir_error *error)
{
	fprintf(stderr, "weir table: %s\n", error->text);
	return WR_EXIT_NO;
}

static int run_info(const struct arguments *a)
{
	const char *name = a->word_count ? a->words[0] : "default";
	struct weir_error error = {0};
	struct weir_info info;

	if (a->word_count > 1)
		return wr_cli_usage("table", "'%s' is one word too many", a->words[1]);
	if (read_info(name, a->dir, &info, &error) < 0)
		return fail(&error);
	if (a->json)
		return wr_json_print(info_json(name, &info), WR_EXIT_YES);
	tell_info(&info);
	return WR_EXIT_YES;
}

/* ---- list ---- */

/* The name in "NAME.vLAYOUT" behind `prefix`, or false. */
static bool table_name(const char *file, const char *prefix, char name[NAME_MAX_LEN + 1])
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

/* Of one folder. A table of another layout, or of somebody else, says so in its line. */
static void list_folder(const char *dir, const char *prefix, const char *open_dir, json_t *list)
{
	char name[NAME_MAX_LEN + 1];
	struct dirent *entry;
	DIR *folder = opendir(dir);

	while (folder && (entry = readdir(folder))) {
		struct weir_error error = {0};
		struct weir_info info;

		if (!table_name(entry->d_name, prefix, name))
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

static void list_usual(json_t *list)
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

static void tell_list(const json_t *list)
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

static int run_list(const struct arguments *a)
{
	json_t *list = json_array();

	if (a->word_count) {
		json_decref(list);
		return wr_cli_usage("table", "'%s' is one word too many", a->words[0]);
	}
	if (a->dir)
		list_folder(a->dir, "", a->dir, list);
	else
		list_usual(list);
	if (a->json)
		return wr_json_print(list, WR_EXIT_YES);
	tell_list(list);
	json_decref(list);
	return WR_EXIT_YES;
}

/* ---- resize, rm ---- */

static int run_resize(const struct arguments *a)
{
	const char *name = a->word_count > 1 ? a->words[0] : "default";
	struct weir_opts opts = {.size = sizeof opts, .name = name, .dir = a->dir};
	struct weir_error error = {0};
	struct weir_info info;

	if (a->word_count < 1 || a->word_count > 2)
		return wr_cli_usage("table", "resize wants a SIZE, or NAME and SIZE");
	if (wr_size_parse(wr_str(a->words[a->word_count - 1]), &opts.memory_bytes) < 0)
		return wr_cli_usage("table", "'%s' is not a size such as 256M",
				    a->words[a->word_count - 1]);
	if (a->log_memory &&
	    (wr_size_parse(wr_str(a->log_memory), &opts.log_bytes) < 0 || opts.log_bytes == 0))
		return wr_cli_usage("table", "'%s' is not a size such as 64M", a->log_memory);
	if (read_info(name, a->dir, &info, &error) < 0 ||
	    weir_resize(&opts, now_ns(), &error) < 0 || read_info(name, a->dir, &info, &error) < 0)
		return fail(&error);
	if (a->json)
		return wr_json_print(info_json(name, &info), WR_EXIT_YES);
	tell_info(&info);
	return WR_EXIT_YES;
}

static int run_rm(const struct arguments *a)
{
	struct weir_error error = {0};

	if (a->word_count != 1)
		return wr_cli_usage("table", "rm wants a NAME");
	if (weir_remove(a->words[0], a->dir, &error) < 0)
		return fail(&error);
	if (a->json)
		return wr_json_print(json_pack("{s:s}", "removed", a->words[0]), WR_EXIT_YES);
	printf("removed; processes that have it open go on with it, alone: restart them\n");
	return WR_EXIT_YES;
}

int wr_cli_table(int argc, char **argv)
{
	static const struct {
		const char *verb;
		int (*run)(const struct arguments *a);
	} verbs[] = {
		{"list", run_list}, {"info", run_info}, {"resize", run_resize}, {"rm", run_rm}};
	struct arguments a = {.verb = ""};
	int rc = parse_arguments(argc, argv, &a);

	if (rc)
		return rc;
	if (a.help) {
		fputs(help, stdout);
		return WR_EXIT_YES;
	}
	if (a.log_memory && strcmp(a.verb, "resize") != 0)
		return wr_cli_usage("table", "--log-memory belongs to resize");
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (strcmp(a.verb, verbs[i].verb) == 0)
			return verbs[i].run(&a);
	return wr_cli_usage("table", "'%s' is none of list, info, resize and rm", a.verb);
}
