/* Appends orders to the ring and reads them. Called by the limiter when it bans a key, and by the
 * service, which publishes the orders.
 *
 *   section   number of the next order, then slots of 512 bytes
 *
 * The writer of an order reserves its number, claims the slot by a compare-and-swap of its head,
 * and then writes the bytes. The head contains the number and a checksum, so a half-written order
 * is detected. */
#include "table/ban_order.h"

#include <string.h>

#include "base/assert.h"

#define WORDS (WR_BAN_ORDER_BYTES / 8)

struct ring_head {
	_Alignas(64) uint64_t next; /* number of the next order */
	uint64_t published;         /* see wr_ban_orders_published() */
	/* The place in the fleet's stream; see wr_ban_place_read(). */
	uint64_t place_ms, place_seq, place_fleet;
	uint64_t spare[3];
};

struct ring_slot {
	/* lo: number of the order + 1, or 0 if the slot was never used; hi: length of the order,
	 * and checksum, 32 bits each. */
	struct wr_pair head;
	uint64_t words[WORDS];
	/* How often a reader found an order half written: low 32 bits of the order's number, and
	 * the count, 32 bits each. */
	uint64_t waits;
	uint64_t spare;
};

_Static_assert(sizeof(struct ring_slot) == 512, "eight cache lines");

struct ring {
	struct ring_head *head; /* NULL if the section has no room for a slot */
	struct ring_slot *slots;
	uint64_t count;
};

static struct ring ring_of(const struct weir_table *table)
{
	uint64_t bytes = table->header.sections[WR_SECTION_BAN_ORDERS].bytes;
	uint8_t *at = wr_section(table, WR_SECTION_BAN_ORDERS);
	struct ring ring = {0};

	wr_assert_magic(table, WR_TABLE_MAGIC);
	if (bytes < sizeof *ring.head + sizeof *ring.slots)
		return ring;
	ring.head = (struct ring_head *)at;
	ring.slots = (struct ring_slot *)(at + sizeof *ring.head);
	ring.count = (bytes - sizeof *ring.head) / sizeof *ring.slots;
	return ring;
}

static uint32_t checksum_of(uint64_t number, const uint64_t words[WORDS])
{
	return (uint32_t)XXH3_64bits_withSeed(words, WORDS * sizeof *words, number);
}

/* Writes the order with this number into its slot. */
static void put_order(struct ring ring, uint64_t number, const void *bytes, size_t len)
{
	struct ring_slot *slot = &ring.slots[number % ring.count];
	uint64_t words[WORDS] = {0};
	struct wr_pair seen, head;

	memcpy(words, bytes, len);
	head = (struct wr_pair){number + 1, (uint64_t)len << 32 | checksum_of(number, words)};
	seen = wr_pair_load(&slot->head);
	do
		if (seen.lo > number)
			return; /* a newer order has overwritten this order already */
	while (!wr_pair_cas(&slot->head, &seen, head));
	/* Release: paired with the acquire in copy_order(). */
	for (unsigned i = 0; i < WORDS; i++)
		__atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELEASE);
}

bool wr_ban_order_append(struct weir_table *table, const void *bytes, size_t len)
{
	struct ring ring = ring_of(table);

	if (!ring.head || len > WR_BAN_ORDER_BYTES || len == 0)
		return false;
	/* Release: paired with the acquire in wr_ban_order_end(). */
	put_order(ring, __atomic_fetch_add(&ring.head->next, 1, __ATOMIC_ACQ_REL), bytes, len);
	return true;
}

uint64_t wr_ban_order_end(const struct weir_table *table)
{
	struct ring ring = ring_of(table);

	return ring.head ? __atomic_load_n(&ring.head->next, __ATOMIC_ACQUIRE) : 0;
}

enum copy_result { COPIED, HALF_WRITTEN, OVERWRITTEN };

static enum copy_result copy_order(const struct ring_slot *slot, uint64_t number,
				   uint8_t bytes[WR_BAN_ORDER_BYTES], size_t *len)
{
	struct wr_pair head = wr_pair_load(&slot->head);
	uint64_t words[WORDS];

	if (head.lo > number + 1)
		return OVERWRITTEN;
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_ACQUIRE);
	*len = (size_t)(head.hi >> 32);
	if (head.lo != number + 1 || *len > WR_BAN_ORDER_BYTES || *len == 0 ||
	    (uint32_t)head.hi != checksum_of(number, words))
		return HALF_WRITTEN;
	memcpy(bytes, words, sizeof words);
	return COPIED;
}

/* Counts one more call that found the order half written. Returns true if the order is to be
 * skipped. */
static bool is_given_up(struct ring_slot *slot, uint64_t number)
{
	uint64_t waits = __atomic_load_n(&slot->waits, __ATOMIC_RELAXED);
	uint64_t count = waits >> 32 == (uint32_t)number ? (uint32_t)waits + 1 : 1;

	__atomic_store_n(&slot->waits, number << 32 | (uint32_t)count, __ATOMIC_RELAXED);
	return count >= WR_BAN_ORDER_PATIENCE;
}

