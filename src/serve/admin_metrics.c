/* GET /metrics, for Prometheus and whoever reads its formats. */
#include "serve/admin.h"
#include "serve/service.h"

static int write_metrics(struct wr_text *out, const struct wr_admin_work *work)
{
	struct wr_prom prom = {.out = out, .open = work->choice != 0};
	struct weir_info info;
	struct wr_metrics_view view = {.table = work->world->table,
				       .engine = work->world->engine,
				       .info = &info,
				       .now_ns = work->now_ns};
	int rc = wr_service_read_table(work->service, work->world, work->now_ns, &info);

	if (rc == 0)
		rc = wr_metrics_write(&prom, &work->service->metrics, &view);
	wr_prom_end(&prom);
	return rc;
}

void wr_admin_metrics(struct wr_http_request *request)
{
	bool open = wr_prom_wants_open(wr_http_field(request, "Accept"));

	wr_admin_reply_later(request, open ? WR_PROM_OPEN_TYPE : WR_PROM_TEXT_TYPE, write_metrics,
			     open);
}
