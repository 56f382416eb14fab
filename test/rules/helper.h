/* Loads rules from a text, and makes descriptors from "key=value" strings. */
#ifndef TEST_RULES_HELPER_H
#define TEST_RULES_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/match.h"

#define TEST_ENTRIES_MAX 40

/* Loads rules, prints the diagnostics, and fails the test if there is an error. */
struct weir_rules *test_rules(const char *yaml);

/* Splits "a=1|b=|c" into three entries; the values of the last two are empty. The entries point
 * into the text. */
size_t test_entries(const char *text, struct weir_entry *entries);

/* Matches a descriptor in a domain that must exist. */
struct wr_match test_match(const struct weir_rules *rules, const char *domain,
			   const char *descriptor);

/* Returns the path of the rule that matched, such as "api/user=7", or "none" if no rule matched. */
const char *test_path(const struct wr_match *match);

#endif
