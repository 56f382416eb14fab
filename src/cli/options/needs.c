/* Reports options that have no effect because another option is missing, such as --redis-timeout
 * without --redis. Called by options.c after all sources have been read. */
#include <string.h>

#include "cli/options/read.h"

static bool is_given(const struct wr_cli_options_reader *reader, size_t number)
{
	return reader->set_by[number] > WR_FROM_DEFAULT;
}

/* Returns whether the option `name`, which another option needs, was given. Only options for
 * connections to Redis name "queue" as an option that they need. So --queue counts as given only if
 * the queue is in Redis. */
static bool is_met_by(const struct wr_cli_options_reader *reader, struct weir_str name)
{
	struct wr_cli_option_ref ref = wr_cli_options_find(reader->command, name);
	const char *value;

	if (!ref.option || !is_given(reader, ref.number))
		return false;
	if (!wr_str_equal(name, WR_STR("queue")))
		return true;
	memcpy(&value, ref.field, sizeof value);
	return value && wr_str_begins(wr_str(value), WR_STR("redis"));
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

void wr_cli_options_check_needs(struct wr_cli_options_reader *reader)
{
	struct wr_cli_option_ref ref = {0};

	while (wr_cli_options_next(reader->command, &ref)) {
		const struct wr_cli_option *option = ref.option;
		enum wr_cli_option_source source = reader->set_by[ref.number];
		char name[64];

		if (!option->needs || !is_given(reader, ref.number) ||
		    is_met(reader, option->needs))
			continue;
		if (source == WR_FROM_ENVIRONMENT)
			wr_cli_options_variable(option, name, sizeof name);
		else
			snprintf(name, sizeof name, "%s%s", source == WR_FROM_FILE ? "" : "--",
				 option->name);
		wr_cli_options_wrong(reader, "",
				     "%s needs --redis%s: without Redis it has no effect", name,
				     strchr(option->needs, ' ') ? ", or a --queue in Redis" : "");
	}
}
