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

/* Call it before threads are started. `who` ("weir serve") begins every line and is not copied. With
 * `json` a line is {"time":…,"level":…,"message":…}. */
void wr_log_setup(const char *who, enum wr_log_level least, bool json);

/* Writes the line with one system call; control characters become blanks. Any thread. */
void wr_log(enum wr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bounds the log lines of events that a client can cause at will. wr_log_due returns true once a
 * minute and sets *held to the number of events since then that were not logged. */
struct wr_log_gate {
	uint64_t next_ms;
	uint64_t held;
};

bool wr_log_due(struct wr_log_gate *gate, uint64_t *held);

#endif
