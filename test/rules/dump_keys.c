/* Prints the table of keys in rules/keys.h, one line "MAP KEY" for each, for schema_test.py. */
#include <stdio.h>

#include "rules/keys.h"

int main(void)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} maps[] = {
#define MAP_KIND(name, bit, text) {#name, bit},
		WR_RULES_MAPS(MAP_KIND)
#undef MAP_KIND
	};

	for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
		for (int key = 0; key < WR_KEY_COUNT; key++)
			if (wr_keys[key].maps & maps[i].bit)
				printf("%s %s\n", maps[i].name, wr_keys[key].name.ptr);
	return 0;
}
