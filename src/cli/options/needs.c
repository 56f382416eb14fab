/* Reports options that have no effect because another option is missing, such as --redis-timeout
 * without --redis. Called by options.c after all sources have been read. */
#include <string.h>

#include "cli/options/read.h"

#include "base/assert.h"

/* Returns whether the option has an effect that depends on another option. A switch that is off has
 * none. */
static bool has_effect(const struct wr_cli_options_reader *reader,
		       const struct wr_cli_option_ref *ref)
{
	return reader->set_by[ref->number] > WR_FROM_DEFAULT &&
	       (ref->option->kind != WR_OPTION_SWITCH || *(const bool *)ref->field);
}

static bool is_given(const struct wr_cli_options_reader *reader, size_t number)
{
	return reader->set_by[number] > WR_FROM_DEFAULT;
}

/* Returns whether an item of `needs` is met. "name" is met if the option --name was given, and
 * its value is not "off". "name:prefix" is met if its value also begins with this prefix. A command
 * may have a default for --queue although --queue was not given (has_default_queue). */
static bool is_met_by(const struct wr_cli_options_reader *reader, struct weir_str item)
{
	size_t colon = wr_str_find(item, ':');
	struct weir_str prefix = wr_str_from(item, colon + (colon < item.len));
	struct wr_cli_option_ref ref =
		wr_cli_options_find(reader->command, wr_str_first(item, colon));
	const char *value;

	if (!ref.option)
		return false;
	if (!is_given(reader, ref.number))
		return reader->command->has_default_queue && wr_str_equal(item, WR_STR("queue"));
	memcpy(&value, ref.field, sizeof value);
	return value && strcmp(value, "off") != 0 && wr_str_begins(wr_str(value), prefix);
}

static bool is_met(const struct wr_cli_options_reader *reader, const char *needs)
{
	struct weir_str rest = wr_str(needs);

	while (rest.len) {
		size_t len = wr_str_find(rest, ' ');

		if (is_met_by(reader, wr_str_first(rest, len)))
			return true;
		rest = wr_str_from(rest, len + (len < rest.len));
	}
	return false;
}

/* Returns the part of the error message that names the missing option. */
static const char *describe(const char *needs)
{
	static const struct {
		const char *needs, *text;
	} texts[] = {
		{"redis", "--redis: without Redis"},
		{"redis queue:redis", "--redis, or a --queue in Redis: without Redis"},
		{"queue", "--queue: without a queue"},
		{"queue:redis", "a --queue in Redis: without Redis"},
	};
	size_t i = 0;

	while (strcmp(needs, texts[i].needs) != 0) {
		i++;
		wr_assert(i < sizeof texts / sizeof *texts);
	}
	return texts[i].text;
}

void wr_cli_options_check_needs(struct wr_cli_options_reader *reader)
{
	struct wr_cli_option_ref ref = {0};

	while (wr_cli_options_next(reader->command, &ref)) {
		const struct wr_cli_option *option = ref.option;
		enum wr_cli_option_source source = reader->set_by[ref.number];
		char name[64];

		if (!option->needs || !has_effect(reader, &ref) || is_met(reader, option->needs))
			continue;
		if (source == WR_FROM_ENVIRONMENT)
			wr_cli_options_variable(option, name, sizeof name);
		else
			snprintf(name, sizeof name, "%s%s", source == WR_FROM_FILE ? "" : "--",
				 option->name);
		wr_cli_options_wrong(reader, "", "%s needs %s it has no effect", name,
				     describe(option->needs));
	}
}
