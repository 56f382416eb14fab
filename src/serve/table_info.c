/* Scans the table for metrics, status and warnings. The result of one scan serves all callers for a
 * while. */
#include "base/clock.h"
#include "serve/service.h"

#define FRESH_NS WR_SECOND_NS /* a result is reused for this long */
#define SHARE                                                                                      \
	20u /* results are reused for 20 times their scan's duration: scans use 1/20 of a core */

static bool is_fresh(const struct wr_table_info *last, const struct wr_core *core)
{
	uint64_t wait_ns = last->took_ns * SHARE;

	return last->core == core &&
	       wr_clock_mono_ns() - last->at_ns < (wait_ns > FRESH_NS ? wait_ns : FRESH_NS);
}

/* Copies the last result. Returns false if the result is of another core, or if `fresh` is set and
 * the result is too old to be reused. */
static bool copy_last(struct wr_table_info *last, const struct wr_core *core, bool fresh,
		      struct weir_info *info)
{
	bool good;

	pthread_mutex_lock(&last->lock);
	good = fresh ? is_fresh(last, core) : last->core == core;
	if (good)
		*info = last->info;
	pthread_mutex_unlock(&last->lock);
	return good;
}

static int scan_table(struct wr_table_info *last, struct wr_core *core, uint64_t now_ns,
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
	struct wr_table_info *last = &service->table_info;
	int rc = 0;

	if (copy_last(last, core, true, info))
		return 0;
	if (pthread_mutex_trylock(&last->reader) != 0) {
		/* Another thread is scanning the table, so return an older result if there is
		 * one. */
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
