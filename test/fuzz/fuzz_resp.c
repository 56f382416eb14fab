/* Fuzzes the input of a RESP session. The first byte selects passwords, the right to reset
 * counters, a Unix socket and a central store (enum how), the second how the input is split, the
 * third how many bytes of replies are taken at a time. At once or in pieces, the replies are the
 * same, they are RESP, and each command has one. */
#include "fuzz.h"

#include <strings.h>

#include "limiter/question.h"
#include "table/table.h"
#include "wire/resp/commands.h"
#include "wire/resp/commands_defer.h"
#include "wire/resp/wait.h"
#include "../wire/resp/decider.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_NS 1794787200000000000ull
#define REPLIES_BYTES (16u << 20)
#define INPUT_MAX 16384u
#define DEPTH_MAX 8
#define WAITS_MAX 1024

enum how {
	PASSWORDS = 1,
	OPERATES = 2,
	STORE = 4,
	UNIX_SOCKET = 8,
	FAILURES = 16,     /* some questions get no answer */
	NEWEST_FIRST = 32, /* answers come in reverse order */
	AT_ONCE = 64,      /* answers come before the question is sent */
	FEW = 128,         /* only two commands may wait */
};

static const char yaml[] =
	"domain: api\n"
	"descriptors:\n"
	"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
	"  - {key: a, rate_limit: {unit: day, requests_per_unit: 0}}\n"
	"  - {key: q, rate_limit: {unit: second, requests_per_unit: 2, algorithm: "
	"leaky_bucket, queue_size: 4}}\n";

/* A question in flight, and its answer. */
struct asked {
	struct wr_resp_wait *wait;
	size_t len;
	uint8_t answer[sizeof(struct wr_question_head) + WEIR_NEEDS_MAX * sizeof(struct wr_answer)];
};

/* One side: a table, an engine, a session, and its replies. */
struct side {
	struct wr_resp_host host; /* must be first: a pointer to the host is cast to its side */
	struct weir_table *table;
	struct weir_engine *engine, *fleet;
	uint8_t how;
	struct asked asked[WAITS_MAX];
	size_t waiting, questions;
	uint8_t *fresh; /* a copy of the empty table */
	struct wr_resp_session session;
	size_t len;
	uint8_t replies[REPLIES_BYTES];
	uint8_t room[WR_RESP_REPLY_BYTES_MAX];
};

static struct side whole, pieces;
static struct wr_resp_users users;

/* ---- the central store ---- */

static const uint8_t secret_bytes[WEIR_SECRET_BYTES] = "the fleet's";

static struct wr_resp_wait *begin(struct wr_resp_host *host)
{
	(void)host;
	return calloc(1, sizeof(struct wr_resp_wait));
}

static void end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
}

/* The answer depends only on the number of the question, so that both sides get the same. */
static size_t write_answer(const struct side *side, const void *question, size_t len,
			   uint8_t *bytes)
{
	struct wr_question_head head;
	size_t number = side->questions;

	require(len >= sizeof head && len <= WEIR_QUESTION_MAX);
	memcpy(&head, question, sizeof head);
	require(head.bytes == len && head.kind == WR_QUESTION_TAKE);
	if (head.count > WEIR_NEEDS_MAX || (side->how & FAILURES && number % 3 == 1))
		return 0;
	head.kind = WR_QUESTION_ANSWER;
	head.bytes = (uint32_t)(sizeof head + head.count * sizeof(struct wr_answer));
	memcpy(bytes, &head, sizeof head);
	for (size_t i = 0; i < head.count; i++) {
		struct wr_answer answer = {.flags = (number + i) % 2 ? WR_ANSWER_ADMITTED : 0,
					   .limit = 5,
					   .remaining = (uint32_t)(number % 5),
					   .retry_after_ns = number,
					   .reset_after_ns = 7};

		memcpy(bytes + sizeof head + i * sizeof answer, &answer, sizeof answer);
	}
	return head.bytes;
}

static void deliver(struct wr_resp_wait *wait, const void *bytes, size_t len)
{
	if (wait->ask)
		decider_answered(wait, bytes, len, NOW_NS);
	else
		wr_resp_answered(wait, bytes, len, NOW_NS);
}

