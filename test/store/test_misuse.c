/* Causes every documented error. After an error the table is unchanged. */
#include "table/table_test.h"

static struct weir_table *table;
static struct weir_limit limit;
static struct weir_decision d;
static int admitted;

static int begin(void **unused)
{
	(void)unused;
	if (folder_make(NULL) < 0)
		return -1;
	table = table_open("misuse", 256 * KIB, 0);
	limit = sized(WEIR_FIXED_WINDOW, 5, MINUTE);
	return 0;
}

static int end(void **unused)
{
	(void)unused;
	assert_int_equal(take(table, &limit, "k", 0, T0).remaining, 5);
	assert_int_equal(info_of(table, T0).keys, 0);
	table_drop(table);
	return folder_drop(NULL);
}

static void take_returns_einval(void **unused)
{
	static char key[65537];

	(void)unused;
	assert_int_equal(weir_take(NULL, &limit, "k", 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_take(table, NULL, "k", 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, NULL, 1, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, T0, NULL), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, key, 65537, 1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, key, 65536, 0, T0, &d), 0);
	assert_int_equal(weir_take(table, &limit, "k", 1, -1, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_take(table, &limit, NULL, 0, 0, T0, &d), 0);
	assert_int_equal(weir_take(table, &limit, "", 0, 0, T0, &d), 0);
}

static void take_returns_elimit(void **unused)
{
	struct weir_limit raw = {.size = sizeof raw, .algorithm = 3, .limit = 5, .period_ns = 1};
	struct weir_limit old = limit;

	(void)unused;
	assert_int_equal(weir_take(table, &raw, "k", 1, 1, T0, &d), WEIR_ELIMIT);
	old.size -= 8;
	assert_int_equal(weir_take(table, &old, "k", 1, 1, T0, &d), WEIR_ELIMIT);
}

static void take_returns_etime(void **unused)
{
	(void)unused;
	assert_int_equal(weir_take(table, &limit, "k", 1, 0, TIME_MAX, &d), 0);
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, TIME_MAX + 1, &d), WEIR_ETIME);
	assert_int_equal(weir_take(table, &limit, "k", 1, 1, UINT64_MAX, &d), WEIR_ETIME);
}

static void return_reports_errors(void **unused)
{
	static char key[65537];
	struct weir_limit old = limit;

	(void)unused;
	old.size -= 8;
	assert_int_equal(weir_return(NULL, &limit, "k", 1, 1, T0, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_return(table, NULL, "k", 1, 1, T0, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_return(table, &limit, NULL, 1, 1, T0, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_return(table, &limit, "k", 1, 1, T0, T0, NULL), WEIR_EINVAL);
	assert_int_equal(weir_return(table, &limit, key, 65537, 1, T0, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_return(table, &limit, "k", 1, -1, T0, T0, &d), WEIR_EINVAL);
	assert_int_equal(weir_return(table, &old, "k", 1, 1, T0, T0, &d), WEIR_ELIMIT);
	assert_int_equal(weir_return(table, &limit, "k", 1, 1, T0, TIME_MAX + 1, &d), WEIR_ETIME);
	assert_int_equal(weir_return(table, &limit, "k", 1, 1, TIME_MAX + 1, T0, &d), WEIR_ETIME);
	assert_int_equal(weir_return(table, &limit, "k", 1, 1, T0, TIME_MAX, &d), 0);
	assert_int_equal(weir_return(table, &limit, "k", 1, 0, T0, T0, &d), 0);
}

static void take_all_returns_einval(void **unused)
{
	struct weir_need need = {&limit, "k", 1, 1};
	struct weir_need no_limit = {NULL, "k", 1, 1}, no_key = {&limit, NULL, 1, 1};
	struct weir_need long_key = {&limit, "k", 65537, 1}, negative = {&limit, "k", 1, -1};

	(void)unused;
	assert_int_equal(weir_take_all(NULL, &need, 1, T0, &d, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, NULL, 1, T0, &d, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &need, 1, T0, NULL, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &need, 1, T0, &d, NULL), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &no_limit, 1, T0, &d, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &no_key, 1, T0, &d, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &long_key, 1, T0, &d, &admitted), WEIR_EINVAL);
	assert_int_equal(weir_take_all(table, &negative, 1, T0, &d, &admitted), WEIR_EINVAL);
}

/* The last of several needs is invalid: no units were taken for the needs before it. */
static void take_all_checks_before_it_takes(void **unused)
{
	struct weir_limit raw = {.size = sizeof raw};
	struct weir_need needs[3] = {{&limit, "k", 1, 1}, {&limit, "l", 1, 1}, {&raw, "m", 1, 1}};
	struct weir_decision many[3];

	(void)unused;
	assert_int_equal(weir_take_all(table, needs, 3, T0, many, &admitted), WEIR_ELIMIT);
	assert_int_equal(weir_take_all(table, needs, 2, TIME_MAX + 1, many, &admitted), WEIR_ETIME);
}

static void take_all_returns_emany(void **unused)
{
	static struct weir_need needs[WEIR_NEEDS_MAX + 1];
	static struct weir_decision many[WEIR_NEEDS_MAX + 1];

	(void)unused;
	for (int i = 0; i <= WEIR_NEEDS_MAX; i++)
		needs[i] = (struct weir_need){&limit, &needs[i], 8, 0};
	assert_int_equal(weir_take_all(table, needs, WEIR_NEEDS_MAX + 1, T0, many, &admitted),
			 WEIR_EMANY);
	assert_int_equal(weir_take_all(table, needs, WEIR_NEEDS_MAX, T0, many, &admitted), 0);
	assert_int_equal(admitted, 1);
	assert_int_equal(weir_take_all(table, NULL, 0, T0, NULL, &admitted), 0);
	assert_int_equal(admitted, 1);
}

static void take_many_checks_before_it_takes(void **unused)
{
	struct weir_limit raw = {.size = sizeof raw};
	struct weir_need takes[3] = {{&limit, "k", 1, 1}, {&limit, "l", 1, 1}, {&raw, "m", 1, 1}};
	struct weir_need negative[2] = {{&limit, "k", 1, 1}, {&limit, "l", 1, -1}};
	struct weir_need no_key = {&limit, NULL, 1, 1}, long_key = {&limit, "k", 65537, 1};
	struct weir_decision many[3];

	(void)unused;
	assert_int_equal(weir_take_many(NULL, takes, 1, T0, many), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, NULL, 1, T0, many), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, takes, 1, T0, NULL), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, &no_key, 1, T0, many), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, &long_key, 1, T0, many), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, negative, 2, T0, many), WEIR_EINVAL);
	assert_int_equal(weir_take_many(table, takes, 3, T0, many), WEIR_ELIMIT);
	assert_int_equal(weir_take_many(table, takes, 2, TIME_MAX + 1, many), WEIR_ETIME);
}

