/* Writes examples of unreadable lines, and notes on files and fields. */
#include "lab/log/example.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Bytes of the end of a long path that an example shows. The formats below have this number too. */
#define PATH_SHOWN 80u

size_t wr_lab_show(char *to, size_t room, struct weir_str text)
{
	size_t len = text.len < room ? text.len : room - 1;

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)text.ptr[i];

		to[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	to[len] = '\0';
	return len;
}

/* Returns the last bytes of a path. */
static struct wr_lab_shown end_of(const char *path, size_t bytes)
{
	struct wr_lab_shown shown = {0};
	size_t len = strlen(path);

	wr_lab_show(shown.text, sizeof shown.text, wr_str(path + (len > bytes ? len - bytes : 0)));
	return shown;
}

struct wr_lab_shown wr_lab_show_end(const char *path, size_t bytes)
{
	return end_of(strcmp(path, "-") == 0 ? "standard input" : path, bytes);
}

struct wr_lab_shown wr_lab_show_path(const char *path)
{
	return wr_lab_show_end(path, WR_LAB_SHOWN_BYTES);
}

void wr_lab_totals_note(struct wr_lab_log_totals *totals, const char *format, ...)
{
	va_list args;

	if (totals->note_count == sizeof totals->notes / sizeof totals->notes[0])
		return;
	va_start(args, format);
	vsnprintf(totals->notes[totals->note_count++], sizeof totals->notes[0], format, args);
	va_end(args);
}

/* Appends the line to a text of `size` bytes that has `used` bytes already. Bytes outside of ASCII
 * are escaped as well, because a cut could divide a character. */
static void append_line(char *text, size_t size, size_t used, struct weir_str line)
{
	for (size_t i = 0; i < line.len; i++) {
		uint8_t c = (uint8_t)line.ptr[i];
		bool plain = c >= 0x20 && c < 0x7f;

		if (size - used < sizeof "\\x00" + sizeof "…") {
			snprintf(text + used, size - used, "…");
			return;
		}
		used += (size_t)snprintf(text + used, size - used, plain ? "%c" : "\\x%02x", c);
	}
}

void wr_lab_totals_example(struct wr_lab_log_totals *totals, const char *path, uint64_t line_number,
			   const char *reason, struct weir_str line)
{
	size_t room = sizeof totals->examples[0];
	char *text;
	int used;

	if (totals->example_count == sizeof totals->examples / sizeof totals->examples[0])
		return;
	text = totals->examples[totals->example_count++];
	used = snprintf(text, room, "%.80s:%" PRIu64 ": %s: ", end_of(path, PATH_SHOWN).text,
			line_number, reason);
	append_line(text, room, (size_t)used, line);
}

void wr_lab_totals_damage(struct wr_lab_log_totals *totals, const char *path, const char *reason)
{
	if (totals->damaged++ == 0)
		snprintf(totals->damage, sizeof totals->damage, "%.80s: %.150s",
			 end_of(path, PATH_SHOWN).text, reason);
}
