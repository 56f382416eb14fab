/* Hosts and gauges in the table. A host entry has the state of a process with an engine. A gauge is
 * a value that the service sets. Weir's commands and the admin API read host entries and gauges. */
#include "stats/stats.h"

#include <stddef.h>
#include <string.h>

#include "stats/owner.h"

#define READ_TRIES 8

_Static_assert(offsetof(struct wr_stats_host_report, name) ==
		       sizeof((struct wr_stats_host){0}.words),
	       "the numbers of a report are copied to `words` as they are");

static void write_words(uint64_t *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t word;

		memcpy(&word, (const char *)from + i * 8, 8);
		wr_stats_store(&to[i], word);
	}
}

static void read_words(void *to, const uint64_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t word = wr_stats_load(&from[i]);

		memcpy((char *)to + i * 8, &word, 8);
	}
}

/* `writes` is odd while an owner writes the entry, and stays odd if that owner dies. The next write
 * makes `writes` even again. */
void wr_stats_write_host(struct wr_stats_host *host, const struct wr_stats_host_report *report)
{
	uint64_t writes = wr_stats_load(&host->writes) | 1;

	wr_stats_store(&host->writes, writes);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	write_words(host->words, report, sizeof host->words);
	write_words(host->name, report->name, sizeof report->name);
	write_words(host->error, report->error, sizeof report->error);
	/* Release: paired with the acquire load of `writes` in read_host(). A reader that sees this
	 * even value also sees the fields that were written before. */
	__atomic_store_n(&host->writes, writes + 1, __ATOMIC_RELEASE);
}

/* Copies the entry. Returns false if the owner of the entry changed it at each try. */
static bool read_host(const struct wr_stats_host *host, struct wr_stats_host_report *report)
{
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t writes = __atomic_load_n(&host->writes, __ATOMIC_ACQUIRE);

		read_words(report, host->words, sizeof host->words);
		read_words(report->name, host->name, sizeof report->name);
		read_words(report->error, host->error, sizeof report->error);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (!(writes & 1) && wr_stats_load(&host->writes) == writes) {
			report->name[WR_HOST_NAME - 1] = '\0';
			report->error[WR_HOST_ERROR - 1] = '\0';
			return true;
		}
	}
	return false;
}

int weir_hosts_each(struct weir_table *table, weir_host_fn fn, void *context)
{
	struct wr_stats_map map;
	struct wr_pair self;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	self = wr_stats_owner_self();
	for (uint32_t i = 0; i < map.history.host_count && rc == 0; i++) {
		struct wr_stats_host *at = &map.history.hosts[i];
		struct wr_pair owner = wr_pair_load(&at->owner);
		struct wr_stats_host_report report;

		if (owner.lo == 0 || !read_host(at, &report))
			continue;
		rc = fn(context, &(struct weir_host){
					 .size = sizeof(struct weir_host),
					 .pid = wr_stats_owner_pid(owner),
					 .alive = !wr_stats_owner_is_dead(owner, self),
					 .name = {report.name, strlen(report.name)},
					 .rules_hash = report.rules_hash,
					 .generation = report.generation,
					 .loaded_ns = report.loaded_ns,
					 .loads_good = report.loads_good,
					 .loads_failed = report.loads_failed,
					 .failed_ns = report.failed_ns,
					 .error = {report.error, strlen(report.error)},
				 });
	}
	return rc;
}

static const struct {
	const char *name, *what;
} gauges[] = {
#define GAUGE(number, name, what) [number] = {(name), (what)},
	WEIR_GAUGES(GAUGE)
#undef GAUGE
};

int weir_gauge_set(struct weir_table *table, enum weir_gauge_name gauge, int64_t value,
		   uint64_t now_ns)
{
	struct wr_stats_map map;
	struct wr_stats_gauge *at;

	if (!table || gauge >= WEIR_GAUGE_COUNT)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	at = &map.history.header->gauges[gauge];
	__atomic_store_n(&at->value, value, __ATOMIC_RELAXED);
	/* Release: paired with the acquire load in weir_gauges_each(). A reader that sees set_ns
	 * also sees the value. */
	__atomic_store_n(&at->set_ns, now_ns ? now_ns : 1, __ATOMIC_RELEASE);
	return 0;
}

int weir_gauges_each(struct weir_table *table, weir_gauge_fn fn, void *context)
{
	struct wr_stats_map map;
	int rc = 0;

	if (!table || !fn)
		return WEIR_EINVAL;
	if (!wr_stats_map(table, &map))
		return WEIR_ELAYOUT;
	for (unsigned i = 0; i < WEIR_GAUGE_COUNT && rc == 0; i++) {
		const struct wr_stats_gauge *at = &map.history.header->gauges[i];
		struct weir_gauge gauge = {.size = sizeof gauge,
					   .number = i,
					   .name = gauges[i].name,
					   .what = gauges[i].what,
					   .set_ns =
						   __atomic_load_n(&at->set_ns, __ATOMIC_ACQUIRE)};

		if (gauge.set_ns == 0)
			continue;
		gauge.value = __atomic_load_n(&at->value, __ATOMIC_RELAXED);
		rc = fn(context, &gauge);
	}
	return rc;
}
