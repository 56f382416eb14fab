/* Writes a self-contained HTML page: headings, paragraphs, tables and plots. The page loads nothing
 * and runs no script: its Content-Security-Policy is "default-src 'none'; style-src
 * 'unsafe-inline'". All texts are escaped, so that a log cannot put HTML into the page. */
#ifndef WR_LAB_REPORT_PAGE_H
#define WR_LAB_REPORT_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "lab/report/plot.h"

struct wr_lab_page;

/* Opens the page. The file gets its name only in wr_lab_page_close(), so that an older page at
 * `path` stays until the new one is complete. A path that is not a regular file, such as
 * /dev/stdout, is written directly. Returns NULL and sets errno on failure. */
struct wr_lab_page *wr_lab_page_open(const char *path, const char *title);

/* A heading begins a section. A subheading divides a section. */
void wr_lab_page_heading(struct wr_lab_page *page, const char *text);
void wr_lab_page_subheading(struct wr_lab_page *page, const char *text);
void wr_lab_page_text(struct wr_lab_page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* A paragraph that stands out, for warnings. */
void wr_lab_page_warning(struct wr_lab_page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Text with its line breaks and blanks, such as YAML. */
void wr_lab_page_code(struct wr_lab_page *page, const char *text, size_t len);

/* A figure that is to be seen first, with its name: "requests", "1,234,567". Figures that follow
 * each other form a row. */
void wr_lab_page_figure(struct wr_lab_page *page, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* A table: first wr_lab_page_table() with the titles of the columns, then one call of
 * wr_lab_page_cell() for each cell, row by row, then wr_lab_page_table_end(). Columns whose title
 * begins with '#' hold numbers and are aligned to the right; the '#' is not shown. The caller keeps
 * `columns` until wr_lab_page_table_end(). */
void wr_lab_page_table(struct wr_lab_page *page, const char *const *columns, size_t count);
void wr_lab_page_cell(struct wr_lab_page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void wr_lab_page_table_end(struct wr_lab_page *page);

/* A plot, with its title as a caption. */
void wr_lab_page_plot(struct wr_lab_page *page, const struct wr_lab_plot *plot);

/* Ends the page, gives the file its name and frees `page`. Returns 0, or -1 with errno if the page
 * could not be written; then no new file is left behind. */
int wr_lab_page_close(struct wr_lab_page *page);

#endif
