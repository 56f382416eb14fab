/* Writes the log to stderr; see log.h. */
#include "net/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define GATE_MS 60000

static const char *const level_names[] = {"error", "warning", "info", "debug"};

static struct {
	const char *who;
	enum wr_log_level least;
	bool json;
} log_to = {.who = "weir", .least = WR_LOG_INFO};

void wr_log_setup(const char *who, enum wr_log_level least, bool json)
{
	log_to.who = who;
	log_to.least = least;
	log_to.json = json;
}

static void blank_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

/* Copies `text` and escapes quotes and backslashes. Cuts the text if necessary, so that there is
 * room for at least three more bytes and a zero. Returns the length. */
static size_t json_quote(char *out, size_t cap, const char *text)
{
	size_t len = 0;

	for (; *text && len + 6 < cap; text++) {
		if (*text == '"' || *text == '\\')
			out[len++] = '\\';
		out[len++] = *text;
	}
	return len;
}

static size_t json_line(char *line, size_t cap, enum wr_log_level level, const char *text)
{
	struct timespec now;
	struct tm utc;
	char stamp[32];
	size_t len;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
	len = (size_t)snprintf(line, cap, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\"",
			       stamp, now.tv_nsec / 1000000, level_names[level]);
	len += json_quote(line + len, cap - len, text);
	line[len++] = '"';
	line[len++] = '}';
	line[len++] = '\n';
	return len;
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

void wr_log(enum wr_log_level level, const char *format, ...)
{
	char text[WR_LOG_LINE], line[WR_LOG_LINE + 256];
	va_list args;
	size_t len;

	if (level > log_to.least)
		return;
	va_start(args, format);
	/* The analyzer does not recognize the va_start above. */
	// NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	blank_controls(text);
	len = log_to.json ? json_line(line, sizeof line, level, text)
			  : text_line(line, sizeof line, level, text);
	if (write(STDERR_FILENO, line, len) < 0)
		return; /* a failure to write the log cannot be reported */
}

bool wr_log_due(struct wr_log_gate *gate, uint64_t *held)
{
	uint64_t now_ms = wr_clock_mono_ns() / 1000000;
	uint64_t next = __atomic_load_n(&gate->next_ms, __ATOMIC_RELAXED);
	if (now_ms < next ||
	    !__atomic_compare_exchange_n(&gate->next_ms, &next, now_ms + GATE_MS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&gate->held, 1, __ATOMIC_RELAXED);
		return false;
	}
	*held = __atomic_exchange_n(&gate->held, 0, __ATOMIC_RELAXED);
	return true;
}
