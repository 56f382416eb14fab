/* Any bytes as a conversation in the Redis protocol. The first byte says whether passwords are
 * asked for and whether the client is near, the second how the input is cut up, the third how many
 * bytes of replies are taken at a time. All at once or in pieces, the replies are the same, they
 * are RESP, and there is one to each command. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "table/table.h"
#include "wire/commands.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS 1794787200000000000ull
#define SAID_BYTES (16u << 20)
#define INPUT_MAX 16384u
#define DEPTH_MAX 8

static const char yaml[] =
	"domain: api\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
	"  - {key: a, rate_limit: {unit: day, requests_per_unit: 0}}\n"
	"  - {key: q, rate_limit: {unit: second, requests_per_unit: 2, algorithm: "
	"leaky_bucket, queue_size: 4}}\n";

/* One side: a table, an engine, a session, and what it said. */
struct side {
	struct weir_table *table;
	struct weir_engine *engine;
	uint8_t *fresh; /* the table as it was made */
	struct wr_resp_host host;
	struct wr_resp_session session;
	size_t len;
	uint8_t said[SAID_BYTES];
	uint8_t room[WR_RESP_REPLY_BYTES_MAX];
};

static struct side whole, pieces;
static struct wr_resp_users users;

static void require(int condition)
{
	if (!condition)
		abort();
}

static struct weir_rules *load_rules(void)
{
	struct weir_rules *rules;
	char path[64];
	int fd = memfd_create("rules", 0);

	require(write(fd, yaml, sizeof yaml - 1) == sizeof yaml - 1);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	require(weir_rules_load(path, &rules, NULL) == 0);
	close(fd);
	return rules;
}

/* Making a table and loading rules takes far longer than most conversations do. */
static void make_table(struct side *side)
{
	struct weir_opts opts = {.size = sizeof opts, .dir = "/dev/shm", .memory_bytes = 256 << 10};
	char name[64];

	snprintf(name, sizeof name, "fuzz-resp-%d", (int)getpid());
	opts.name = name;
	require(weir_open(&opts, &side->table, NULL) == 0);
	weir_remove(name, opts.dir, NULL);
	require(weir_engine_new(side->table, load_rules(), NULL, &side->engine) == 0);
	side->fresh = malloc(side->table->bytes);
	require(side->fresh != NULL);
	memcpy(side->fresh, side->table->base, side->table->bytes);
}

static void open_side(struct side *side, uint8_t how)
{
	if (!side->table)
		make_table(side);
	else
		memcpy(side->table->base, side->fresh, side->table->bytes);
	side->len = 0;
	memset(&side->host, 0, sizeof side->host);
	memset(&side->session, 0, sizeof side->session);
	side->host.engine = side->engine;
	side->host.table = side->table;
	side->host.users = how & 1 ? &users : NULL;
	side->host.started_ns = NOW_NS;
	side->session.near = (how & 2) != 0;
	side->session.id = 7;
	wr_resp_session_begin(&side->session, &side->host, NOW_NS);
}

static void keep(struct side *side, const struct wr_resp_out *out)
{
	size_t len = (size_t)(out->at - out->begin);

	require(side->len + len <= SAID_BYTES);
	memcpy(side->said + side->len, out->begin, len);
	side->len += len;
}

static bool more(struct wr_resp_out *out, size_t need)
{
	struct side *side = out->context;

	require(need <= sizeof side->room);
	if (out->begin)
		keep(side, out);
	out->taken += (size_t)(out->at - out->begin);
	out->begin = out->at = side->room;
	out->end = side->room + need;
	return true;
}

static void feed(struct side *side, const uint8_t *data, size_t len, size_t budget)
{
	struct wr_resp_out out = {.more = more, .context = side};

	wr_resp_session_input(&side->session, data, len, NOW_NS, budget, &out);
	if (out.begin)
		keep(side, &out);
	require(!out.failed);
	require(side->session.held_cap <= 2 * WR_RESP_HELD_MAX);
}

/* Pieces in memory of their own size, so that the sanitizer sees every byte read too far. */
static void feed_piece(struct side *side, const uint8_t *data, size_t len, size_t budget)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	feed(side, copy, len, budget);
	free(copy);
	while (side->session.stopped && !side->session.ended)
		feed(side, NULL, 0, budget);
}

/* ---- replies ---- */

static size_t line_end(const struct side *side, size_t at)
{
	const uint8_t *end = memchr(side->said + at, '\n', side->len - at);

	require(end && end > side->said + at && end[-1] == '\r');
	return (size_t)(end - side->said) + 1;
}

/* Behind the reply at `at`. */
static size_t pass_reply(const struct side *side, size_t at, int depth)
{
	char mark = (char)side->said[at];
	size_t next = line_end(side, at);
	long count = strtol((const char *)side->said + at + 1, NULL, 10);

	require(depth < DEPTH_MAX && strchr("+-:$*%~=_", mark));
	if (mark == '$' || mark == '=') {
		if (count < 0)
			return next;
		require(side->len - next >= (size_t)count + 2);
		require(memcmp(side->said + next + count, "\r\n", 2) == 0);
		return next + (size_t)count + 2;
	}
	if (mark != '*' && mark != '%' && mark != '~')
		return next;
	for (long i = 0; i < (mark == '%' ? 2 * count : count); i++)
		next = pass_reply(side, next, depth + 1);
	return next;
}

/* One that is no command of ours but a browser's has no answer. */
static void check_replies(const struct side *side)
{
	uint64_t replies = 0;

	for (size_t at = 0; at < side->len; replies++)
		at = pass_reply(side, at, 0);
	require(replies == side->host.tally.commands + side->host.tally.bad ||
		(side->session.ended && replies + 1 == side->host.tally.commands));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece, budget;

	if (size < 3 || size > INPUT_MAX)
		return 0;
	if (!users.count)
		require(wr_resp_users_read(&users, "secret\na:b", 10, NULL) == 0);
	piece = data[1] + 1u;
	budget = data[2] * 4u;
	open_side(&whole, data[0]);
	open_side(&pieces, data[0]);
	feed_piece(&whole, data + 3, size - 3, SAID_BYTES);
	for (size_t at = 3; at < size && !pieces.session.ended; at += piece)
		feed_piece(&pieces, data + at, size - at < piece ? size - at : piece, budget);
	require(whole.len == pieces.len && memcmp(whole.said, pieces.said, whole.len) == 0);
	require(whole.session.ended == pieces.session.ended);
	check_replies(&whole);
	wr_resp_session_end(&whole.session, NOW_NS);
	wr_resp_session_end(&pieces.session, NOW_NS);
	return 0;
}
