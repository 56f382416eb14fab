/* libnftables: runs commands, and reads the counter. */
#ifndef WR_SHIELD_NFT_H
#define WR_SHIELD_NFT_H

#include <stdint.h>

#include <weir/error.h>

struct nft_ctx;

/* Opens libnftables and its netlink socket. Returns 0, or an error: the kernel has no netfilter, or
 * there is no memory. The caller closes it with wr_nft_close(). */
int wr_nft_open(struct nft_ctx **nft, struct weir_error *error);
void wr_nft_close(struct nft_ctx *nft);

/* Runs commands as one transaction: all of them take effect, or none. Returns 0, or WEIR_EACCESS
 * without the right, or WEIR_ESYS; the error has the first line of nftables' message. */
int wr_nft_run(struct nft_ctx *nft, const char *commands, struct weir_error *error);

/* Reads the counter of dropped packets, sets it to 0, and adds the numbers to *packets and *bytes.
 * Returns 0, or an error if the table does not exist. */
int wr_nft_count(uint64_t *packets, uint64_t *bytes, struct weir_error *error);

#endif
