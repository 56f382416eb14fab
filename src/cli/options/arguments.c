/* Overwrites passwords in argv, which other users can read in the process list. Called by `weir
 * serve` and `weir gateway` before they read their options. */
#include "cli/options/arguments.h"

#include <stdlib.h>
#include <string.h>

#include "cli/options/read.h"

/* Overwrites the password in USER:PASSWORD@ and the password in ?sentinel_password=. `url` points
 * to the text after "://". Possibly overwrites other text of the URL too. Returns whether the URL
 * had a password. */
static bool hide_in_url(char *url, char *end)
{
	static const char name[] = "password=";
	char *at = memrchr(url, '@', (size_t)(end - url));
	char *colon = at ? memchr(url, ':', (size_t)(at - url)) : NULL;
	char *query = memmem(url, (size_t)(end - url), name, sizeof name - 1);

	if (colon)
		memset(colon + 1, '*', (size_t)(at - colon - 1));
	if (query) {
		query += sizeof name - 1;
		memset(query, '*', (size_t)(end - query));
	}
	return colon || query;
}

/* Overwrites the passwords in a value, which is a URL or a list of URLs. Returns whether the value
 * had a password. */
static bool hide_in_value(char *value)
{
	bool hidden = false;
	char *url = strstr(value, "://");

	while (url) {
		char *next = strstr(url + 3, "://");

		hidden |= hide_in_url(url + 3, next ? next : url + strlen(url));
		url = next;
	}
	return hidden;
}

static char **copy_arguments(int argc, char **argv)
{
	size_t count = (size_t)argc, bytes = (count + 1) * sizeof *argv;
	char **copy, *text;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(argv[i]) + 1;
	copy = malloc(bytes);
	if (!copy)
		return NULL;
	text = (char *)(copy + count + 1);
	for (size_t i = 0; i < count; i++) {
		size_t size = strlen(argv[i]) + 1;

		copy[i] = memcpy(text, argv[i], size);
		text += size;
	}
	copy[count] = NULL;
	return copy;
}

char **wr_cli_arguments_hide(const struct wr_cli_command *command, int argc, char **argv,
			     bool *hidden)
{
	char **copy = copy_arguments(argc, argv);

	*hidden = false;
	if (!copy)
		return NULL;
	for (int i = 1; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");
		struct wr_cli_option_ref ref = {0};
		bool secret = false;

		while (strncmp(argv[i], "--", 2) == 0 && wr_cli_options_next(command, &ref))
			secret |= ref.option->secret &&
				  wr_str_equal(wr_str(ref.option->name),
					       (struct weir_str){argv[i] + 2, len - 2});
		if (!secret)
			continue;
		if (argv[i][len])
			*hidden |= hide_in_value(argv[i] + len + 1);
		else if (i + 1 < argc)
			*hidden |= hide_in_value(argv[++i]);
	}
	return copy;
}
