/* Tests that `weir serve` reads the environment variables of envoyproxy/ratelimit as its options.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/options/serve_environment.h"

static struct wr_arena arena;
static struct wr_cli_serve_environment variables;
static struct weir_error error;

static int setup(void **state)
{
	(void)state;
	wr_arena_init(&arena, 1 << 20);
	memset(&error, 0, sizeof error);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	wr_arena_free(&arena);
	return 0;
}

static const char *value(const char *name)
{
	size_t len = strlen(name);

	for (char **v = variables.environment; *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return "";
}

static int read_all(const char **environment)
{
	return wr_cli_serve_environment_read((char **)environment, &arena, &variables, &error);
}

/* Without a RUNTIME variable, HOST and PORT belong to other programs. */
static void test_ignored_without_runtime_variables(void **state)
{
	const char *environment[] = {"HOST=10.0.0.1", "PORT=3000", "REDIS_URL=x", "LOG_LEVEL=debug",
				     NULL};

	(void)state;
	assert_int_equal(read_all(environment), 0);
	assert_ptr_equal(variables.environment, environment);
	assert_string_equal(variables.taken, "");
	assert_string_equal(variables.ignored, "");
}

static void test_rules_folder(void **state)
{
	const char *all[] = {"RUNTIME_ROOT=/srv/data", "RUNTIME_SUBDIRECTORY=ratelimit",
			     "RUNTIME_APPDIRECTORY=rules", NULL};
	const char *root[] = {"RUNTIME_ROOT=/srv/data", NULL};
	const char *sub[] = {"RUNTIME_SUBDIRECTORY=ratelimit", NULL};
	const char *ours[] = {"RUNTIME_ROOT=/srv/data", "WEIR_RULES=/etc/weir", NULL};

	(void)state;
	assert_int_equal(read_all(all), 0);
	assert_string_equal(value("WEIR_RULES"), "/srv/data/ratelimit/rules");
	read_all(root);
	assert_string_equal(value("WEIR_RULES"), "/srv/data/config");
	read_all(sub);
	assert_string_equal(value("WEIR_RULES"), "/srv/runtime_data/current/ratelimit/config");
	read_all(ours);
	assert_string_equal(value("WEIR_RULES"), "/etc/weir");
}

static void test_addresses(void **state)
{
	const char *ports[] = {"RUNTIME_ROOT=/x", "PORT=8080", "GRPC_PORT=9000", "DEBUG_PORT=6071",
			       NULL};
	const char *hosts[] = {"RUNTIME_ROOT=/x", "HOST=::1", "GRPC_HOST=10.0.0.1", NULL};
	const char *path[] = {"RUNTIME_ROOT=/x", "GRPC_PORT=9000", "GRPC_UDS=/run/rls.sock", NULL};
	const char *none[] = {"RUNTIME_ROOT=/x", NULL};

	(void)state;
	read_all(ports);
	assert_string_equal(value("WEIR_HTTP"), "*:8080");
	assert_string_equal(value("WEIR_GRPC"), "*:9000");
	assert_string_equal(value("WEIR_ADMIN"), "127.0.0.1:6071");
	read_all(hosts);
	assert_string_equal(value("WEIR_HTTP"), "[::1]:8080");
	assert_string_equal(value("WEIR_GRPC"), "10.0.0.1:8081");
	assert_string_equal(value("WEIR_ADMIN"), "");
	read_all(path);
	assert_string_equal(value("WEIR_GRPC"), "unix:/run/rls.sock");
	read_all(none);
	assert_string_equal(value("WEIR_GRPC"), "");
}

static void test_tls_only_when_switched_on(void **state)
{
	const char *off[] = {"RUNTIME_ROOT=/x", "GRPC_SERVER_TLS_CERT=/c", "GRPC_SERVER_TLS_KEY=/k",
			     "GRPC_SERVER_USE_TLS=false", NULL};
	const char *on[] = {"RUNTIME_ROOT=/x",
			    "GRPC_SERVER_TLS_CERT=/c",
			    "GRPC_SERVER_TLS_KEY=/k",
			    "GRPC_SERVER_USE_TLS=True",
			    "GRPC_CLIENT_TLS_CACERT=/ca",
			    "GRPC_CLIENT_TLS_SAN=envoy",
			    NULL};

	(void)state;
	read_all(off);
	assert_string_equal(value("WEIR_TLS_CERT"), "");
	read_all(on);
	assert_string_equal(value("WEIR_TLS_CERT"), "/c");
	assert_string_equal(value("WEIR_TLS_KEY"), "/k");
	assert_string_equal(value("WEIR_TLS_CLIENT_CA"), "/ca");
	assert_string_equal(value("WEIR_TLS_CLIENT_SAN"), "envoy");
}

static void test_values(void **state)
{
	const char *environment[] = {"RUNTIME_ROOT=/x",
				     "SHADOW_MODE=true",
				     "NEAR_LIMIT_RATIO=0.85",
				     "LIMIT_RESPONSE_HEADERS_ENABLED=true",
				     "LIMIT_LIMIT_HEADER=X-L",
				     "LIMIT_REMAINING_HEADER=X-R",
				     "LIMIT_RESET_HEADER=X-T",
				     "RESPONSE_DYNAMIC_METADATA=1",
				     "LOG_LEVEL=WARN",
				     "LOG_FORMAT=json",
				     "GRPC_MAX_CONNECTION_AGE=24h",
				     NULL};

	(void)state;
	assert_int_equal(read_all(environment), 0);
	assert_string_equal(value("WEIR_SHADOW"), "true");
	assert_string_equal(value("WEIR_NEAR_LIMIT"), "85");
	assert_string_equal(value("WEIR_RLS_HEADERS"), "true");
	assert_string_equal(value("WEIR_LIMIT_HEADER"), "X-L");
	assert_string_equal(value("WEIR_REMAINING_HEADER"), "X-R");
	assert_string_equal(value("WEIR_RESET_HEADER"), "X-T");
	assert_string_equal(value("WEIR_DYNAMIC_METADATA"), "true");
	assert_string_equal(value("WEIR_LOG_LEVEL"), "warn");
	assert_string_equal(value("WEIR_LOG_FORMAT"), "json");
	assert_string_equal(value("WEIR_MAX_AGE"), "24h");
	assert_string_equal(variables.ignored, "");
}

