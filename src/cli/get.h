/* Shared by the files of `weir get`: get.c (running), get_options.c (the options), get_list.c (the
 * URLs), get_seen.c (which of them it had before), get_file.c (the files), get_report.c (progress, messages and the summary). */
#ifndef WR_CLI_GET_H
#define WR_CLI_GET_H

#include <pthread.h>
#include <stdio.h>

#include <weir/client.h>

#include "base/str.h"
#include "cli/options/options.h"
#include "cli/progress.h"

#define GET_URL_MAX ((size_t)64 << 10)
#define GET_NAME_MAX 200u /* bytes of a file name that is made from a URL */
#define GET_WRONG_BYTES 512u

/* Exit codes, as curl has them. */
enum get_exit {
	GET_OK = 0,
	GET_USAGE = 2,
	GET_MALFORMED = 3,
	GET_RESOLVE = 6,
	GET_CONNECT = 7,
	GET_HTTP_ERROR = 22,
	GET_WRITE = 23,
	GET_READ = 26,
	GET_MEMORY = 27,
	GET_TIMEOUT = 28,
	GET_TLS = 35,
	GET_REDIRECT = 47,
	GET_RECEIVE = 56,
	GET_CERTIFICATE = 60,
	GET_TOO_LARGE = 63,
	GET_INTERRUPTED = 130,
};

/* ---- arguments (get_options.c) ---- */

struct get_arguments {
	/* The options as they are given. */
	const char *from, *out, *rate, *method, *data, *cache, *table, *table_dir, *cacert,
		*user_agent;
	struct wr_cli_words urls, field_texts;
	uint64_t concurrency, attempts, redirects, timeout_ns, connect_ns, deadline_ns, cache_bytes;
	bool resume, overwrite, with_errors, retry_all, no_cache, no_proxy, json, quiet;

	/* What the texts above mean. */
	const struct weir_field *fields;
	size_t field_count;
	char *body; /* NULL: no --data */
	size_t body_len;
	uint32_t rate_count; /* 0: no --rate */
	uint64_t rate_ns;
};

/* Reads and checks the arguments. Returns NULL with an exit code, after a message or the help. Called
 * once. */
const struct get_arguments *wr_cli_get_arguments(int argc, char **argv, int *code);
void wr_cli_get_arguments_free(void);

/* ---- the list of URLs (get_list.c) ---- */

struct get_list {
	const struct wr_cli_words *words;
	size_t next_word;
	const char *path; /* NULL: no file */
	FILE *file;
	uint64_t line;
	uint64_t bytes, bytes_all; /* of the file; bytes_all 0: unknown */
	int failed_errno;          /* why the file could not be read to its end; 0: it could */
	char text[GET_URL_MAX + 2];
	char wrong[GET_WRONG_BYTES];
};

/* Opens the file with URLs, if there is one. Returns 0 or -1 after a message. */
int wr_cli_get_list_open(struct get_list *list, const struct wr_cli_words *words, const char *path);
void wr_cli_get_list_close(struct get_list *list);

/* Returns the next URL, which is valid until the next call, or NULL at the end. Sets *wrong to
 * NULL, or to the file, the line and the reason why the line is not a URL; the returned text is
 * then what can be shown of the line. Sets list->failed_errno if the file cannot be read any
 * further. */
const char *wr_cli_get_list_next(struct get_list *list, const char **wrong);

/* Returns which part of the list has been read, 0 to 1, or -1 if its end is not known. */
double wr_cli_get_list_part(const struct get_list *list);

/* ---- the names of the list so far (get_seen.c) ---- */

struct get_digest {
	uint64_t word[2];
};

/* Begins as {0}. */
struct get_seen {
	struct get_digest *digests;
	size_t slots, used;
};

/* Adds the name of a file. Returns 0, 1 if the list had the name before, or -1 if memory is lacking. */
int wr_cli_get_seen_add(struct get_seen *seen, const char *name);
void wr_cli_get_seen_free(struct get_seen *seen);

