/* Makes the JSON of descriptor entries, formats durations, and prints text and errors from
 * responses. Called by the commands that ask a service. */
#include "cli/client/client.h"

#include <stdio.h>

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
