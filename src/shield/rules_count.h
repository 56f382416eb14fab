/* Looks for the table `inet weir` in the kernel, and counts its rules. */
#ifndef WR_SHIELD_RULES_COUNT_H
#define WR_SHIELD_RULES_COUNT_H

#include <stdbool.h>

#include <weir/error.h>

/* Sets *count to the number of rules in all chains of the table. Asks the kernel directly, because
 * `nft list` reads all elements. Returns 0, or WEIR_ESYS if the kernel gives no answer. */
int wr_nft_rules_count(unsigned *count, struct weir_error *error);

/* Returns whether the kernel has the table. Returns false if the kernel gives no answer, for example
 * because it does not permit changes of nftables either. */
bool wr_nft_table_exists(void);

#endif
