/* Writes the lines of weir top above the rules: processes, table, totals, Redis, queue. */
#include <string.h>
#include <time.h>

#include "cli/show.h"
#include "cli/watch/top.h"
#include "stats/words.h"

static void put_hosts(const struct wr_watch *watch, struct wr_cli_top_page *page)
{
	bool counted[WR_WATCH_HOSTS] = {false};

	wr_cli_top_put(page, "%zu process%s", watch->host_count,
		       watch->host_count == 1 ? "" : "es");
	for (size_t i = 0; i < watch->host_count; i++) {
		size_t alike = 0;

		for (size_t k = i; k < watch->host_count && !counted[i]; k++)
			if (strcmp(watch->hosts[i].name, watch->hosts[k].name) == 0) {
				alike++;
				counted[k] = k > i;
			}
		if (alike)
			wr_cli_top_put(page, "%s%s %zu", i ? ", " : ": ", watch->hosts[i].name,
				       alike);
	}
}

/* Writes warnings about processes whose rules differ from those of the first process, or whose last
 * load of rules failed. */
static void put_warnings(const struct wr_watch *watch, struct wr_cli_top_page *page)
{
	size_t other = 0, failed = 0;

	for (size_t i = 0; i < watch->host_count; i++) {
		other += watch->hosts[i].rules_hash != watch->hosts[0].rules_hash;
		failed += watch->hosts[i].failed;
	}
	if (other) {
		wr_cli_top_put(page, "! the processes on this table do not have the same rules");
		wr_cli_top_end_line(page);
	}
	if (failed) {
		wr_cli_top_put(page, "! %zu of them could not load the present rules", failed);
		wr_cli_top_end_line(page);
	}
}

static void put_table(const struct wr_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_cli_top_page *page)
{
	const struct weir_info *info = &watch->info;
	char keys[WR_NUMBER_WORDS], cells[WR_NUMBER_WORDS], refused[WR_NUMBER_WORDS],
		lost[WR_NUMBER_WORDS];
	uint64_t mille = info->cells ? info->keys * 1000 / info->cells : 0;

	wr_number_words(info->keys, keys);
	wr_number_words(info->cells, cells);
	wr_number_words(info->keys_refused, refused);
	wr_number_words(info->evicted + info->evicted_refused, lost);
	wr_cli_top_put(page,
		       "table      %s of %s keys, %llu.%llu %% full, %s last refused %s %s evicted",
		       keys, cells, (unsigned long long)(mille / 10),
		       (unsigned long long)(mille % 10), refused, wr_cli_top_dot(look), lost);
	wr_cli_top_end_line(page);
}

static void put_totals(const struct wr_watch *watch, const struct wr_cli_top_look *look,
		       struct wr_cli_top_page *page)
{
	uint64_t all[WR_WATCH_POINTS], refused[WR_WATCH_POINTS], all_milli = 0, refused_milli = 0;
	char a[WR_SHOW_RATE], b[WR_SHOW_RATE];

	for (size_t i = 0; i < watch->rule_count; i++) {
		all_milli += watch->rules[i].all_milli;
		refused_milli += watch->rules[i].refused_milli;
	}
	wr_show_rate(all_milli, a);
	wr_show_rate(refused_milli, b);
	wr_cli_top_minute(watch, WEIR_STAT_ALL, all, refused);
	wr_cli_top_put(page, "decisions  %s/s ", a);
	wr_cli_top_put_bars(page, look, all);
	wr_cli_top_put(page, "  refused %s/s ", b);
	wr_cli_top_put_bars(page, look, refused);
	if (watch->latency.count)
		wr_cli_top_put(page, "  took %.1f %ss, 99 %% below %.1f",
			       (double)wr_watch_quantile_ns(&watch->latency, 50) / 1000,
			       look->utf8 ? "µ" : "u",
			       (double)wr_watch_quantile_ns(&watch->latency, 99) / 1000);
	wr_cli_top_end_line(page);
}

/* Writes the number of requests that no rule decided, because none of the rows below includes them.
 */
static void put_ruleless(const struct wr_watch *watch, struct wr_cli_top_page *page)
{
	uint64_t none = watch->own[WEIR_STAT_NO_RULE].admitted;
	uint64_t domain = watch->own[WEIR_STAT_NO_DOMAIN].admitted;
	char words[WR_NUMBER_WORDS];

	if (none == 0 && domain == 0)
		return;
	wr_number_words(none, words);
	wr_cli_top_put(page, "no rule    %s request%s matched no rule", words,
		       none == 1 ? "" : "s");
	wr_number_words(domain, words);
	if (domain)
		wr_cli_top_put(page, ", %s had a domain without rules", words);
	wr_cli_top_end_line(page);
}

