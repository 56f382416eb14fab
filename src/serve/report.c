/* Writes the log lines of a starting service about its table, rules, Redis and ports. Called by the
 * commands serve and gateway. */
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/size.h"
#include "serve/admin/admin.h"
#include "net/log.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"
#include "serve/open.h"
#include "table/ban.h"
#include "table/pause.h"

static void report_table(struct weir_table *table)
{
	struct weir_info info = {.size = sizeof info};
	char size[WR_SIZE_TEXT];

	if (weir_info(table, wr_clock_wall_ns(), &info) < 0)
		return;
	wr_size_text(info.memory_bytes, size);
	wr_log(WR_LOG_INFO, "table %s: %s, room for %llu keys, %llu in use", info.path, size,
	       (unsigned long long)info.cells, (unsigned long long)info.keys);
}

static void report_rules(const struct wr_service *service)
{
	struct weir_rules_info info = {.size = sizeof info};

	if (weir_rules_info(service->first_rules, &info) < 0)
		return;
	wr_log(WR_LOG_INFO,
	       "rules %s: %u file%s, %u domain%s, %u limit%s, generation %llu, hash %016llx",
	       service->settings.rules, info.files, info.files == 1 ? "" : "s", info.domains,
	       info.domains == 1 ? "" : "s", info.limits, info.limits == 1 ? "" : "s",
	       (unsigned long long)info.generation, (unsigned long long)info.hash);
}

static void report_port(const struct wr_service *service, const struct wr_listener *listener)
{
	const char *how = !listener->tls                    ? ""
			  : service->settings.tls_client_ca ? ", TLS with client certificates"
							    : ", TLS";
	const char *token = wr_admin_start_token(&service->settings);

	wr_log(WR_LOG_INFO, "%s at %s%s", listener->name, listener->text, how);
	if (strcmp(listener->name, "admin") == 0 && listener->endpoint.kind != WR_ENDPOINT_UNIX)
		wr_log(WR_LOG_INFO, "dashboard at http://%s/%s%s", listener->text,
		       token ? "#token=" : "", token ? token : "");
}

static int count_shielded(void *context, const struct wr_ban *ban)
{
	if (ban->flags & WR_BAN_SHIELD && !(ban->flags & (WR_BAN_SHADOW | WR_BAN_BARE)))
		++*(unsigned *)context;
	return 0;
}

void wr_service_report_shielded(const struct wr_service *service)
{
	struct weir_table *table = service->core->table;
	unsigned count = 0;

	if (!service->settings.shadow || wr_pause_state(table) & WR_PAUSING_ALL)
		return;
	wr_bans_each(table, (uint32_t)(wr_clock_wall_ns() / WR_SECOND_NS), count_shielded, &count);
	if (count)
		wr_log(WR_LOG_WARN,
		       "shadow mode refuses nothing, but the table has %u earlier ban%s with "
		       "`shield`, and weir shield continues to drop the packets of such clients: "
		       "run weir pause, or end the bans with weir ban release",
		       count, count == 1 ? "" : "s");
}

void wr_service_report_redis(const struct wr_service *service)
{
	const struct wr_serve_redis *redis = service->redis;
	struct wr_serve_redis_rules rules;
	char timeout[WR_DURATION_TEXT];

	if (!redis)
		return;
	rules = wr_serve_redis_rules(service->core->engine);
	wr_duration_text(redis->settings->timeout_ns, timeout);
	wr_log(WR_LOG_INFO,
	       "redis %s: prefix %s, timeout %s, counts %u of %u limits in Redis (%u with "
	       "consistency: lease, %u with consistency: eventual)",
	       redis->text, redis->settings->prefix, timeout, rules.there, rules.limits,
	       rules.leased, rules.eventual);
}

void wr_service_report(struct wr_service *service)
{
	struct weir_opts opts = wr_settings_table(&service->settings, service->first_rules);
	char text[1024];

	report_table(service->core->table);
	report_rules(service);
	/* Warn if the table has too little memory for the sliding logs that the rules need. */
	if (weir_log_advice(service->core->table, &opts, service->first_rules, text, sizeof text))
		wr_log(WR_LOG_WARN, "%s", text);
	wr_service_report_redis(service);
	wr_service_report_shielded(service);
	for (const struct wr_listener *l = service->listeners; l; l = l->next)
		report_port(service, l);
	wr_log(WR_LOG_INFO, "%u thread%s, %u connections at most%s", service->loop_count,
	       service->loop_count == 1 ? "" : "s", service->quota.max,
	       service->settings.shadow ? "; shadow mode: nothing is refused" : "");
}
