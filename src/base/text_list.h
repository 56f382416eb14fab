/* A list of at most 64 C strings: the values of an option that can have several values. */
#ifndef WR_BASE_TEXT_LIST_H
#define WR_BASE_TEXT_LIST_H

#include <stddef.h>

#define WR_TEXT_LIST_MAX 64

struct wr_text_list {
	size_t count;
	const char *items[WR_TEXT_LIST_MAX];
};

#endif
