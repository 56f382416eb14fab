/* How the service is doing. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weir/control.h>
#include <weir/weir.h>

#include "serve/admin/admin.h"
#include "serve/admin/store.h"
#include "serve/service.h"

#define PUT(out, literal) wr_text_put(out, WR_STR(literal))

struct view {
	struct wr_service *service;
	struct weir_engine_info engine;
	struct weir_info table;
	struct wr_central_info *store; /* NULL: there is none */
	bool serving;
	size_t pauses;
};

static void put_listeners(struct wr_text *out, const struct wr_service *service)
{
	bool more = false;

	PUT(out, "\"listeners\":[");
	for (const struct wr_listener *l = service->listeners; l; l = l->next) {
		if (more)
			wr_text_char(out, ',');
		more = true;
		PUT(out, "{\"name\":");
		wr_json_put_text(out, wr_str(l->name));
		PUT(out, ",\"address\":");
		wr_json_put_text(out, wr_str(l->text));
		wr_text_put(out, l->tls ? WR_STR(",\"tls\":true}") : WR_STR(",\"tls\":false}"));
	}
	PUT(out, "]");
}

static void put_table(struct wr_text *out, const struct weir_info *table)
{
	PUT(out, "\"table\":{\"path\":");
	wr_json_put_text(out, wr_str(table->path));
	wr_json_put_number(out, "memory_bytes", table->memory_bytes);
	wr_json_put_number(out, "room_for_keys", table->cells);
	wr_json_put_number(out, "keys", table->keys);
	wr_json_put_number(out, "keys_refused", table->keys_refused);
	wr_json_put_number(out, "evicted", table->evicted);
	wr_json_put_number(out, "evicted_refused", table->evicted_refused);
	PUT(out, "}");
}

static void put_rules(struct wr_text *out, const struct weir_engine_info *info)
{
	char hash[20];

	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info->hash);
	PUT(out, "\"rules\":{\"hash\":");
	wr_json_put_text(out, wr_str(hash));
	wr_json_put_number(out, "generation", info->generation);
	wr_json_put_number(out, "loads_good", info->loads_good);
	wr_json_put_number(out, "loads_failed", info->loads_failed);
	PUT(out, ",\"loaded_at\":");
	wr_json_put_seconds(out, info->loaded_ns);
	PUT(out, ",\"error\":");
	wr_json_put_text_or_null(out, info->failed_ns ? wr_str(info->error) : WR_STR(""));
	PUT(out, "}");
}

static void put_status(struct wr_text *out, const struct view *view)
{
	PUT(out, "{\"version\":");
	wr_json_put_text(out, wr_str(weir_version()));
	wr_json_put_number(out, "pid", (uint64_t)getpid());
	wr_text_put(out, view->serving ? WR_STR(",\"health\":\"serving\",")
				       : WR_STR(",\"health\":\"not_serving\","));
	put_listeners(out, view->service);
	wr_json_put_number(out, "loops", view->service->loop_count);
	wr_json_put_number(out, "connections",
			   __atomic_load_n(&view->service->quota.used, __ATOMIC_RELAXED));
	wr_json_put_number(out, "pauses", view->pauses);
	PUT(out, ",");
	put_table(out, &view->table);
	PUT(out, ",");
	put_rules(out, &view->engine);
	PUT(out, ",\"store\":");
	wr_admin_put_store(out, view->service->redis, view->store);
	PUT(out, "}\n");
}

static int count_pause(void *context, struct weir_str rule)
{
	(void)rule;
	(*(size_t *)context)++;
	return 0;
}

int wr_admin_put_health(struct wr_text *out, const struct wr_admin_work *work)
{
	struct weir_engine_info engine = {.size = sizeof engine};
	struct weir_info table;
	size_t pauses = 0;
	int rc = wr_service_table_info(work->service, work->core, work->now_ns, &table);

	if (rc < 0)
		return rc;
	weir_engine_info(work->core->engine, &engine);
	weir_control_paused(work->core->engine, count_pause, &pauses);
	put_table(out, &table);
	PUT(out, ",");
	put_rules(out, &engine);
	wr_json_put_number(out, "pauses", pauses);
	return 0;
}

static int write_status(struct wr_text *out, const struct wr_admin_work *work)
{
	struct view view = {.service = work->service,
			    .engine = {.size = sizeof view.engine},
			    .serving = wr_service_health(work->service) == WR_HEALTH_SERVING};
	int rc;

	weir_engine_info(work->core->engine, &view.engine);
	rc = wr_service_table_info(work->service, work->core, work->now_ns, &view.table);
	if (rc < 0)
		return rc;
	weir_control_paused(work->core->engine, count_pause, &view.pauses);
	if (work->service->redis)
		view.store = wr_redis_info(work->service->redis);
	put_status(out, &view);
	free(view.store);
	return 0;
}

void wr_admin_status(struct wr_http_request *request)
{
	wr_admin_reply_later(request, "application/json", write_status, 0);
}

static void write_asked(struct wr_text *out, void *context)
{
	(void)context;
	PUT(out, "{\"reload\":\"asked for; GET /v1/status tells what came of it\"}\n");
}

void wr_admin_reload(struct wr_http_request *request)
{
	wr_service_reload(wr_loop_service(request->server->loop));
	wr_admin_log(request, 0, "reload");
	wr_admin_reply(request, 202, "application/json", write_asked, NULL);
}