static void info_returns_einval(void **unused)
{
	struct weir_info info = {.size = offsetof(struct weir_info, keys)};

	(void)unused;
	assert_int_equal(weir_info(table, T0, &info), WEIR_EINVAL);
	assert_int_equal(weir_info(table, T0, NULL), WEIR_EINVAL);
	info.size = sizeof info;
	assert_int_equal(weir_info(NULL, T0, &info), WEIR_EINVAL);
	assert_int_equal(weir_info(table, T0, &info), 0);
}

static void open_returns_einval(void **unused)
{
	struct weir_opts opts = opts_of("other", 256 * KIB, 0);
	struct weir_table *other = NULL;
	struct weir_error error = {0};

	(void)unused;
	assert_int_equal(weir_open(NULL, &other, &error), WEIR_EINVAL);
	assert_int_equal(error.code, WEIR_EINVAL);
	assert_int_equal(weir_open(&opts, NULL, &error), WEIR_EINVAL);
	opts.size = 12;
	assert_int_equal(weir_open(&opts, &other, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "opts->size"));
	opts = opts_of("other", 256 * KIB, 0);
	opts.flags = 4;
	assert_int_equal(weir_open(&opts, &other, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "opts->flags"));
	assert_null(other);
	assert_int_equal(weir_remove("other", folder(), &error), WEIR_ENOENT);
	weir_close(NULL);
}

static void every_code_has_a_sentence(void **unused)
{
	static const int codes[] = {
#define CODE(name, number, text) name,
		WEIR_ERRORS(CODE)
#undef CODE
	};

	(void)unused;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
		assert_true(codes[i] < 0);
		assert_true(strlen(weir_strerror(codes[i])) > 10);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(weir_strerror(codes[i]), weir_strerror(codes[k]));
	}
	assert_non_null(weir_strerror(0));
	assert_non_null(weir_strerror(-1000));
	assert_string_equal(weir_version(), WEIR_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take_returns_einval),
		cmocka_unit_test(take_returns_elimit),
		cmocka_unit_test(take_returns_etime),
		cmocka_unit_test(return_reports_errors),
		cmocka_unit_test(take_all_returns_einval),
		cmocka_unit_test(take_all_checks_before_it_takes),
		cmocka_unit_test(take_all_returns_emany),
		cmocka_unit_test(take_many_checks_before_it_takes),
		cmocka_unit_test(info_returns_einval),
		cmocka_unit_test(open_returns_einval),
		cmocka_unit_test(every_code_has_a_sentence),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
