/* Pages: their HTML, texts of strangers in them, and their files. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "lab/report/page.h"

static char dir[] = "/tmp/weir-test-page.XXXXXX"; /* mkdtemp() replaces the letters X */
static char path[64];
static char text[65536];

static const char *read_page(void)
{
	FILE *in = fopen(path, "r");
	size_t len;

	assert_non_null(in);
	len = fread(text, 1, sizeof(text) - 1, in);
	text[len] = '\0';
	fclose(in);
	return text;
}

static size_t files_in_dir(void)
{
	DIR *entries = opendir(dir);
	size_t count = 0;

	for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(entries);
	return count;
}

static void assert_has(const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in\n%s", part, text);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/weir-test-page.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/page.html", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

static void writes_each_element(void **state)
{
	static const char *const columns[] = {"client", "#requests"};
	struct wr_lab_page *page = wr_lab_page_open(path, "A title");

	assert_non_null(page);
	wr_lab_page_figure(page, "requests", "%d", 12);
	wr_lab_page_figure(page, "refused", "%d %%", 3);
	wr_lab_page_text(page, "%s of %d", "one", 2);
	wr_lab_page_warning(page, "%s", "careful");
	wr_lab_page_heading(page, "First");
	wr_lab_page_subheading(page, "Within");
	wr_lab_page_table(page, columns, 2);
	wr_lab_page_cell(page, "%s", "10.0.0.1");
	wr_lab_page_cell(page, "%d", 7);
	wr_lab_page_cell(page, "%s", "10.0.0.2");
	wr_lab_page_cell(page, "%d", 8);
	wr_lab_page_table_end(page);
	wr_lab_page_heading(page, "Second");
	wr_lab_page_code(page, "a:\n  - b\n", 9);
	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = "Nothing"});
	assert_int_equal(wr_lab_page_close(page), 0);
	read_page();
	assert_has("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		   "style-src 'unsafe-inline'\">\n");
	assert_has("<title>A title</title>");
	assert_has("<h1>A title</h1>\n<dl class=\"figures\">\n"
		   "<div><dt>requests</dt><dd>12</dd></div>\n"
		   "<div><dt>refused</dt><dd>3 %</dd></div>\n</dl>\n<p>one of 2</p>\n"
		   "<p class=\"warning\" role=\"note\">careful</p>\n"
		   "<section>\n<h2>First</h2>\n<h3>Within</h3>\n"
		   "<div class=\"wide\" role=\"group\" aria-label=\"table\" "
		   "tabindex=\"0\">\n<table>\n<thead>\n<tr><th scope=\"col\">client</th>"
		   "<th scope=\"col\" class=\"n\">requests</th></tr>\n</thead>\n<tbody>\n"
		   "<tr><td>10.0.0.1</td><td class=\"n\">7</td></tr>\n"
		   "<tr><td>10.0.0.2</td><td class=\"n\">8</td></tr>\n</tbody>\n</table>\n</div>\n"
		   "</section>\n<section>\n<h2>Second</h2>\n"
		   "<pre tabindex=\"0\"><code>a:\n  - b\n</code></pre>\n"
		   "<figure tabindex=\"0\">\n<figcaption>Nothing</figcaption>\n<svg ");
	assert_has("</svg>\n</figure>\n</section>\n</main>\n</body>\n</html>\n");
	(void)state;
}

static void escapes_every_text(void **state)
{
	static const char evil[] = "</title></style><script src=//x>\"'&\x01\xff";
	static const char *const columns[] = {evil};
	static const char safe[] =
		"&lt;/title&gt;&lt;/style&gt;&lt;script src=//x&gt;&quot;&#39;&amp;"
		"\xef\xbf\xbd\xef\xbf\xbd";
	struct wr_lab_page *page = wr_lab_page_open(path, evil);
	unsigned count = 0;

	wr_lab_page_figure(page, evil, "%s", evil);
	wr_lab_page_text(page, "%s", evil);
	wr_lab_page_warning(page, "%s", evil);
	wr_lab_page_heading(page, evil);
	wr_lab_page_subheading(page, evil);
	wr_lab_page_code(page, evil, sizeof(evil) - 1);
	wr_lab_page_table(page, columns, 1);
	wr_lab_page_cell(page, "%s", evil);
	wr_lab_page_table_end(page);
	wr_lab_page_plot(page, &(struct wr_lab_plot){.title = evil});
	assert_int_equal(wr_lab_page_close(page), 0);
	read_page();
	assert_null(strstr(text, "<script"));
	for (const char *at = text; (at = strstr(at, safe)) != NULL; at++)
		count++;
	assert_int_equal(count, 13); /* the titles of the page and of the plot are there twice */
	(void)state;
}

static void an_older_page_stays_until_the_end(void **state)
{
	struct wr_lab_page *page = wr_lab_page_open(path, "old");

	assert_int_equal(wr_lab_page_close(page), 0);
	page = wr_lab_page_open(path, "new");
	assert_int_equal(files_in_dir(), 2);
	read_page();
	assert_has("<title>old</title>");
	assert_int_equal(wr_lab_page_close(page), 0);
	read_page();
	assert_has("<title>new</title>");
	assert_int_equal(files_in_dir(), 1);
	(void)state;
}

static void a_link_stays_a_link(void **state)
{
	char real[80];
	struct stat about;
	struct wr_lab_page *page;

	snprintf(real, sizeof(real), "%s/real.html", dir);
	fclose(fopen(real, "w"));
	assert_int_equal(symlink(real, path), 0);
	page = wr_lab_page_open(path, "linked");
	assert_int_equal(wr_lab_page_close(page), 0);
	assert_int_equal(lstat(path, &about), 0);
	assert_true(S_ISLNK(about.st_mode));
	read_page();
	assert_has("<title>linked</title>");
	assert_int_equal(unlink(real), 0);
	(void)state;
}

static void failures_have_a_reason(void **state)
{
	struct wr_lab_page *page;

	assert_null(wr_lab_page_open("/nonexistent/page.html", "t"));
	assert_int_equal(errno, ENOENT);
	assert_null(wr_lab_page_open(dir, "t"));
	assert_int_equal(errno, EISDIR);
	page = wr_lab_page_open("/dev/full", "t");
	assert_non_null(page);
	assert_int_equal(wr_lab_page_close(page), -1);
	assert_int_equal(errno, ENOSPC);
	(void)state;
}

/* The name cannot be given any more, because a folder has taken it. */
static void no_file_is_left_after_a_failure(void **state)
{
	struct wr_lab_page *page = wr_lab_page_open(path, "t");

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(files_in_dir(), 2);
	assert_int_equal(wr_lab_page_close(page), -1);
	assert_int_equal(errno, EISDIR);
	assert_int_equal(files_in_dir(), 1);
	assert_int_equal(rmdir(path), 0);
	(void)state;
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_DIR(writes_each_element),
		WITH_DIR(escapes_every_text),
		WITH_DIR(an_older_page_stays_until_the_end),
		WITH_DIR(a_link_stays_a_link),
		WITH_DIR(failures_have_a_reason),
		WITH_DIR(no_file_is_left_after_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
