/* Reads server-sent events (HTML, §9.2.6 "Interpreting an event stream"). The data of each event is
 * a JSON text. Comments and other fields are passed over. */
#include "limiter/reader.h"

#include <string.h>

#include "base/str.h"
#include "limiter/reader_scan.h"

#define DATA_NAME "data"
#define DATA_NAME_LEN (sizeof DATA_NAME - 1)

enum line_state {
	LINE,    /* before a line */
	FIELD,   /* in the name of a field that begins like "data" */
	COLON,   /* after "data:"; a blank that follows does not belong to the data */
	DATA,    /* in the data */
	IGNORED, /* in a line without data */
};

/* Positions in the bytes of one call of wr_reader_events_feed(). NULL: not searched yet. */
struct ahead {
	const char *
		names[WEIR_READER_POINTERS_MAX]; /* next name that leads to pointer i, or the end */
	const char *escape;                      /* next \u, or the end */
	const char *passed; /* the events that end before this position were passed over */
};

static bool is_line_end(char c)
{
	return c == '\n' || c == '\r';
}

/* Begins a line with data. An event may have several of them. */
static void begin_data(struct weir_reader *reader)
{
	static const char newline[] = "\n";

	if (reader->events.has_data)
		wr_reader_json_feed(&reader->json, newline, newline + 1);
	reader->events.has_data = true;
	reader->events.state = DATA;
}

/* Reads the CR or LF at `at`. */
static const char *end_line(struct weir_reader *reader, const char *at)
{
	reader->events.after_cr = *at == '\r';
	reader->events.state = LINE;
	return at + 1;
}

/* Reads the first byte of a line. An empty line ends the event. */
static const char *begin_line(struct weir_reader *reader, const char *at, const char *end)
{
	struct wr_reader_events *events = &reader->events;

	if (*at == '\n' && events->after_cr) {
		events->after_cr = false;
		return at + 1;
	}
	if (is_line_end(*at)) {
		wr_reader_json_end(&reader->json);
		events->has_data = false;
		return end_line(reader, at);
	}
	events->after_cr = false;
	if (end - at > (ptrdiff_t)DATA_NAME_LEN &&
	    memcmp(at, DATA_NAME ":", DATA_NAME_LEN + 1) == 0) {
		events->state = COLON;
		return at + DATA_NAME_LEN + 1;
	}
	events->state = FIELD;
	events->name_len = 0;
	return at;
}

static const char *read_field(struct weir_reader *reader, const char *at)
{
	struct wr_reader_events *events = &reader->events;

	if (events->name_len < DATA_NAME_LEN) {
		if (*at != DATA_NAME[events->name_len++]) {
			events->state = IGNORED;
			return at;
		}
		return at + 1;
	}
	if (is_line_end(*at)) { /* the name alone is a line with empty data */
		begin_data(reader);
		return at;
	}
	events->state = *at == ':' ? COLON : IGNORED;
	return at + 1;
}

static const char *read_line(struct weir_reader *reader, const char *at, const char *end)
{
	const char *line_end = wr_reader_find_either(at, end, '\n', '\r');

	if (reader->events.state == DATA)
		wr_reader_json_feed(&reader->json, at, line_end);
	return line_end < end ? end_line(reader, line_end) : end;
}

/* ---- events without a value ---- */

/* Returns the first \u in [at, end), or `end`. A backslash before the end counts too, because the
 * next byte has not arrived yet. */
static const char *find_escape(const char *at, const char *end)
{
	while ((at = memchr(at, '\\', (size_t)(end - at)))) {
		if (end - at == 1 || at[1] == 'u')
			return at;
		at += 2;
	}
	return end;
}

/* Returns the first byte from `at` on at which a name that leads to a value can begin. */
static const char *find_name(const struct wr_reader_json *json, struct ahead *ahead, const char *at,
			     const char *end)
{
	const char *first;

	if (!ahead->escape || ahead->escape < at)
		ahead->escape = find_escape(at, end);
	first = ahead->escape;
	for (size_t i = 0; i < json->pointer_count; i++) {
		if (!ahead->names[i] || ahead->names[i] < at)
			ahead->names[i] = wr_reader_name_search(json, i, at, end);
		if (ahead->names[i] < first)
			first = ahead->names[i];
	}
	return first;
}

