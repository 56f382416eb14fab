/* Writes the lines of weir top above the rules: processes, table, totals, Redis, queue. */
#include <string.h>
#include <time.h>

#include "cli/client/client.h"
#include "cli/show.h"
#include "cli/watch/top.h"
#include "stats/words.h"

static void put_hosts(const struct wr_cli_watch *watch, struct wr_buf *page)
{
	bool counted[WR_WATCH_HOSTS] = {false};

	wr_buf_printf(page, "%zu process%s", watch->host_count, watch->host_count == 1 ? "" : "es");
	for (size_t i = 0; i < watch->host_count; i++) {
		size_t alike = 0;

		for (size_t k = i; k < watch->host_count && !counted[i]; k++)
			if (strcmp(watch->hosts[i].name, watch->hosts[k].name) == 0) {
				alike++;
				counted[k] = k > i;
			}
		if (alike)
			wr_buf_printf(page, "%s%s %zu", i ? ", " : ": ", watch->hosts[i].name,
				      alike);
	}
}

/* Writes warnings about processes whose rules differ from those of the first process, or whose
 * latest load of rules failed. */
static void put_warnings(const struct wr_cli_watch *watch, struct wr_buf *page)
{
	size_t other = 0, failed = 0;

	for (size_t i = 0; i < watch->host_count; i++) {
		other += watch->hosts[i].rules_hash != watch->hosts[0].rules_hash;
		failed += watch->hosts[i].failed;
	}
	if (other) {
		wr_buf_printf(page, "! the processes on this table do not have the same rules");
		wr_buf_add_char(page, '\n');
	}
	if (failed) {
		wr_buf_printf(page, "! %zu of them could not load the present rules", failed);
		wr_buf_add_char(page, '\n');
	}
}

static void put_table(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_buf *page)
{
	const struct weir_info *info = &watch->info;
	char keys[WR_NUMBER_WORDS], cells[WR_NUMBER_WORDS], refused[WR_NUMBER_WORDS],
		lost[WR_NUMBER_WORDS];
	uint64_t mille = info->cells ? info->keys * 1000 / info->cells : 0;

	wr_number_words(info->keys, keys);
	wr_number_words(info->cells, cells);
	wr_number_words(info->keys_refused, refused);
	wr_number_words(info->evicted + info->evicted_refused, lost);
	wr_buf_printf(
		page,
		"table      %s of %s keys, %llu.%llu %% full, %s over their limit %s %s evicted",
		keys, cells, (unsigned long long)(mille / 10), (unsigned long long)(mille % 10),
		refused, wr_cli_top_dot(look), lost);
	wr_buf_add_char(page, '\n');
}

static void put_totals(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		       struct wr_buf *page)
{
	uint64_t all[WR_WATCH_POINTS], refused[WR_WATCH_POINTS], all_milli = 0, refused_milli = 0;
	char a[WR_SHOW_RATE], b[WR_SHOW_RATE];

	for (size_t i = 0; i < watch->rule_count; i++) {
		all_milli += watch->rules[i].rate.all_milli;
		refused_milli += watch->rules[i].rate.refused_milli;
	}
	wr_cli_show_rate(all_milli, a);
	wr_cli_show_rate(refused_milli, b);
	wr_cli_top_minute(watch, WEIR_STAT_ALL, all, refused);
	wr_buf_printf(page, "decisions  %s/s ", a);
	wr_cli_top_put_bars(page, look, all);
	wr_buf_printf(page, "  refused %s/s ", b);
	wr_cli_top_put_bars(page, look, refused);
	if (watch->latency.count)
		wr_buf_printf(page, "  took %.1f %ss, 99 %% below %.1f",
			      (double)wr_cli_watch_quantile_ns(&watch->latency, 50) / 1000,
			      look->utf8 ? "µ" : "u",
			      (double)wr_cli_watch_quantile_ns(&watch->latency, 99) / 1000);
	wr_buf_add_char(page, '\n');
}

/* Writes the number of requests that no rule decided. The rows of rules below do not include these
 * requests. */
static void put_ruleless(const struct wr_cli_watch *watch, struct wr_buf *page)
{
	uint64_t none = watch->own[WEIR_STAT_NO_RULE].admitted;
	uint64_t domain = watch->own[WEIR_STAT_NO_DOMAIN].admitted;
	char words[WR_NUMBER_WORDS];

	if (none == 0 && domain == 0)
		return;
	wr_number_words(none, words);
	wr_buf_printf(page, "no rule    %s request%s matched no rule", words, none == 1 ? "" : "s");
	wr_number_words(domain, words);
	if (domain)
		wr_buf_printf(page, ", %s had a domain without rules", words);
	wr_buf_add_char(page, '\n');
}

