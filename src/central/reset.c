/* An operator's reset: counters are deleted, so that they are as new, and their leases with them.
 */
#include "central/inner.h"

void wr_call_write_reset_marks(struct wr_central_conn *conn, const struct wr_call *call)
{
	char key[WR_REDIS_KEY + 2];

	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		size_t len = wr_central_part_key(conn->central, call, part, key);

		key[len] = ':';
		key[len + 1] = 'r';
		wr_command_arg(&conn->out, key, len + 2);
	}
}

static enum wr_call_written put(struct wr_central_conn *conn, struct wr_call *call)
{
	struct wr_take takes[WR_TAKES_MAX];
	char key[WR_REDIS_KEY];
	size_t count = 0, keys = 2 * (size_t)call->count;

	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		takes[count++] = part->take;
		keys += part->leased;
	}
	wr_call_write_script(conn, call, WR_SCRIPT_TAKE, 1 + keys + wr_script_argc(takes, count));
	wr_command_number(&conn->out, (int64_t)keys);
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		wr_command_arg(&conn->out, key,
			       wr_central_part_key(conn->central, call, part, key));
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		if (part->leased)
			wr_command_arg(&conn->out, key,
				       wr_central_counter_key(
					       conn->central, call->key, "l:",
					       (struct weir_str){part->id, part->id_len}, key));
	wr_call_write_reset_marks(conn, call);
	wr_script_args(takes, count, 0, &conn->out);
	return wr_command_end(&conn->out) ? WR_CALL_WRITTEN : WR_CALL_NO_ROOM;
}

static void heard(struct wr_central_conn *conn, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	wr_call_free(conn->central, call);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	central->host.say(central->context, WR_SAY_WARN,
			  "a counter could not be reset in Redis; try again when it is back");
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_call_reset_ops = {.write = put,
					      .on_reply = heard,
					      .on_failure = failed,
					      .keyed = true,
					      .script = WR_SCRIPT_TAKE};
