/* Writes the line of weir top about deferred requests, if there is a queue. */
#include "cli/client/client.h"
#include "cli/watch/top.h"

void wr_cli_top_put_queue(const struct wr_watch *watch, const char *dot,
			  struct wr_cli_top_page *page)
{
	int64_t depth = wr_watch_gauge(watch, WEIR_GAUGE_QUEUE_DEPTH);
	int64_t oldest_us = wr_watch_gauge(watch, WEIR_GAUGE_QUEUE_OLDEST_US);
	int64_t dead = wr_watch_gauge(watch, WEIR_GAUGE_QUEUE_DEAD);
	char age[WR_CLIENT_SPAN];

	if (depth < 0)
		return;
	wr_cli_top_put(page, "queue      %lld waiting", (long long)depth);
	if (depth > 0 && oldest_us >= 0)
		wr_cli_top_put(page, ", the oldest for %s",
			       wr_client_span((double)oldest_us / 1e6, age));
	wr_cli_top_put(page, " %s %lld being delivered", dot,
		       (long long)wr_watch_gauge(watch, WEIR_GAUGE_QUEUE_SENDING));
	if (dead > 0)
		wr_cli_top_put(page, " %s %lld dead", dot, (long long)dead);
	if (wr_watch_gauge(watch, WEIR_GAUGE_QUEUE_TARGET_UP) == 0)
		wr_cli_top_put(page, " %s the API server is unreachable", dot);
	wr_cli_top_end_line(page);
}
