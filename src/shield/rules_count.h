/* Looks for the table `inet weir` in the kernel, reads its owner, and counts its rules. Changes
 * nothing. */
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

/* Returns the process id in the comment of the table's counter `owner`. Returns 0 if there is no
 * table, or no such counter, or if the kernel gives no answer. */
long wr_nft_owner(void);

#endif
