/* The routes that are found in paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lab/tune/routes.h"

static void add(struct wr_lab_routes *routes, const char *method, const char *target,
		uint32_t status, unsigned times)
{
	struct wr_lab_record record = {
		.method = wr_str(method), .target = wr_str(target), .status = status, .cost = 1};

	for (unsigned i = 0; i < times; i++)
		wr_lab_routes_add(routes, &record);
}

/* Asserts the routes, as "GET /a 10|POST /b 5". */
static void assert_routes(struct wr_lab_routes *routes, const char *expected)
{
	struct wr_lab_route found[WR_LAB_ROUTES_MAX];
	size_t count = wr_lab_routes_find(routes, found), len = 0;
	char text[4096] = "";

	for (size_t i = 0; i < count; i++) {
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%s%s", i ? "|" : "",
					found[i].method, found[i].is_static ? " static" : "");
		for (size_t k = 0; k < found[i].path_count; k++)
			len += (size_t)snprintf(text + len, sizeof text - len, " %s",
						found[i].paths[k]);
		len += (size_t)snprintf(text + len, sizeof text - len, " %llu",
					(unsigned long long)found[i].requests);
	}
	assert_string_equal(text, expected);
	wr_lab_routes_free(routes);
}

static void segments_have_kinds(void **state)
{
	static const struct {
		const char *text;
		enum wr_lab_segment kind;
	} cases[] = {
		{"users", WR_LAB_SEGMENT_LITERAL},
		{"v1", WR_LAB_SEGMENT_LITERAL},
		{"7", WR_LAB_SEGMENT_ID},
		{"1234.json", WR_LAB_SEGMENT_ID},
		{"2016", WR_LAB_SEGMENT_YEAR},
		{"3016", WR_LAB_SEGMENT_ID},
		{"2016-02-20", WR_LAB_SEGMENT_DATE},
		{"550e8400-e29b-41d4-a716-446655440000", WR_LAB_SEGMENT_UUID},
		{"550E8400-E29B-41D4-A716-446655440000.pdf", WR_LAB_SEGMENT_UUID},
		{"deadbeef", WR_LAB_SEGMENT_LITERAL},
		{"d41d8cd98f00", WR_LAB_SEGMENT_HASH},
		{"decadecadeca", WR_LAB_SEGMENT_LITERAL}, /* no digit: a word */
		{"aGVsbG8gd29ybGQ3MTIzNDU2", WR_LAB_SEGMENT_ID},
		{"internationalization-of-names", WR_LAB_SEGMENT_LITERAL},
		{"caf\xc3\xa9", WR_LAB_SEGMENT_LITERAL},
		{"\xec\x95\x88\xeb\x85\x95", WR_LAB_SEGMENT_LITERAL},
		{"a*b", WR_LAB_SEGMENT_NAME},
		{"{id}", WR_LAB_SEGMENT_NAME},
		{"a%2Fb", WR_LAB_SEGMENT_NAME},
		{"\xff\xfe", WR_LAB_SEGMENT_NAME},
		{"a\xe2\x80\xaeyx", WR_LAB_SEGMENT_NAME}, /* U+202E, right-to-left override */
		{"a\tb", WR_LAB_SEGMENT_NAME},
		{"", WR_LAB_SEGMENT_LITERAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (wr_lab_segment_kind(wr_str(cases[i].text)) != cases[i].kind)
			fail_msg("%s has another kind", cases[i].text);
}

static void static_files_are_known_by_their_endings(void **state)
{
	(void)state;
	assert_true(wr_lab_path_is_static(WR_STR("/a/b.css")));
	assert_true(wr_lab_path_is_static(WR_STR("/LOGO.PNG")));
	assert_false(wr_lab_path_is_static(WR_STR("/css")));
	assert_false(wr_lab_path_is_static(WR_STR("/a.php")));
}

static void ids_become_parts(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[64];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		snprintf(target, sizeof target, "/users/%u/posts/%u?page=%u", i, 3 * i, i);
		add(routes, "GET", target, 200, 1);
	}
	add(routes, "HEAD", "/users/7/posts/9/", 200, 10);
	add(routes, "POST", "/users", 201, 20);
	assert_routes(routes, "GET /users/{id}/posts/{id2} 60|POST /users 20");
}

static void dates_become_year_month_and_day(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[64];

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		snprintf(target, sizeof target, "/20%u/%02u/%02u/title-%c%c/", 10 + i % 6,
			 1 + i % 12, 1 + i % 28, 'a' + i % 26, 'a' + i / 26);
		add(routes, "GET", target, 200, 1);
	}
	assert_routes(routes, "GET /{year}/{month}/{day}/{name} 60");
}

/* 24 rare names in one place stay what they are; with one more, they become a part. */
static void many_names_become_a_part(void **state)
{
	struct wr_lab_routes *few = wr_lab_routes_new(), *many = wr_lab_routes_new();
	struct wr_lab_route found[WR_LAB_ROUTES_MAX];
	char target[64];

	(void)state;
	for (unsigned i = 0; i <= WR_LAB_ROUTE_FAN; i++) {
		snprintf(target, sizeof target, "/shop/%c%c", 'a' + i, 'a' + i);
		if (i < WR_LAB_ROUTE_FAN)
			add(few, "POST", target, 200, 10);
		add(many, "POST", target, 200, 10);
	}
	add(few, "GET", "/", 200, 1500);
	add(many, "GET", "/", 200, 1500);
	assert_int_equal(wr_lab_routes_find(few, found), WR_LAB_ROUTES_MAX - 1);
	assert_string_equal(found[1].paths[0], "/shop/aa");
	wr_lab_routes_free(few);
	assert_routes(many, "GET / 1500|POST /shop/{name} 250");
}

