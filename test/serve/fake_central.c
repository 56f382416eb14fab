/* A central that replaces src/central in tests; see fake_central.h. */
#include "serve/fake_central.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wr_central *fake;

int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **out,
		   struct weir_error *error)
{
	(void)now_ns, (void)mono_ns, (void)error;
	fake = *out = calloc(1, sizeof *fake);
	fake->host = *host;
	fake->context = context;
	fake->opts = *opts;
	return 0;
}

void wr_central_free(struct wr_central *central)
{
	for (int i = 0; i < central->count; i++)
		if (central->asked[i])
			fake_fail(i);
	free(central);
	fake = NULL;
}

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	(void)now_ns, (void)mono_ns;
	central->ticks++;
	if (central->watched)
		central->read_by_tick = central->watched->in_len;
}

void fake_answer(int i, uint32_t flags, uint64_t delay_ns)
{
	struct wr_central_ask *ask = fake->asked[i];
	struct {
		struct wr_question_head head;
		struct wr_answer items[WEIR_NEEDS_MAX];
	} answer = {.head = {.version = WR_QUESTION_VERSION,
			     .kind = WR_QUESTION_ANSWER,
			     .count = fake->heads[i].count}};
	size_t len = sizeof answer.head + answer.head.count * sizeof *answer.items;

	answer.head.bytes = (uint32_t)len;
	for (int n = 0; n < answer.head.count; n++)
		answer.items[n] = (struct wr_answer){.flags = flags,
						     .limit = 9,
						     .remaining = 7,
						     .retry_after_ns = 1000000000,
						     .reset_after_ns = 1000000000,
						     .delay_ns = delay_ns,
						     .decided_us = 1};
	fake->asked[i] = NULL;
	ask->done(ask, &answer, len);
}

void fake_fail(int i)
{
	struct wr_central_ask *ask = fake->asked[i];

	fake->asked[i] = NULL;
	ask->done(ask, NULL, 0);
}

void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns)
{
	(void)len, (void)now_ns, (void)mono_ns;
	if (central->count == FAKE_ASKS)
		abort();
	memcpy(&central->heads[central->count], question, sizeof *central->heads);
	central->asked[central->count++] = ask;
	if (central->at_once)
		fake_answer(central->count - 1, central->flags, 0);
}

void wr_central_cancel(struct wr_central *central, struct wr_central_ask *ask)
{
	for (int i = 0; i < central->count; i++)
		if (central->asked[i] == ask) {
			central->asked[i] = NULL;
			central->left++;
		}
}

void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns)
{
	struct wr_question_head head;

	(void)len, (void)now_ns, (void)mono_ns;
	memcpy(&head, question, sizeof head);
	central->messages[head.kind]++;
}

void wr_central_forget(struct wr_central *central, const uint64_t key[2])
{
	(void)key;
	central->forgotten++;
}

void wr_central_add_region(struct wr_central *central, struct wr_central *peer)
{
	(void)central;
	(void)peer;
}

void wr_central_set_table(struct wr_central *central, struct weir_table *table, uint64_t owner)
{
	central->opts.table = table;
	central->opts.owner = owner;
}

uint32_t wr_central_shut_down(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	(void)now_ns, (void)mono_ns;
	central->shut_downs++;
	return central->leases;
}

int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns)
{
	(void)mono_ns;
	memcpy(central->published, bytes, len);
	central->published_len = len;
	central->published_count++;
	return 0;
}

uint32_t wr_central_publishing(const struct wr_central *central)
{
	(void)central;
	return 0;
}

void wr_central_read_place(const struct wr_central *central, uint64_t *ms, uint64_t *seq)
{
	(void)central;
	*ms = *seq = 0;
}

void wr_central_info(const struct wr_central *central, struct wr_central_info *info)
{
	(void)central;
	*info = (struct wr_central_info){.any_up = true, .all_up = true, .shard_count = 1};
}

const char *wr_central_shard_state_name(enum wr_central_shard_state state)
{
	(void)state;
	return "up";
}

/* ---- links ---- */

void wr_central_link_up(struct wr_central_link *link, uint64_t now_ns, uint64_t mono_ns)
{
	(void)now_ns, (void)mono_ns;
	((struct fake_link *)link)->ups++;
}

void wr_central_link_down(struct wr_central_link *link, const char *why, uint64_t now_ns,
			  uint64_t mono_ns)
{
	struct fake_link *self = (struct fake_link *)link;

	(void)now_ns, (void)mono_ns;
	self->downs++;
	snprintf(self->why, sizeof self->why, "%s", why);
}

void wr_central_link_input(struct wr_central_link *link, const uint8_t *bytes, size_t len,
			   uint64_t now_ns, uint64_t mono_ns)
{
	struct fake_link *self = (struct fake_link *)link;

	(void)now_ns, (void)mono_ns;
	for (size_t i = 0; i < len; i++, self->in_len++)
		if (self->in_len < sizeof self->in)
			self->in[self->in_len] = bytes[i];
	if (self->closes_on_input)
		fake->host.close(fake->context, link);
}

bool wr_central_link_output(struct wr_central_link *link, const uint8_t **bytes, size_t *len)
{
	struct fake_link *self = (struct fake_link *)link;

	*bytes = self->out;
	*len = self->out_len;
	return self->out_len > 0;
}

void wr_central_link_sent(struct wr_central_link *link, size_t len)
{
	struct fake_link *self = (struct fake_link *)link;

	self->out += len;
	self->out_len -= len;
}
