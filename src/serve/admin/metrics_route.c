/* Responds to GET /metrics, for Prometheus and for other programs that read its formats. */
#include "serve/admin/admin.h"
#include "serve/admin/metrics_families.h"
#include "serve/decide/log.h"
#include "serve/deliver/queue_host.h"
#include "serve/service.h"

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Writes the counts of the queue. Each reason for a refusal has its own metric series, which begins
 * with the first refusal for that reason. Only the two reasons that alerts watch have a series from
 * the start. */
static void write_queue(struct wr_prom *prom, const struct wr_serve_queue_tally *tally)
{
	wr_metrics_put(prom, WR_METRIC_queue_stored, read_counter(&tally->stored));
	wr_metrics_put(prom, WR_METRIC_queue_delivered, read_counter(&tally->delivered));
	wr_metrics_put(prom, WR_METRIC_queue_retried, read_counter(&tally->retried));
	wr_metrics_put(prom, WR_METRIC_queue_died, read_counter(&tally->dead));
	wr_prom_family(prom, &wr_metrics[WR_METRIC_queue_refused]);
	for (int i = 0; i < WR_QUEUE_REASON_COUNT; i++) {
		const char *reason = wr_queue_reason_name((enum wr_queue_reason)i);

		if (read_counter(&tally->refused[i]) || i == WR_QUEUE_FULL ||
		    i == WR_QUEUE_KEY_FULL)
			wr_prom_number(prom, &(struct wr_prom_label){"reason", wr_str(reason)}, 1,
				       read_counter(&tally->refused[i]));
	}
}

/* Writes the metrics of this process. */
static void write_service(struct wr_prom *prom, struct wr_service *service)
{
	struct wr_serve_decision_log_tally tally;

	wr_metrics_put(prom, WR_METRIC_connections,
		       __atomic_load_n(&service->quota.used, __ATOMIC_RELAXED));
	if (service->redis)
		wr_metrics_put(prom, WR_METRIC_ban_orders_lost,
			       __atomic_load_n(&service->loops[0].bans.lost, __ATOMIC_RELAXED));
	if (service->queue)
		write_queue(prom, &service->queue->tally);
	if (!service->decision_log)
		return;
	wr_serve_decision_log_sum(service->decision_log, &tally);
	wr_prom_family(prom, &wr_metrics[WR_METRIC_log_lines]);
#define WRITE_TALLY(field, name, what)                                                             \
	wr_prom_number(prom, &(struct wr_prom_label){"outcome", WR_STR(name)}, 1, tally.field);
	WR_DECISION_LOG_TALLY(WRITE_TALLY)
#undef WRITE_TALLY
}

static int write_metrics(struct wr_json_out *json, const struct wr_admin_work *work)
{
	struct wr_prom prom = {.out = json->buf, .open = work->choice != 0};
	struct weir_info info;
	struct wr_metrics_view view = {.table = work->core->table,
				       .engine = work->core->engine,
				       .info = &info,
				       .now_ns = work->now_ns};
	int rc = wr_service_table_info(work->service, work->core, work->now_ns, &info);

	if (rc == 0)
		rc = wr_metrics_write(&prom, &work->service->metrics, &view);
	write_service(&prom, work->service);
	wr_prom_end(&prom);
	return rc;
}

void wr_admin_metrics(struct wr_serve_http_request *request)
{
	bool open = wr_prom_wants_open(wr_serve_http_field(request, "Accept"));

	wr_admin_reply_later(request, open ? WR_PROM_OPEN_TYPE : WR_PROM_TEXT_TYPE, write_metrics,
			     open, NULL);
}