static void take(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		 size_t len, uint64_t now_ns)
{
	struct side *side = (struct side *)host;
	struct asked *asked = &side->asked[side->waiting];

	require(side->waiting < WAITS_MAX);
	(void)now_ns;
	asked->wait = wait;
	asked->len = write_answer(side, question, len, asked->answer);
	side->questions++;
	if (side->how & AT_ONCE)
		deliver(wait, asked->answer, asked->len);
	else
		side->waiting++;
}

static void take_out(struct side *side, size_t at)
{
	memmove(&side->asked[at], &side->asked[at + 1],
		(--side->waiting - at) * sizeof *side->asked);
}

static void leave(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	struct side *side = (struct side *)host;
	size_t at = 0;

	while (at < side->waiting && side->asked[at].wait != wait)
		at++;
	require(at < side->waiting);
	take_out(side, at);
}

static void send_message(struct wr_resp_host *host, const void *message, size_t len,
			 uint64_t now_ns)
{
	(void)host, (void)now_ns;
	require(len <= WEIR_QUESTION_MAX && message);
}

static const uint8_t *secret(struct wr_resp_host *host)
{
	(void)host;
	return secret_bytes;
}

static const struct wr_resp_central central = {begin, end, take, leave, send_message, secret};

/* ---- a queue that answers at once ---- */

static struct wr_resp_wait *queue_begin(struct wr_resp_host *host)
{
	(void)host;
	return calloc(1, sizeof(struct wr_resp_wait));
}

static void queue_end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
}

static void queue_defer(struct wr_resp_host *host, struct wr_resp_wait *wait,
			const struct wr_wire_defer_request *request, uint64_t now_ns)
{
	struct wr_wire_defer_answer answered = {.ticket = "00112233445566778899aabbccddeeff",
						.position = request->field_count};
	size_t bytes = request->body.len;

	(void)host;
	require(request->key.len == WR_DEFER_KEY_BYTES && request->uri.ptr[0] == '/');
	require(request->field_count <= WR_DEFER_FIELDS_MAX && request->max_tries > 0);
	for (uint32_t i = 0; i < 2 * request->field_count; i++)
		for (size_t k = 0; k < request->fields[i].len; k++)
			bytes += request->fields[i].ptr[k] != '\n';
	if (bytes % 3 == 0) {
		answered.reason = "full";
		answered.sentence = "the queue is full";
	}
	wr_resp_answered(wait, &answered, sizeof answered, now_ns);
}

static void queue_ticket(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str text,
			 uint64_t now_ns)
{
	struct wr_wire_defer_answer answered = {.json = text};

	(void)host;
	wr_resp_answered(wait, &answered, sizeof answered, now_ns);
}

static void queue_leave(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	(void)wait;
}

static const struct wr_resp_queue queue = {queue_begin, queue_end, queue_defer, queue_ticket,
					   queue_leave};

/* With FAILURES the answers keep their order: the table decides then, and its decisions depend on
	 * the order. */
static void answer_one(struct side *side)
{
	bool newest = side->how & NEWEST_FIRST && !(side->how & FAILURES);
	size_t at = newest ? side->waiting - 1 : 0;
	struct asked asked = side->asked[at];

	take_out(side, at);
	deliver(asked.wait, asked.answer, asked.len);
}

/* ---- sides ---- */

/* The sides are made once, because making a table and rules takes far longer than most inputs. */
static void make_side(struct side *side)
{
	struct weir_engine_opts fleet_opts = {.size = sizeof fleet_opts,
					      .flags = WEIR_ENGINE_CENTRAL,
					      .fleet_secret = secret_bytes};

	side->table = make_table(256 << 10);
	require(weir_engine_new(side->table, load_rules(yaml), NULL, &side->engine) == 0);
	require(weir_engine_new(side->table, load_rules(yaml), &fleet_opts, &side->fleet) == 0);
	side->fresh = malloc(side->table->bytes);
	require(side->fresh != NULL);
	memcpy(side->fresh, side->table->base, side->table->bytes);
}

static void open_side(struct side *side, uint8_t how)
{
	if (!side->table)
		make_side(side);
	else
		memcpy(side->table->base, side->fresh, side->table->bytes);
	side->len = 0;
	memset(&side->host, 0, sizeof side->host);
	memset(&side->session, 0, sizeof side->session);
	side->how = how;
	side->waiting = side->questions = 0;
	side->host.engine = how & STORE ? side->fleet : side->engine;
	side->host.table = side->table;
	side->host.decider = &standin_decider;
	side->host.settler = &standin_settler;
	decider_hides_tokens = true;
	side->host.multi_room.max = WR_RESP_MULTI_ALL_MAX;
	side->host.central = how & STORE ? &central : NULL;
	side->host.queue = how & UNIX_SOCKET ? &queue : NULL;
	side->host.waits_max = how & FEW ? 2 : WAITS_MAX;
	side->host.users = how & PASSWORDS ? &users : NULL;
	side->host.started_ns = NOW_NS;
	side->session.operates = (how & OPERATES) != 0;
	side->session.unix_socket = (how & UNIX_SOCKET) != 0;
	side->session.id = 7;
	wr_resp_session_begin(&side->session, &side->host, NOW_NS);
	side->session.linked = side->session.unix_socket;
}

