/* Makes the JSON of descriptor entries, formats durations, and prints text and errors from
 * responses. Called by the commands that ask a service. */
#include "cli/client/client.h"

#include <stdio.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"

json_t *wr_cli_client_entry(const char *word)
{
	struct weir_str text = wr_str(word);
	size_t equals = wr_str_find(text, '=');

	if (equals == 0 || equals == text.len)
		return NULL;
	return json_pack("{s:o, s:o}", "key", wr_wire_json_text(wr_str_first(text, equals)),
			 "value", wr_wire_json_text(wr_str_from(text, equals + 1)));
}

/* Adds a member "source" with SOURCE to the entries that have the key KEY. `text` is KEY=SOURCE. If
 * no entry has this key, reports an error and returns false. */
static bool set_source(const char *command, json_t *entries, const char *text)
{
	struct weir_str word = wr_str(text);
	size_t equals = wr_str_find(word, '=');
	struct weir_str key = wr_str_first(word, equals);
	bool found = false;
	json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry) {
		const char *own = json_string_value(json_object_get(entry, "key"));

		if (equals == word.len || !own || !wr_str_equal(wr_str(own), key))
			continue;
		json_object_set_new(entry, "source",
				    wr_wire_json_text(wr_str_from(word, equals + 1)));
		found = true;
	}
	if (!found)
		wr_cli_usage(command, "--from '%s' is not KEY=SOURCE with a KEY of the descriptor",
			     text);
	return found;
}

json_t *wr_cli_client_target(const char *command, const char *domain,
			     const struct wr_cli_words *pairs, const struct wr_cli_words *sources)
{
	json_t *entries = json_array();
	json_t *body = json_pack("{s:o, s:o}", "domain", wr_wire_json_text(wr_str(domain)),
				 "entries", entries);
	bool fine = true;

	for (size_t i = 0; i < pairs->count && fine; i++) {
		json_t *entry = wr_cli_client_entry(pairs->items[i]);

		fine = entry != NULL;
		if (fine)
			json_array_append_new(entries, entry);
		else
			wr_cli_usage(command, "'%s' is not KEY=VALUE", pairs->items[i]);
	}
	for (size_t i = 0; i < sources->count && fine; i++)
		fine = set_source(command, entries, sources->items[i]);
	if (fine)
		return body;
	json_decref(body);
	return NULL;
}

const char *wr_cli_client_time(double seconds, char text[WR_CLIENT_TIME])
{
	time_t at = (time_t)seconds;
	struct tm local;

	localtime_r(&at, &local);
	strftime(text, WR_CLIENT_TIME, "%F %T", &local);
	return text;
}

double wr_cli_client_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

const char *wr_cli_client_span(double seconds, char text[WR_CLIENT_SPAN])
{
	unsigned long whole = (unsigned long)seconds;

	if (seconds < 10)
		snprintf(text, WR_CLIENT_SPAN, "%.3g s", seconds);
	else if (seconds < 120)
		snprintf(text, WR_CLIENT_SPAN, "%.0f s", seconds);
	else if (whole < 7200)
		snprintf(text, WR_CLIENT_SPAN, "%lu m %lu s", whole / 60, whole % 60);
	else if (whole < 172800)
		snprintf(text, WR_CLIENT_SPAN, "%lu h %lu m", whole / 3600, whole / 60 % 60);
	else
		snprintf(text, WR_CLIENT_SPAN, "%lu d %lu h", whole / 86400, whole / 3600 % 24);
	return text;
}

/* Control characters are those of ASCII, and U+0080 to U+009F: many terminals read U+009B as the
 * start of an escape sequence. */
size_t wr_cli_client_control(const char *at)
{
	if ((unsigned char)at[0] < ' ' || at[0] == 0x7f)
		return 1;
	return (unsigned char)at[0] == 0xc2 && ((unsigned char)at[1] & 0xe0) == 0x80 ? 2 : 0;
}

void wr_cli_client_print(const char *text)
{
	while (*text) {
		size_t control = wr_cli_client_control(text);

		putchar(control ? '?' : *text);
		text += control ? control : 1;
	}
}

int wr_cli_client_problem(const char *command, const struct wr_cli_client_reply *reply)
{
	const char *detail = json_string_value(json_object_get(reply->json, "detail"));
	const char *pointer = json_string_value(json_object_get(reply->json, "pointer"));

	fprintf(stderr, "weir %s: the service answered %d: %s%s%s\n", command, reply->status,
		detail ? detail : reply->text, pointer && pointer[0] ? ", at " : "",
		pointer && pointer[0] ? pointer : "");
	return reply->status == 404 ? WR_EXIT_NO : WR_EXIT_USAGE;
}
