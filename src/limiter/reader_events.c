/* Reads server-sent events (HTML, §9.2.6 "Interpreting an event stream"). The data of each event is
 * a JSON text. Comments and other fields are passed over. */
#include "limiter/reader.h"

#include <string.h>

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

/* Returns whether an empty line, which ends the event, follows the line that ends at `at`. Returns
 * false if the bytes after the line have not arrived yet. */
static bool event_ends(const char *at, const char *end)
{
	if (end - at > 1 && at[0] == '\r' && at[1] == '\n')
		at++;
	return end - at > 1 && is_line_end(at[1]);
}

/* Most events of a stream have no value of a pointer. If such an event is in one line, it is not
 * read as JSON: comparing its bytes with the names of the pointers takes a fraction of the time. */
static bool can_pass(const struct weir_reader *reader, const char *at, const char *line_end,
		     const char *end)
{
	return wr_reader_json_at_top(&reader->json) && event_ends(line_end, end) &&
	       wr_reader_lacks_names(&reader->json, at, line_end);
}

static const char *read_line(struct weir_reader *reader, const char *at, const char *end)
{
	const char *line_end = wr_reader_find_either(at, end, '\n', '\r');

	if (reader->events.state == DATA && !can_pass(reader, at, line_end, end))
		wr_reader_json_feed(&reader->json, at, line_end);
	return line_end < end ? end_line(reader, line_end) : end;
}

void wr_reader_events_feed(struct weir_reader *reader, const char *at, const char *end)
{
	while (at < end) {
		switch (reader->events.state) {
		case LINE:
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

void wr_reader_events_ignore_line(struct weir_reader *reader)
{
	reader->events.state = IGNORED;
}
