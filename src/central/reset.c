/* An operator's reset: deletes counters and their leases in Redis. Called by send.c through
 * wr_call_send. */
#include "central/inner.h"

static enum wr_call_written write_reset(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_take takes[WR_TAKES_MAX];
	size_t count = 0, keys = 2 * (size_t)call->count;

	for (const struct wr_central_part *part = call->first; part; part = part->call_next) {
		takes[count++] = part->take;
		keys += part->leased;
	}
	wr_call_write_script(conn, call, WR_SCRIPT_TAKE, 1 + keys + wr_script_argc(takes, count));
	wr_command_number(&conn->out, (int64_t)keys);
	wr_call_write_part_keys(conn, call);
	for (const struct wr_central_part *part = call->first; part; part = part->call_next)
		if (part->leased)
			wr_call_write_key(conn, call, "l:", part->id, part->id_len);
	wr_call_write_reset_marks(conn, call);
	wr_script_args(takes, count, 0, &conn->out);
	return wr_call_write_end(conn);
}

static void on_reset_failed(struct wr_central *central, struct wr_call *call)
{
	wr_central_log(central, WR_CENTRAL_LOG_WARN,
		       "a counter could not be reset in Redis; repeat the reset when it is back");
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_reset_ops = {.write = write_reset,
					      .on_failure = on_reset_failed,
					      .keyed = true,
					      .script = WR_SCRIPT_TAKE};
