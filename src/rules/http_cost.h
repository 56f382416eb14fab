#ifndef WR_RULES_HTTP_COST_H
#define WR_RULES_HTTP_COST_H
#include "rules/http.h"
#include "rules/requests.h"
bool wr_rules_cost_parse(struct weir_str text, int64_t *value);
int64_t wr_rules_cost_value(const struct wr_rules_cost_source *source, bool found, int64_t value, enum wr_cost_note *note);
#endif