static void test_reports_ignored_names(void **state)
{
	const char *environment[] = {"REDIS_POOL_SIZE=10",
				     "RUNTIME_ROOT=/x",
				     "PATH=/bin",
				     "MEMCACHE_HOST_PORT=m:1",
				     "QUOTA_MODE=true",
				     "USE_STATSD=",
				     "USE_DOG_STATSD=true",
				     "PROMETHEUS_ADDR=:9090",
				     "REDISH=1",
				     NULL};

	(void)state;
	assert_int_equal(read_all(environment), 0);
	assert_string_equal(variables.ignored, "REDIS_POOL_SIZE, MEMCACHE_HOST_PORT, QUOTA_MODE, "
					       "USE_DOG_STATSD, PROMETHEUS_ADDR");
	assert_string_equal(variables.taken, "RUNTIME_ROOT");
}

static const char *redis_of(const char *a, const char *b, const char *c, const char *d)
{
	const char *environment[] = {"RUNTIME_ROOT=/x", a, b, c, d, NULL};

	if (read_all(environment) != 0)
		return error.text;
	return value("WEIR_REDIS");
}

static void test_redis(void **state)
{
	(void)state;
	assert_string_equal(redis_of("REDIS_URL=redis:6379", "REDIS_SOCKET_TYPE=tcp", NULL, NULL),
			    "redis://redis:6379");
	assert_string_equal(redis_of("REDIS_URL=/run/r.sock", "REDIS_AUTH=x", NULL, NULL),
			    "redis+unix://:x@/run/r.sock");
	assert_string_equal(redis_of("REDIS_URL=r:1", "REDIS_AUTH=al:p@:/ w", "REDIS_TLS=true",
				     "REDIS_TLS_CACERT=/ca"),
			    "rediss://al:p%40%3A%2F%20w@r:1");
	assert_string_equal(value("WEIR_REDIS_CA"), "/ca");
	assert_string_equal(redis_of("REDIS_TYPE=SENTINEL", "REDIS_URL=mymaster,s1:26379,s2:26379",
				     "REDIS_AUTH=pw", "REDIS_SENTINEL_AUTH=u:v"),
			    "redis+sentinel://:pw@s1:26379,s2:26379/"
			    "mymaster?sentinel_user=u&sentinel_password=v");
	assert_string_equal(redis_of("REDIS_TYPE=cluster", "REDIS_URL=a:1,b:2", "REDIS_TLS=1",
				     "CACHE_KEY_PREFIX=p"),
			    "rediss+cluster://a:1,b:2");
	assert_string_equal(value("WEIR_REDIS_PREFIX"), "p");
	assert_string_equal(
		redis_of("REDIS_URL=rediss://u:p@h:1/2", "REDIS_TIMEOUT=50ms", NULL, NULL),
		"rediss://u:p@h:1/2");
	assert_string_equal(value("WEIR_REDIS_TIMEOUT"), "50ms");
	assert_string_equal(redis_of("REDIS_URL=r:1", "WEIR_REDIS=redis://mine", NULL, NULL),
			    "redis://mine");
	assert_string_equal(redis_of("REDIS_TYPE=SINGLE", NULL, NULL, NULL), "");
	assert_string_equal(redis_of("REDIS_TIMEOUT=50ms", "CACHE_KEY_PREFIX=p", NULL, NULL), "");
	assert_string_equal(value("WEIR_REDIS_TIMEOUT"), "");
	assert_string_equal(value("WEIR_REDIS_PREFIX"), "");
	assert_non_null(strstr(variables.ignored, "REDIS_TIMEOUT, CACHE_KEY_PREFIX"));
}

static void test_invalid_redis_variables(void **state)
{
	(void)state;
	assert_non_null(strstr(redis_of("REDIS_URL=r:1", "REDIS_TYPE=RING", NULL, NULL), "RING"));
	assert_non_null(
		strstr(redis_of("REDIS_URL=s:1", "REDIS_TYPE=SENTINEL", NULL, NULL), "mymaster,"));
	assert_non_null(strstr(redis_of("REDIS_URL=/x", "REDIS_TLS=true", NULL, NULL), "Unix"));
	assert_non_null(strstr(redis_of("BACKEND_TYPE=memcache", NULL, NULL, NULL), "memcache"));
}

static void test_invalid_values(void **state)
{
	static const char *const wrong[] = {"NEAR_LIMIT_RATIO=80", "NEAR_LIMIT_RATIO=0",
					    "NEAR_LIMIT_RATIO=x", "NEAR_LIMIT_RATIO=nan",
					    "CONFIG_TYPE=GRPC_XDS_SOTW"};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		const char *environment[] = {"RUNTIME_ROOT=/x", wrong[i], NULL};

		assert_int_equal(read_all(environment), WEIR_EINVAL);
		assert_non_null(strstr(error.text, wrong[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ignored_without_runtime_variables, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_rules_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tls_only_when_switched_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reports_ignored_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_redis, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_redis_variables, setup, teardown),
		cmocka_unit_test_setup_teardown(test_invalid_values, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
