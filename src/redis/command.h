/* Commands as Redis reads them, one behind the other in a buffer that grows up to a maximum.
 *
 *   wr_command_begin(out, 3);
 *   wr_command_text(out, "SET");
 *   wr_command_arg(out, key, key_len);
 *   wr_command_number(out, 7);
 *   if (!wr_command_end(out)) … there was no room: nothing of it is in the buffer
 *
 * Exactly as many arguments as were begun with. Bytes go out at the front by wr_commands_sent. */
#ifndef WR_REDIS_COMMAND_H
#define WR_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wr_commands {
	uint8_t *bytes;
	size_t start; /* [start, end) is to be sent */
	size_t end;
	size_t cap;
	size_t max;
	size_t mark; /* where the command under construction begins */
	bool full;   /* it had no room */
};

void wr_commands_init(struct wr_commands *out, size_t max);
void wr_commands_free(struct wr_commands *out);

static inline size_t wr_commands_len(const struct wr_commands *out)
{
	return out->end - out->start;
}

/* So many bytes at the front are on their way. */
void wr_commands_sent(struct wr_commands *out, size_t len);

/* Forgets all bytes; keeps the memory. */
void wr_commands_clear(struct wr_commands *out);

void wr_command_begin(struct wr_commands *out, size_t args);
void wr_command_arg(struct wr_commands *out, const void *bytes, size_t len);
void wr_command_number(struct wr_commands *out, int64_t number);
bool wr_command_end(struct wr_commands *out);

static inline void wr_command_text(struct wr_commands *out, const char *text)
{
	wr_command_arg(out, text, strlen(text));
}

#endif
