/* Who writes which lane. A lane is free when it has no owner or a dead one. */
#include "stats/stats.h"

#include <pthread.h>
#include <string.h>

#include "stats/owner.h"

__attribute__((tls_model("initial-exec"))) _Thread_local struct wr_seats wr_seats;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct wr_stats *open_stats;
static uint64_t last_serial;
static uint32_t claims;       /* makes each owner word one of its own */
static struct wr_pair self;   /* lo: this process; hi: its start and namespace; 0: not known */
static pthread_key_t at_exit; /* of a thread */
static pthread_once_t set_up = PTHREAD_ONCE_INIT;

/* Takes a lane that nobody has, or that a dead process had. The swap's barrier makes the last
 * owner's counts visible. */
static bool claim(struct wr_pair *owner, bool from_dead)
{
	struct wr_pair seen = wr_pair_load(owner);
	struct wr_pair mine = {self.lo | ++claims, self.hi};

	if (seen.lo != 0 && !(from_dead && wr_owner_is_dead(seen, self)))
		return false;
	return wr_pair_cas(owner, &seen, mine);
}

/* Readers look no further than the last lane that was ever used. */
static void raise_used(const struct wr_stats_map *map, unsigned lane)
{
	uint32_t *used = &map->header->lanes_used;
	uint32_t seen = __atomic_load_n(used, __ATOMIC_RELAXED);

	while (seen < lane && !__atomic_compare_exchange_n(used, &seen, lane, true,
							   __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static unsigned find_lane(const struct wr_stats_map *map)
{
	for (int from_dead = 0; from_dead < 2; from_dead++)
		for (unsigned lane = 1; lane < WR_LANES; lane++)
			if (claim(&map->owners[lane], from_dead)) {
				raise_used(map, lane);
				return lane;
			}
	return 0;
}

/* A process is a host of the table once it decides. The lock is held. */
static void become_host(struct wr_stats *stats)
{
	struct wr_history_map *history = &stats->map.history;

	for (int from_dead = 0; from_dead < 2 && !stats->host; from_dead++)
		for (uint32_t i = 0; i < history->host_count && !stats->host; i++)
			if (claim(&history->hosts[i].owner, from_dead))
				stats->host = &history->hosts[i];
	if (stats->host)
		wr_host_write(stats->host, &stats->news);
}

void wr_host_tell(struct wr_stats *stats, const struct wr_host_news *news)
{
	pthread_mutex_lock(&lock);
	stats->news = *news;
	if (stats->host)
		wr_host_write(stats->host, news);
	pthread_mutex_unlock(&lock);
}

static void give_up(struct wr_pair *owner)
{
	struct wr_pair seen = wr_pair_load(owner);

	wr_pair_cas(owner, &seen, (struct wr_pair){0, 0});
}

static void release(struct wr_stats *stats, unsigned lane)
{
	stats->lanes &= ~(1ull << lane);
	give_up(&stats->map.owners[lane]);
}

static void leave(struct wr_lane *lane)
{
	struct wr_stats *stats = open_stats;

	while (stats && stats->serial != lane->serial)
		stats = stats->next;
	if (stats && lane->index)
		release(stats, lane->number);
	*lane = (struct wr_lane){0};
}

static void thread_ends(void *seats)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < WR_SEATS; i++)
		leave(&((struct wr_seats *)seats)->lane[i]);
	pthread_mutex_unlock(&lock);
}

/* A child begins without lanes: those it knows of are its parent's. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	memset(&wr_seats, 0, sizeof wr_seats);
	self.lo = 0;
	for (struct wr_stats *stats = open_stats; stats; stats = stats->next) {
		stats->lanes = 0;
		stats->host = NULL;
	}
	pthread_mutex_unlock(&lock);
}

static void set_up_once(void)
{
	pthread_key_create(&at_exit, thread_ends);
	pthread_atfork(before_fork, after_fork, in_child);
}

/* libweir may be unloaded before a thread ends. */
__attribute__((destructor)) static void unload(void)
{
	if (last_serial)
		pthread_key_delete(at_exit);
}

/* The seat to sit down on: this handle's, a free one, or the one that was taken longest ago. The
 * thread's usual handle stands first, where wr_lane_mine looks. */
static struct wr_lane *seat_for(const struct wr_stats *stats)
{
	for (unsigned i = 0; i < WR_SEATS; i++)
		if (wr_seats.lane[i].serial == stats->serial)
			return &wr_seats.lane[i];
	for (unsigned i = 0; i < WR_SEATS; i++)
		if (wr_seats.lane[i].serial == 0)
			return &wr_seats.lane[i];
	wr_seats.next = (wr_seats.next + 1) % WR_SEATS;
	return &wr_seats.lane[wr_seats.next];
}

struct wr_lane *wr_lane_claim(struct wr_stats *stats)
{
	struct wr_lane *lane = seat_for(stats);
	unsigned number;

	if (lane->serial == stats->serial)
		return lane;
	pthread_mutex_lock(&lock);
	leave(lane);
	if (self.lo == 0)
		self = wr_owner_self();
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
	pthread_setspecific(at_exit, &wr_seats);
	return lane;
}

/* A line for a rule this lane has not met yet. One that was handed out and not entered, because its
 * taker died in between, is lost: 64 bytes. */
static uint16_t new_line(const struct wr_lane *lane, uint32_t slot)
{
	uint32_t *next = &lane->map->header->next_line;
	uint32_t line = __atomic_load_n(next, __ATOMIC_RELAXED) + 1;

	if (line >= lane->map->line_count)
		return 0;
	line = __atomic_add_fetch(next, 1, __ATOMIC_RELAXED);
	if (line >= lane->map->line_count)
		return 0;
	/* Paired with the load in add_all_lanes. */
	__atomic_store_n(&lane->index[slot], (uint16_t)line, __ATOMIC_RELEASE);
	return (uint16_t)line;
}

void wr_stat_add_slowly(struct wr_lane *lane, uint32_t slot, enum wr_stat what, uint64_t n)
{
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

	pthread_mutex_lock(&lock);
	while (*at != stats)
		at = &(*at)->next;
	*at = stats->next;
	for (unsigned lane = 1; lane < WR_LANES; lane++)
		if (stats->lanes >> lane & 1)
			release(stats, lane);
	if (stats->host)
		give_up(&stats->host->owner);
	stats->host = NULL;
	stats->serial = 0;
	pthread_mutex_unlock(&lock);
}
