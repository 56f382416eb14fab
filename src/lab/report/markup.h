/* Text in HTML and SVG. Logs contain texts of strangers, so every text goes through here. */
#ifndef WR_LAB_REPORT_MARKUP_H
#define WR_LAB_REPORT_MARKUP_H

#include <stddef.h>
#include <stdio.h>

/* Writes a text so that it is valid in elements and in quoted attributes of HTML and XML. U+FFFD
 * replaces invalid UTF-8, characters that XML forbids, and the characters that change the direction
 * of the text after them. Tabs and line breaks stay. */
void wr_lab_markup(FILE *out, const char *text, size_t len);
void wr_lab_markup_text(FILE *out, const char *text);

#endif
