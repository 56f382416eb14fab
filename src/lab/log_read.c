/* Reads the files of a log: lines to records, records to the window, and on to batches. */
#include "lab/log_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/log_example.h"
#include "lab/log_guess.h"

#define WINDOW_LINES 1000u
#define WINDOW_NS (300 * WR_LAB_SECOND_NS)

struct wr_lab_reader {
	const struct wr_lab_log_opts *opts;
	struct wr_lab_files files;
	size_t next_file;
	struct wr_lab_input *input; /* of the current file; NULL: no current file */
	uint64_t line_number;       /* in the current file */
	uint64_t bytes_before;      /* bytes of the files before the current one */
	struct wr_lab_parser parser;
	struct wr_lab_lines lines;
	struct wr_lab_order order;
	bool ended;                /* all files were read */
	struct wr_lab_slot *slots; /* unused slots */
	struct wr_lab_text *texts; /* unused blocks */
	struct wr_lab_text *all_texts[WR_LAB_TEXTS];
	uint32_t text_count;
	struct wr_lab_log_totals totals;
};

/* ---- slots and blocks ---- */

static struct wr_lab_slot *take_slot(struct wr_lab_reader *reader)
{
	struct wr_lab_slot *slot = reader->slots;

	if (slot)
		reader->slots = slot->next;
	else
		slot = calloc(1, sizeof *slot);
	return slot;
}

static void give_slot(struct wr_lab_reader *reader, struct wr_lab_slot *slot)
{
	slot->next = reader->slots;
	reader->slots = slot;
}

/* Returns an unused block, or NULL if all are in use. */
static struct wr_lab_text *take_text(struct wr_lab_reader *reader)
{
	struct wr_lab_text *text = reader->texts;

	if (text) {
		reader->texts = text->next;
		return text;
	}
	if (reader->text_count == WR_LAB_TEXTS)
		return NULL;
	text = malloc(sizeof *text);
	if (!text)
		return NULL;
	text->refs = text->held = 0;
	text->index = reader->text_count;
	reader->all_texts[reader->text_count++] = text;
	return text;
}

static void drop_text(struct wr_lab_reader *reader, struct wr_lab_text *text, uint32_t refs)
{
	text->refs -= refs;
	if (text->refs)
		return;
	text->next = reader->texts;
	reader->texts = text;
}

/* Moves on to another block. Returns false if none is unused. */
static bool next_text(struct wr_lab_reader *reader)
{
	struct wr_lab_text *text = take_text(reader), *before;

	if (!text)
		return false;
	text->refs = 1;
	before = wr_lab_lines_block(&reader->lines, text);
	if (before)
		drop_text(reader, before, 1);
	return true;
}

/* ---- files ---- */

/* Opens the next file. A file that was removed in the meantime counts as damaged. */
static void open_file(struct wr_lab_reader *reader)
{
	struct wr_lab_file *file = &reader->files.items[reader->next_file++];
	struct weir_error error;
	uint64_t first_ns;

	reader->input = file->input;
	file->input = NULL;
	reader->line_number = 0;
	reader->totals.files++;
	wr_lab_lines_start(&reader->lines);
	if (!reader->input && wr_lab_input_open(file->path, &reader->input, &error) != 0) {
		reader->input = NULL;
		wr_lab_totals_damage(&reader->totals, file->path, error.text);
		return;
	}
	if (wr_lab_guess(&reader->parser, reader->opts, reader->input, &first_ns) != 0) {
		wr_lab_totals_damage(&reader->totals, file->path, "there is no memory to read it");
		wr_lab_input_close(reader->input);
		reader->input = NULL;
	}
}

static const char *current_path(const struct wr_lab_reader *reader)
{
	return reader->files.items[reader->next_file - 1].path;
}

static void end_file(struct wr_lab_reader *reader)
{
	const char *damage = wr_lab_input_damage(reader->input);

	if (damage)
		wr_lab_totals_damage(&reader->totals, current_path(reader), damage);
	reader->bytes_before += wr_lab_input_bytes(reader->input);
	wr_lab_input_close(reader->input);
	reader->input = NULL;
}

/* ---- lines ---- */

static void count_unreadable(struct wr_lab_reader *reader, const char *reason, struct weir_str line)
{
	reader->totals.unreadable++;
	wr_lab_totals_example(&reader->totals, current_path(reader), reader->line_number, reason,
			      line);
}

