/* Prints the reader's table of keys, "PLACE KEY" a line, for the test of the schema. */
#include <stdio.h>

#include "rules/keys.h"

int main(void)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} places[] = {
#define PLACE(name, bit, text) {#name, bit},
		WR_PLACES(PLACE)
#undef PLACE
	};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		for (int key = 0; key < WR_KEY_COUNT; key++)
			if (wr_keys[key].places & places[i].bit)
				printf("%s %s\n", places[i].name, wr_keys[key].name.ptr);
	return 0;
}
