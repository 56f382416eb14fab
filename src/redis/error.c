/* Classifies error replies. Called by src/central and src/queue. */
#include "redis/error.h"

#include <string.h>

#include "base/assert.h"

#define WRAPPED "ERR Error running script"

struct fault {
	const char *word;
	const char *name;
	const char *text;
	enum wr_fault_act act;
};

/* Errors that are identified by a phrase, not by their first word. */
static const struct {
	const char *begins;
	enum wr_fault fault;
} phrases[] = {
	{"ERR max number of clients", WR_FAULT_MAXCLIENTS},
	{"ERR The user executing the script can't", WR_FAULT_NOPERM},
};

static const struct fault faults[] = {
#define FAULT(enumerator, word, name, act, text) {word, name, text, act},
	WR_FAULTS(FAULT)
#undef FAULT
};

static bool has_prefix(const char *text, size_t len, const char *with)
{
	size_t with_len = strlen(with);

	return len >= with_len && memcmp(text, with, with_len) == 0;
}

/* Returns the fault that the first word of the text means. The word must be complete: ASKING is not
 * ASK. */
static enum wr_fault fault_by_word(const char *text, size_t len)
{
	for (size_t i = 0; i < WR_FAULT_COUNT; i++) {
		const char *word = faults[i].word;

		if (word && has_prefix(text, len, word) &&
		    (len == strlen(word) || text[strlen(word)] == ' '))
			return (enum wr_fault)i;
	}
	return WR_FAULT_OTHER;
}

/* Returns the fault of a command inside a script. In `text`, the error of the command begins after
 * a blank, or after a blank and a minus. */
static enum wr_fault fault_within_script(const char *text, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		size_t at = i + 1 + (text[i + 1] == '-');
		enum wr_fault fault;

		if (text[i] != ' ')
			continue;
		fault = fault_by_word(text + at, len - at);
		if (fault != WR_FAULT_OTHER)
			return fault;
	}
	return WR_FAULT_OTHER;
}

enum wr_fault wr_fault_of(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
		if (has_prefix(text, len, phrases[i].begins))
			return phrases[i].fault;
	if (has_prefix(text, len, WRAPPED))
		return fault_within_script(text, len);
	return fault_by_word(text, len);
}

const char *wr_fault_name(enum wr_fault fault)
{
	wr_assert((unsigned)fault < WR_FAULT_COUNT);
	return faults[fault].name;
}

const char *wr_fault_text(enum wr_fault fault)
{
	wr_assert((unsigned)fault < WR_FAULT_COUNT);
	return faults[fault].text;
}

enum wr_fault_act wr_fault_act(enum wr_fault fault)
{
	wr_assert((unsigned)fault < WR_FAULT_COUNT);
	return faults[fault].act;
}
