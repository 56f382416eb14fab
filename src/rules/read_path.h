/* Reads the path patterns of `when: {path: …}`. */
#ifndef WR_RULES_READ_PATH_H
#define WR_RULES_READ_PATH_H

#include "rules/load.h"
#include "rules/requests.h"

/* Reads a pattern. If the pattern is invalid, reports the error and returns false. */
bool wr_read_path(struct wr_load *load, const struct wr_yaml *value, struct wr_path *path);

#endif
