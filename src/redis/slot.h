/* Computes the slot of a key in Redis Cluster: CRC-16/XMODEM modulo 16384. If the key contains a
 * hash tag, which is {…} with at least one byte inside, only the bytes inside the braces are
 * hashed. */
#ifndef WR_REDIS_SLOT_H
#define WR_REDIS_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define WR_REDIS_SLOTS 16384u

uint16_t wr_redis_slot_of(const void *key, size_t len);

#endif
