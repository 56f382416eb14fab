#include "cli/options/arguments.h"

#include <stdlib.h>
#include <string.h>

static bool is_secret(const struct wr_command *command, const char *name, size_t len)
{
	for (size_t g = 0; g < command->group_count; g++)
		for (size_t i = 0; i < command->groups[g].count; i++) {
			const struct wr_option *option = &command->groups[g].options[i];

			if (option->secret && strlen(option->name) == len &&
			    memcmp(option->name, name, len) == 0)
				return true;
		}
	return false;
}

/* The URL from behind its "://" up to `end`: USER:PASSWORD@, and ?sentinel_password=. What is not a
 * password may be struck out with it, never the other way round. */
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

/* A list has several. */
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

static char **copy_of(int argc, char **argv)
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

char **wr_arguments_hide(const struct wr_command *command, int argc, char **argv, bool *hidden)
{
	char **copy = copy_of(argc, argv);

	*hidden = false;
	if (!copy)
		return NULL;
	for (int i = 1; i < argc; i++) {
		size_t len = strcspn(argv[i], "=");

		if (strncmp(argv[i], "--", 2) != 0 || !is_secret(command, argv[i] + 2, len - 2))
			continue;
		if (argv[i][len])
			*hidden |= hide_in_value(argv[i] + len + 1);
		else if (i + 1 < argc)
			*hidden |= hide_in_value(argv[++i]);
	}
	return copy;
}
