/* Writes HTML pages; see lab/report/page.h. */
#include "lab/report/page.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "lab/report/markup.h"

#define TRIES 100u /* names that are tried for the unfinished file */

struct wr_lab_page {
	FILE *out;
	char *path;   /* the final name */
	char *draft;  /* the name of the unfinished file; NULL: `out` is the final file */
	int failure;  /* errno of the first failure, or 0 */
	bool section; /* a section is open */
	bool figures; /* a row of figures is open */
	const char *const *columns; /* of the open table; NULL: no table is open */
	size_t column_count, cell;
};

static const char style[] =
	":root{color-scheme:light dark;--ground:#f5f7f9;--card:#fff;--text:#16222c;--soft:#51606d;"
	"--line:#dfe5ea;--brand:#0b5f85;--warn:#6d4200;--warn-ground:#fdf1da}\n"
	"@media(prefers-color-scheme:dark){:root{--ground:#10171d;--card:#18222b;--text:#e7edf2;"
	"--soft:#a3b1bd;--line:#2b3843;--brand:#74c5ec;--warn:#ffc970;--warn-ground:#3a2d12}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0;background:var(--ground);color:var(--text);"
	"font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}\n"
	"main{max-width:60rem;margin:0 auto;padding:2rem 1rem 4rem}\n"
	"h1{font-size:1.6rem;line-height:1.25;margin:0 0 1.25rem;overflow-wrap:anywhere}\n"
	"h2{font-size:1.2rem;line-height:1.3;margin:0 0 .75rem;overflow-wrap:anywhere}\n"
	"h3{font-size:1rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}\n"
	"section{background:var(--card);border:1px solid var(--line);border-radius:10px;"
	"padding:1.25rem;margin:1.25rem 0}\n"
	"section>:last-child{margin-bottom:0}\n"
	"p{margin:0 0 .9rem;max-width:46rem;overflow-wrap:anywhere}\n"
	".warning{background:var(--warn-ground);color:var(--warn);border-left:4px solid "
	"currentColor;"
	"border-radius:4px;padding:.6rem .9rem;max-width:none}\n"
	".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;"
	"margin:0 0 1.1rem}\n"
	".figures div{background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"padding:.55rem .8rem}\n"
	".figures dt{color:var(--soft);font-size:.85rem}\n"
	".figures dd{margin:0;font-size:1.25rem;font-weight:600;font-variant-numeric:tabular-nums;"
	"overflow-wrap:anywhere}\n"
	"pre{background:var(--ground);border:1px solid var(--line);border-radius:6px;"
	"padding:.75rem 1rem;margin:0 0 1rem;overflow-x:auto;"
	"font:.875rem/1.5 ui-monospace,\"DejaVu Sans Mono\",Menlo,monospace}\n"
	".wide{overflow-x:auto;margin:0 0 1.1rem}\n"
	"table{border-collapse:collapse;width:100%;font-size:.925rem}\n"
	"th,td{text-align:left;padding:.4rem .75rem;border-bottom:1px solid var(--line);"
	"vertical-align:top}\n"
	"th:first-child,td:first-child{padding-left:0}th:last-child,td:last-child{padding-right:0}"
	"\n"
	"th{color:var(--soft);font-weight:600;font-size:.85rem;vertical-align:bottom}\n"
	"td{overflow-wrap:break-word;min-width:8rem;max-width:26rem}\n"
	".n{text-align:right;min-width:0;font-variant-numeric:tabular-nums}\n"
	"td.n{white-space:nowrap}\n"
	"figure{margin:0 0 1.25rem;overflow-x:auto}\n"
	"figcaption{font-weight:600;margin:0 0 .35rem}\n"
	"figure .plot{display:block;width:100%;min-width:34rem;height:auto}\n"
	":focus-visible{outline:3px solid var(--brand);outline-offset:2px}\n"
	"@media print{section{break-inside:avoid;border:0;padding:0}}\n";

/* ---- opening and closing ---- */

/* Opens the unfinished file beside the final one, so that a rename() can give it its name. */
static FILE *open_draft(struct wr_lab_page *page)
{
	int fd = -1;

	for (unsigned i = 0; fd < 0 && i < TRIES; i++) {
		free(page->draft);
		if (asprintf(&page->draft, "%s.%ld-%u.tmp", page->path, (long)getpid(), i) < 0) {
			page->draft = NULL;
			return NULL;
		}
		fd = open(page->draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			return NULL;
	}
	return fd < 0 ? NULL : fdopen(fd, "w");
}

static FILE *open_file(struct wr_lab_page *page, const char *path)
{
	struct stat about;

	if (stat(path, &about) < 0) {
		page->path = strdup(path);
		return page->path ? open_draft(page) : NULL;
	}
	if (!S_ISREG(about.st_mode))
		return fopen(path, "we");
	page->path = realpath(path, NULL); /* a symbolic link stays one */
	return page->path ? open_draft(page) : NULL;
}

static void free_page(struct wr_lab_page *page)
{
	free(page->path);
	free(page->draft);
	free(page);
}

struct wr_lab_page *wr_lab_page_open(const char *path, const char *title)
{
	struct wr_lab_page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->out = open_file(page, path);
	if (!page->out) {
		int failure = errno;

		free_page(page);
		errno = failure;
		return NULL;
	}
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
	      page->out);
	wr_lab_markup_text(page->out, title);
	fputs("</title>\n<style>\n", page->out);
	fputs(style, page->out);
	wr_lab_plot_style(page->out);
	fputs("</style>\n</head>\n<body>\n<main>\n<h1>", page->out);
	wr_lab_markup_text(page->out, title);
	fputs("</h1>\n", page->out);
	return page;
}

