/* Reads the files of a log: records of files to the window, and on to batches. */
#include "lab/log/read.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/log/example.h"
#include "lab/log/given.h"
#include "lab/log/stream.h"

#define WINDOW_LINES 1000u
#define WINDOW_NS (300 * WR_LAB_SECOND_NS)
#define WINDOW_MAX_NS (7 * 86400 * WR_LAB_SECOND_NS)
#define PATH_SHOWN 200u /* bytes of a path, so that two paths fit into a note */

struct wr_lab_reader {
	struct wr_lab_sources sources;
	struct wr_lab_files files;
	size_t next_file;
	struct wr_lab_stream streams[WR_LAB_STREAMS]; /* the files that are being read */
	uint32_t stream_count;
	struct wr_lab_lines spare; /* the block of text of a file that has ended */
	uint64_t bytes_before;     /* bytes of the files that have ended */
	struct wr_lab_order order;
	bool ended; /* all files were read */
};

/* ---- files ---- */

static void open_file(struct wr_lab_reader *reader)
{
	wr_lab_stream_open(&reader->streams[reader->stream_count++], &reader->sources,
			   &reader->files.items[reader->next_file++], &reader->spare);
	reader->spare = (struct wr_lab_lines){.text = NULL};
}

/* The next file that begins keeps the block of text, so that many small files share a block. */
static void end_file(struct wr_lab_reader *reader, struct wr_lab_stream *stream)
{
	reader->bytes_before += wr_lab_stream_bytes(stream);
	wr_lab_stream_close(stream);
	if (!reader->spare.text)
		reader->spare = stream->lines;
	else if (stream->lines.text)
		wr_lab_pool_drop(&reader->sources.pool, stream->lines.text, 1);
	*stream = reader->streams[--reader->stream_count];
}

/* Returns whether the next file begins before the earliest record of the current files. */
static bool next_file_begins(const struct wr_lab_reader *reader, uint64_t earliest_ns)
{
	if (reader->next_file == reader->files.count || reader->stream_count == WR_LAB_STREAMS)
		return false;
	return reader->stream_count == 0 ||
	       reader->files.items[reader->next_file].first_ns <= earliest_ns;
}

/* ---- records ---- */

/* Makes the heads of all streams known, and closes streams that have ended. Returns the stream that
 * needs a block of text, or NULL. */
static struct wr_lab_stream *ready_streams(struct wr_lab_reader *reader)
{
	uint32_t i = 0;

	while (i < reader->stream_count) {
		struct wr_lab_stream *stream = &reader->streams[i];

		if (!wr_lab_stream_ready(stream))
			return stream;
		if (stream->head)
			i++;
		else
			end_file(reader, stream);
	}
	return NULL;
}

static struct wr_lab_stream *earliest(struct wr_lab_reader *reader)
{
	struct wr_lab_stream *found = &reader->streams[0];

	for (uint32_t i = 1; i < reader->stream_count; i++)
		if (wr_lab_stream_time(&reader->streams[i]) < wr_lab_stream_time(found))
			found = &reader->streams[i];
	return found;
}

/* Gives a block of text to a stream. Returns false if all blocks are in use. */
static bool give_block(struct wr_lab_reader *reader, struct wr_lab_stream *stream)
{
	wr_lab_order_unpin(&reader->order);
	return reader->order.ready.head || wr_lab_stream_block(stream);
}

/* Moves a record of a file to the window. Returns false if all blocks of text are in use. */
static bool step(struct wr_lab_reader *reader)
{
	struct wr_lab_stream *stream = ready_streams(reader);

	if (stream)
		return give_block(reader, stream);
	stream = reader->stream_count ? earliest(reader) : NULL;
	if (next_file_begins(reader, stream ? wr_lab_stream_time(stream) : 0)) {
		open_file(reader);
	} else if (stream) {
		wr_lab_order_add(&reader->order, wr_lab_stream_take(stream));
	} else {
		wr_lab_order_flush(&reader->order);
		reader->ended = true;
	}
	return true;
}

/* ---- batches ---- */

/* Moves records that have left the window to the batch. */
static void move_ready(struct wr_lab_reader *reader, struct wr_lab_batch *batch)
{
	struct wr_lab_slot *slot;

	while (batch->count < WR_LAB_BATCH_RECORDS && (slot = reader->order.ready.head) != NULL) {
		reader->order.ready.head = slot->next;
		batch->refs[slot->text->index]++;
		wr_lab_chain_add(&batch->chain, slot);
		batch->count++;
	}
}