/* 25 rare names, and /shop/cart, which the pattern /shop/{name} matches too: most of its matches would
 * not be its own. */
static void a_part_with_few_of_its_matches_is_no_route(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[64];

	(void)state;
	for (unsigned i = 0; i < 25; i++) {
		snprintf(target, sizeof target, "/shop/%c%c", 'a' + i, 'a' + i);
		add(routes, "GET", target, 200, 1);
	}
	add(routes, "GET", "/shop/cart", 200, 300);
	assert_routes(routes, "GET /shop/cart 300");
}

static void a_part_needs_half_of_its_matches(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[64];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		snprintf(target, sizeof target, "/shop/thing-%c%c", 'a' + i % 26, 'a' + i / 26);
		add(routes, "GET", target, 200, 1);
	}
	add(routes, "GET", "/shop/cart", 200, 200);
	assert_routes(routes, "GET /shop/cart 200|GET /shop/{name} 200");
}

/* 30 requests for ids, and 10 for /about, which the pattern /{id} matches too. */
static void a_literal_beside_a_part_is_a_route(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[16];

	(void)state;
	for (unsigned i = 0; i < 30; i++) {
		snprintf(target, sizeof target, "/%u", 7 + i);
		add(routes, "GET", target, 200, 1);
	}
	add(routes, "GET", "/about", 200, 10);
	assert_routes(routes, "GET /{id} 30|GET /about 10");
}

static void static_files_are_one_route(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();

	(void)state;
	add(routes, "GET", "/assets/css/a.css", 200, 30);
	add(routes, "GET", "/assets/js/b.js?v=2", 304, 30);
	add(routes, "GET", "/assets/", 200, 5);
	add(routes, "GET", "/favicon.ico", 200, 20);
	add(routes, "GET", "/", 200, 40);
	assert_routes(routes, "GET static /assets/* /favicon.ico 85|GET / 40");
}

static void scans_make_no_routes(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[64];

	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		snprintf(target, sizeof target, "/admin-%u.php", i);
		add(routes, "GET", target, 404, 1);
	}
	add(routes, "GET", "/", 200, 10);
	add(routes, "PROPFIND", "/", 200, 10);
	add(routes, "GET", "/a#b", 200, 10);
	add(routes, "", "", 0, 10);
	assert_routes(routes, "GET / 10");
}

/* A read needs a hundredth of the requests, a write a thousandth, and each five requests. */
static void rare_requests_have_no_route(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();

	(void)state;
	add(routes, "GET", "/", 200, 1981);
	add(routes, "GET", "/about", 200, 19);
	add(routes, "POST", "/login", 200, 5);
	add(routes, "POST", "/logout", 200, 4);
	assert_routes(routes, "GET / 1981|POST /login 5");
}

static void spellings_of_a_path_are_equal(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();

	(void)state;
	add(routes, "GET", "/a//b/", 200, 3);
	add(routes, "GET", "/a/./b", 200, 3);
	add(routes, "GET", "/%61/b", 200, 3);
	add(routes, "GET", "http://example.com/a/b", 200, 3);
	assert_routes(routes, "GET /a/b 12");
}

static void deep_paths_end_with_a_star(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();

	(void)state;
	add(routes, "GET", "/a/b/c/d/e/f/g/h/i/j", 200, 6);
	add(routes, "GET", "/a/b/c/d/e/f/g/h/k", 200, 6);
	assert_routes(routes, "GET /a/b/c/d/e/f/g/h/* 12");
}

/* More different segments than there are nodes: the rest are parts, and nothing is lost. */
static void the_tree_is_bounded(void **state)
{
	struct wr_lab_routes *routes = wr_lab_routes_new();
	char target[96];

	(void)state;
	for (unsigned i = 0; i < 60000; i++) {
		snprintf(target, sizeof target, "/x%c%c%c%cx/q%c%c%cq", 'a' + i % 26,
			 'a' + i / 26 % 26, 'a' + i / 676 % 26, 'a' + i / 17576 % 26, 'a' + i % 26,
			 'a' + i / 26 % 26, 'a' + i / 676 % 26);
		add(routes, "GET", target, 200, 1);
	}
	assert_routes(routes, "GET /{name}/{name2} 60000");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_have_kinds),
		cmocka_unit_test(static_files_are_known_by_their_endings),
		cmocka_unit_test(ids_become_parts),
		cmocka_unit_test(dates_become_year_month_and_day),
		cmocka_unit_test(many_names_become_a_part),
		cmocka_unit_test(a_part_with_few_of_its_matches_is_no_route),
		cmocka_unit_test(a_part_needs_half_of_its_matches),
		cmocka_unit_test(a_literal_beside_a_part_is_a_route),
		cmocka_unit_test(static_files_are_one_route),
		cmocka_unit_test(scans_make_no_routes),
		cmocka_unit_test(rare_requests_have_no_route),
		cmocka_unit_test(spellings_of_a_path_are_equal),
		cmocka_unit_test(deep_paths_end_with_a_star),
		cmocka_unit_test(the_tree_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
