/* Which of a cluster's 16384 slots a key lives in: CRC-16/XMODEM of the key, or of what is between
 * its first { and the } behind it, if that is not empty. */
#ifndef WR_REDIS_SLOT_H
#define WR_REDIS_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define WR_SLOTS 16384u

uint16_t wr_slot_of(const void *key, size_t len);

#endif
