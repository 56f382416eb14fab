/* Connects to a service, and prints the parts of its responses. Called by the commands that ask a
 * service. */
#include "cli/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/error.h"
#include "base/str.h"
#include "cli/cli.h"
#include "net/dial.h"

/* ---- connecting ---- */

int wr_client_refused(const char *address, struct weir_error *error)
{
	if (errno == EACCES)
		return wr_error(
			error, WEIR_EACCESS,
			"this user may not connect to %s: run the command as root or as the "
			"service's user, or use the port with --admin and --token-file",
			address);
	return wr_error_errno(error, WEIR_ESYS, "no service answers at %s (is weir serve running?)",
			      address);
}

int wr_client_connect(const char *address, struct weir_error *error)
{
	struct wr_endpoint at;
	const char *why;
	int fd, rc = wr_endpoint_parse(wr_str(address), &at, error);

	if (rc < 0)
		return rc;
	fd = wr_dial(&at, WR_CLIENT_TIMEOUT_S * UINT64_C(1000000), &why);
	return fd < 0 ? wr_client_refused(address, error) : fd;
}

/* ---- words ---- */

json_t *wr_client_entry(const char *word)
{
	struct weir_str text = wr_str(word);
	size_t equals = wr_str_find(text, '=');

	if (equals == 0 || equals == text.len)
		return NULL;
	return json_pack("{s:o, s:o}", "key", wr_json_text(wr_str_first(text, equals)), "value",
			 wr_json_text(wr_str_from(text, equals + 1)));
}

const char *wr_client_span(double seconds, char text[WR_CLIENT_SPAN])
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

/* Control characters are the control characters of ASCII, and U+0080 to U+009F, because many
 * terminals take U+009B for ESC [. */
size_t wr_client_control(const char *at)
{
	if ((unsigned char)at[0] < ' ' || at[0] == 0x7f)
		return 1;
	return (unsigned char)at[0] == 0xc2 && ((unsigned char)at[1] & 0xe0) == 0x80 ? 2 : 0;
}

void wr_client_print(const char *text)
{
	while (*text) {
		size_t control = wr_client_control(text);

		putchar(control ? '?' : *text);
		text += control ? control : 1;
	}
}

int wr_client_problem(const char *command, const struct wr_client_reply *reply)
{
	const char *detail = json_string_value(json_object_get(reply->json, "detail"));
	const char *pointer = json_string_value(json_object_get(reply->json, "pointer"));

	fprintf(stderr, "weir %s: the service answered %d: %s%s%s\n", command, reply->status,
		detail ? detail : reply->text, pointer && pointer[0] ? ", at " : "",
		pointer && pointer[0] ? pointer : "");
	return reply->status == 404 ? WR_EXIT_NO : WR_EXIT_USAGE;
}
