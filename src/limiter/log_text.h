/* Texts of descriptors for the decision log. An ask keeps these texts only if
 * wr_ask_set_log_memory was called. */
#ifndef WR_LIMITER_LOG_TEXT_H
#define WR_LIMITER_LOG_TEXT_H

#include <weir/engine.h>

/* Maximum number of bytes of one descriptor's text; a longer text is cut and ends with "…". */
#define WR_LOG_TEXT_MAX 240u

/* Makes the ask write the text of each descriptor to `memory`, for example "user=7|ip=10.0.0.1".
 * This applies to descriptors that are added after this call. The memory must stay valid as long as
 * the texts are used. */
void wr_ask_set_log_memory(struct weir_ask *ask, char *memory, uint16_t cap);

/* Writes the text of a descriptor to the log memory. Called by weir_ask_add after each descriptor.
 */
void wr_ask_keep_descriptor(struct weir_ask *ask, const struct weir_entry *entries, size_t count);

/* Returns the text of descriptor `at`. The text is empty if wr_ask_set_log_memory was not called.
 */
struct weir_str wr_ask_log_text(const struct weir_ask *ask, size_t at);

#endif
