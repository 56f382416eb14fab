/* Responds to GET /v1/status and POST /v1/reload. Also writes the members "table", "rules" and
 * "pauses" for other responses that have them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/control.h>
#include <weir/weir.h>

#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"

void wr_admin_json_hash(struct wr_json_out *json, const char *name, uint64_t hash)
{
	char text[20];

	snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
	wr_json_member_string(json, name, wr_str(text));
}

static void write_listeners(struct wr_json_out *json, const struct wr_service *service)
{
	wr_json_key(json, "listeners");
	wr_json_array(json);
	for (const struct wr_listener *l = service->listeners; l; l = l->next) {
		wr_json_object(json);
		wr_json_member_string(json, "name", wr_str(l->name));
		wr_json_member_string(json, "address", wr_str(l->text));
		wr_json_member_bool(json, "tls", l->tls);
		wr_json_end_object(json);
	}
	wr_json_end_array(json);
}

static void write_table(struct wr_json_out *json, const struct weir_info *table)
{
	wr_json_key(json, "table");
	wr_json_object(json);
	wr_json_member_string(json, "path", wr_str(table->path));
	wr_json_member_uint(json, "memory_bytes", table->memory_bytes);
	wr_json_member_uint(json, "room_for_keys", table->cells);
	wr_json_member_uint(json, "keys", table->keys);
	wr_json_member_uint(json, "keys_refused", table->keys_refused);
	wr_json_member_uint(json, "evicted", table->evicted);
	wr_json_member_uint(json, "evicted_refused", table->evicted_refused);
	wr_json_end_object(json);
}

static void write_rules(struct wr_json_out *json, struct weir_engine *engine)
{
	struct weir_engine_info info = {.size = sizeof info};

	weir_engine_info(engine, &info);
	wr_json_key(json, "rules");
	wr_json_object(json);
	wr_admin_json_hash(json, "hash", info.hash);
	wr_json_member_uint(json, "generation", info.generation);
	wr_json_member_uint(json, "loads_good", info.loads_good);
	wr_json_member_uint(json, "loads_failed", info.loads_failed);
	wr_json_member_seconds(json, "loaded_at", info.loaded_ns);
	wr_json_member_string_or_null(json, "error",
				      info.failed_ns ? wr_str(info.error) : WR_STR(""));
	wr_json_end_object(json);
}

static int count_pause(void *context, struct weir_str rule)
{
	(void)rule;
	(*(uint64_t *)context)++;
	return 0;
}

static void write_pauses(struct wr_json_out *json, struct weir_engine *engine)
{
	uint64_t pauses = 0;

	weir_control_paused(engine, count_pause, &pauses);
	wr_json_member_uint(json, "pauses", pauses);
}

int wr_admin_json_health(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct weir_info table;
	int rc = wr_service_table_info(work->service, work->core, work->now_ns, &table);

	if (rc < 0)
		return rc;
	write_table(json, &table);
	write_rules(json, work->core->engine);
	write_pauses(json, work->core->engine);
	return 0;
}

static int write_status(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct wr_service *service = work->service;
	struct wr_central_info *info = NULL;
	struct weir_info table;
	int rc = wr_service_table_info(service, work->core, work->now_ns, &table);

	if (rc < 0)
		return rc;
	if (service->redis)
		info = wr_serve_redis_info(service->redis);
	wr_json_object(json);
	wr_json_member_string(json, "version", wr_str(weir_version()));
	wr_json_member_uint(json, "pid", (uint64_t)getpid());
	wr_json_member_string(json, "health",
			      wr_service_health(service) == WR_HEALTH_SERVING
				      ? WR_STR("serving")
				      : WR_STR("not_serving"));
	write_listeners(json, service);
	wr_json_member_uint(json, "loops", service->loop_count);
	wr_json_member_uint(json, "connections",
			    __atomic_load_n(&service->quota.used, __ATOMIC_RELAXED));
	write_pauses(json, work->core->engine);
	write_table(json, &table);
	write_rules(json, work->core->engine);
	wr_json_key(json, "store");
	wr_admin_json_redis(json, service->redis, info);
	wr_json_end_object(json);
	wr_buf_add_char(json->buf, '\n');
	free(info);
	return 0;
}

void wr_admin_status(struct wr_serve_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_status, 0, NULL);
}

static void write_reload(struct wr_json_out *json, void *context)
{
	(void)context;
	wr_json_object(json);
	wr_json_member_string(json, "reload", WR_STR("started; GET /v1/status shows the result"));
	wr_json_end_object(json);
}

void wr_admin_reload(struct wr_serve_http_request *request)
{
	wr_service_reload(wr_loop_service(request->server->loop));
	wr_admin_log(request, 0, "reload");
	wr_admin_reply(request, 202, write_reload, NULL);
}
