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
#define SLAB_SLOTS 256u
#define WINDOW_NS (300 * WR_LAB_SECOND_NS)
#define WINDOW_MAX_NS (7 * 86400 * WR_LAB_SECOND_NS)

/* Slots are allocated together, so that records that follow each other are near each other. */
struct slab {
	struct slab *next;
	struct wr_lab_slot slots[SLAB_SLOTS];
};

struct wr_lab_reader {
	const struct wr_lab_log_opts *opts;
	struct wr_lab_fields *fields;
	struct wr_lab_files files;
	size_t next_file;
	struct wr_lab_input *input; /* of the current file; NULL: no current file */
	uint64_t line_number;       /* in the current file */
	uint64_t bytes_before;      /* bytes of the files before the current one */
	struct wr_lab_parser parser;
	struct wr_lab_lines lines;
	struct wr_lab_order order;
	bool ended;                /* all files were read */
	struct slab *slabs;        /* the memory of all slots */
	struct wr_lab_slot *slots; /* unused slots */
	struct wr_lab_text *texts; /* unused blocks */
	struct wr_lab_text *all_texts;
	struct wr_lab_log_totals totals;
	char start[sizeof((struct wr_lab_log_totals *)NULL)->examples[0]]; /* of the current line */
};

/* ---- slots and blocks ---- */

static void give_slot(struct wr_lab_reader *reader, struct wr_lab_slot *slot)
{
	slot->next = reader->slots;
	reader->slots = slot;
}

/* Another thread has used the slot before. Fetches the part that every line writes. */
static void prefetch_slot(const struct wr_lab_slot *slot)
{
	const char *bytes = (const char *)slot;

	for (size_t i = 0; i < 5; i++)
		__builtin_prefetch(bytes + 64 * i, 1);
}

/* Returns an unused slot, or NULL without memory. */
static struct wr_lab_slot *take_slot(struct wr_lab_reader *reader)
{
	struct wr_lab_slot *slot;
	struct slab *slab;

	if (!reader->slots) {
		slab = calloc(1, sizeof *slab);
		if (!slab)
			return NULL;
		slab->next = reader->slabs;
		reader->slabs = slab;
		for (size_t i = SLAB_SLOTS; i-- > 0;)
			give_slot(reader, &slab->slots[i]);
	}
	slot = reader->slots;
	reader->slots = slot->next;
	prefetch_slot(reader->slots);
	return slot;
}

static void free_slots(struct wr_lab_reader *reader)
{
	struct slab *slab;

	while ((slab = reader->slabs) != NULL) {
		reader->slabs = slab->next;
		for (size_t i = 0; i < SLAB_SLOTS; i++)
			wr_lab_slot_free(&slab->slots[i]);
		free(slab);
	}
}

/* Allocates all blocks. The kernel provides the memory of a block when it is used. Most logs use a
 * few blocks only. */
static bool make_texts(struct wr_lab_reader *reader)
{
	reader->all_texts = malloc(WR_LAB_TEXTS * sizeof *reader->all_texts);
	if (!reader->all_texts)
		return false;
	for (uint32_t i = 0; i < WR_LAB_TEXTS; i++) {
		struct wr_lab_text *text = &reader->all_texts[i];

		text->refs = text->held = 0;
		text->index = i;
		text->next = reader->texts;
		reader->texts = text;
	}
	return true;
}

/* Returns an unused block, or NULL if all are in use. */
static struct wr_lab_text *take_text(struct wr_lab_reader *reader)
{
	struct wr_lab_text *text = reader->texts;

	if (text)
		reader->texts = text->next;
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
	if (wr_lab_guess(&reader->parser, reader->opts->format, reader->fields, reader->input,
			 &first_ns) != 0) {
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

/* Reads a line into a slot. Returns NULL, or why the line is unreadable. `start` is set to the start
 * of the line, for an example: readers of JSON and CSV write over the line. */
static const char *parse(struct wr_lab_reader *reader, char *line, size_t len,
			 struct wr_lab_slot *slot, struct weir_str *start)
{
	*start = (struct weir_str){line, len};
	if (reader->lines.zeros && memchr(line, '\0', len))
		return "zero byte";
	if (reader->parser.format >= WR_LAB_JSON && reader->totals.example_count < 3) {
		*start = wr_str_first(*start, sizeof reader->start);
		memcpy(reader->start, line, start->len);
		start->ptr = reader->start;
	}
	wr_lab_slot_reset(slot);
	return wr_lab_parse(&reader->parser, line, len, slot);
}

static void read_line(struct wr_lab_reader *reader, char *line, size_t len)
{
	struct wr_lab_slot *slot;
	struct weir_str start;
	const char *reason;

	reader->line_number++;
	if (len == 0)
		return;
	slot = take_slot(reader);
	if (!slot) {
		reader->totals.lines++;
		count_unreadable(reader, "no memory", (struct weir_str){line, len});
		return;
	}
	reason = parse(reader, line, len, slot, &start);
	if (reason == wr_lab_csv_header) {
		give_slot(reader, slot);
		return;
	}
	reader->totals.lines++;
	if (reason) {
		count_unreadable(reader, reason, start);
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
		count_unreadable(reader, "longer than 256 KiB", (struct weir_str){line, len});
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
	for (uint32_t i = 0; i < WR_LAB_TEXTS; i++)
		if (batch->refs[i])
			drop_text(reader, &reader->all_texts[i], batch->refs[i]);
	batch->chain = (struct wr_lab_chain){NULL, NULL};
	batch->count = 0;
	memset(batch->refs, 0, sizeof batch->refs);
}

/* ---- open and close ---- */

static int open_reader(struct wr_lab_reader *reader, struct weir_error *error)
{
	const struct wr_lab_log_opts *opts = reader->opts;
	uint64_t lines = opts->window_lines ? opts->window_lines : WINDOW_LINES;
	uint64_t window_ns = opts->window_ns ? opts->window_ns : WINDOW_NS;
	int rc;

	if (window_ns > WINDOW_MAX_NS)
		return wr_error(error, WEIR_EINVAL,
				"the window of a log is longer than a week: sort the log first");
	if (wr_lab_order_init(&reader->order, lines, window_ns) != 0 || !make_texts(reader))
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	rc = wr_lab_fields_new(&reader->fields, opts->fields, error);
	if (rc == 0)
		rc = wr_lab_files_list(&reader->files, opts, reader->fields, error);
	reader->totals.bytes_all = reader->files.bytes;
	return rc;
}

int wr_lab_reader_open(struct wr_lab_reader **reader, const struct wr_lab_log_opts *opts,
		       struct weir_error *error)
{
	int rc;

	*reader = calloc(1, sizeof **reader);
	if (!*reader)
		return wr_error(error, WEIR_EMEMORY, "no memory to read logs");
	(*reader)->opts = opts;
	rc = open_reader(*reader, error);
	if (rc)
		wr_lab_reader_close(*reader);
	return rc;
}

void wr_lab_reader_close(struct wr_lab_reader *reader)
{
	if (!reader)
		return;
	free_slots(reader);
	free(reader->all_texts);
	wr_lab_input_close(reader->input);
	wr_lab_order_free(&reader->order);
	wr_lab_files_free(&reader->files);
	wr_lab_fields_free(reader->fields);
	free(reader);
}
