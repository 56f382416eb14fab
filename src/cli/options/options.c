#include "cli/options/read.h"

#include <assert.h>
#include <stdarg.h>

#include "rules/fields.h"

static struct options_spot spot_of(const struct wr_option_group *group, size_t at, size_t number)
{
	const struct wr_option *option = &group->options[at];

	return (struct options_spot){option, (char *)group->into + option->at, number};
}

struct options_spot options_find(const struct options_reader *reader, struct weir_str name)
{
	size_t number = 0;

	for (size_t g = 0; g < reader->command->group_count; g++) {
		const struct wr_option_group *group = &reader->command->groups[g];

		for (size_t i = 0; i < group->count; i++, number++)
			if (wr_str_equal(name, wr_str(group->options[i].name)))
				return spot_of(group, i, number);
	}
	return (struct options_spot){0};
}

/* Names and values come from files and from other programs: they steer no terminal. */
void options_wrong(struct options_reader *reader, const char *where, const char *format, ...)
{
	char text[2048];
	va_list args;

	reader->wrong = true;
	va_start(args, format);
	// NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): version 14 misses va_start
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	fprintf(reader->errors, "weir %s: %s%s%s\n", reader->command->name, where,
		*where ? " " : "", text);
}

struct weir_str options_guess(const struct options_reader *reader, struct weir_str name)
{
	struct wr_guess guess = {.word = name};

	for (size_t g = 0; g < reader->command->group_count; g++)
		for (size_t i = 0; i < reader->command->groups[g].count; i++)
			wr_guess_try(&guess, wr_str(reader->command->groups[g].options[i].name));
	wr_guess_try(&guess, WR_STR("config"));
	wr_guess_try(&guess, WR_STR("help"));
	return guess.best;
}

static const size_t field_bytes[] = {
#define FIELD_BYTES(kind, type) [kind] = sizeof(type),
	WR_OPTION_KINDS(FIELD_BYTES)
#undef FIELD_BYTES
};

static void read_defaults(struct options_reader *reader)
{
	size_t number = 0;

	reader->source = FROM_DEFAULT;
	for (size_t g = 0; g < reader->command->group_count; g++) {
		const struct wr_option_group *group = &reader->command->groups[g];

		assert(number + group->count <= WR_OPTIONS_MAX);
		for (size_t i = 0; i < group->count; i++) {
			struct options_spot spot = spot_of(group, i, number++);

			memset(spot.field, 0, field_bytes[spot.option->kind]);
			if (spot.option->otherwise)
				options_set(reader, &spot, spot.option->name,
					    wr_str(spot.option->otherwise));
		}
	}
}

void options_variable(const char *option, char *name, size_t cap)
{
	size_t len = (size_t)snprintf(name, cap, "WEIR_");

	for (; *option && len + 1 < cap; option++, len++)
		name[len] = *option == '-'                     ? '_'
			    : *option >= 'a' && *option <= 'z' ? (char)(*option - 'a' + 'A')
							       : *option;
	name[len] = 0;
}

/* An empty variable is as good as none: that is how compose files leave one out. */
static const char *variable(char **environment, const char *name)
{
	size_t len = strlen(name);

	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' &&
		    (*environment)[len + 1])
			return *environment + len + 1;
	return NULL;
}

static void read_environment(struct options_reader *reader, char **environment)
{
	size_t number = 0;

	reader->source = FROM_ENVIRONMENT;
	for (size_t g = 0; g < reader->command->group_count; g++) {
		const struct wr_option_group *group = &reader->command->groups[g];

		for (size_t i = 0; i < group->count; i++) {
			char name[64];
			const char *value;
			struct options_spot spot = spot_of(group, i, number++);

			options_variable(spot.option->name, name, sizeof name);
			value = variable(environment, name);
			if (value)
				options_set(reader, &spot, name, wr_str(value));
		}
	}
}

/* An argument that is a flag, or should be one. */
struct flag {
	const char *text;
	struct weir_str name; /* without dashes; empty: not a flag at all */
	const char *value;    /* NULL: none given */
	struct options_spot spot;
	bool is_config, is_help, takes_value;
	int arguments; /* it is made of */
};

/* Values follow behind `=` or as the next argument; one that begins with -- is the next flag. */
static struct flag split_flag(const struct options_reader *reader, int left, char **argv)
{
	struct flag flag = {.text = argv[0], .arguments = 1};
	struct weir_str text = wr_str(argv[0]);
	size_t equals = wr_str_find(text, '=');

	flag.is_help = wr_str_equal(text, WR_STR("--help")) || wr_str_equal(text, WR_STR("-h"));
	if (!wr_str_begins(text, WR_STR("--")))
		return flag;
	flag.name = wr_str_from(wr_str_first(text, equals), 2);
	flag.value = equals < text.len ? argv[0] + equals + 1 : NULL;
	flag.spot = options_find(reader, flag.name);
	flag.is_config = wr_str_equal(flag.name, WR_STR("config"));
	flag.takes_value = flag.is_config || (flag.spot.option && flag.spot.option->argument);
	if (flag.takes_value && !flag.value && left > 1 && strncmp(argv[1], "--", 2) != 0) {
		flag.value = argv[1];
		flag.arguments = 2;
	}
	return flag;
}

