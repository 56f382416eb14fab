/* Scans the table for metrics, status and warnings. The information that a scan returns is reused
 * for a while. Called by the admin API and open.c. */
#include "base/assert.h"
#include "base/clock.h"
#include "serve/service.h"

#define FRESH_NS WR_SECOND_NS /* the result of a scan is reused for at least this time */
/* The result of a scan is reused for 20 times the duration of the scan, so scans use at most 1/20
 * of a CPU core. */
#define SHARE 20u

/* Copies the result of the latest scan of the table to *info. Copies nothing and returns false in
 * two cases: the scanned table was that of another core, or `fresh` is set and the scan is too old
 * to be reused. */
static bool copy_last(struct wr_serve_table_info *last, const struct wr_core *core, bool fresh,
		      struct weir_info *info)
{
	uint64_t reuse_ns;
	bool good;

	pthread_mutex_lock(&last->lock);
	reuse_ns = last->took_ns * SHARE;
	reuse_ns = reuse_ns > FRESH_NS ? reuse_ns : FRESH_NS;
	good = last->core == core && (!fresh || wr_clock_mono_ns() - last->at_ns < reuse_ns);
	if (good)
		*info = last->info;
	pthread_mutex_unlock(&last->lock);
	return good;
}

static int scan_table(struct wr_serve_table_info *last, struct wr_core *core, uint64_t now_ns,
		      struct weir_info *info)
{
	uint64_t begun_ns = wr_clock_mono_ns(), ended_ns;
	int rc;

	*info = (struct weir_info){.size = sizeof *info};
	rc = weir_info(core->table, now_ns, info);
	if (rc < 0)
		return rc;
	ended_ns = wr_clock_mono_ns();
	pthread_mutex_lock(&last->lock);
	last->core = core;
	last->at_ns = ended_ns;
	last->took_ns = ended_ns - begun_ns;
	last->info = *info;
	pthread_mutex_unlock(&last->lock);
	return 0;
}

int wr_service_table_info(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info)
{
	struct wr_serve_table_info *last = &service->table_info;
	int rc = 0;

	wr_assert(core);
	if (copy_last(last, core, true, info))
		return 0;
	if (pthread_mutex_trylock(&last->reader) != 0) {
		/* Another thread is scanning the table. Return the result of the previous scan, if
		 * it was a scan of this core's table. */
		if (copy_last(last, core, false, info))
			return 0;
		pthread_mutex_lock(&last->reader);
	}
	if (!copy_last(last, core, true, info))
		rc = scan_table(last, core, now_ns, info);
	pthread_mutex_unlock(&last->reader);
	return rc;
}

void wr_service_forget_table_info(struct wr_service *service)
{
	pthread_mutex_lock(&service->table_info.lock);
	service->table_info.core = NULL;
	pthread_mutex_unlock(&service->table_info.lock);
}
