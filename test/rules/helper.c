/* Loads rules and matches descriptors for the suites of src/rules. */
#include "helper.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "rules/path_text.h"

struct weir_rules *test_rules(const char *yaml)
{
	struct weir_errors errors = {.size = sizeof errors};
	struct weir_rules *rules;
	char path[64], text[2048];
	int fd = memfd_create("rules", 0);
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, yaml, strlen(yaml)), strlen(yaml));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rc = weir_rules_load(path, &rules, &errors);
	for (size_t i = 0; rc && i < errors.count; i++) {
		weir_diagnostic_text(&errors.items[i], text, sizeof text);
		print_message("%s", text);
	}
	weir_errors_free(&errors);
	close(fd);
	assert_int_equal(rc, 0);
	return rules;
}

size_t test_entries(const char *text, struct weir_entry *entries)
{
	struct weir_str rest = wr_str(text);
	size_t count = 0;

	while (rest.len) {
		struct weir_str entry = wr_str_first(rest, wr_str_find(rest, '|'));
		size_t equals = wr_str_find(entry, '=');

		assert_true(count < TEST_ENTRIES_MAX);
		entries[count++] = (struct weir_entry){
			.key = wr_str_first(entry, equals),
			.value = equals < entry.len ? wr_str_from(entry, equals + 1) : WR_STR("")};
		rest = wr_str_from(rest, entry.len + (entry.len < rest.len));
	}
	return count;
}

struct wr_match test_match(const struct weir_rules *rules, const char *domain,
			   const char *descriptor)
{
	const struct wr_node *node = wr_rules_domain(rules, wr_str(domain));
	struct weir_entry entries[TEST_ENTRIES_MAX];
	struct wr_match match;

	assert_non_null(node);
	wr_rules_match(rules, node, entries, test_entries(descriptor, entries), &match);
	return match;
}

const char *test_path(const struct wr_match *match)
{
	static char text[512];

	if (!match->node)
		return "none";
	wr_path_text(match->node, text, sizeof text);
	return text;
}
