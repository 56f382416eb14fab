/* An operator's reset: counters are deleted, so that they are as new, and their leases with them.
 */
#include "central/inner.h"

void wr_put_reset_marks(struct wr_line *line, const struct wr_call *call)
{
	char key[WR_REDIS_KEY + 2];

	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		size_t len = wr_counter_key(line->central, call, part, key);

		key[len] = ':';
		key[len + 1] = 'r';
		wr_command_arg(&line->out, key, len + 2);
	}
}

static enum wr_put put(struct wr_line *line, struct wr_call *call)
{
	struct wr_take takes[WR_TAKES_MAX];
	char key[WR_REDIS_KEY];
	size_t count = 0, keys = 2 * (size_t)call->count;

	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		takes[count++] = part->take;
		keys += part->leased;
	}
	wr_put_script(line, call, WR_SCRIPT_TAKE, 1 + keys + wr_script_argc(takes, count));
	wr_command_number(&line->out, (int64_t)keys);
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		wr_command_arg(&line->out, key, wr_counter_key(line->central, call, part, key));
	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		if (part->leased)
			wr_command_arg(&line->out, key,
				       wr_counter_name(line->central, call->key, "l:",
						       (struct weir_str){part->id, part->id_len},
						       key));
	wr_put_reset_marks(line, call);
	wr_script_args(takes, count, 0, &line->out);
	return wr_command_end(&line->out) ? WR_PUT : WR_PUT_NO_ROOM;
}

static void heard(struct wr_line *line, struct wr_call *call, const redisReply *reply)
{
	(void)reply;
	wr_call_free(line->central, call);
}

static void failed(struct wr_central *central, struct wr_call *call, enum wr_fault fault)
{
	central->host.say(central->context, WR_SAY_WARN,
			  "a counter could not be reset in Redis; try again when it is back");
	(void)fault;
	wr_call_free(central, call);
}

const struct wr_call_ops wr_reset_ops = {
	.put = put, .heard = heard, .failed = failed, .keyed = true, .script = WR_SCRIPT_TAKE};
