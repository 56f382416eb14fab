/* Splits a command typed as a line into words and quoted texts. Called by read.c. */
#include "wire/resp/resp.h"

#include "base/str.h"

/* The state of splitting. `at` is the position in the line. The next byte of a word is written at
 * `out`. */
struct splitter {
	const char *at, *end;
	char *out;
};

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

static char escaped(char c)
{
	switch (c) {
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	case 'b':
		return '\b';
	case 'a':
		return '\a';
	default:
		return c;
	}
}

/* Reads an escape within quotes. `at` points to the backslash. */
static void read_escape(struct splitter *s)
{
	if (s->end - s->at >= 4 && s->at[1] == 'x' && wr_hex(s->at[2]) >= 0 &&
	    wr_hex(s->at[3]) >= 0) {
		*s->out++ = (char)(wr_hex(s->at[2]) * 16 + wr_hex(s->at[3]));
		s->at += 4;
		return;
	}
	*s->out++ = escaped(s->at[1]);
	s->at += 2;
}

/* Reads up to the closing quote, which must be the end of the word. At the call, `at` points to the
 * byte after the opening quote. Returns false if the closing quote is missing or is not the end of
 * the word. */
static bool read_quoted(struct splitter *s, char quote)
{
	while (s->at < s->end) {
		if (*s->at == quote) {
			s->at++;
			return s->at == s->end || is_blank(*s->at);
		}
		if (*s->at == '\\' && s->at + 1 < s->end && (quote == '"' || s->at[1] == '\''))
			read_escape(s);
		else
			*s->out++ = *s->at++;
	}
	return false;
}

static bool read_word(struct splitter *s)
{
	while (s->at < s->end && !is_blank(*s->at)) {
		char c = *s->at++;

		if (c == '"' || c == '\'')
			return read_quoted(s, c);
		*s->out++ = c;
	}
	return true;
}

bool wr_resp_split(const char *line, size_t len, struct wr_resp_reader *reader)
{
	/* reader->words is large enough: a word is never longer than its text in the line. */
	struct splitter s = {line, line + len, reader->words};

	reader->used = 0;
	for (;;) {
		char *start = s.out;

		while (s.at < s.end && is_blank(*s.at))
			s.at++;
		if (s.at == s.end)
			return true;
		if (reader->used == WR_RESP_ARGS_MAX || !read_word(&s))
			return false;
		reader->args[reader->used++] = (struct weir_str){start, (size_t)(s.out - start)};
	}
}
