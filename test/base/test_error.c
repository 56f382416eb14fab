/* wr_error() returns the code and fills in the text. It returns the code even without a struct. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void fills_in_and_returns_the_code(void **unused)
{
	struct weir_error error = {0};

	(void)unused;
	assert_int_equal(wr_error(&error, WEIR_ENAME, "\"%s\" has %d", "x", 3), WEIR_ENAME);
	assert_int_equal(error.code, WEIR_ENAME);
	assert_string_equal(error.text, "\"x\" has 3");
}

static void the_error_struct_may_be_null(void **unused)
{
	(void)unused;
	errno = EDOM;
	assert_int_equal(wr_error(NULL, WEIR_ESYS, "%s", "x"), WEIR_ESYS);
	assert_int_equal(wr_error_errno(NULL, WEIR_ENOSPACE, "%s", "x"), WEIR_ENOSPACE);
	assert_int_equal(errno, EDOM);
}

static void appends_the_text_of_errno(void **unused)
{
	struct weir_error error = {0};

	(void)unused;
	errno = ENOENT;
	assert_int_equal(wr_error_errno(&error, WEIR_ESYS, "cannot open %s", "/x"), WEIR_ESYS);
	assert_int_equal(error.code, WEIR_ESYS);
	assert_string_equal(error.text, "cannot open /x: No such file or directory");
	assert_int_equal(errno, ENOENT);
}

static void a_long_sentence_is_cut(void **unused)
{
	struct {
		struct weir_error error;
		char guard[8];
	} at = {.guard = "guarded"};
	char longer[1000];

	(void)unused;
	memset(longer, 'x', sizeof longer);
	longer[sizeof longer - 1] = 0;
	errno = ENOENT;
	wr_error(&at.error, WEIR_ESYS, "%s", longer);
	assert_int_equal(strlen(at.error.text), sizeof at.error.text - 1);
	wr_error_errno(&at.error, WEIR_ESYS, "%s", longer);
	assert_int_equal(strlen(at.error.text), sizeof at.error.text - 1);
	wr_error_errno(&at.error, WEIR_ESYS, "%.501s", longer);
	assert_int_equal(strlen(at.error.text), sizeof at.error.text - 1);
	assert_string_equal(at.guard, "guarded");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_in_and_returns_the_code),
		cmocka_unit_test(the_error_struct_may_be_null),
		cmocka_unit_test(appends_the_text_of_errno),
		cmocka_unit_test(a_long_sentence_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
