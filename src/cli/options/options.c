/* Reads a command's options by its table (options.h), and prints the table as help text. Called by
 * every subcommand: `weir serve` and `weir gateway` call it directly, the others through
 * wr_cli_read(). */
#include "cli/options/read.h"

#include <stdarg.h>

#include "base/assert.h"
#include "rules/fields.h"

struct wr_cli_option_ref wr_cli_options_find(const struct wr_cli_command *command,
					     struct weir_str name)
{
	struct wr_cli_option_ref ref = {0};

	while (wr_cli_options_next(command, &ref))
		if (wr_str_equal(name, wr_str(ref.option->name)))
			return ref;
	return (struct wr_cli_option_ref){0};
}

/* Replaces control characters by '?', because names and values come from files and other programs.
 */
void wr_cli_options_wrong(struct wr_cli_options_reader *reader, const char *where,
			  const char *format, ...)
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

struct weir_str wr_cli_options_guess(const struct wr_cli_options_reader *reader,
				     struct weir_str name)
{
	struct wr_guess guess = {.word = name};
	struct wr_cli_option_ref ref = {0};

	while (wr_cli_options_next(reader->command, &ref))
		wr_guess_try(&guess, wr_str(ref.option->name));
	if (reader->command->has_config)
		wr_guess_try(&guess, WR_STR("config"));
	wr_guess_try(&guess, WR_STR("help"));
	return guess.best;
}

static const size_t field_bytes[] = {
#define FIELD_BYTES(kind, type) [kind] = sizeof(type),
	WR_OPTION_KINDS(FIELD_BYTES)
#undef FIELD_BYTES
};

static void read_defaults(struct wr_cli_options_reader *reader)
{
	struct wr_cli_option_ref ref = {0};

	reader->source = WR_FROM_DEFAULT;
	if (reader->command->words)
		*reader->command->words = (struct wr_cli_words){0};
	while (wr_cli_options_next(reader->command, &ref)) {
		wr_assert(ref.number < WR_CLI_OPTIONS_MAX);
		memset(ref.field, 0, field_bytes[ref.option->kind]);
		if (ref.option->given_at)
			*(bool *)(ref.field - ref.option->at + ref.option->given_at) = false;
		if (ref.option->otherwise)
			wr_cli_options_set(reader, &ref, ref.option->name,
					   wr_str(ref.option->otherwise));
	}
}

void wr_cli_options_variable(const struct wr_cli_option *option, char *name, size_t cap)
{
	size_t len;

	if (option->variable) {
		snprintf(name, cap, "%s", option->variable);
		return;
	}
	len = (size_t)snprintf(name, cap, "WEIR_");
	for (const char *c = option->name; *c && len + 1 < cap; c++, len++)
		name[len] = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	name[len] = 0;
}

/* Returns the value of a variable. An empty variable counts as not set, because a compose file
 * passes a variable that is not set as an empty one. */
static const char *find_variable(char **environment, const char *name)
{
	size_t len = strlen(name);

	for (; *name && environment && *environment; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' &&
		    (*environment)[len + 1])
			return *environment + len + 1;
	return NULL;
}

static void read_environment(struct wr_cli_options_reader *reader, char **environment)
{
	struct wr_cli_option_ref ref = {0};

	reader->source = WR_FROM_ENVIRONMENT;
	while (wr_cli_options_next(reader->command, &ref)) {
		char name[64];
		const char *value;

		wr_cli_options_variable(ref.option, name, sizeof name);
		value = find_variable(environment, name);
		if (value)
			wr_cli_options_set(reader, &ref, name, wr_str(value));
	}
}

/* An argument of the command line that begins with a dash. */
struct option_flag {
	const char *text;
	struct weir_str name; /* name without dashes; empty if the flag is a letter */
	const char *value;    /* NULL: no value was given */
	struct wr_cli_option_ref ref;
	bool is_config, is_help, takes_value;
	int arguments; /* number of arguments that the flag and its value occupy */
};

static struct wr_cli_option_ref find_letter(const struct wr_cli_command *command, char letter)
{
	struct wr_cli_option_ref ref = {0};

	while (letter && wr_cli_options_next(command, &ref))
		if (ref.option->letter == letter)
			return ref;
	return (struct wr_cli_option_ref){0};
}

