/* Implements live.h. */
#include "live.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

uint64_t clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void on_open(void *context, struct wr_central_link *link)
{
	struct live *live = context;
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	for (int i = 0; i < LINES_MAX; i++) {
		if (live->links[i])
			continue;
		memcpy(name.sun_path, link->at.host, strlen(link->at.host) + 1);
		live->fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(connect(live->fds[i], (struct sockaddr *)&name, sizeof name), 0);
		live->links[i] = link;
		live->up[i] = false;
		return;
	}
	fail();
}

static void on_close(void *context, struct wr_central_link *link)
{
	struct live *live = context;

	for (int i = 0; i < LINES_MAX; i++)
		if (live->links[i] == link) {
			close(live->fds[i]);
			live->links[i] = NULL;
		}
}

static void on_dirty(void *context, struct wr_central_link *link)
{
	(void)context, (void)link;
}

static void on_wake(void *context, uint64_t mono_ns)
{
	(void)context, (void)mono_ns;
}

static void on_log(void *context, enum wr_central_log_level level, const char *text)
{
	(void)context;
	if (level == WR_CENTRAL_LOG_ERROR)
		fail_msg("%s", text);
}

static void on_secret(void *context, const uint8_t secret[WR_CENTRAL_SECRET])
{
	(void)secret;
	((struct live *)context)->secrets++;
}

static void on_nodes(void *context, uint32_t nodes)
{
	((struct live *)context)->nodes = nodes;
}

static bool on_message(void *context, const void *bytes, size_t len, uint64_t age_ns, bool own)
{
	struct live *live = context;

	assert_true(age_ns < PATIENCE_S * 1000000000ull);
	if (!own)
		snprintf(live->message, sizeof live->message, "%.*s", (int)len,
			 (const char *)bytes);
	return false;
}

static const struct wr_central_host host = {on_open, on_close,  on_dirty, on_wake,
					    on_log,  on_secret, on_nodes, on_message};

void run_step(struct live *live)
{
	struct rig *rig = &live->rig;

	rig->now_ns = clock_ns(CLOCK_REALTIME);
	rig->mono_ns = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < LINES_MAX; i++) {
		struct pollfd poller = {.fd = live->fds[i], .events = POLLIN};
		uint8_t in[4096];
		const uint8_t *bytes;
		size_t len;

		if (live->links[i] && !live->up[i]) {
			live->up[i] = true;
			wr_central_link_up(live->links[i], rig->now_ns, rig->mono_ns);
		}
		while (live->links[i] && wr_central_link_output(live->links[i], &bytes, &len)) {
			ssize_t n = write(live->fds[i], bytes, len);

			assert_true(n > 0);
			wr_central_link_sent(live->links[i], (size_t)n);
		}
		if (live->links[i] && poll(&poller, 1, 1) > 0) {
			ssize_t n = read(live->fds[i], in, sizeof in);

			assert_true(n > 0);
			wr_central_link_input(live->links[i], in, (size_t)n, rig->now_ns,
					      rig->mono_ns);
		}
	}
	wr_central_tick(rig->central, rig->now_ns, rig->mono_ns);
}

void open_live(struct live *live, const struct redis_server *server, uint64_t holder,
	       const struct wr_central_opts *given)
{
	struct wr_central_opts opts = given ? *given : (struct wr_central_opts){0};
	char url[128];

	opts.target = &live->rig.target;
	opts.timeout_ns = PATIENCE_S * 1000000000ull;
	opts.holder[0] = holder;
	opts.holder[1] = 1;
	opts.chief = true;
	opts.seed = holder;
	snprintf(url, sizeof url, "redis+unix://%s/redis.sock", server->dir);
	assert_int_equal(
		wr_redis_target_parse((struct weir_str){url, strlen(url)}, &live->rig.target, NULL),
		0);
	assert_int_equal(wr_central_new(&opts, &host, live, clock_ns(CLOCK_REALTIME),
					clock_ns(CLOCK_MONOTONIC), &live->rig.central, NULL),
			 0);
}
