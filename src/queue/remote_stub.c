#include "base/error.h"
#include "queue/store.h"
int wr_remote_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
		  struct wr_store **made, struct weir_error *error)
{
	(void)opts;
	(void)seals;
	(void)made;
	return wr_error(error, WEIR_EINVAL, "not yet");
}
