/* Derives WEIR_… variables from the variables of envoyproxy/ratelimit. Called by `weir serve`. */
#include "cli/options/serve_environment.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/str.h"
#include "cli/options/redis_environment.h"

#define MADE_MAX 32
#define VALUE_MAX 4096
#define DEFAULT_ROOT "/srv/runtime_data/current"

enum row_kind {
	COPIED,  /* the value is copied to the variable that `into` names */
	STORED,  /* like COPIED, but only if Redis is used */
	BOOLEAN, /* like COPIED, but the value must be true or false, see is_true() */
	RATIO,   /* a ratio becomes a percentage: 0.8 becomes 80 */
};

/* Variables of envoyproxy/ratelimit that correspond to one option of weir each. */
static const struct variable_row {
	const char *name;
	enum row_kind kind;
	const char *into;
} rows[] = {
	{"GRPC_MAX_CONNECTION_AGE", COPIED, "WEIR_MAX_AGE"},
	{"LOG_FORMAT", COPIED, "WEIR_LOG_FORMAT"},
	{"NEAR_LIMIT_RATIO", RATIO, "WEIR_NEAR_LIMIT"},
	{"SHADOW_MODE", BOOLEAN, "WEIR_SHADOW"},
	{"RESPONSE_DYNAMIC_METADATA", BOOLEAN, "WEIR_DYNAMIC_METADATA"},
	{"LIMIT_RESPONSE_HEADERS_ENABLED", BOOLEAN, "WEIR_RLS_HEADERS"},
	{"LIMIT_LIMIT_HEADER", COPIED, "WEIR_LIMIT_HEADER"},
	{"LIMIT_REMAINING_HEADER", COPIED, "WEIR_REMAINING_HEADER"},
	{"LIMIT_RESET_HEADER", COPIED, "WEIR_RESET_HEADER"},
	{"CACHE_KEY_PREFIX", STORED, "WEIR_REDIS_PREFIX"},
	{"REDIS_TIMEOUT", STORED, "WEIR_REDIS_TIMEOUT"},
};

/* Variables of which several together form one option, such as HOST and PORT. The make_…()
 * functions read these variables. */
static const char *const parts[] = {
	"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "HOST", "PORT", "GRPC_HOST",
	"GRPC_PORT", "GRPC_UDS", "DEBUG_HOST", "DEBUG_PORT", "GRPC_SERVER_USE_TLS",
	"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT",
	"GRPC_CLIENT_TLS_SAN", "LOG_LEVEL", "CONFIG_TYPE", "BACKEND_TYPE", "REDIS_TYPE",
	"REDIS_SOCKET_TYPE", "REDIS_URL", "REDIS_AUTH", "REDIS_SENTINEL_AUTH", "REDIS_TLS",
	"REDIS_TLS_CACERT", "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY",
	/* These variables request the behaviour that weir always has. */
	"RUNTIME_IGNOREDOTFILES", "RUNTIME_WATCH_ROOT", "MERGE_DOMAIN_CONFIG",
	"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"};

/* Variables that have no meaning in weir. */
static const char *const ignored[] = {"GRPC_MAX_CONNECTION_AGE_GRACE",
				      "FORCE_START_WITHOUT_INITIAL_CONFIG",
				      "QUOTA_MODE",
				      "EXPIRATION_JITTER_MAX_SECONDS",
				      "LOCAL_CACHE_SIZE_IN_BYTES",
				      "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
				      "EXTRA_TAGS",
				      "STATS_FLUSH_INTERVAL",
				      "DISABLE_STATS",
				      "USE_STATSD",
				      "USE_PROMETHEUS"};

