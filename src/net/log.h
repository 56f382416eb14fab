/* The log: one line per event on stderr, as text for people or as JSON for log collectors. */
#ifndef WR_NET_LOG_H
#define WR_NET_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum wr_log_level {
	WR_LOG_ERROR,
	WR_LOG_WARN,
	WR_LOG_INFO,
	WR_LOG_DEBUG,
};

#define WR_LOG_LINE 2048 /* maximum size of a message with its zero byte; longer messages are cut */

/* Sets up the log. Called before threads are started. `least` is the least severe level that is
 * logged. Every line of text begins with `who` ("weir serve"); the caller keeps `who` alive. If
 * `json` is true, a line is {"time":…,"level":…,"message":…}. */
void wr_log_setup(const char *who, enum wr_log_level least, bool json);

/* Writes a line with one system call. Control characters are replaced by blanks. Any thread may
 * call it. */
void wr_log(enum wr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Limits the log lines about an event that a client can cause as often as it likes. */
struct wr_log_gate {
	uint64_t next_ms; /* monotonic time before which no line is written */
	uint64_t held;    /* number of events that were not logged since the previous line */
};

/* Like wr_log, but writes at most one line a minute for this gate. If events were not logged since
 * the previous line, the new line ends with their number. */
void wr_log_limited(struct wr_log_gate *gate, enum wr_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
