#include "cli/cli.h"

#include <stdio.h>

int wr_json_print(json_t *json, int exit_code)
{
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(json);
	return exit_code;
}
