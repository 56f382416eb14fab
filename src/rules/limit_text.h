/* A limit in words. */
#ifndef WR_RULES_LIMIT_TEXT_H
#define WR_RULES_LIMIT_TEXT_H

#include "rules/rules.h"

/* "2 per second", "300 per 3h", "10000 per calendar month in Asia/Seoul". Returns its length. */
size_t wr_limit_text(const struct wr_limit *limit, char *text, size_t cap);

#endif
