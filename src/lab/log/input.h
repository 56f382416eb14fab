/* Reads the bytes of a file or of standard input, decompressed. Compressed files are recognised by
 * their first bytes. */
#ifndef WR_LAB_LOG_INPUT_H
#define WR_LAB_LOG_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>

struct wr_lab_input;

/* Opens the file at `path`; "-" is standard input. Returns 0, or an error with a text. */
int wr_lab_input_open(const char *path, struct wr_lab_input **input, struct weir_error *error);

#define WR_LAB_PEEK_BYTES ((size_t)256 << 10)

/* Returns the first bytes of the input, which wr_lab_input_read() will return again: up to
 * WR_LAB_PEEK_BYTES, or all bytes of a shorter file. If these bytes have carriage returns but no
 * newline, all carriage returns of the input become newlines. Called before the first read. Returns
 * NULL without memory. */
const char *wr_lab_input_peek(struct wr_lab_input *input, size_t *len);

/* Reads at least one byte and up to `room` bytes. Returns the number of bytes, or 0 at the end. A
 * file that is damaged ends where the damage begins. */
size_t wr_lab_input_read(struct wr_lab_input *input, char *to, size_t room);

/* Returns why the input ended early, or NULL. The text is constant. */
const char *wr_lab_input_damage(const struct wr_lab_input *input);

/* Returns how many bytes of the file were read, before decompression. */
uint64_t wr_lab_input_bytes(const struct wr_lab_input *input);

/* Sets the size of the file before decompression, and whether the file can be opened again to read
 * the same bytes. The size of a pipe is 0. */
void wr_lab_input_stat(const struct wr_lab_input *input, uint64_t *bytes, bool *again);

void wr_lab_input_close(struct wr_lab_input *input);

#endif
