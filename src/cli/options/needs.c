/* Options that say something about another one are no use without it: who gives one expects that it
 * does something. */
#include <string.h>

#include "cli/options/read.h"

static bool is_given(const struct options_reader *reader, size_t number)
{
	return reader->set_by[number] > FROM_DEFAULT;
}

/* Whether the option that is needed is there. A queue is one of several kinds: it counts when it is
 * kept in Redis. */
static bool is_met_by(const struct options_reader *reader, struct weir_str name)
{
	struct options_spot spot = options_find(reader, name);
	const char *value;

	if (!spot.option || !is_given(reader, spot.number))
		return false;
	if (!wr_str_equal(name, WR_STR("queue")))
		return true;
	memcpy(&value, spot.field, sizeof value);
	return value && wr_str_begins(wr_str(value), WR_STR("redis"));
}

static bool is_met(const struct options_reader *reader, const char *needs)
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

static void say_unmet(struct options_reader *reader, const struct wr_option *option, size_t number)
{
	char name[64];

	if (reader->set_by[number] == FROM_ENVIRONMENT)
		options_variable(option->name, name, sizeof name);
	else
		snprintf(name, sizeof name, "%s%s", reader->set_by[number] == FROM_FILE ? "" : "--",
			 option->name);
	options_wrong(reader, "", "%s needs --redis%s: there is no store it could be for", name,
		      strchr(option->needs, ' ') ? ", or a --queue in Redis" : "");
}

void options_check_needs(struct options_reader *reader)
{
	size_t number = 0;

	for (size_t g = 0; g < reader->command->group_count; g++) {
		const struct wr_option_group *group = &reader->command->groups[g];

		for (size_t i = 0; i < group->count; i++, number++) {
			const struct wr_option *option = &group->options[i];

			if (option->needs && is_given(reader, number) &&
			    !is_met(reader, option->needs))
				say_unmet(reader, option, number);
		}
	}
}
