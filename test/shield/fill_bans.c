/* fill-bans DIR COUNT SECONDS: makes a table of 256 MiB in the folder if there is none, and writes
 * COUNT bans of single IPv4 addresses from 11.0.0.0 on. Prints how many the list has room for. Used
 * by the end-to-end suite of weir shield and by bench/shield.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "table/ban.h"

int main(int argc, char **argv)
{
	struct weir_opts opts = {.size = sizeof opts, .memory_bytes = (uint64_t)256 << 20};
	struct weir_error error;
	struct weir_table *table;
	uint32_t now_s = (uint32_t)(wr_clock_wall_ns() / WR_SECOND_NS);
	unsigned long count, written = 0;

	if (argc != 4)
		return 2;
	opts.dir = argv[1];
	count = strtoul(argv[2], NULL, 10);
	if (weir_open(&opts, &table, &error) < 0) {
		fprintf(stderr, "fill-bans: %s\n", error.text);
		return 1;
	}
	for (unsigned long i = 0; i < count; i++) {
		struct wr_ban ban = {
			.since_s = now_s,
			.until_s = now_s + (uint32_t)strtoul(argv[3], NULL, 10),
			.address = {11, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i},
			.family = 4,
			.prefix_bits = 32,
			.flags = WR_BAN_BARE | WR_BAN_SHIELD,
		};

		ban.key = wr_ban_bare_key(table, ban.address, 4, 32);
		written += wr_ban_write(table, &ban, now_s);
	}
	printf("%lu\n", written);
	weir_close(table);
	return 0;
}