static void set_totals(struct wr_lab_reader *reader, struct wr_lab_log_totals *totals)
{
	*totals = reader->sources.totals;
	totals->late = reader->order.late;
	totals->reordered = reader->order.reordered;
	totals->bytes = reader->bytes_before;
	for (uint32_t i = 0; i < reader->stream_count; i++)
		totals->bytes += wr_lab_stream_bytes(&reader->streams[i]);
	if (reader->ended)
		wr_lab_given_note(reader->sources.fields, totals);
}

void wr_lab_reader_fill(struct wr_lab_reader *reader, struct wr_lab_batch *batch)
{
	while (batch->count < WR_LAB_BATCH_RECORDS) {
		if (reader->order.ready.head) {
			move_ready(reader, batch);
		} else if (reader->ended) {
			batch->last = true;
			break;
		} else if (!step(reader)) {
			break;
		}
	}
	set_totals(reader, &batch->totals);
}

void wr_lab_reader_take_back(struct wr_lab_reader *reader, struct wr_lab_batch *batch)
{
	struct wr_lab_pool *pool = &reader->sources.pool;

	wr_lab_pool_give_chain(pool, &batch->chain);
	for (uint32_t i = 0; i < WR_LAB_TEXTS; i++)
		if (batch->refs[i])
			wr_lab_pool_drop(pool, &pool->memory[i], batch->refs[i]);
	batch->chain = (struct wr_lab_chain){NULL, NULL};
	batch->count = 0;
	memset(batch->refs, 0, sizeof batch->refs);
}

/* ---- open and close ---- */

static void note_left_out(const struct wr_lab_files *files, struct wr_lab_log_totals *totals)
{
	struct wr_lab_shown path;

	if (files->left_out == 0)
		return;
	path = wr_lab_show_path(files->left_out_path);
	if (files->left_out == 1)
		wr_lab_totals_note(totals,
				   "%s is left out: none of its first lines is a line of an access "
				   "log. To read it, pass the file itself.",
				   path.text);
	else
		wr_lab_totals_note(totals,
				   "%zu files are left out: none of their first lines is a line of "
				   "an access log. The first of them is %s. To read it, pass the "
				   "file itself.",
				   files->left_out, path.text);
}

static void note_again(const struct wr_lab_files *files, struct wr_lab_log_totals *totals)
{
	struct wr_lab_shown path, as;

	if (files->again == 0)
		return;
	path = wr_lab_show_end(files->again_path, PATH_SHOWN);
	as = wr_lab_show_end(files->again_as, PATH_SHOWN);
	if (files->again > 1)
		wr_lab_totals_note(totals,
				   "%zu paths are left out, because they lead to files that are "
				   "read already. The first of them is %s.",
				   files->again, path.text);
	else if (strcmp(files->again_path, files->again_as) == 0)
		wr_lab_totals_note(totals, "%s is given twice, but read once.", path.text);
	else
		wr_lab_totals_note(totals, "%s is left out, because it is the same file as %s.",
				   path.text, as.text);
}

static int open_reader(struct wr_lab_reader *reader, const struct wr_lab_log_opts *opts,
		       struct weir_error *error)
{
	uint64_t lines = opts->window_lines ? opts->window_lines : WINDOW_LINES;
	uint64_t window_ns = opts->window_ns ? opts->window_ns : WINDOW_NS;
	struct wr_lab_sources *sources = &reader->sources;
	int rc;

	if (window_ns > WINDOW_MAX_NS)
		return wr_error(error, WEIR_EINVAL,
				"the window of a log is longer than a week: sort the log first");
	sources->format = opts->format;
	sources->window_ns = window_ns;
	if (wr_lab_order_init(&reader->order, lines, window_ns) != 0 ||
	    wr_lab_pool_init(&sources->pool) != 0)
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	rc = wr_lab_fields_new(&sources->fields, opts->fields, error);
	if (rc == 0)
		rc = wr_lab_files_list(&reader->files, opts, sources->fields, error);
	sources->totals.bytes_all = reader->files.bytes;
	note_left_out(&reader->files, &sources->totals);
	note_again(&reader->files, &sources->totals);
	return rc;
}

int wr_lab_reader_open(struct wr_lab_reader **reader, const struct wr_lab_log_opts *opts,
		       struct weir_error *error)
{
	int rc;

	*reader = calloc(1, sizeof **reader);
	if (!*reader)
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	rc = open_reader(*reader, opts, error);
	if (rc)
		wr_lab_reader_close(*reader);
	return rc;
}

void wr_lab_reader_close(struct wr_lab_reader *reader)
{
	if (!reader)
		return;
	for (uint32_t i = 0; i < reader->stream_count; i++)
		wr_lab_stream_close(&reader->streams[i]);
	wr_lab_order_free(&reader->order);
	wr_lab_pool_free(&reader->sources.pool);
	wr_lab_files_free(&reader->files);
	wr_lab_fields_free(reader->sources.fields);
	free(reader);
}
