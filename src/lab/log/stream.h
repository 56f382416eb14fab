/* A file of a log that is being read. Several files are read at the same time if their times
 * overlap. A stream has up to two records ready, so that the reader can choose the earliest record
 * of all streams. */
#ifndef WR_LAB_LOG_STREAM_H
#define WR_LAB_LOG_STREAM_H

#include "lab/log/files.h"
#include "lab/log/pool.h"

/* What all streams of a log use. */
struct wr_lab_sources {
	enum wr_lab_format format;
	struct wr_lab_fields *fields;
	uint64_t window_ns;
	struct wr_lab_pool pool;
	struct wr_lab_log_totals totals;
};

struct wr_lab_stream {
	struct wr_lab_sources *sources;
	const char *path;
	struct wr_lab_input *input;
	struct wr_lab_parser parser;
	struct wr_lab_lines lines;
	uint64_t line_number;
	bool ended;
	struct wr_lab_slot *head; /* the next record; NULL: not read yet, or the end */
	struct wr_lab_slot *second;
	uint64_t before_ns; /* time of the record before `head`; 0: none */
	/* `head` is far ahead of the records around it. Its time is wrong. */
	bool wrong;
};

/* Starts to read a file. A file that cannot be opened any more is reported as damaged and has no
 * lines. `lines` has the block of text of a file that has ended, or no block. */
void wr_lab_stream_open(struct wr_lab_stream *stream, struct wr_lab_sources *sources,
			struct wr_lab_file *file, const struct wr_lab_lines *lines);

/* Reads until `head` is known. Returns false if the stream needs a block of text: the caller calls
 * wr_lab_stream_block(). */
bool wr_lab_stream_ready(struct wr_lab_stream *stream);

/* Gives the stream an unused block of text. Returns false if there is none. */
bool wr_lab_stream_block(struct wr_lab_stream *stream);

/* Returns `head`, and moves on. */
struct wr_lab_slot *wr_lab_stream_take(struct wr_lab_stream *stream);

/* Returns the time that decides which stream is next. */
uint64_t wr_lab_stream_time(const struct wr_lab_stream *stream);

/* Returns how many bytes of the file were read. */
uint64_t wr_lab_stream_bytes(const struct wr_lab_stream *stream);

/* Closes the file. The block of text stays in stream->lines. */
void wr_lab_stream_close(struct wr_lab_stream *stream);

#endif