/* ---- one URL ---- */

enum get_end {
	GET_COMPLETE,
	GET_SKIPPED, /* the file was complete before, or the list had the URL before */
	GET_FAILED,
};

struct get_item {
	uint64_t number; /* of the URL in the list, from 0 */
	char *url;
	char name[GET_NAME_MAX + 1]; /* of the file */
	struct get_files *files;     /* NULL: the body goes to standard output */
	int fd;                      /* of the partial file; -1: not open */
	uint64_t offset;             /* bytes that the partial file had at the start */
	uint64_t written;            /* bytes of the body, with those of earlier runs */
	char *validator;             /* of the partial file */
	int failed_errno;            /* writing failed */
	const char *failed;          /* why the body could not be written, if failed_errno is 0 */
	bool broken;                 /* it was not written because the connection broke */
	bool with_errors;            /* the body of an error is written too */
	bool restarted;              /* the request was sent again without the partial file */
};

/* ---- files (get_file.c) ---- */

struct get_files {
	int dir, partial; /* the folder, and .weir-get in it */
	const char *path; /* of the folder */
	bool resume, overwrite;
};

/* Opens --out, and makes it if it is missing. Returns 0 or -1 after a message. */
int wr_cli_get_files_open(struct get_files *files, const char *path);
void wr_cli_get_files_close(struct get_files *files);

/* Makes the name of the file for a URL: host, path and query, with each character that could have a
 * meaning in a path encoded. Different URLs have different names. */
void wr_cli_get_name(const char *url, char name[GET_NAME_MAX + 1]);

/* Looks up the files of the item. Sets offset and validator if a partial file can be continued.
 * Returns GET_COMPLETE if the URL has to be requested, GET_SKIPPED if its file is complete, or
 * GET_FAILED with the reason in item->failed. */
enum get_end wr_cli_get_file_find(struct get_item *item);

/* Writes a piece of the body at its offset. The function on_body of the request. */
int wr_cli_get_write(void *context, const struct weir_response *response, uint64_t offset,
		     const void *bytes, size_t len);

/* Gives the complete file its name. Returns 0, or -1 with the reason in item->failed or
 * item->failed_errno. */
int wr_cli_get_file_finish(struct get_item *item, const struct weir_response *response);

/* Writes out what is buffered for standard output. Returns 0 or -1; item->failed_errno says why. */
int wr_cli_get_output_finish(struct get_item *item);

/* Removes the partial file, so that the next request begins anew. */
void wr_cli_get_file_discard(struct get_item *item);

/* ---- the report (get_report.c) ---- */

struct get_report {
	bool json, quiet;
	struct wr_cli_progress progress;
	uint64_t complete, skipped, failed, bytes;
	uint64_t first_failed; /* number of the first URL of the list that failed */
	enum get_exit exit;    /* its exit code */
	bool has_json_entry;

	/* What the client waits for, set by its thread. */
	pthread_mutex_t lock;
	char host[128], text[64];
	uint64_t until_ns;
};

void wr_cli_get_report_begin(struct get_report *report, bool json, bool quiet);
void wr_cli_get_report_event(void *context, const struct weir_client_event *event);

/* Reports the end of a URL. `response` is NULL if no request was sent. `code` is GET_OK or the reason,
 * which `why` describes. */
void wr_cli_get_report_item(struct get_report *report, const struct get_item *item,
			    const struct weir_response *response, enum get_end end,
			    enum get_exit code, const char *why);

/* Reports that the list cannot be read behind its first `count` URLs. */
void wr_cli_get_report_unread(struct get_report *report, const struct get_list *list,
			      uint64_t count);

/* Shows the progress on a terminal. `part` of the URLs has ended, 0 to 1; -1: unknown. */
void wr_cli_get_report_progress(struct get_report *report, double part);

/* Writes the summary. Returns the exit code of the command. */
enum get_exit wr_cli_get_report_end(struct get_report *report, struct weir_client *client,
				    bool interrupted);

#endif