/* Variables whose names begin with one of these texts have no meaning in weir. */
static const char *const ignored_prefixes[] = {"USE_DOG_STATSD",   "STATSD_",     "DOG_STATSD_",
					       "PROMETHEUS_",      "REDIS_",      "MEMCACHE_",
					       "CONFIG_GRPC_XDS_", "XDS_CLIENT_", "TRACING_"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct environment_reader {
	char **environment;
	struct wr_arena *arena;
	struct wr_cli_serve_environment *variables;
	struct weir_error *error;
	char *made[MADE_MAX];
	size_t made_count;
	int rc;
};

static const char *get_variable(const struct environment_reader *reader, const char *name)
{
	size_t len = strlen(name);

	for (char **v = reader->environment; *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=' && (*v)[len + 1])
			return *v + len + 1;
	return NULL;
}

/* Adds OPTION=value to the derived variables. `option` is the name of a WEIR_… variable. If this
 * variable is set in the given environment, nothing is added. */
static void add_variable(struct environment_reader *reader, const char *option, const char *value)
{
	size_t size = strlen(option) + strlen(value) + 2;
	char *text;

	if (get_variable(reader, option) || reader->made_count == MADE_MAX)
		return;
	text = wr_arena_alloc(reader->arena, size);
	if (!text) {
		reader->rc = wr_error(reader->error, WEIR_EMEMORY, "out of memory");
		return;
	}
	snprintf(text, size, "%s=%s", option, value);
	reader->made[reader->made_count++] = text;
}

static void add_name(char *names, struct weir_str name)
{
	size_t used = strlen(names);

	if (used + name.len + 3 < WR_SERVE_ENVIRONMENT_NAMES)
		snprintf(names + used, WR_SERVE_ENVIRONMENT_NAMES - used, "%s%.*s",
			 used ? ", " : "", (int)name.len, name.ptr);
}

/* ---- options that several variables form ---- */

static void make_rules(struct environment_reader *reader)
{
	const char *root = get_variable(reader, "RUNTIME_ROOT"),
		   *sub = get_variable(reader, "RUNTIME_SUBDIRECTORY");
	const char *app = get_variable(reader, "RUNTIME_APPDIRECTORY");
	char path[VALUE_MAX];

	snprintf(path, sizeof path, "%s/%s%s%s", root ? root : DEFAULT_ROOT, sub ? sub : "",
		 sub ? "/" : "", app ? app : "config");
	add_variable(reader, "WEIR_RULES", path);
}

/* Makes an address from two environment variables, one for the host and one for the port. Adds the
 * address to the derived variables under the name `option`, such as WEIR_HTTP. If only one of the
 * two variables is set, the other gets its default. If neither is set, no address is added. */
static void make_address(struct environment_reader *reader, const char *option,
			 const char *host_name, const char *port_name, const char *default_host,
			 const char *default_port)
{
	const char *host = get_variable(reader, host_name), *port = get_variable(reader, port_name);
	char address[VALUE_MAX];

	if (!host && !port)
		return;
	if (!host)
		host = default_host;
	if (!port)
		port = default_port;
	snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	add_variable(reader, option, address);
}

static void make_addresses(struct environment_reader *reader)
{
	const char *path = get_variable(reader, "GRPC_UDS");
	char address[VALUE_MAX];

	if (path) {
		snprintf(address, sizeof address, "unix:%s", path);
		add_variable(reader, "WEIR_GRPC", address);
	} else {
		make_address(reader, "WEIR_GRPC", "GRPC_HOST", "GRPC_PORT", "*", "8081");
	}
	make_address(reader, "WEIR_HTTP", "HOST", "PORT", "*", "8080");
	make_address(reader, "WEIR_ADMIN", "DEBUG_HOST", "DEBUG_PORT", "127.0.0.1", "6070");
}

/* Reads true or false. Any other text is an error, as it is for envoyproxy/ratelimit: a misspelt
 * value must not switch TLS off or enforcement on. */
static bool is_true(struct environment_reader *reader, const char *name, const char *text)
{
	if (!text || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0 ||
	    strcasecmp(text, "f") == 0)
		return false;
	if (strcasecmp(text, "true") != 0 && strcmp(text, "1") != 0 && strcasecmp(text, "t") != 0)
		reader->rc = wr_error(reader->error, WEIR_EINVAL, "%s=%s is neither true nor false",
				      name, text);
	return true;
}

static void copy_variable(struct environment_reader *reader, const char *name, const char *option)
{
	const char *value = get_variable(reader, name);

	if (value)
		add_variable(reader, option, value);
}

static void make_tls(struct environment_reader *reader)
{
	static const char name[] = "GRPC_SERVER_USE_TLS";

	if (!is_true(reader, name, get_variable(reader, name)))
		return;
	copy_variable(reader, "GRPC_SERVER_TLS_CERT", "WEIR_TLS_CERT");
	copy_variable(reader, "GRPC_SERVER_TLS_KEY", "WEIR_TLS_KEY");
	copy_variable(reader, "GRPC_CLIENT_TLS_CACERT", "WEIR_TLS_CLIENT_CA");
	copy_variable(reader, "GRPC_CLIENT_TLS_SAN", "WEIR_TLS_CLIENT_SAN");
}

/* Derives --redis and its TLS options from the REDIS_… variables of envoyproxy/ratelimit. That
 * program can store the counters of one-second limits in a second Redis. weir has one Redis for all
 * counters, so the variables of the second Redis are ignored. */
static void make_redis(struct environment_reader *reader)
{
	struct wr_cli_redis_environment from = {
		.type = get_variable(reader, "REDIS_TYPE"),
		.socket_type = get_variable(reader, "REDIS_SOCKET_TYPE"),
		.url = get_variable(reader, "REDIS_URL"),
		.auth = get_variable(reader, "REDIS_AUTH"),
		.sentinel_auth = get_variable(reader, "REDIS_SENTINEL_AUTH")};
	const char *backend = get_variable(reader, "BACKEND_TYPE");
	char url[VALUE_MAX];

	if (backend && strcasecmp(backend, "redis") != 0)
		reader->rc = wr_error(reader->error, WEIR_EINVAL,
				      "BACKEND_TYPE=%s: counters are kept in this machine's "
				      "memory or in Redis; unset it",
				      backend);
	if (!from.url || get_variable(reader, "WEIR_REDIS"))
		return;
	from.tls = is_true(reader, "REDIS_TLS", get_variable(reader, "REDIS_TLS"));
	if (wr_cli_redis_environment_url(&from, url, sizeof url, reader->error) < 0) {
		reader->rc = WEIR_EINVAL;
		return;
	}
	add_variable(reader, "WEIR_REDIS", url);
	if (!from.tls)
		return;
	copy_variable(reader, "REDIS_TLS_CACERT", "WEIR_REDIS_CA");
	copy_variable(reader, "REDIS_TLS_CLIENT_CERT", "WEIR_REDIS_CERT");
	copy_variable(reader, "REDIS_TLS_CLIENT_KEY", "WEIR_REDIS_KEY");
}

/* Derives WEIR_LOG_LEVEL from LOG_LEVEL. envoyproxy/ratelimit has more log levels than weir. */
static void make_log_level(struct environment_reader *reader)
{
	static const char *const levels[][2] = {
		{"panic", "error"},  {"fatal", "error"}, {"error", "error"}, {"warn", "warn"},
		{"warning", "warn"}, {"info", "info"},   {"debug", "debug"}, {"trace", "debug"}};
	const char *value = get_variable(reader, "LOG_LEVEL");

	for (size_t i = 0; value && i < sizeof levels / sizeof *levels; i++)
		if (strcasecmp(value, levels[i][0]) == 0)
			add_variable(reader, "WEIR_LOG_LEVEL", levels[i][1]);
}

static void check_config_type(struct environment_reader *reader)
{
	const char *value = get_variable(reader, "CONFIG_TYPE");

	if (value && strcmp(value, "FILE") != 0)
		reader->rc = wr_error(reader->error, WEIR_EINVAL,
				      "CONFIG_TYPE=%s: rules are read from files; write them to a "
				      "folder and unset it",
				      value);
}

static void make_percent(struct environment_reader *reader, const struct variable_row *row,
			 const char *value)
{
	char *end, text[16];
	double ratio = strtod(value, &end);

	if (*end || !(ratio > 0 && ratio <= 1)) {
		reader->rc =
			wr_error(reader->error, WEIR_EINVAL,
				 "%s=%s is not a number above 0 and up to 1", row->name, value);
		return;
	}
	snprintf(text, sizeof text, "%d", (int)(ratio * 100 + 0.5));
	add_variable(reader, row->into, strcmp(text, "0") == 0 ? "1" : text);
}

/* ---- single variables ---- */

static const struct variable_row *find_row(struct weir_str name)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (wr_str_equal(name, wr_str(rows[i].name)))
			return &rows[i];
	return NULL;
}

static bool is_in(struct weir_str name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (wr_str_equal(name, wr_str(names[i])))
			return true;
	return false;
}

static bool is_ignored(struct weir_str name)
{
	for (size_t i = 0; i < COUNT(ignored_prefixes); i++)
		if (wr_str_begins(name, wr_str(ignored_prefixes[i])))
			return true;
	return is_in(name, ignored, COUNT(ignored));
}

static void read_variable(struct environment_reader *reader, const char *variable)
{
	struct weir_str text = wr_str(variable), name = wr_str_first(text, wr_str_find(text, '='));
	const struct variable_row *row = find_row(name);
	const char *value = variable + name.len;
	bool has_redis = get_variable(reader, "REDIS_URL") || get_variable(reader, "WEIR_REDIS");

	if (!*value || !*++value)
		return;
	if (row ? row->kind == STORED && !has_redis
		: !is_in(name, parts, COUNT(parts)) && is_ignored(name)) {
		add_name(reader->variables->ignored, name);
		return;
	}
	if (row || is_in(name, parts, COUNT(parts)))
		add_name(reader->variables->taken, name);
	if (!row)
		return;
	if (row->kind == BOOLEAN)
		add_variable(reader, row->into,
			     is_true(reader, row->name, value) ? "true" : "false");
	else if (row->kind == RATIO)
		make_percent(reader, row, value);
	else
		add_variable(reader, row->into, value);
}

static char **join_environment(struct environment_reader *reader)
{
	size_t count = 0;
	char **all;

	while (reader->environment[count])
		count++;
	all = wr_arena_alloc(reader->arena, (count + reader->made_count + 1) * sizeof *all);
	if (!all)
		return NULL;
	memcpy(all, reader->environment, count * sizeof *all);
	memcpy(all + count, reader->made, reader->made_count * sizeof *all);
	return all;
}

int wr_cli_serve_environment_read(char **environment, struct wr_arena *arena,
				  struct wr_cli_serve_environment *variables,
				  struct weir_error *error)
{
	struct environment_reader reader = {
		.environment = environment, .arena = arena, .variables = variables, .error = error};

	memset(variables, 0, sizeof *variables);
	variables->environment = environment;
	if (!get_variable(&reader, "RUNTIME_ROOT") &&
	    !get_variable(&reader, "RUNTIME_SUBDIRECTORY") &&
	    !get_variable(&reader, "RUNTIME_APPDIRECTORY"))
		return 0;
	for (char **v = environment; *v; v++)
		read_variable(&reader, *v);
	make_rules(&reader);
	make_addresses(&reader);
	make_tls(&reader);
	make_redis(&reader);
	make_log_level(&reader);
	check_config_type(&reader);
	variables->environment = join_environment(&reader);
	if (!variables->environment)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	return reader.rc;
}
