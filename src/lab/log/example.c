/* Writes examples of unreadable lines. */
#include "lab/log/example.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_SHOWN 80u /* bytes of the end of a long path */

struct shown_path {
	char text[PATH_SHOWN + 1];
};

/* Returns the end of a path, with question marks for control characters. */
static struct shown_path end_of(const char *path)
{
	struct shown_path shown = {""};
	size_t len = strlen(path), from = len > PATH_SHOWN ? len - PATH_SHOWN : 0;

	for (size_t i = 0; from + i < len; i++) {
		uint8_t c = (uint8_t)path[from + i];

		shown.text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	return shown;
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
	used = snprintf(text, room, "%s:%" PRIu64 ": %s: ", end_of(path).text, line_number, reason);
	append_line(text, room, (size_t)used, line);
}

void wr_lab_totals_damage(struct wr_lab_log_totals *totals, const char *path, const char *reason)
{
	if (totals->damaged++ == 0)
		snprintf(totals->damage, sizeof totals->damage, "%s: %.150s", end_of(path).text,
			 reason);
}
