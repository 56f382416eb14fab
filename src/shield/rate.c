/* Reads the rate of --limit; see rate.h. */
#include "shield/rate.h"

#include "base/str.h"

int wr_nft_rate_parse(struct weir_str text, struct wr_nft_rate *rate)
{
	static const char *const units[] = {"second", "minute", "hour", "day"};
	size_t slash = wr_str_find(text, '/');
	struct weir_str unit;
	uint32_t count = 0;

	if (slash == 0 || slash >= text.len)
		return -1;
	for (size_t i = 0; i < slash; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return -1;
		count = count * 10 + (uint32_t)(text.ptr[i] - '0');
		if (count > WR_NFT_RATE_MAX)
			return -1;
	}
	unit = wr_str_from(text, slash + 1);
	for (size_t i = 0; count && i < sizeof units / sizeof *units; i++)
		if (wr_str_equal(unit, wr_str(units[i]))) {
			*rate = (struct wr_nft_rate){count, units[i]};
			return 0;
		}
	return -1;
}