static void put_redis(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_buf *page)
{
	static const char *const breakers[] = {"closed", "half open", "open"};
	int64_t up = wr_cli_watch_gauge(watch, WEIR_GAUGE_STORE_UP);
	int64_t breaker = wr_cli_watch_gauge(watch, WEIR_GAUGE_STORE_BREAKER);
	int64_t rtt_us = wr_cli_watch_gauge(watch, WEIR_GAUGE_STORE_RTT_US);
	int64_t nodes = wr_cli_watch_gauge(watch, WEIR_GAUGE_STORE_NODES);
	int64_t fleet = wr_cli_watch_gauge(watch, WEIR_GAUGE_FLEET_NODES);

	if (up < 0 && breaker < 0)
		return;
	wr_buf_printf(page, "redis      %s", up > 0 ? "available" : "unavailable");
	if (breaker >= 0 && breaker <= 2)
		wr_buf_printf(page, ", breaker %s", breakers[breaker]);
	if (rtt_us >= 0)
		wr_buf_printf(page, ", %.1f ms", (double)rtt_us / 1000);
	if (nodes >= 0)
		wr_buf_printf(page, ", %lld of %lld nodes available",
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_STORE_NODES_UP),
			      (long long)nodes);
	if (fleet >= 0)
		wr_buf_printf(page, " %s %lld nodes in the fleet", wr_cli_top_dot(look),
			      (long long)fleet);
	wr_buf_add_char(page, '\n');
}

/* Writes the lines about leases and exchanges, if a rule uses them. */
static void put_fleet(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_buf *page)
{
	int64_t granted = wr_cli_watch_gauge(watch, WEIR_GAUGE_UNITS_GRANTED);
	int64_t exchanges = wr_cli_watch_gauge(watch, WEIR_GAUGE_EXCHANGES);

	if (granted <= 0 && exchanges <= 0)
		return;
	wr_buf_printf(page, "fleet      ");
	if (granted > 0)
		wr_buf_printf(page,
			      "%lld leases held, %lld units unspent %s %lld units leased so far: "
			      "%lld spent, %lld returned, %lld expired",
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_LEASES),
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_LEASED_UNITS),
			      wr_cli_top_dot(look), (long long)granted,
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_UNITS_SPENT),
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_UNITS_RETURNED),
			      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_UNITS_BURNT));
	if (granted > 0 && exchanges > 0)
		wr_buf_printf(page, " %s ", wr_cli_top_dot(look));
	if (exchanges > 0)
		wr_buf_printf(page, "%lld counters exchanged, largest overshoot %.1f %%",
			      (long long)exchanges,
			      (double)wr_cli_watch_gauge(watch, WEIR_GAUGE_OVERSHOOT_PPM) / 10000);
	wr_buf_add_char(page, '\n');
}

/* Writes the line about deferred requests, if there is a queue. */
static void put_queue(const struct wr_cli_watch *watch, const char *dot, struct wr_buf *page)
{
	int64_t depth = wr_cli_watch_gauge(watch, WEIR_GAUGE_QUEUE_DEPTH);
	int64_t oldest_us = wr_cli_watch_gauge(watch, WEIR_GAUGE_QUEUE_OLDEST_US);
	int64_t dead = wr_cli_watch_gauge(watch, WEIR_GAUGE_QUEUE_DEAD);
	char age[WR_CLIENT_SPAN];

	if (depth < 0)
		return;
	wr_buf_printf(page, "queue      %lld waiting", (long long)depth);
	if (depth > 0 && oldest_us >= 0)
		wr_buf_printf(page, ", the oldest for %s",
			      wr_cli_client_span((double)oldest_us / 1e6, age));
	wr_buf_printf(page, " %s %lld in flight", dot,
		      (long long)wr_cli_watch_gauge(watch, WEIR_GAUGE_QUEUE_SENDING));
	if (dead > 0)
		wr_buf_printf(page, " %s %lld dead", dot, (long long)dead);
	if (wr_cli_watch_gauge(watch, WEIR_GAUGE_QUEUE_TARGET_UP) == 0)
		wr_buf_printf(page, " %s the API server is unavailable", dot);
	wr_buf_add_char(page, '\n');
}

void wr_cli_top_put_head(const struct wr_cli_watch *watch, const struct wr_cli_top_look *look,
			 struct wr_buf *page)
{
	time_t now = (time_t)(watch->now_ns / 1000000000);
	struct tm local;
	char stamp[32];

	localtime_r(&now, &local);
	strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
	wr_buf_printf(page, "weir top   %s  %s  %zu rule%s, ",
		      watch->name ? watch->name : "default", stamp, watch->rule_count,
		      watch->rule_count == 1 ? "" : "s");
	put_hosts(watch, page);
	wr_buf_add_char(page, '\n');
	put_warnings(watch, page);
	put_table(watch, look, page);
	put_totals(watch, look, page);
	put_ruleless(watch, page);
	put_redis(watch, look, page);
	put_fleet(watch, look, page);
	put_queue(watch, wr_cli_top_dot(look), page);
}
