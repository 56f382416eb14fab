/* Writes commands in the Redis protocol (RESP) into a buffer that grows up to a maximum.
 *
 *   wr_command_begin(out, 3);
 *   wr_command_text(out, "SET");
 *   wr_command_arg(out, key, key_len);
 *   wr_command_number(out, 7);
 *   if (!wr_command_end(out)) … no room: the buffer contains nothing of the command
 *
 * The caller must add exactly the number of arguments that it has passed to wr_command_begin. The
 * caller sends bytes from the front of the buffer and calls wr_commands_sent. */
#ifndef WR_REDIS_COMMAND_H
#define WR_REDIS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wr_commands {
	uint8_t *bytes;
	size_t start; /* the bytes in [start, end) have not been sent */
	size_t end;
	size_t cap;
	size_t max;
	size_t mark; /* start of the command that is being written */
	bool full;   /* true if the command that is being written did not fit */
};

void wr_commands_init(struct wr_commands *out, size_t max);
void wr_commands_free(struct wr_commands *out);

static inline size_t wr_commands_len(const struct wr_commands *out)
{
	return out->end - out->start;
}

/* Removes the first `len` bytes from the buffer. Called when these bytes were sent. */
void wr_commands_sent(struct wr_commands *out, size_t len);

/* Drops all bytes and keeps the memory. */
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
