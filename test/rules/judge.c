/* Reads the names of rule files from standard input, loads each file, and prints a line for it: the
 * ids of its errors, and the ids of its warnings, each with a ? before it. Used by
 * schema_test.py. */
#include <stdio.h>
#include <string.h>

#include <weir/rules.h>

int main(void)
{
	char path[4096];

	while (fgets(path, sizeof path, stdin)) {
		struct weir_errors errors = {.size = sizeof errors};
		struct weir_rules *rules = NULL;

		path[strcspn(path, "\n")] = '\0';
		if (weir_rules_load(path, &rules, &errors) == 0)
			weir_rules_free(rules);
		for (size_t i = 0; i < errors.count; i++)
			printf("%s%s ", errors.items[i].severity == WEIR_ERROR ? "" : "?",
			       errors.items[i].id);
		putchar('\n');
		weir_errors_free(&errors);
	}
	return 0;
}
