/* The rate of --limit: new connections per source that the kernel admits. */
#ifndef WR_SHIELD_RATE_H
#define WR_SHIELD_RATE_H

#include <stdint.h>

#include <weir/rules.h>

#define WR_NFT_RATE_MAX 1000000u

struct wr_nft_rate {
	uint32_t count;   /* connections per unit; 0: there is no limit */
	const char *unit; /* "second", "minute", "hour" or "day" */
};

/* Reads a rate such as "100/second". Returns 0, or -1 if the text is not such a rate. */
int wr_nft_rate_parse(struct weir_str text, struct wr_nft_rate *rate);

#endif
