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

#define WR_LOG_LINE 2048 /* longer lines are cut */

/* Sets up the log. Called before threads are started. `who` ("weir serve") begins every line of
 * text and is not copied. If `json` is true, a line is {"time":…,"level":…,"message":…}. */
void wr_log_setup(const char *who, enum wr_log_level least, bool json);

/* Writes a line with one system call. Control characters become blanks. Any thread may call it. */
void wr_log(enum wr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Limits the log lines about events that a client can cause as often as it likes. wr_log_due
 * returns true at most once a minute; it then sets *held to the number of events that were not
 * logged since the last line. Otherwise it counts the event and returns false. */
struct wr_log_gate {
	uint64_t next_ms;
	uint64_t held;
};

bool wr_log_due(struct wr_log_gate *gate, uint64_t *held);

#endif