/* Ends a row of figures, which ends when another element begins. */
static void end_figures(struct wr_lab_page *page)
{
	wr_assert(!page->columns);
	if (page->figures)
		fputs("</dl>\n", page->out);
	page->figures = false;
}

static void end_section(struct wr_lab_page *page)
{
	end_figures(page);
	if (page->section)
		fputs("</section>\n", page->out);
	page->section = false;
}

static void note_failure(struct wr_lab_page *page, int failure)
{
	if (!page->failure)
		page->failure = failure;
}

/* Brings all bytes to the disk, so that the page is complete when it gets its name. */
static void finish_file(struct wr_lab_page *page)
{
	if (fflush(page->out) != 0 || ferror(page->out))
		note_failure(page, errno ? errno : EIO);
	if (page->draft && fsync(fileno(page->out)) < 0)
		note_failure(page, errno);
	if (fclose(page->out) != 0)
		note_failure(page, errno);
	if (page->draft && !page->failure && rename(page->draft, page->path) < 0)
		note_failure(page, errno);
	if (page->draft && page->failure)
		unlink(page->draft);
}

int wr_lab_page_close(struct wr_lab_page *page)
{
	int failure;

	end_section(page);
	fputs("</main>\n</body>\n</html>\n", page->out);
	finish_file(page);
	failure = page->failure;
	free_page(page);
	errno = failure;
	return failure ? -1 : 0;
}

/* ---- elements ---- */

static void put_format(struct wr_lab_page *page, const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0) {
		note_failure(page, ENOMEM);
		return;
	}
	wr_lab_markup_text(page->out, text);
	free(text);
}

void wr_lab_page_heading(struct wr_lab_page *page, const char *text)
{
	end_section(page);
	fputs("<section>\n<h2>", page->out);
	wr_lab_markup_text(page->out, text);
	fputs("</h2>\n", page->out);
	page->section = true;
}

void wr_lab_page_subheading(struct wr_lab_page *page, const char *text)
{
	end_figures(page);
	fputs("<h3>", page->out);
	wr_lab_markup_text(page->out, text);
	fputs("</h3>\n", page->out);
}

void wr_lab_page_text(struct wr_lab_page *page, const char *format, ...)
{
	va_list args;

	end_figures(page);
	fputs("<p>", page->out);
	va_start(args, format);
	put_format(page, format, args);
	va_end(args);
	fputs("</p>\n", page->out);
}

void wr_lab_page_warning(struct wr_lab_page *page, const char *format, ...)
{
	va_list args;

	end_figures(page);
	fputs("<p class=\"warning\" role=\"note\">", page->out);
	va_start(args, format);
	put_format(page, format, args);
	va_end(args);
	fputs("</p>\n", page->out);
}

void wr_lab_page_code(struct wr_lab_page *page, const char *text, size_t len)
{
	end_figures(page);
	fputs("<pre tabindex=\"0\"><code>", page->out);
	wr_lab_markup(page->out, text, len);
	fputs("</code></pre>\n", page->out);
}

void wr_lab_page_figure(struct wr_lab_page *page, const char *name, const char *format, ...)
{
	va_list args;

	wr_assert(!page->columns);
	if (!page->figures)
		fputs("<dl class=\"figures\">\n", page->out);
	page->figures = true;
	fputs("<div><dt>", page->out);
	wr_lab_markup_text(page->out, name);
	fputs("</dt><dd>", page->out);
	va_start(args, format);
	put_format(page, format, args);
	va_end(args);
	fputs("</dd></div>\n", page->out);
}

void wr_lab_page_plot(struct wr_lab_page *page, const struct wr_lab_plot *plot)
{
	end_figures(page);
	fputs("<figure tabindex=\"0\">\n", page->out);
	if (plot->title) {
		fputs("<figcaption>", page->out);
		wr_lab_markup_text(page->out, plot->title);
		fputs("</figcaption>\n", page->out);
	}
	wr_lab_plot_write(plot, page->out);
	fputs("</figure>\n", page->out);
}

/* ---- tables ---- */

static bool is_number_column(const char *title)
{
	return title[0] == '#';
}

void wr_lab_page_table(struct wr_lab_page *page, const char *const *columns, size_t count)
{
	end_figures(page);
	wr_assert(count > 0);
	page->columns = columns;
	page->column_count = count;
	page->cell = 0;
	/* A box that scrolls can get the focus, so that keys can scroll it. */
	fputs("<div class=\"wide\" role=\"group\" aria-label=\"table\" "
	      "tabindex=\"0\">\n<table>\n<thead>\n<tr>",
	      page->out);
	for (size_t i = 0; i < count; i++) {
		bool number = is_number_column(columns[i]);

		fprintf(page->out, "<th scope=\"col\"%s>", number ? " class=\"n\"" : "");
		wr_lab_markup_text(page->out, columns[i] + number);
		fputs("</th>", page->out);
	}
	fputs("</tr>\n</thead>\n<tbody>\n", page->out);
}

void wr_lab_page_cell(struct wr_lab_page *page, const char *format, ...)
{
	va_list args;

	wr_assert(page->columns);
	if (page->cell == 0)
		fputs("<tr>", page->out);
	fputs(is_number_column(page->columns[page->cell]) ? "<td class=\"n\">" : "<td>", page->out);
	va_start(args, format);
	put_format(page, format, args);
	va_end(args);
	fputs("</td>", page->out);
	if (++page->cell == page->column_count) {
		page->cell = 0;
		fputs("</tr>\n", page->out);
	}
}

void wr_lab_page_table_end(struct wr_lab_page *page)
{
	wr_assert(page->columns && page->cell == 0);
	page->columns = NULL;
	fputs("</tbody>\n</table>\n</div>\n", page->out);
}