static void put_redis(const struct wr_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_cli_top_page *page)
{
	static const char *const breakers[] = {"closed", "half open", "open"};
	int64_t up = wr_watch_gauge(watch, WEIR_GAUGE_STORE_UP);
	int64_t breaker = wr_watch_gauge(watch, WEIR_GAUGE_STORE_BREAKER);
	int64_t rtt_us = wr_watch_gauge(watch, WEIR_GAUGE_STORE_RTT_US);
	int64_t nodes = wr_watch_gauge(watch, WEIR_GAUGE_STORE_NODES);
	int64_t fleet = wr_watch_gauge(watch, WEIR_GAUGE_FLEET_NODES);

	if (up < 0 && breaker < 0)
		return;
	wr_cli_top_put(page, "redis      %s", up > 0 ? "answers" : "does not answer");
	if (breaker >= 0 && breaker <= 2)
		wr_cli_top_put(page, ", breaker %s", breakers[breaker]);
	if (rtt_us >= 0)
		wr_cli_top_put(page, ", %.1f ms", (double)rtt_us / 1000);
	if (nodes >= 0)
		wr_cli_top_put(page, ", %lld of %lld nodes",
			       (long long)wr_watch_gauge(watch, WEIR_GAUGE_STORE_NODES_UP),
			       (long long)nodes);
	if (fleet >= 0)
		wr_cli_top_put(page, " %s %lld in the fleet", wr_cli_top_dot(look),
			       (long long)fleet);
	wr_cli_top_end_line(page);
}

/* Writes the lines about leases and exchanges, if a rule uses them. */
static void put_fleet(const struct wr_watch *watch, const struct wr_cli_top_look *look,
		      struct wr_cli_top_page *page)
{
	int64_t granted = wr_watch_gauge(watch, WEIR_GAUGE_UNITS_GRANTED);
	int64_t exchanges = wr_watch_gauge(watch, WEIR_GAUGE_EXCHANGES);

	if (granted <= 0 && exchanges <= 0)
		return;
	wr_cli_top_put(page, "fleet      ");
	if (granted > 0)
		wr_cli_top_put(page,
			       "%lld leases, %lld units out %s of %lld, %lld returned, %lld burnt",
			       (long long)wr_watch_gauge(watch, WEIR_GAUGE_LEASES),
			       (long long)wr_watch_gauge(watch, WEIR_GAUGE_LEASED_UNITS),
			       wr_cli_top_dot(look), (long long)granted,
			       (long long)wr_watch_gauge(watch, WEIR_GAUGE_UNITS_RETURNED),
			       (long long)wr_watch_gauge(watch, WEIR_GAUGE_UNITS_BURNT));
	if (granted > 0 && exchanges > 0)
		wr_cli_top_put(page, " %s ", wr_cli_top_dot(look));
	if (exchanges > 0)
		wr_cli_top_put(page, "%lld exchanges, up to %.1f %% over", (long long)exchanges,
			       (double)wr_watch_gauge(watch, WEIR_GAUGE_OVERSHOOT_PPM) / 10000);
	wr_cli_top_end_line(page);
}

void wr_cli_top_put_head(const struct wr_watch *watch, const struct wr_cli_top_look *look,
			 struct wr_cli_top_page *page)
{
	time_t now = (time_t)(watch->now_ns / 1000000000);
	struct tm local;
	char stamp[32];

	localtime_r(&now, &local);
	strftime(stamp, sizeof stamp, "%H:%M:%S", &local);
	wr_cli_top_put(page, "weir top   %s  %s  %zu rule%s, ",
		       watch->name ? watch->name : "default", stamp, watch->rule_count,
		       watch->rule_count == 1 ? "" : "s");
	put_hosts(watch, page);
	wr_cli_top_end_line(page);
	put_warnings(watch, page);
	put_table(watch, look, page);
	put_totals(watch, look, page);
	put_ruleless(watch, page);
	put_redis(watch, look, page);
	put_fleet(watch, look, page);
	wr_cli_top_put_queue(watch, wr_cli_top_dot(look), page);
}