static void read_line(struct wr_lab_reader *reader, char *line, size_t len)
{
	struct wr_lab_slot *slot;
	const char *reason;

	reader->line_number++;
	if (len == 0)
		return;
	reader->totals.lines++;
	slot = take_slot(reader);
	if (!slot) {
		count_unreadable(reader, "no memory", (struct weir_str){line, len});
		return;
	}
	if (reader->lines.zeros && memchr(line, '\0', len)) {
		reason = "zero byte";
	} else {
		wr_lab_slot_reset(slot);
		reason = wr_lab_parse(&reader->parser, line, len, slot);
	}
	if (reason) {
		count_unreadable(reader, reason, (struct weir_str){line, len});
		give_slot(reader, slot);
		return;
	}
	slot->text = reader->lines.text;
	slot->text->refs++;
	slot->line_bytes = (uint32_t)len;
	wr_lab_order_add(&reader->order, slot);
}

/* Reads a line, or goes on to the next file. Returns false if all blocks of text are in use. */
static bool step(struct wr_lab_reader *reader)
{
	char *line;
	size_t len;

	if (!reader->input) {
		if (reader->next_file < reader->files.count) {
			open_file(reader);
		} else {
			wr_lab_order_flush(&reader->order);
			reader->ended = true;
		}
		return true;
	}
	switch (wr_lab_lines_next(&reader->lines, reader->input, &line, &len)) {
	case WR_LAB_LINE:
		read_line(reader, line, len);
		return true;
	case WR_LAB_LINE_LONG:
		reader->line_number++;
		reader->totals.lines++;
		count_unreadable(reader, "longer than 1 MiB", (struct weir_str){line, len});
		return true;
	case WR_LAB_LINE_END:
		end_file(reader);
		return true;
	default:
		wr_lab_order_unpin(&reader->order);
		return reader->order.ready.head || next_text(reader);
	}
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
	reader->totals.late = reader->order.late;
	reader->totals.reordered = reader->order.reordered;
	reader->totals.bytes = reader->bytes_before;
	if (reader->input)
		reader->totals.bytes += wr_lab_input_bytes(reader->input);
	batch->totals = reader->totals;
}

void wr_lab_reader_take_back(struct wr_lab_reader *reader, struct wr_lab_batch *batch)
{
	if (batch->chain.head) {
		batch->chain.tail->next = reader->slots;
		reader->slots = batch->chain.head;
	}
	for (uint32_t i = 0; i < reader->text_count; i++)
		if (batch->refs[i])
			drop_text(reader, reader->all_texts[i], batch->refs[i]);
	batch->chain = (struct wr_lab_chain){NULL, NULL};
	batch->count = 0;
	memset(batch->refs, 0, sizeof batch->refs);
}

/* ---- open and close ---- */

int wr_lab_reader_open(struct wr_lab_reader **reader, const struct wr_lab_log_opts *opts,
		       struct weir_error *error)
{
	uint64_t lines = opts->window_lines ? opts->window_lines : WINDOW_LINES;
	uint64_t window_ns = opts->window_ns ? opts->window_ns : WINDOW_NS;
	int rc;

	*reader = calloc(1, sizeof **reader);
	if (!*reader || wr_lab_order_init(&(*reader)->order, lines, window_ns) != 0) {
		free(*reader);
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	}
	(*reader)->opts = opts;
	rc = wr_lab_files_list(&(*reader)->files, opts, error);
	if (rc) {
		wr_lab_reader_close(*reader);
		return rc;
	}
	(*reader)->totals.bytes_all = (*reader)->files.bytes;
	return 0;
}

void wr_lab_reader_close(struct wr_lab_reader *reader)
{
	struct wr_lab_slot *slot;

	if (!reader)
		return;
	while ((slot = reader->slots) != NULL) {
		reader->slots = slot->next;
		wr_lab_slot_free(slot);
		free(slot);
	}
	for (uint32_t i = 0; i < reader->text_count; i++)
		free(reader->all_texts[i]);
	wr_lab_input_close(reader->input);
	wr_lab_order_free(&reader->order);
	wr_lab_files_free(&reader->files);
	free(reader);
}