/* Returns how many arguments to pass over: what follows an unknown flag is its value, most likely,
 * and no fault of its own. */
static int unknown_flag(struct options_reader *reader, const struct flag *flag, const char *next)
{
	struct weir_str near = options_guess(reader, flag->name);

	if (flag->text[0] != '-') {
		options_wrong(reader, "", "'%.200s' is not understood: options begin with --",
			      flag->text);
		return 1;
	}
	if (near.len)
		options_wrong(reader, "", "there is no option --%.*s; did you mean --%.*s?",
			      (int)flag->name.len, flag->name.ptr, (int)near.len, near.ptr);
	else
		options_wrong(reader, "", "there is no option '%.200s'", flag->text);
	return next && next[0] != '-' && !flag->value ? 2 : 1;
}

/* Returns how many arguments it took. In the first pass only --config and --help count: the file is
 * read before the other flags, which win over it. */
static int read_argument(struct options_reader *reader, int left, char **argv, bool first_pass)
{
	struct flag flag = split_flag(reader, left, argv);
	char where[96];

	snprintf(where, sizeof where, "%.*s",
		 (int)(flag.name.len ? flag.name.len + 2 : strlen(flag.text)), flag.text);
	if (flag.is_help)
		reader->help = true;
	else if (flag.is_config && flag.value)
		reader->config = flag.value;
	else if (first_pass)
		return flag.arguments;
	else if (!flag.is_config && !flag.spot.option)
		return unknown_flag(reader, &flag, left > 1 ? argv[1] : NULL);
	else if (flag.takes_value && !flag.value)
		options_wrong(reader, where, "needs a value: %s %s", where,
			      flag.is_config ? "FILE" : flag.spot.option->argument);
	else
		options_set(reader, &flag.spot, where, wr_str(flag.value ? flag.value : "on"));
	return flag.arguments;
}

static void read_arguments(struct options_reader *reader, int argc, char **argv, bool first_pass)
{
	reader->source = FROM_ARGUMENTS;
	for (int i = 1; i < argc;)
		i += read_argument(reader, argc - i, argv + i, first_pass);
}

enum wr_options_outcome wr_options_read(const struct wr_command *command, int argc, char **argv,
					char **environment, struct wr_arena *arena, FILE *errors)
{
	struct options_reader reader = {.command = command, .arena = arena, .errors = errors};

	read_defaults(&reader);
	assert(!reader.wrong); /* the table's own defaults are usable */
	reader.config = variable(environment, "WEIR_CONFIG");
	read_arguments(&reader, argc, argv, true);
	if (reader.help)
		return WR_OPTIONS_HELP;
	if (reader.config)
		options_read_file(&reader, reader.config);
	read_environment(&reader, environment);
	read_arguments(&reader, argc, argv, false);
	options_check_needs(&reader);
	if (reader.wrong)
		fprintf(errors, "weir %s --help tells all options\n", command->name);
	return reader.wrong ? WR_OPTIONS_WRONG : WR_OPTIONS_READ;
}

#define HELP_COLUMN 28

static void print_option(const struct wr_option *option, FILE *out)
{
	int width = fprintf(out, "  --%s", option->name);
	const char *line = option->help;

	if (option->argument)
		width += fprintf(out, " %s", option->argument);
	/* The ellipsis is three bytes and one column. */
	if (option->argument && strstr(option->argument, "…"))
		width -= 2;
	fprintf(out, "%*s", width < HELP_COLUMN ? HELP_COLUMN - width : 0, "");
	if (width >= HELP_COLUMN)
		fprintf(out, "\n%*s", HELP_COLUMN, "");
	for (const char *end; (end = strchr(line, '\n')); line = end + 1)
		fprintf(out, "%.*s\n%*s", (int)(end - line), line, HELP_COLUMN, "");
	fputs(line, out);
	if (option->otherwise && *option->otherwise)
		fprintf(out, " (%s)", option->otherwise);
	fputc('\n', out);
}

void wr_options_help(const struct wr_command *command, FILE *out)
{
	fputs(command->intro, out);
	for (size_t g = 0; g < command->group_count; g++) {
		fprintf(out, "\n%s\n", command->groups[g].title);
		for (size_t i = 0; i < command->groups[g].count; i++)
			print_option(&command->groups[g].options[i], out);
	}
	fprintf(out,
		"\nEvery option is also a variable of the environment (--tls-cert is "
		"WEIR_TLS_CERT) and a\n"
		"line of the YAML file that --config FILE names (tls-cert: FILE). The command line "
		"goes\n"
		"before the environment, and that before the file.\n\n%s",
		command->examples);
}
