#include "central/central.h"

#include <stdlib.h>

#include "base/error.h"

struct wr_central {
	struct wr_central_host host;
	void *context;
};

int wr_central_new(const struct wr_central_opts *opts, const struct wr_central_host *host,
		   void *context, uint64_t now_ns, uint64_t mono_ns, struct wr_central **central,
		   struct weir_error *error)
{
	struct wr_central *self = calloc(1, sizeof *self);

	(void)opts, (void)now_ns, (void)mono_ns;
	if (!self)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	self->host = *host;
	self->context = context;
	*central = self;
	return 0;
}

void wr_central_free(struct wr_central *central)
{
	free(central);
}

void wr_central_tick(struct wr_central *central, uint64_t now_ns, uint64_t mono_ns)
{
	(void)central, (void)now_ns, (void)mono_ns;
}

void wr_central_take(struct wr_central *central, struct wr_central_ask *ask, const void *question,
		     size_t len, uint64_t now_ns, uint64_t mono_ns)
{
	(void)central, (void)question, (void)len, (void)now_ns, (void)mono_ns;
	ask->done(ask, NULL, 0);
}

void wr_central_leave(struct wr_central *central, struct wr_central_ask *ask)
{
	(void)central, (void)ask;
}

void wr_central_send(struct wr_central *central, const void *question, size_t len, uint64_t now_ns,
		     uint64_t mono_ns)
{
	(void)central, (void)question, (void)len, (void)now_ns, (void)mono_ns;
}

void wr_central_forget(struct wr_central *central, const uint64_t key[2])
{
	(void)central, (void)key;
}

int wr_central_publish(struct wr_central *central, const void *bytes, size_t len, uint64_t mono_ns)
{
	(void)central, (void)bytes, (void)len, (void)mono_ns;
	return WEIR_EROOM;
}

void wr_link_up(struct wr_link *link, uint64_t now_ns, uint64_t mono_ns)
{
	(void)link, (void)now_ns, (void)mono_ns;
}

void wr_link_down(struct wr_link *link, const char *why, uint64_t now_ns, uint64_t mono_ns)
{
	(void)link, (void)why, (void)now_ns, (void)mono_ns;
}

void wr_link_input(struct wr_link *link, const uint8_t *bytes, size_t len, uint64_t now_ns,
		   uint64_t mono_ns)
{
	(void)link, (void)bytes, (void)len, (void)now_ns, (void)mono_ns;
}

bool wr_link_output(struct wr_link *link, const uint8_t **bytes, size_t *len)
{
	(void)link, (void)bytes, (void)len;
	return false;
}

void wr_link_sent(struct wr_link *link, size_t len)
{
	(void)link, (void)len;
}

const char *wr_shard_state_name(enum wr_shard_state state)
{
	static const char *const names[] = {
#define NAME(name, text) text,
		WR_SHARD_STATES(NAME)
#undef NAME
	};

	return names[state];
}

void wr_central_info(const struct wr_central *central, struct wr_central_info *info)
{
	(void)central;
	*info = (struct wr_central_info){0};
}
