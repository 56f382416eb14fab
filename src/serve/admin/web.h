/* The files of the dashboard. cmake/web.cmake generates them from web/. */
#ifndef WR_SERVE_ADMIN_WEB_H
#define WR_SERVE_ADMIN_WEB_H

#include <stddef.h>
#include <stdint.h>

struct wr_web_file {
	const char *name; /* for example "views/rule.js", which is served at /ui/views/rule.js */
	const char *content_type;
	const char *tag, *packed_tag; /* ETags, with quotes, of the plain and the compressed file */
	const uint8_t *plain;
	size_t plain_len;
	const uint8_t *packed; /* the file compressed with gzip */
	size_t packed_len;
};

extern const struct wr_web_file wr_web_files[];
extern const size_t wr_web_file_count;

#endif
