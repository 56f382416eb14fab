/* Text of strangers in HTML and SVG. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/report/markup.h"

#define UNKNOWN "\xef\xbf\xbd"

static void expect(const char *text, size_t len, const char *expected)
{
	char *written;
	size_t size;
	FILE *out = open_memstream(&written, &size);

	assert_non_null(out);
	wr_lab_markup(out, text, len);
	fclose(out);
	assert_string_equal(written, expected);
	assert_int_equal(size, strlen(expected));
	free(written);
}

#define EXPECT(text, expected) expect(text, sizeof(text) - 1, expected)

static void escapes_html(void **state)
{
	EXPECT("", "");
	EXPECT("plain text, 100 %", "plain text, 100 %");
	EXPECT("<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
	EXPECT("\" onload=\"x", "&quot; onload=&quot;x");
	EXPECT("&lt;", "&amp;lt;");
	EXPECT("]]>", "]]&gt;");
	(void)state;
}

static void replaces_controls(void **state)
{
	EXPECT("a\0b", "a" UNKNOWN "b");
	EXPECT("\x1b[31m", UNKNOWN "[31m");
	EXPECT("\x7f", UNKNOWN);
	EXPECT("\xc2\x85", UNKNOWN);
	EXPECT("a\tb\nc", "a\tb\nc");
	EXPECT("a\rb", "a" UNKNOWN "b");
	(void)state;
}

static void replaces_invalid_utf8(void **state)
{
	EXPECT("\xff<", UNKNOWN "&lt;");
	EXPECT("\xc3", UNKNOWN);
	EXPECT("\xe2\x82", UNKNOWN UNKNOWN);
	EXPECT("\xc0\xbc", UNKNOWN UNKNOWN); /* an overlong '<' */
	EXPECT("\xed\xa0\x80", UNKNOWN UNKNOWN UNKNOWN);
	EXPECT("\xef\xbf\xbf", UNKNOWN); /* U+FFFF, which XML forbids */
	EXPECT("Zürich €", "Zürich €");
	(void)state;
}

static void replaces_changes_of_direction(void **state)
{
	EXPECT("a\xe2\x80\xaexe", "a" UNKNOWN "xe");
	EXPECT("\xe2\x81\xa6", UNKNOWN);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes_html),
		cmocka_unit_test(replaces_controls),
		cmocka_unit_test(replaces_invalid_utf8),
		cmocka_unit_test(replaces_changes_of_direction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