/* Splits a flag into name and value: --name=value, -nvalue, or a flag whose value is the next
 * argument. An argument that begins with -- is not a value. */
static struct option_flag split_flag(const struct wr_cli_command *command, int left, char **argv)
{
	struct option_flag flag = {.text = argv[0], .arguments = 1};
	struct weir_str text = wr_str(argv[0]);
	size_t equals = wr_str_find(text, '=');

	flag.is_help = wr_str_equal(text, WR_STR("--help")) || wr_str_equal(text, WR_STR("-h"));
	if (wr_str_begins(text, WR_STR("--"))) {
		flag.name = wr_str_from(wr_str_first(text, equals), 2);
		flag.value = equals < text.len ? argv[0] + equals + 1 : NULL;
		flag.ref = wr_cli_options_find(command, flag.name);
		flag.is_config = command->has_config && wr_str_equal(flag.name, WR_STR("config"));
	} else if (text.len > 1 && text.ptr[0] == '-') {
		flag.ref = find_letter(command, text.ptr[1]);
		flag.value = text.len > 2 ? argv[0] + 2 : NULL;
	}
	flag.takes_value = flag.is_config || (flag.ref.option && flag.ref.option->argument);
	if (flag.takes_value && !flag.value && left > 1 && strncmp(argv[1], "--", 2) != 0) {
		flag.value = argv[1];
		flag.arguments = 2;
	}
	return flag;
}

/* Reports an unknown flag. Returns the number of arguments to skip: an argument after an unknown
 * flag is most likely the flag's value, so it is not reported as a second error. */
static int report_unknown(struct wr_cli_options_reader *reader, const struct option_flag *flag,
			  const char *next)
{
	struct weir_str near = wr_cli_options_guess(reader, flag->name);

	if (flag->text[0] != '-') {
		wr_cli_options_wrong(reader, "", "'%.200s' is not an option: options begin with --",
				     flag->text);
		return 1;
	}
	if (wr_str_equal(flag->name, WR_STR("help")))
		wr_cli_options_wrong(reader, "", "--help takes no value");
	else if (near.len)
		wr_cli_options_wrong(reader, "", "there is no option --%.*s; did you mean --%.*s?",
				     (int)flag->name.len, flag->name.ptr, (int)near.len, near.ptr);
	else
		wr_cli_options_wrong(reader, "", "there is no option '%.200s'", flag->text);
	return next && next[0] != '-' && !flag->value ? 2 : 1;
}

/* Reads one flag. Returns the number of arguments that the flag and its value occupy. The command
 * line is read in two passes. The first pass only looks for --config and --help, because the file
 * of --config has to be read before the flags that override it. */
static int read_flag(struct wr_cli_options_reader *reader, int left, char **argv, bool first_pass)
{
	struct option_flag flag = split_flag(reader->command, left, argv);
	const struct wr_cli_option *option = flag.ref.option;
	char where[96];

	snprintf(where, sizeof where, "--%s",
		 flag.is_config ? "config"
		 : option       ? option->name
				: "");
	if (flag.is_help)
		reader->help = true;
	else if (flag.is_config && flag.value)
		reader->config = flag.value;
	else if (first_pass)
		return flag.arguments;
	else if (!flag.is_config && !option)
		return report_unknown(reader, &flag, left > 1 ? argv[1] : NULL);
	else if (flag.takes_value && !flag.value)
		wr_cli_options_wrong(reader, where, "needs a value: %s %s", where,
				     flag.is_config ? "FILE" : option->argument);
	else
		wr_cli_options_set(reader, &flag.ref, where,
				   wr_str(flag.value ? flag.value : "on"));
	return flag.arguments;
}

static void read_arguments(struct wr_cli_options_reader *reader, int argc, char **argv,
			   bool first_pass)
{
	struct wr_cli_words *words = reader->command->words;
	size_t words_max = reader->command->words_max;
	bool only_words = false;

	reader->source = WR_FROM_ARGUMENTS;
	for (int i = 1; i < argc;) {
		bool is_flag = argv[i][0] == '-' && argv[i][1] && !only_words;

		if (!words || (is_flag && strcmp(argv[i], "--") != 0)) {
			i += read_flag(reader, argc - i, argv + i, first_pass);
			continue;
		}
		if (is_flag)
			only_words = true;
		else if (!first_pass && words_max && words->count == words_max)
			wr_cli_options_wrong(reader, "", "'%.200s' is an unexpected argument",
					     argv[i]);
		else if (!first_pass)
			wr_cli_options_add_word(reader, words, "", wr_str(argv[i]));
		i++;
	}
}

