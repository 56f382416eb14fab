/* Assigns lanes and host entries to threads and processes. A lane is free if it has no owner, or if
 * its owner is dead. Called by the first decision of a thread. */
#include "stats/stats.h"

#include <pthread.h>
#include <string.h>

#include "base/assert.h"
#include "stats/owner.h"

__attribute__((tls_model(
	"initial-exec"))) _Thread_local struct wr_stats_thread_lanes wr_stats_thread_lanes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the variables below */
static struct wr_stats *open_stats;
static uint64_t last_serial;
/* Number of calls of claim_owner(). It is a part of the owner word (owner.h), and makes each owner
 * word unique. */
static uint32_t claims;
static struct wr_pair self;   /* owner word of this process; lo is 0 until it is computed */
static pthread_key_t at_exit; /* releases the lanes of a thread that ends */
static pthread_once_t set_up = PTHREAD_ONCE_INIT;

/* Makes this process the owner of an entry that has no owner. If `from_dead` is true, also takes
 * over an entry whose owner is dead. Returns whether this process is the owner now. The
 * compare-and-swap is a barrier, so the counts of the previous owner are visible. Called with the
 * lock held. */
static bool claim_owner(struct wr_pair *owner, bool from_dead)
{
	struct wr_pair seen = wr_pair_load(owner);
	struct wr_pair mine = {self.lo | ++claims, self.hi};

	if (seen.lo != 0 && !(from_dead && wr_stats_owner_is_dead(seen, self)))
		return false;
	return wr_pair_cas(owner, &seen, mine);
}

/* Raises lanes_used to `lane`, if it is lower. lanes_used is the highest number of a lane that ever
 * had an owner. Readers skip the lanes with higher numbers. */
