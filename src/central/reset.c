/* An operator's reset: counters are deleted, so that they are as new. */
#include "central/inner.h"

static enum wr_put put(struct wr_line *line, struct wr_call *call)
{
	char key[WR_REDIS_KEY];
	size_t keys = call->count;

	for (const struct wr_central_part *part = call->first; part; part = part->mate)
		keys += part->leased;
	wr_command_begin(&line->out, 1 + keys);
	wr_command_text(&line->out, "DEL");
	for (const struct wr_central_part *part = call->first; part; part = part->mate) {
		wr_command_arg(&line->out, key, wr_counter_key(line->central, call, part, key));
		if (part->leased)
			wr_command_arg(&line->out, key,
				       wr_counter_name(line->central, call->key, "l:",
						       (struct weir_str){part->id, part->id_len},
						       key));
	}
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
	.put = put, .heard = heard, .failed = failed, .keyed = true, .script = -1};
