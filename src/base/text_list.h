/* A list of texts, as flags, the environment and files give it: a few, each a C string. */
#ifndef WR_BASE_TEXT_LIST_H
#define WR_BASE_TEXT_LIST_H

#include <stddef.h>

#define WR_TEXT_LIST_MAX 64

struct wr_text_list {
	size_t count;
	const char *items[WR_TEXT_LIST_MAX];
};

#endif
