/* Tests the parts of a plan that need no files: addresses, URLs and header names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "gateway/plan.h"

static struct wr_gateway_settings settings;
static struct wr_gateway_plan plan;
static struct weir_error error;

static int setup(void **state)
{
	(void)state;
	settings = (struct wr_gateway_settings){.listen = {.count = 1}};
	plan = (struct wr_gateway_plan){.settings = &settings};
	error.text[0] = 0;
	return wr_endpoint_parse(wr_str("8080"), &settings.listen.items[0], NULL);
}

static void upstreams_are(const char *a, const char *b)
{
	settings.upstream = (struct wr_text_list){.count = b ? 2 : 1, .items = {a, b}};
	plan = (struct wr_gateway_plan){.settings = &settings};
}

static void accepts_upstreams(void **state)
{
	(void)state;
	upstreams_are("http://10.0.0.1:3000", "http://api/");
	assert_int_equal(wr_plan_upstreams(&plan, &error), 0);
	assert_int_equal(plan.upstream_count, 2);
	assert_int_equal(plan.upstream[1].at.port, 80);
	assert_null(plan.upstream_name);
	upstreams_are("https://api.example.com", NULL);
	assert_int_equal(wr_plan_upstreams(&plan, &error), 0);
	assert_string_equal(plan.upstream_name, "api.example.com");
	settings.upstream_name = "inner.example.com";
	upstreams_are("https://10.0.0.1", "https://10.0.0.2:8443");
	assert_int_equal(wr_plan_upstreams(&plan, &error), 0);
	assert_string_equal(plan.upstream_name, "inner.example.com");
}

static const struct {
	const char *a, *b, *name, *expected;
} bad_upstreams[] = {
	{NULL, NULL, NULL, "--upstream URL is missing"},
	{"http://a/v1", NULL, NULL, "has a path; leave it out"},
	{"http://a", "https://b", NULL, "mixes http:// and https://"},
	{"https://a", "https://b", NULL, "different names"},
	{"https://10.0.0.1", NULL, NULL, "give the name with --upstream-name"},
	{"https://a", NULL, "b;c", "--upstream-name 'b;c' is not a host name"},
	{"https://a", NULL, "10.0.0.1", "is not a host name"},
	{"ftp://a", NULL, NULL, "does not begin with http://"},
};

static void refuses_upstreams(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof bad_upstreams / sizeof *bad_upstreams; i++) {
		upstreams_are(bad_upstreams[i].a, bad_upstreams[i].b);
		settings.upstream.count = bad_upstreams[i].a ? settings.upstream.count : 0;
		settings.upstream_name = bad_upstreams[i].name;
		assert_int_equal(wr_plan_upstreams(&plan, &error), -1);
		if (!strstr(error.text, bad_upstreams[i].expected))
			fail_msg("expected '%s' in '%s'", bad_upstreams[i].expected, error.text);
	}
}

static const struct {
	const char *trust, *expected;
} bad_trusts[] = {
	{"10.0.0.0/33", "is not an address or prefix"},
	{"10.0.0.1/8", "did you mean 10.0.0.0/8?"},
	{"all", "is not an address or prefix"},
	{"10.0.0.0/8; deny all", "is not an address or prefix"},
};

static void trusts_prefixes(void **state)
{
	(void)state;
	settings.trust = (struct wr_text_list){
		.count = 4, .items = {"10.0.0.0/8", "::1", "2001:db8::/32", "unix:"}};
	assert_int_equal(wr_plan_trust(&plan, &error), 0);
	for (size_t i = 0; i < sizeof bad_trusts / sizeof *bad_trusts; i++) {
		settings.trust = (struct wr_text_list){.count = 1, .items = {bad_trusts[i].trust}};
		assert_int_equal(wr_plan_trust(&plan, &error), -1);
		if (!strstr(error.text, bad_trusts[i].expected))
			fail_msg("expected '%s' in '%s'", bad_trusts[i].expected, error.text);
	}
}

static const struct {
	const char *url, *header, *expected;
} bad_auths[] = {
	{"http://auth/$uri", "X-User", "has a character in its path that must be percent-encoded"},
	{"https://10.0.0.1/", "X-User", "use the service's name"},
	{"http://auth", "X User", "is not the name of a header"},
	{"http://auth", "X_User", "is not the name of a header"},
	{"http://auth", "X-User;", "is not the name of a header"},
	{"http://auth", "Content-Length", "is set by the gateway itself"},
	{"http://auth", "X-Real-IP", "is set by the gateway itself"},
	{"http://auth", NULL, "names no header"},
};

static void checks_auth_and_its_headers(void **state)
{
	(void)state;
	settings.auth = "http://auth:4180/verify";
	settings.auth_headers = (struct wr_text_list){.count = 1, .items = {"X-User"}};
	assert_int_equal(wr_plan_auth(&plan, &error), 0);
	assert_true(plan.has_auth);
	for (size_t i = 0; i < sizeof bad_auths / sizeof *bad_auths; i++) {
		settings.auth = bad_auths[i].url;
		settings.auth_headers = (struct wr_text_list){.count = bad_auths[i].header != NULL,
							      .items = {bad_auths[i].header}};
		assert_int_equal(wr_plan_auth(&plan, &error), -1);
		if (!strstr(error.text, bad_auths[i].expected))
			fail_msg("expected '%s' in '%s'", bad_auths[i].expected, error.text);
	}
}

static void refuses_a_listener_named_twice(void **state)
{
	(void)state;
	assert_int_equal(wr_plan_listens(&plan, &error), 0);
	settings.h2c.count = 1;
	assert_int_equal(wr_endpoint_parse(wr_str(":8080"), &settings.h2c.items[0], NULL), 0);
	assert_int_equal(wr_plan_listens(&plan, &error), -1);
	assert_string_equal(error.text, "--listen and --h2c name *:8080 twice");
}

static const struct {
	const char *listen, *upstream;
	bool is_loop;
} loops[] = {
	{"8080", "http://127.0.0.1:8080", true},
	{"8080", "http://127.9.9.9:8080", true},
	{"8080", "http://[::1]:8080", true},
	{"8080", "http://LOCALHOST:8080", true},
	{"127.0.0.1:8080", "http://localhost:8080", true},
	{"localhost:80", "http://127.0.0.1", true},
	{"unix:/run/a", "unix:/run/a", true},
	{"10.0.0.1:8080", "http://10.0.0.1:8080", true},
	{"8080", "http://127.0.0.1:8081", false},
	{"8080", "http://10.0.0.1:8080", false},
	{"8080", "http://api:8080", false},
	{"127.0.0.1:8080", "http://127.0.0.2:8080", false},
	{"127.0.0.2:8080", "http://localhost:8080", false},
	{"10.0.0.1:8080", "http://127.0.0.1:8080", false},
	{"unix:/run/a", "unix:/run/b", false},
};

static void refuses_a_gateway_as_its_own_upstream(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
		struct wr_endpoint *listen = &settings.listen.items[0];

		assert_int_equal(wr_endpoint_parse(wr_str(loops[i].listen), listen, NULL), 0);
		upstreams_are(loops[i].upstream, NULL);
		assert_int_equal(wr_plan_upstreams(&plan, &error), 0);
		if (wr_plan_listens(&plan, &error) != (loops[i].is_loop ? -1 : 0))
			fail_msg("--listen %s --upstream %s", loops[i].listen, loops[i].upstream);
	}
	assert_int_equal(wr_endpoint_parse(wr_str("80"), &settings.listen.items[0], NULL), 0);
	settings.auth = "http://localhost/verify";
	settings.auth_headers = (struct wr_text_list){.count = 1, .items = {"X-User"}};
	assert_int_equal(wr_plan_auth(&plan, &error), 0);
	assert_int_equal(wr_plan_listens(&plan, &error), -1);
	assert_string_equal(error.text, "--auth http://localhost/verify is the gateway itself, "
					"which listens at *:80");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(accepts_upstreams, setup),
		cmocka_unit_test_setup(refuses_upstreams, setup),
		cmocka_unit_test_setup(trusts_prefixes, setup),
		cmocka_unit_test_setup(checks_auth_and_its_headers, setup),
		cmocka_unit_test_setup(refuses_a_listener_named_twice, setup),
		cmocka_unit_test_setup(refuses_a_gateway_as_its_own_upstream, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