static void keep(struct side *side, const struct wr_resp_out *out)
{
	size_t len = (size_t)(out->at - out->begin);

	require(side->len + len <= REPLIES_BYTES);
	memcpy(side->replies + side->len, out->begin, len);
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
	require(side->session.wait_count <= WR_RESP_WAITS_MAX);
	require(side->session.behind_bytes <= budget + WR_RESP_REPLY_BYTES_MAX);
	require(side->host.waits <= side->session.wait_count);
}

/* Copies each piece, so that the sanitizer sees every read beyond it. */
static void feed_piece(struct side *side, const uint8_t *data, size_t len, size_t budget)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, data, len);
	feed(side, copy, len, budget);
	free(copy);
	while (side->session.stopped && !side->session.ended) {
		if (side->waiting)
			answer_one(side);
		feed(side, NULL, 0, budget);
	}
}

static void answer_all(struct side *side)
{
	for (feed(side, NULL, 0, REPLIES_BYTES); side->waiting; feed(side, NULL, 0, REPLIES_BYTES))
		answer_one(side);
	require(!side->session.waits && side->session.behind_bytes == 0);
}

/* The reply of INFO depends on the time of the answers. */
static bool tells_counts(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i + 4 <= size; i++)
		if (strncasecmp((const char *)data + i, "info", 4) == 0)
			return true;
	return false;
}

/* ---- replies ---- */

static size_t line_end(const struct side *side, size_t at)
{
	const uint8_t *end = memchr(side->replies + at, '\n', side->len - at);

	require(end && end > side->replies + at && end[-1] == '\r');
	return (size_t)(end - side->replies) + 1;
}

/* Returns the end of the reply at `at`. */
static size_t pass_reply(const struct side *side, size_t at, int depth)
{
	char mark = (char)side->replies[at];
	size_t next = line_end(side, at);
	long count = strtol((const char *)side->replies + at + 1, NULL, 10);

	require(depth < DEPTH_MAX && strchr("+-:$*%~=_", mark));
	if (mark == '$' || mark == '=') {
		if (count < 0)
			return next;
		require(side->len - next >= (size_t)count + 2);
		require(memcmp(side->replies + next + count, "\r\n", 2) == 0);
		return next + (size_t)count + 2;
	}
	if (mark != '*' && mark != '%' && mark != '~')
		return next;
	for (long i = 0; i < (mark == '%' ? 2 * count : count); i++)
		next = pass_reply(side, next, depth + 1);
	return next;
}

/* A line that only a browser sends (POST, Host:) has no reply. */
static void check_replies(const struct side *side)
{
	uint64_t replies = 0;

	for (size_t at = 0; at < side->len; replies++)
		at = pass_reply(side, at, 0);
	require(replies == side->host.tally.commands + side->host.tally.bad ||
		(side->session.ended && replies + 1 == side->host.tally.commands));
}

static void compare(void)
{
	require(whole.len == pieces.len && memcmp(whole.replies, pieces.replies, whole.len) == 0);
	require(whole.session.ended == pieces.session.ended);
	check_replies(&whole);
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
	feed_piece(&whole, data + 3, size - 3, REPLIES_BYTES);
	answer_all(&whole);
	for (size_t at = 3; at < size && !pieces.session.ended; at += piece) {
		feed_piece(&pieces, data + at, size - at < piece ? size - at : piece, budget);
		if (pieces.waiting && at % 3)
			answer_one(&pieces);
	}
	if (!(data[0] & STORE) || (size % 2 && !tells_counts(data + 3, size - 3))) {
		answer_all(&pieces);
		compare();
	}
	wr_resp_session_end(&whole.session);
	wr_resp_session_end(&pieces.session); /* questions may still be in flight */
	require(pieces.waiting == 0 && decider_open == 0);
	return 0;
}
