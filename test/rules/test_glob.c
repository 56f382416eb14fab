/* Compares globs with a simple matcher, and checks that matching takes linear time. */
#include "helper.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rules/glob.h"

/* Matches by the definition. The time is exponential, which is fast enough for eight letters. */
static bool dull(const char *p, const char *t)
{
	if (*p == '\0')
		return *t == '\0';
	if (*p == '*')
		return dull(p + 1, t) || (*t && dull(p, t + 1));
	return *p == *t && dull(p + 1, t + 1);
}

static void agrees_with_the_definition(void **state)
{
	char pattern[8], text[9];
	unsigned seed = 1;

	for (int i = 0; i < 300000; i++) {
		size_t p = (size_t)rand_r(&seed) % 7, t = (size_t)rand_r(&seed) % 8;

		for (size_t j = 0; j < p; j++)
			pattern[j] = "ab*"[rand_r(&seed) % 3];
		for (size_t j = 0; j < t; j++)
			text[j] = "ab"[rand_r(&seed) % 2];
		pattern[p] = text[t] = '\0';
		assert_int_equal(wr_glob_match(wr_str(pattern), wr_str(text)), dull(pattern, text));
	}
	(void)state;
}

/* If one pattern covers another, it matches all texts that the other matches. */
static void covers_is_never_wrong(void **state)
{
	char wide[5], narrow[5], text[7];
	unsigned seed = 2;

	for (int i = 0; i < 100000; i++) {
		for (int j = 0; j < 4; j++) {
			wide[j] = "ab*"[rand_r(&seed) % 3];
			narrow[j] = "ab*"[rand_r(&seed) % 3];
		}
		for (int j = 0; j < 6; j++)
			text[j] = "ab"[rand_r(&seed) % 2];
		wide[4] = narrow[4] = '\0';
		text[rand_r(&seed) % 7] = '\0';
		text[6] = '\0';
		if (wr_glob_covers(wr_str(wide), wr_str(narrow)) && dull(narrow, text))
			assert_true(dull(wide, text));
	}
	assert_true(wr_glob_covers(WR_STR("*"), WR_STR("a*b")));
	assert_true(wr_glob_covers(WR_STR("a*"), WR_STR("ab*")));
	assert_false(wr_glob_covers(WR_STR("ab*"), WR_STR("a*")));
	(void)state;
}

/* A backtracking matcher would not end. */
static void matching_takes_linear_time(void **state)
{
	enum { N = 200000 };
	char *text = malloc(N);
	struct weir_str pattern = WR_STR("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
	clock_t start = clock();

	memset(text, 'a', N);
	for (int i = 0; i < 10; i++)
		assert_false(wr_glob_match(pattern, (struct weir_str){text, N}));
	assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1);
	free(text);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_the_definition),
		cmocka_unit_test(covers_is_never_wrong),
		cmocka_unit_test(matching_takes_linear_time),
	};

	return cmocka_run_group_tests_name("rules_glob", tests, NULL, NULL);
}
