/* Reads access logs: files in, requests in the order of their times out.
 *
 *   struct wr_lab_log *log;
 *   const struct wr_lab_record *record;
 *
 *   if (wr_lab_log_open(&opts, &log, &error) < 0)
 *           …
 *   while ((record = wr_lab_log_next(log)) != NULL)
 *           …
 *   wr_lab_log_totals(log, &totals);
 *   wr_lab_log_close(log);
 *
 * A log is a number of files, in the order of their first times. Files whose times overlap are
 * merged. Files and standard input may be compressed with gzip, xz or zstd. A directory stands for
 * the files in it. A file that several paths lead to is read once. The memory of a log does not
 * depend on the length of the files.
 *
 * A thread of its own reads the files. One thread at a time may call the functions below. */
#ifndef WR_LAB_LOG_LOG_H
#define WR_LAB_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/rules.h>

#include "base/address.h"

/* The formats: X(enum value, name of --format, description). */
#define WR_LAB_FORMATS(X)                                                                          \
	X(WR_LAB_COMMON, "common", "common log format of Apache and nginx")                        \
	X(WR_LAB_COMBINED, "combined", "common with Referer and User-Agent")                       \
	X(WR_LAB_VHOST, "vhost", "common or combined with a virtual host before it")               \
	X(WR_LAB_JSON, "json", "one JSON object in each line")                                     \
	X(WR_LAB_CSV, "csv", "values separated by commas, with a header line")                     \
	X(WR_LAB_ENVOY, "envoy", "default text format of Envoy")

enum wr_lab_format {
	WR_LAB_GUESS, /* recognise the format of each file from its first lines */
#define WR_LAB_FORMAT_ENUM(name, text, help) name,
	WR_LAB_FORMATS(WR_LAB_FORMAT_ENUM)
#undef WR_LAB_FORMAT_ENUM
};

#define WR_LAB_HEADERS_MAX 32u /* further header fields of a record are left out */
/* Larger costs count as this one. It is beyond every limit, and sums of costs stay exact. */
#define WR_LAB_COST_MAX 1000000000000000

/* One request of a log. The texts are valid until the next wr_lab_log_next(). A text that the log
 * does not have is empty. */
struct wr_lab_record {
	/* Unix time. Times of whole seconds are spread evenly within their second, in the order of
	 * their lines. */
	uint64_t time_ns;
	struct weir_str client; /* as in the log: an address, a host name, or the key of a CSV */
	/* The address of the client. If `client` is not an address, this is a stand-in: an address
	 * of fd00::/8 whose first 64 bits are a hash of `client`, so that a limit per address, or
	 * per /64, counts each name apart. */
	struct wr_address address;
	bool has_address; /* false if `client` is empty */
	bool stand_in;    /* `address` is a stand-in */
	struct weir_str method, target, host;
	struct weir_str user; /* the authenticated user */
	/* The header fields of the request that the log has, such as user-agent and referer. */
	const struct weir_header *headers;
	uint32_t header_count;
	uint32_t status; /* of the response; 0: not in the log */
	uint64_t bytes;  /* length of the response body; 0 if not in the log */
	/* Time from the arrival of the request to the end of its response; 0: not in the log. */
	uint64_t duration_ns;
	int64_t cost; /* 0 to WR_LAB_COST_MAX; 1 if the log has no cost */
};

/* What a log contained. Filled in as far as the log has been read. */
struct wr_lab_log_totals {
	uint64_t lines;      /* all lines that are not empty */
	uint64_t records;    /* lines that wr_lab_log_next() returned */
	uint64_t unreadable; /* lines that could not be read */
	/* Lines that came later than the reordering window allows. They are left out, because at
	 * any other time they would look like a burst. */
	uint64_t late;
	uint64_t reordered; /* lines that were put into order */
	uint64_t bytes;     /* bytes of the files that were read, before decompression */
	uint64_t bytes_all; /* size of all files; 0: not known, as for standard input */
	uint64_t first_ns, last_ns;
	/* Up to three unreadable lines with their places: "access.log:17: no time: …". Control
	 * characters are escaped and long lines are cut. */
	char examples[3][256];
	uint32_t example_count;
	uint32_t files;
	uint32_t damaged; /* compressed files that ended early or were damaged */
	char damage[256]; /* the first damaged file and what is wrong with it, or "" */
	/* Sentences for the user: files of a directory that are left out, files that several paths
	 * lead to, and fields that the user named but no line has. The last one is known at the end
	 * of the log. */
	char notes[3][512];
	uint32_t note_count;
};

struct wr_lab_log_opts {
	const char *const *paths; /* files and directories; "-" is standard input */
	size_t path_count;
	enum wr_lab_format format;
	/* Names of fields of JSON and CSV: "time=ts,client=ip,cost=in+out". NULL: guess. */
	const char *fields;
	uint32_t window_lines; /* largest number of lines to put into order; 0 means 1,000 */
	uint64_t window_ns;    /* longest time to put into order, up to a week; 0 means 5 minutes */
	/* Called now and then by wr_lab_log_next(), for a progress bar. May be NULL. */
	void (*progress)(void *context, const struct wr_lab_log_totals *totals);
	void *context;
};

struct wr_lab_log;

/* Opens a log. Returns 0, or an error with a text that names the file and the remedy. A file that
 * cannot be opened is an error. `opts` and its texts are used by this call only. */
int wr_lab_log_open(const struct wr_lab_log_opts *opts, struct wr_lab_log **log,
		    struct weir_error *error);

/* Returns the next request, or NULL at the end. */
const struct wr_lab_record *wr_lab_log_next(struct wr_lab_log *log);

/* Returns the record that the next wr_lab_log_next() will return, if it is in memory already, or
 * NULL. The record of the last wr_lab_log_next() stays valid. */
const struct wr_lab_record *wr_lab_log_peek(const struct wr_lab_log *log);

void wr_lab_log_totals(const struct wr_lab_log *log, struct wr_lab_log_totals *totals);

/* Ends the thread and closes the files. The log need not be at its end. If the thread waits for the
 * bytes of a pipe, this waits too. */
void wr_lab_log_close(struct wr_lab_log *log);

#endif