/* Returns whether the line that the LF at `newline` ends is empty. If the line began before `at`,
 * returns false. */
static bool is_empty_line(const char *at, const char *newline)
{
	const char *line_end = newline;

	if (line_end > at && line_end[-1] == '\r')
		line_end--;
	return line_end > at && is_line_end(line_end[-1]);
}

/* Returns the last position in [at, before] that follows an empty line, or `at`. Finds only lines
 * that end with LF or CRLF. */
static const char *last_event(const char *at, const char *before)
{
	const char *end = before, *newline;

	while ((newline = memrchr(at, '\n', (size_t)(end - at)))) {
		if (is_empty_line(at, newline))
			return newline + 1;
		end = newline;
	}
	return at;
}

/* Most events of a stream have no value of a pointer. They are not read as JSON: a search for the
 * names of the pointers takes a fraction of the time. Passes over the events that end before the
 * first name. `at` is the start of a line, and the event has no data so far. */
static const char *pass_events(struct weir_reader *reader, struct ahead *ahead, const char *at,
			       const char *end)
{
	const char *name = find_name(&reader->json, ahead, at, end), *next;

	if (ahead->passed == name)
		return at;
	ahead->passed = name;
	next = last_event(at, name);
	if (next > at)
		reader->events.after_cr = false;
	return next;
}

/* ---- events that are split across two parts of the body ---- */

/* Keeps the bytes [at, end), the beginning of an event, until the rest of the event has arrived.
 * Returns false if they are too many. */
static bool keep_beginning(struct weir_reader *reader, const char *at, const char *end)
{
	size_t len = (size_t)(end - at);

	if (len > sizeof reader->kept)
		return false;
	memcpy(reader->kept, at, len);
	reader->events.kept_len = (uint16_t)len;
	return true;
}

/* Reads the bytes [at, end). If `whole` is false, they may end with the beginning of an event. This
 * beginning is kept if it contains no name that a pointer needs. */
static void read_events(struct weir_reader *reader, const char *at, const char *end, bool whole)
{
	struct ahead ahead = {0};

	while (at < end) {
		switch (reader->events.state) {
		case LINE:
			if (!reader->events.has_data) {
				at = pass_events(reader, &ahead, at, end);
				if (!whole && ahead.passed == end &&
				    keep_beginning(reader, at, end))
					return;
			}
			if (at < end)
				at = begin_line(reader, at, end);
			break;
		case FIELD:
			at = read_field(reader, at);
			break;
		case COLON:
			at += *at == ' ';
			begin_data(reader);
			break;
		default:
			at = read_line(reader, at, end);
		}
	}
}

static void read_kept(struct weir_reader *reader, size_t len)
{
	reader->events.kept_len = 0;
	read_events(reader, reader->kept, reader->kept + len, true);
}

/* Adds bytes of [at, end) to the kept beginning of an event. Reads the event if these bytes complete
 * it, or if it is too long to be kept. Returns the first byte that was not used. */
static const char *complete_event(struct weir_reader *reader, const char *at, const char *end)
{
	size_t kept = reader->events.kept_len, room = sizeof reader->kept - kept;
	size_t len = (size_t)(end - at), added = len < room ? len : room;
	const char *next;

	memcpy(reader->kept + kept, at, added);
	next = last_event(reader->kept, reader->kept + kept + added);
	if (next > reader->kept + kept) {
		size_t used = (size_t)(next - reader->kept);

		read_kept(reader, used);
		return at + (used - kept);
	}
	if (added == len) {
		reader->events.kept_len = (uint16_t)(kept + added);
		return end;
	}
	read_kept(reader, kept);
	return at;
}

void wr_reader_events_feed(struct weir_reader *reader, const char *at, const char *end)
{
	if (reader->events.kept_len)
		at = complete_event(reader, at, end);
	read_events(reader, at, end, false);
}

void wr_reader_events_end(struct weir_reader *reader)
{
	read_kept(reader, reader->events.kept_len);
	if (reader->events.state == DATA)
		wr_reader_json_break(&reader->json);
	wr_reader_json_end(&reader->json);
}

void wr_reader_events_ignore_line(struct weir_reader *reader)
{
	reader->events.state = IGNORED;
}
