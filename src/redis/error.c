#include "redis/error.h"

#include <string.h>

#define WRAPPED "ERR Error running script"

struct fault {
	const char *word;
	const char *name;
	const char *text;
	enum wr_fault_act act;
};

/* Errors without a word of their own. */
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

static bool begins(const char *text, size_t len, const char *with)
{
	size_t with_len = strlen(with);

	return len >= with_len && memcmp(text, with, with_len) == 0;
}

/* The word must end there: ASKING is not ASK. */
static bool has_word(const char *text, size_t len, const char *word)
{
	size_t word_len = strlen(word);

	return begins(text, len, word) && (len == word_len || text[word_len] == ' ');
}

static enum wr_fault by_word(const char *text, size_t len)
{
	for (size_t i = 0; i < WR_FAULT_COUNT; i++)
		if (faults[i].word && has_word(text, len, faults[i].word))
			return (enum wr_fault)i;
	return WR_FAULT_OTHER;
}

/* What a command inside the script said: behind a blank and a minus, or a blank alone. */
static enum wr_fault within_script(const char *text, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		size_t at = i + 1 + (text[i + 1] == '-');
		enum wr_fault fault;

		if (text[i] != ' ')
			continue;
		fault = by_word(text + at, len - at);
		if (fault != WR_FAULT_OTHER)
			return fault;
	}
	return WR_FAULT_OTHER;
}

enum wr_fault wr_fault_of(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
		if (begins(text, len, phrases[i].begins))
			return phrases[i].fault;
	if (begins(text, len, WRAPPED))
		return within_script(text, len);
	return by_word(text, len);
}

const char *wr_fault_name(enum wr_fault fault)
{
	return faults[fault].name;
}

const char *wr_fault_text(enum wr_fault fault)
{
	return faults[fault].text;
}

enum wr_fault_act wr_fault_act(enum wr_fault fault)
{
	return faults[fault].act;
}