static void raise_used(const struct wr_stats_map *map, unsigned lane)
{
	uint32_t *used = &map->header->lanes_used;
	uint32_t seen = __atomic_load_n(used, __ATOMIC_RELAXED);

	while (seen < lane && !__atomic_compare_exchange_n(used, &seen, lane, true,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Claims a lane without an owner or, if every lane has an owner, a lane whose owner is dead.
 * Returns the number of the lane, or 0 if no lane could be claimed. */
static unsigned find_lane(const struct wr_stats_map *map)
{
	for (int from_dead = 0; from_dead < 2; from_dead++)
		for (unsigned lane = 1; lane < WR_LANES; lane++)
			if (claim_owner(&map->owners[lane], from_dead)) {
				raise_used(map, lane);
				return lane;
			}
	return 0;
}

/* Claims a host entry for a process that decides. Called with the lock held. */
static void become_host(struct wr_stats *stats)
{
	struct wr_history_map *history = &stats->map.history;

	for (int from_dead = 0; from_dead < 2 && !stats->host; from_dead++)
		for (uint32_t i = 0; i < history->host_count && !stats->host; i++)
			if (claim_owner(&history->hosts[i].owner, from_dead))
				stats->host = &history->hosts[i];
	if (stats->host)
		wr_stats_write_host(stats->host, &stats->report);
}

void wr_stats_report_host(struct wr_stats *stats, const struct wr_stats_host_report *report)
{
	wr_assert(stats->serial);
	pthread_mutex_lock(&lock);
	stats->report = *report;
	if (stats->host)
		wr_stats_write_host(stats->host, report);
	pthread_mutex_unlock(&lock);
}

static void release_owner(struct wr_pair *owner)
{
	struct wr_pair seen = wr_pair_load(owner);

	wr_pair_cas(owner, &seen, (struct wr_pair){0, 0});
}

static void release_lane(struct wr_stats *stats, unsigned lane)
{
	stats->lanes &= ~(1ull << lane);
	release_owner(&stats->map.owners[lane]);
}

static void leave_lane(struct wr_lane *lane)
{
	struct wr_stats *stats = open_stats;

	while (stats && stats->serial != lane->serial)
		stats = stats->next;
	if (stats && lane->index)
		release_lane(stats, lane->number);
	*lane = (struct wr_lane){0};
}

static void release_thread_lanes(void *lanes)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < WR_STATS_LANES_PER_THREAD; i++)
		leave_lane(&((struct wr_stats_thread_lanes *)lanes)->lane[i]);
	pthread_mutex_unlock(&lock);
}

/* A forked child starts without lanes, because the lanes in its memory belong to the parent. */
static void lock_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void reset_in_child(void)
{
	memset(&wr_stats_thread_lanes, 0, sizeof wr_stats_thread_lanes);
	self.lo = 0;
	for (struct wr_stats *stats = open_stats; stats; stats = stats->next) {
		stats->lanes = 0;
		stats->host = NULL;
	}
	pthread_mutex_unlock(&lock);
}

static void set_up_once(void)
{
	pthread_key_create(&at_exit, release_thread_lanes);
	pthread_atfork(lock_before_fork, unlock_after_fork, reset_in_child);
}

/* Deletes the pthread key `at_exit` when libweir is unloaded. Otherwise a thread that ends later
 * would call release_thread_lanes(), which is unloaded too. */
__attribute__((destructor)) static void delete_thread_key(void)
{
	if (last_serial)
		pthread_key_delete(at_exit);
}

/* A thread has an array of struct wr_lane. Returns the element that belongs to the handle. If there
 * is none, returns an unused element. If all elements belong to other handles, returns one of these
 * elements, each time the next of the array. The first handle of a thread gets the first element,
 * which wr_lane_mine() finds without calling this function. */
static struct wr_lane *choose_thread_lane(const struct wr_stats *stats)
{
	for (unsigned i = 0; i < WR_STATS_LANES_PER_THREAD; i++)
		if (wr_stats_thread_lanes.lane[i].serial == stats->serial)
			return &wr_stats_thread_lanes.lane[i];
	for (unsigned i = 0; i < WR_STATS_LANES_PER_THREAD; i++)
		if (wr_stats_thread_lanes.lane[i].serial == 0)
			return &wr_stats_thread_lanes.lane[i];
	wr_stats_thread_lanes.next = (wr_stats_thread_lanes.next + 1) % WR_STATS_LANES_PER_THREAD;
	return &wr_stats_thread_lanes.lane[wr_stats_thread_lanes.next];
}

struct wr_lane *wr_lane_claim(struct wr_stats *stats)
{
	struct wr_lane *lane = choose_thread_lane(stats);
	unsigned number;

	if (lane->serial == stats->serial)
		return lane;
	pthread_mutex_lock(&lock);
	leave_lane(lane);
	if (self.lo == 0)
		self = wr_stats_owner_self();
	if (stats->usable && !stats->host)
		become_host(stats);
	number = stats->usable ? find_lane(&stats->map) : 0;
	*lane = (struct wr_lane){.serial = stats->serial,
				 .map = stats->usable ? &stats->map : NULL,
				 .random = (self.lo | claims) * 0x9e3779b97f4a7c15u,
				 .number = number};
	if (number) {
		lane->index = stats->map.index + (size_t)(number - 1) * stats->map.name_count;
		stats->lanes |= 1ull << number;
	}
	pthread_mutex_unlock(&lock);
	pthread_setspecific(at_exit, &wr_stats_thread_lanes);
	return lane;
}

/* Allocates a line (eight counters) for a rule that this lane counts for the first time. Returns 0
 * if all lines are in use. If the process dies before it stores the line in the index, the line is
 * lost: 64 bytes. */
static uint16_t new_line(const struct wr_lane *lane, uint32_t slot)
{
	uint32_t *next = &lane->map->header->next_line;
	uint32_t line = __atomic_load_n(next, __ATOMIC_RELAXED) + 1;

	if (line >= lane->map->line_count)
		return 0;
	line = __atomic_add_fetch(next, 1, __ATOMIC_RELAXED);
	if (line >= lane->map->line_count)
		return 0;
	/* Release: paired with the acquire load in wr_stats_read(), which reads the line (eight
	 * counters) as soon as it sees this number. */
	__atomic_store_n(&lane->index[slot], (uint16_t)line, __ATOMIC_RELEASE);
	return (uint16_t)line;
}

void wr_stat_add_slow(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n)
{
	wr_assert(what < WR_STAT_COUNT);
	if (lane->index && lane->index[slot] == 0 && new_line(lane, slot))
		wr_stat_add(lane, slot, what, n);
	else if (lane->map && slot < lane->map->name_count)
		__atomic_fetch_add(&lane->map->shared[slot].count[what], n, __ATOMIC_RELAXED);
}

void wr_stats_open(struct wr_stats *stats, const struct weir_table *table)
{
	pthread_once(&set_up, set_up_once);
	*stats = (struct wr_stats){0};
	stats->usable = wr_stats_map(table, &stats->map);
	pthread_mutex_lock(&lock);
	stats->serial = ++last_serial;
	stats->next = open_stats;
	open_stats = stats;
	pthread_mutex_unlock(&lock);
}

void wr_stats_close(struct wr_stats *stats)
{
	struct wr_stats **at = &open_stats;

	wr_assert(stats->serial);
	pthread_mutex_lock(&lock);
	while (*at != stats) {
		wr_assert(*at);
		at = &(*at)->next;
	}
	*at = stats->next;
	for (unsigned lane = 1; lane < WR_LANES; lane++)
		if (stats->lanes >> lane & 1)
			release_lane(stats, lane);
	if (stats->host)
		release_owner(&stats->host->owner);
	stats->host = NULL;
	stats->serial = 0;
	pthread_mutex_unlock(&lock);
}