size_t wr_ban_order_read(const struct weir_table *table, uint64_t *at, uint64_t *lost,
			 uint8_t bytes[WR_BAN_ORDER_BYTES])
{
	struct ring ring = ring_of(table);
	uint64_t end = wr_ban_order_end(table);
	size_t len;

	if (*at > end)
		*at = end;
	if (end - *at > ring.count) {
		*lost += end - *at - ring.count;
		*at = end - ring.count;
	}
	for (; *at < end; ++*at, ++*lost) {
		struct ring_slot *slot = &ring.slots[*at % ring.count];

		switch (copy_order(slot, *at, bytes, &len)) {
		case COPIED:
			++*at;
			return len;
		case HALF_WRITTEN:
			if (!is_given_up(slot, *at))
				return 0;
			break;
		case OVERWRITTEN:
			break;
		}
	}
	return 0;
}

/* Number of tries to copy an order that another process is writing. */
#define COPY_TRIES 1000u

static bool copy_whole(struct ring ring, uint64_t number, uint8_t bytes[WR_BAN_ORDER_BYTES],
		       size_t *len)
{
	enum copy_result result = HALF_WRITTEN;

	for (unsigned i = 0; i < COPY_TRIES && result == HALF_WRITTEN; i++)
		result = copy_order(&ring.slots[number % ring.count], number, bytes, len);
	return result == COPIED;
}

/* Returns the number of the oldest order in the ring, but at least `at`. */
static uint64_t oldest_from(struct ring ring, uint64_t at, uint64_t end)
{
	uint64_t oldest = end > ring.count ? end - ring.count : 0;

	return at > oldest ? at : oldest;
}

void wr_ban_orders_import(struct weir_table *to, const struct weir_table *from)
{
	struct ring new = ring_of(to), old = ring_of(from);
	uint64_t end = wr_ban_order_end(from), first = wr_ban_orders_published(from);
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	size_t len;

	wr_assert(to != from);
	if (!new.head || !old.head)
		return;
	if (first > end)
		first = end;
	for (uint64_t at = oldest_from(old, first, end); at < end; at++)
		if (copy_whole(old, at, bytes, &len))
			put_order(new, at, bytes, len);
	__atomic_store_n(&new.head->published, first, __ATOMIC_RELEASE);
	__atomic_store_n(&new.head->next, end, __ATOMIC_RELEASE);
}

void wr_ban_orders_hand_over(struct weir_table *to, const struct weir_table *from, uint64_t at)
{
	struct ring old = ring_of(from);
	uint64_t end = wr_ban_order_end(from);
	uint8_t bytes[WR_BAN_ORDER_BYTES];
	size_t len;

	wr_assert(to != from);
	if (!old.head)
		return;
	for (at = oldest_from(old, at, end); at < end; at++)
		if (copy_whole(old, at, bytes, &len))
			wr_ban_order_append(to, bytes, len);
}

uint64_t wr_ban_orders_room(const struct weir_table *table)
{
	return ring_of(table).count;
}

uint64_t wr_ban_orders_published(const struct weir_table *table)
{
	struct ring ring = ring_of(table);

	return ring.head ? __atomic_load_n(&ring.head->published, __ATOMIC_ACQUIRE) : 0;
}

void wr_ban_orders_set_published(struct weir_table *table, uint64_t at)
{
	struct ring ring = ring_of(table);
	uint64_t seen = wr_ban_orders_published(table);

	while (ring.head && seen < at &&
	       !__atomic_compare_exchange_n(&ring.head->published, &seen, at, true,
					    __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		;
}

struct wr_ban_place wr_ban_place_read(const struct weir_table *table)
{
	struct ring ring = ring_of(table);
	struct wr_ban_place place = {0};

	if (!ring.head)
		return place;
	/* Acquire: paired with the release in wr_ban_place_write(). */
	place.fleet = __atomic_load_n(&ring.head->place_fleet, __ATOMIC_ACQUIRE);
	place.ms = __atomic_load_n(&ring.head->place_ms, __ATOMIC_RELAXED);
	place.seq = __atomic_load_n(&ring.head->place_seq, __ATOMIC_RELAXED);
	return place;
}

/* The fleet is erased first and written last, so that a half-written place is of no fleet. */
void wr_ban_place_write(struct weir_table *table, struct wr_ban_place place)
{
	struct ring ring = ring_of(table);

	if (!ring.head)
		return;
	__atomic_store_n(&ring.head->place_fleet, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ring.head->place_ms, place.ms, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ring.head->place_seq, place.seq, __ATOMIC_SEQ_CST);
	__atomic_store_n(&ring.head->place_fleet, place.fleet, __ATOMIC_RELEASE);
}
