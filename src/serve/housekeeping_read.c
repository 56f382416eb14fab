/* What the table holds, for all who ask: read once, and told to everybody for a while. */
#include <time.h>

#include "serve/service.h"

#define YOUNG_NS 1000000000u /* a reading of this age will do */
#define SHARE 20u /* … or of so many times what it took: at most a twentieth of a core */

static uint64_t mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool is_young(const struct wr_reading *reading, const struct wr_core *core)
{
	uint64_t wait_ns = reading->took_ns * SHARE;

	return reading->core == core &&
	       mono_ns() - reading->at_ns < (wait_ns > YOUNG_NS ? wait_ns : YOUNG_NS);
}

/* Any reading of this core will do while somebody else takes a new one. */
static bool recall(struct wr_reading *reading, const struct wr_core *core, bool young,
		   struct weir_info *info)
{
	bool good;

	pthread_mutex_lock(&reading->lock);
	good = young ? is_young(reading, core) : reading->core == core;
	if (good)
		*info = reading->info;
	pthread_mutex_unlock(&reading->lock);
	return good;
}

static int take(struct wr_reading *reading, struct wr_core *core, uint64_t now_ns,
		struct weir_info *info)
{
	uint64_t begun_ns = mono_ns(), ended_ns;
	int rc;

	*info = (struct weir_info){.size = sizeof *info};
	rc = weir_info(core->table, now_ns, info);
	if (rc < 0)
		return rc;
	ended_ns = mono_ns();
	pthread_mutex_lock(&reading->lock);
	reading->core = core;
	reading->at_ns = ended_ns;
	reading->took_ns = ended_ns - begun_ns;
	reading->info = *info;
	pthread_mutex_unlock(&reading->lock);
	return 0;
}

int wr_service_read_table(struct wr_service *service, struct wr_core *core, uint64_t now_ns,
			  struct weir_info *info)
{
	struct wr_reading *reading = &service->reading;
	int rc = 0;

	if (recall(reading, core, true, info))
		return 0;
	if (pthread_mutex_trylock(&reading->reader) != 0) {
		if (recall(reading, core, false, info))
			return 0;
		pthread_mutex_lock(&reading->reader);
	}
	if (!recall(reading, core, true, info))
		rc = take(reading, core, now_ns, info);
	pthread_mutex_unlock(&reading->reader);
	return rc;
}

void wr_service_forget_reading(struct wr_service *service)
{
	pthread_mutex_lock(&service->reading.lock);
	service->reading.core = NULL;
	pthread_mutex_unlock(&service->reading.lock);
}
