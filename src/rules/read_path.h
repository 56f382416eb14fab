/* Path patterns of `when: {path: …}`. */
#ifndef WR_RULES_READ_PATH_H
#define WR_RULES_READ_PATH_H

#include "rules/load.h"
#include "rules/requests.h"

/* Reads a pattern. Returns false after it has reported an error. */
bool wr_read_path(struct wr_load *load, const struct wr_yaml *value, struct wr_path *path);

#endif
