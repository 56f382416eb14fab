/* Rules from a text, and descriptors from "key=value" strings. */
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

/* "a=1|b=|c" → three entries, the last with an empty value as well. The text must outlive them. */
size_t test_entries(const char *text, struct weir_entry *entries);

/* Matches a descriptor in a domain that must exist. */
struct wr_match test_match(const struct weir_rules *rules, const char *domain,
			   const char *descriptor);

/* "api/user=7", or the outcome if no rule matched: "none". */
const char *test_path(const struct wr_match *match);

#endif
