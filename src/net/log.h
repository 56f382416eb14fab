/* One line per event on stderr, for people and for collectors. */
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

/* Before threads are started. `who` ("weir serve") begins every line and is not copied. With `json`
 * a line is {"time":…,"level":…,"message":…}. */
void wr_log_setup(const char *who, enum wr_log_level least, bool json);

/* Writes the line with one system call; control characters become blanks. Any thread. */
void wr_log(enum wr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For events a client can cause at will: says yes once a minute, and how many it said no to since.
 */
struct wr_log_gate {
	uint64_t next_ms;
	uint64_t held;
};

bool wr_log_due(struct wr_log_gate *gate, uint64_t *held);

#endif
