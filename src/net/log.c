/* Writes the log to stderr; see log.h. */
#include "net/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/utf8.h"

#define GATE_MS 60000 /* a struct wr_log_gate lets one line pass in this time */

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
	const char *who;
	enum wr_log_level least;
	bool json;
} log_to = {.who = "weir", .least = WR_LOG_INFO};

void wr_log_setup(const char *who, enum wr_log_level least, bool json)
{
	wr_assert(who && least <= WR_LOG_DEBUG);
	log_to.who = who;
	log_to.least = least;
	log_to.json = json;
}

static size_t json_line(char *line, size_t cap, enum wr_log_level level, const char *text)
{
	struct timespec now = wr_clock_timespec(wr_clock_wall_ns());
	struct wr_json_out json;
	struct wr_buf buf;
	struct tm utc;
	char stamp[32], time[48];

	gmtime_r(&now.tv_sec, &utc);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(time, sizeof time, "%s.%03ldZ", stamp, now.tv_nsec / 1000000);
	wr_buf_init_fixed(&buf, line, cap);
	wr_json_begin(&json, &buf);
	wr_json_object(&json);
	wr_json_member_string(&json, "time", wr_str(time));
	wr_json_member_string(&json, "level", wr_str(level_names[level]));
	wr_json_member_string(&json, "message", wr_str(text));
	wr_json_end_object(&json);
	wr_buf_add_char(&buf, '\n');
	return buf.len;
}

static size_t text_line(char *line, size_t cap, enum wr_log_level level, const char *text)
{
	const char *mark = level == WR_LOG_ERROR  ? "error: "
			   : level == WR_LOG_WARN ? "warning: "
						  : "";
	int len = snprintf(line, cap - 1, "%s: %s%s", log_to.who, mark, text);
	size_t used = (size_t)len < cap - 1 ? (size_t)len : cap - 2;

	line[used] = '\n';
	return used + 1;
}

/* Replaces control characters by blanks, also those above ASCII, such as U+009B and U+202E: client
 * text must not begin a line, control a terminal, nor change the direction of text. */
static void blank_controls(char *text)
{
	for (size_t left = strlen(text); left;) {
		size_t len = wr_utf8_len(text, left);
		uint32_t point = len ? wr_utf8_point(text, len) : 0x80;

		len = len ? len : 1;
		if (point < ' ' || point == 0x7f || wr_utf8_is_control(point))
			memset(text, ' ', len);
		text += len;
		left -= len;
	}
}

void wr_log(enum wr_log_level level, const char *format, ...)
{
	/* `line` has room for a text in which JSON escapes each byte. */
	char text[WR_LOG_LINE], line[2 * WR_LOG_LINE + 256];
	va_list args;
	size_t len;

	wr_assert(level <= WR_LOG_DEBUG);
	if (level > log_to.least)
		return;
	va_start(args, format);
	/* clang's analyser warns here without reason: it does not recognize the va_start above. */
	// NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	blank_controls(text);
	len = log_to.json ? json_line(line, sizeof line, level, text)
			  : text_line(line, sizeof line, level, text);
	if (write(STDERR_FILENO, line, len) < 0)
		return; /* the failure cannot be reported elsewhere */
}

void wr_log_limited(struct wr_log_gate *gate, enum wr_log_level level, const char *format, ...)
{
	uint64_t now_ms = wr_clock_mono_ns() / 1000000, held;
	uint64_t next = __atomic_load_n(&gate->next_ms, __ATOMIC_RELAXED);
	char text[WR_LOG_LINE];
	va_list args;

	if (now_ms < next ||
	    !__atomic_compare_exchange_n(&gate->next_ms, &next, now_ms + GATE_MS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&gate->held, 1, __ATOMIC_RELAXED);
		return;
	}
	held = __atomic_exchange_n(&gate->held, 0, __ATOMIC_RELAXED);
	va_start(args, format);
	/* clang's analyser warns here without reason: it does not recognize the va_start above. */
	// NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (held)
		wr_log(level, "%s (%llu more since the last report)", text,
		       (unsigned long long)held);
	else
		wr_log(level, "%s", text);
}