enum wr_cli_options_outcome wr_cli_options_read(const struct wr_cli_command *command, int argc,
						char **argv, char **environment,
						struct wr_arena *arena, FILE *errors)
{
	struct wr_cli_options_reader reader = {.command = command,
					       .arena = arena,
					       .errors = errors,
					       .words_cap = (size_t)argc + 1};

	read_defaults(&reader);
	wr_assert(!reader.wrong); /* the defaults in the table are valid */
	if (command->has_config)
		reader.config = find_variable(environment, "WEIR_CONFIG");
	read_arguments(&reader, argc, argv, true);
	if (reader.help)
		return WR_OPTIONS_HELP;
	if (reader.config)
		wr_cli_options_read_file(&reader, reader.config);
	read_environment(&reader, environment);
	read_arguments(&reader, argc, argv, false);
	wr_cli_options_check_needs(&reader);
	if (reader.wrong)
		fprintf(errors, "weir %s --help lists all options\n", command->name);
	return reader.wrong ? WR_OPTIONS_WRONG : WR_OPTIONS_READ;
}

#define HELP_COLUMN 28
#define HELP_WIDTH 90

/* Writes the default and the variable of an option: "(default: 64M; WEIR_MEMORY)", "(WEIR_RULES)"
 * or nothing. */
static void describe_default(const struct wr_cli_option *option, bool with_variable, char *text,
			     size_t cap)
{
	bool has_default = option->otherwise && *option->otherwise;
	char variable[64] = "";

	text[0] = 0;
	if (with_variable)
		wr_cli_options_variable(option, variable, sizeof variable);
	if (has_default || *variable)
		snprintf(text, cap, "(%s%s%s%s)", has_default ? "default: " : "",
			 has_default ? option->otherwise : "", has_default && *variable ? "; " : "",
			 variable);
}

static void print_option(const struct wr_cli_option *option, bool with_variable, FILE *out)
{
	int width = option->letter ? fprintf(out, "  -%c, --%s", option->letter, option->name)
				   : fprintf(out, "  --%s", option->name);
	const char *line = option->help;
	char more[256];

	if (option->argument)
		width += fprintf(out, " %s", option->argument);
	/* The character "…" has three bytes but fills one column. */
	if (option->argument && strstr(option->argument, "…"))
		width -= 2;
	fprintf(out, "%*s", width < HELP_COLUMN ? HELP_COLUMN - width : 0, "");
	if (width >= HELP_COLUMN)
		fprintf(out, "\n%*s", HELP_COLUMN, "");
	for (const char *end; (end = strchr(line, '\n')); line = end + 1)
		fprintf(out, "%.*s\n%*s", (int)(end - line), line, HELP_COLUMN, "");
	fputs(line, out);
	describe_default(option, with_variable, more, sizeof more);
	if (*more && HELP_COLUMN + strlen(line) + 1 + strlen(more) > HELP_WIDTH)
		fprintf(out, "\n%*s%s", HELP_COLUMN, "", more);
	else if (*more)
		fprintf(out, " %s", more);
	fputc('\n', out);
}

static const char config_note[] =
	"\nEvery option can also be set by an environment variable (--tls-cert is WEIR_TLS_CERT)\n"
	"and by a line of the YAML file that --config FILE names (tls-cert: FILE). The command\n"
	"line overrides the environment, and the environment overrides the file.\n\n";

static const char variable_note[] = "\nA name WEIR_… is the environment variable of that option; "
				    "the command line overrides it.\n"
				    "The other options have no variable: the environment cannot "
				    "change what the command does.\n\n";

void wr_cli_options_help(const struct wr_cli_command *command, FILE *out)
{
	fputs(command->intro, out);
	for (size_t g = 0; g < command->group_count; g++) {
		if (command->groups[g].title)
			fprintf(out, "\n%s\n", command->groups[g].title);
		for (size_t i = 0; i < command->groups[g].count; i++)
			print_option(&command->groups[g].options[i], !command->has_config, out);
	}
	fputs(command->has_config ? config_note : variable_note, out);
	fputs(command->examples, out);
}
