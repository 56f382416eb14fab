/* Tests commands that wait for the central store: several questions are in flight at once, and
 * replies stay in order. The test replaces the central store and decides when and in which order it
 * answers. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "limiter/standin.h"
#include "wire/resp/decider.h"

#define WAITS 300

static struct {
	struct store store;
	struct wr_resp_wait
		*asked[WAITS]; /* waits in the order of the commands; NULL: answered or abandoned */
	struct {
		uint8_t bytes[512];
		size_t len;
	} questions[WAITS];
	int count; /* number of questions so far */
	int open;  /* number of waits that have begun and not ended */
	int left;
	bool at_once; /* each question is answered before `ask` returns */
	bool no_secret;
	struct talk *talk;
} fake;

static struct wr_resp_wait *begin(struct wr_resp_host *host)
{
	(void)host;
	fake.open++;
	return calloc(1, sizeof(struct wr_resp_wait));
}

static void end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
	fake.open--;
}

/* Passes the answer to question `at` to the session. If `len` is 0, the central store has not
 * answered. */
static bool deliver(int at, const void *bytes, size_t len)
{
	struct wr_resp_wait *wait = fake.asked[at];

	assert_non_null(wait);
	fake.asked[at] = NULL;
	return wait->ask ? decider_answered(wait, bytes, len, fake.talk->rig.now_ns)
			 : wr_resp_answered(wait, bytes, len, fake.talk->rig.now_ns);
}

static bool answer(int at)
{
	struct store *store = &fake.store;

	memcpy(store->bytes, fake.questions[at].bytes, fake.questions[at].len);
	store->len = (int)fake.questions[at].len;
	store_serve(store, fake.talk->rig.now_ns);
	return deliver(at, store->answer, store->answer_len);
}

static bool fail_to_answer(int at)
{
	return deliver(at, NULL, 0);
}

static void take(struct wr_resp_host *host, struct wr_resp_wait *wait, const void *question,
		 size_t len, uint64_t now_ns)
{
	(void)host;
	(void)now_ns;
	assert_true(fake.count < WAITS && len <= sizeof fake.questions->bytes);
	fake.asked[fake.count] = wait;
	memcpy(fake.questions[fake.count].bytes, question, len);
	fake.questions[fake.count].len = len;
	fake.count++;
	if (fake.at_once)
		assert_false(answer(fake.count - 1)); /* the session writes the reply itself */
}

static void leave(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	for (int i = 0; i < fake.count; i++)
		if (fake.asked[i] == wait)
			fake.asked[i] = NULL;
	fake.left++;
}

static void send_message(struct wr_resp_host *host, const void *message, size_t len,
			 uint64_t now_ns)
{
	(void)host;
	memcpy(fake.store.bytes, message, len);
	fake.store.len = (int)len;
	store_serve(&fake.store, now_ns);
}

static const uint8_t *secret(struct wr_resp_host *host)
{
	static const uint8_t bytes[WEIR_SECRET_BYTES] = "the fleet's";

	(void)host;
	return fake.no_secret ? NULL : bytes;
}

static const struct wr_resp_central central = {begin, end, take, leave, send_message, secret};

static struct talk *open_talk(void)
{
	memset(&fake, 0, sizeof fake);
	fake.talk = talk_open(NULL);
	talk_with_central(fake.talk, &central);
	fake.talk->host->decider = &standin_decider;
	fake.talk->host->settler = &standin_settler;
	decider_resets = 0;
	decider_no_memory = false;
	return fake.talk;
}

static void close_talk(struct talk *talk)
{
	talk_close(talk);
	assert_int_equal(fake.open, 0);
	assert_int_equal(decider_open, 0);
}

/* Returns the replies that the session writes without new input. */
static const char *listen(struct talk *talk)
{
	return say_bytes(talk, NULL, 0);
}

#define CHECK(user) "WEIR.CHECK api user " user "\r\n"

/* Returns the verdicts and remaining numbers of all replies, such as "admit 2, refuse 0". */
static const char *verdicts(const char *replies)
{
	static char text[4096];
	const char *at = replies;

	text[0] = '\0';
	while ((at = strstr(at, "$7\r\nverdict\r\n"))) {
		char word[16], left[16] = "-";
		const char *remaining = strstr(at, "remaining\r\n:");

		assert_int_equal(sscanf(at, "$7 verdict $%*d %15[a-z]", word), 1);
		if (remaining)
			sscanf(remaining, "remaining\r\n:%15[0-9]", left);
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s",
			 text[0] ? ", " : "", word, left);
		at++;
	}
	return text;
}

/* Three questions are sent before the first answer. The last question is answered first, and its
 * reply waits for the replies before it. */
static void test_overlap_in_order(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	expect(talk, CHECK("1") CHECK("1") CHECK("2") "PING\r\n", "");
	assert_int_equal(fake.count, 3);
	assert_false(answer(2));
	assert_string_equal(listen(talk), "");
	assert_true(answer(0));
	assert_string_equal(verdicts(listen(talk)), "admit 2");
	assert_null(strstr(talk->replies, "PONG"));
	assert_true(answer(1));
	assert_string_equal(verdicts(listen(talk)), "admit 1, admit 2");
	assert_string_equal(talk->replies + talk->len - 7, "+PONG\r\n");
	assert_int_equal(talk->session.wait_count, 0);
	assert_int_equal(talk->host->waits, 0);
	assert_int_equal(talk->session.behind_bytes, 0);
	close_talk(talk);
}

/* The questions of a transaction are in flight at once, too. Replies stay in order, and the reply
 * to the command after EXEC comes last. */
static void test_transaction(void **state)
{
	struct talk *talk = open_talk();
	const char *pong;

	(void)state;
	expect(talk, "MULTI\r\n" CHECK("1") "PING\r\n" CHECK("1") "EXEC\r\nECHO end\r\n",
	       "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n");
	assert_int_equal(fake.count, 2);
	assert_false(answer(1));
	assert_true(answer(0));
	assert_string_equal(verdicts(listen(talk)),
			    "admit 1, admit 2"); /* the second question was answered first */
	pong = strstr(talk->replies, "+PONG\r\n");
	assert_non_null(pong);
	assert_true(strstr(talk->replies, "verdict") < pong);
	assert_non_null(strstr(pong, "verdict"));
	assert_string_equal(talk->replies + talk->len - 9, "$3\r\nend\r\n");
	assert_int_equal(talk->host->multi_room.held, 0);
	close_talk(talk);
}

/* central can answer before it sends the question: if it remembers a refusal, or if its circuit
 * breaker is open. */
static void test_answered_at_once(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	fake.at_once = true;
	say(talk, CHECK("1") CHECK("1") CHECK("1") CHECK("1") "PING\r\n");
	assert_string_equal(verdicts(talk->replies), "admit 2, admit 1, admit 0, refuse 0");
	assert_string_equal(talk->replies + talk->len - 7, "+PONG\r\n");
	fake.at_once = false;
	say(talk, CHECK("2"));
	fake.at_once = true;
	say(talk, CHECK("2")); /* the first question is in flight */
	assert_string_equal(talk->replies, "");
	answer(4);
	assert_string_equal(verdicts(listen(talk)), "admit 1, admit 2");
	close_talk(talk);
}

/* Without an answer this node's share decides. The share is the whole limit, because there is one
 * node. */
static void test_store_fails(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	for (int i = 0; i < 4; i++) {
		say(talk, CHECK("1"));
		assert_true(fail_to_answer(i));
		assert_string_equal(verdicts(listen(talk)), i < 3 ? (i == 0   ? "admit 2"
								     : i == 1 ? "admit 1"
									      : "admit 0")
								  : "refuse 0");
	}
	assert_int_equal(fake.store.reports, 3); /* units taken without the central store */
	close_talk(talk);
}

/* Replies of local rules, and errors, are sent after the reply to an earlier command that waits. */
static void test_errors_keep_their_place(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	say(talk, CHECK("1") "WEIR.CHECK api user\r\nNOSUCH\r\nWEIR.CHECK api nobody 1\r\n");
	assert_string_equal(talk->replies, "");
	assert_int_equal(fake.count, 1);
	answer(0);
	listen(talk);
	assert_string_equal(verdicts(talk->replies), "admit 2, admit -");
	assert_true(strstr(talk->replies, "verdict") < strstr(talk->replies, "-ERR wrong number"));
	assert_true(strstr(talk->replies, "-ERR wrong number") <
		    strstr(talk->replies, "-ERR unknown"));
	close_talk(talk);
}

/* QUIT or a protocol error ends the session, after the replies to all commands before it. */
static void test_ends_in_its_turn(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	expect(talk, CHECK("1") "QUIT\r\nPING\r\n", "");
	assert_true(talk->session.ended);
	assert_false(wr_resp_session_over(&talk->session));
	expect(talk, "PING\r\n", "");
	assert_true(answer(0));
	assert_string_equal(verdicts(listen(talk)), "admit 2");
	assert_string_equal(talk->replies + talk->len - 5, "+OK\r\n");
	assert_true(wr_resp_session_over(&talk->session));
	talk_again(talk);
	expect(talk, CHECK("1") "*x\r\n", "");
	assert_true(answer(1));
	listen(talk);
	assert_non_null(strstr(talk->replies, "-ERR Protocol error"));
	assert_true(wr_resp_session_over(&talk->session));
	close_talk(talk);
}

/* HELLO changes the protocol only for the commands after it. */
static void test_protocol_of_each(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	say(talk, CHECK("1") "HELLO 3\r\n" CHECK("1"));
	answer(0);
	answer(1);
	listen(talk);
	assert_memory_equal(talk->replies, "*16\r\n", 5);
	assert_non_null(strstr(talk->replies, "%7\r\n$6\r\nserver"));
	assert_non_null(strstr(talk->replies, "%8\r\n$7\r\nverdict"));
	close_talk(talk);
}

/* 256 commands of a session may wait, and waits_max commands of the host. More commands run
 * later. */
static void test_bounds(void **state)
{
	static char many[WAITS * 40];
	struct talk *talk = open_talk();

	(void)state;
	append(many, sizeof many, "WEIR.CHECK api \\hits 1\r\n", 260);
	say(talk, many);
	assert_int_equal(fake.count, 256);
	assert_true(talk->session.stopped);
	answer(0);
	assert_string_equal(verdicts(listen(talk)), "admit 6");
	assert_int_equal(fake.count, 257);
	assert_true(talk->session.stopped);
	for (int i = 1; i < 257; i++)
		answer(i);
	listen(talk);
	assert_int_equal(fake.count, 260);
	assert_false(talk->session.stopped);
	for (int i = 257; i < 260; i++)
		answer(i);
	listen(talk);
	assert_int_equal(talk->host->waits, 0);
	talk->host->waits_max = 2;
	say(talk, CHECK("1") CHECK("1") CHECK("1"));
	assert_int_equal(fake.count, 262);
	assert_true(talk->session.stopped);
	answer(260);
	listen(talk);
	assert_int_equal(fake.count, 263);
	close_talk(talk); /* two questions are in flight */
	assert_int_equal(fake.left, 2);
}

/* Replies that are stored after a waiting command count towards the budget. */
static void test_kept_replies_are_bounded(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	talk->budget = 500;
	say(talk, CHECK("1") "COMMAND\r\nPING\r\n");
	assert_true(talk->session.stopped);
	assert_true(talk->session.behind_bytes > 1000);
	answer(0);
	talk->budget = REPLIES_BYTES;
	listen(talk);
	assert_false(talk->session.stopped);
	assert_string_equal(talk->replies + talk->len - 7, "+PONG\r\n");
	close_talk(talk);
}

/* When the client disconnects, questions in flight are abandoned, and units that were granted
 * before the reply are given back. */
static void test_client_disconnects(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	say(talk, CHECK("1") CHECK("1") CHECK("1"));
	assert_false(answer(1));
	assert_false(answer(2));
	talk_again(talk);
	assert_int_equal(fake.left, 1);
	assert_int_equal(fake.store.returns, 2);
	fake.at_once = true;
	assert_string_equal(verdicts(say(talk, CHECK("1"))), "admit 2");
	close_talk(talk);
}

static void test_reset_and_peek(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	fake.at_once = true;
	talk->session.operates = true;
	say(talk, CHECK("1"));
	assert_string_equal(verdicts(say(talk, "WEIR.PEEK api user 1\r\n")), "admit 2");
	expect(talk, "WEIR.RESET api user 1\r\n", ":1\r\n");
	assert_int_equal(decider_resets, 1);
	decider_no_memory = true;
	expect(talk, CHECK("1"), "-ERR out of memory\r\n");
	close_talk(talk);
}

/* A bucket of 5 tokens that gets one token a second has the same numbers in the central store as in
 * the table. */
static void test_throttle(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	talk->session.operates = true;
	expect(talk, "CL.THROTTLE k 4 1 1\r\nTHROTTLE k 5 1 1 3\r\n", "");
	answer(1);
	answer(0);
	assert_string_equal(listen(talk), "*5\r\n:0\r\n:5\r\n:1\r\n:-1\r\n:4\r\n"
					  "*5\r\n:1\r\n:5\r\n:2\r\n:3\r\n:0\r\n");
	fake.at_once = true;
	expect(talk, "CL.THROTTLE k 4 1 1 2\r\n", "*5\r\n:1\r\n:5\r\n:1\r\n:1\r\n:4\r\n");
	expect(talk, "CL.THROTTLE k 4 1 1 0\r\n", "*5\r\n:0\r\n:5\r\n:1\r\n:-1\r\n:4\r\n");
	expect(talk, "CL.THROTTLE k 4 1 1 -2\r\n", "*5\r\n:0\r\n:5\r\n:3\r\n:-1\r\n:2\r\n");
	assert_int_equal(fake.store.returns, 1);
	assert_int_equal(fake.store.items[0].id_len, strlen("throttle/1s"));
	close_talk(talk);
}

/* There are two nodes, and each has half of the bucket. The central store gets reports of the units
 * that were taken. */
static void test_throttle_without_answer(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	weir_fleet_note(talk->rig.table, 2, NOW_NS);
	say(talk, "CL.THROTTLE k 3 1 1\r\nCL.THROTTLE k 3 1 1\r\nCL.THROTTLE k 3 1 1\r\n");
	for (int i = 0; i < 3; i++)
		fail_to_answer(i);
	assert_string_equal(listen(talk), "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n"
					  "*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:2\r\n"
					  "*5\r\n:1\r\n:2\r\n:0\r\n:1\r\n:2\r\n");
	assert_int_equal(fake.store.reports, 2);
	fake.no_secret = true;
	expect(talk, "CL.THROTTLE other 3 1 1\r\n", "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:1\r\n");
	assert_int_equal(fake.count, 3);
	close_talk(talk);
}

/* Units granted by the central store are charged to this node's share, too. */
static void test_throttle_charges_share(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	fake.at_once = true;
	say(talk, "CL.THROTTLE k 3 1 1 2\r\n");
	fake.at_once = false;
	weir_fleet_note(talk->rig.table, 2, NOW_NS);
	say(talk, "CL.THROTTLE k 3 1 1\r\n");
	fail_to_answer(1);
	assert_memory_equal(listen(talk), "*5\r\n:1\r\n", 8);
	close_talk(talk);
}

/* ---- for the nginx module ---- */

static size_t put_command(uint8_t *at, const char *name, const void *bytes, size_t len)
{
	size_t head = (size_t)sprintf((char *)at, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name),
				      name, len);

	memcpy(at + head, bytes, len);
	at[head + len] = '\r';
	at[head + len + 1] = '\n';
	return head + len + 2;
}

static void test_ask_and_tell(void **state)
{
	struct talk *talk = open_talk();
	struct rig node;
	uint8_t bytes[1024], question[512];
	size_t len;

	(void)state;
	talk->session.unix_socket = talk->session.linked = true;
	node = talk->rig;
	node.ask = NULL;
	assert_int_equal(rig_ask(&node, "user=7"), WEIR_WAIT);
	len = (size_t)weir_ask_question(node.ask, question, sizeof question);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.ASK", question, len));
	add_bytes(talk, bytes, put_command(bytes, "WEIR.ASK", question, len));
	assert_int_equal(fake.count, 2);
	answer(1);
	answer(0);
	listen(talk);
	assert_memory_equal(talk->replies, "$64\r\n", 5);
	assert_int_equal(talk->len, 2 * (5 + 64 + 2));
	assert_int_equal(weir_ask_answer(node.ask, talk->replies + 5, 64, node.now_ns), WEIR_ADMIT);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.ASK", question, len));
	fail_to_answer(2);
	assert_string_equal(listen(talk), "$-1\r\n");
	weir_ask_cancel(node.ask, node.now_ns);
	len = (size_t)weir_ask_question(node.ask, question, sizeof question);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.TELL", question, len));
	assert_string_equal(talk->replies, "+OK\r\n");
	assert_int_equal(fake.store.returns, 1);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.ASK", question, len));
	assert_memory_equal(talk->replies, "-ERR ", 5); /* a message is not a question */
	say_bytes(talk, bytes, put_command(bytes, "WEIR.TELL", "x", 1));
	assert_memory_equal(talk->replies, "-ERR ", 5);
	weir_ask_done(node.ask);
	close_talk(talk);
}

/* After a worker has closed its connection, its questions are not sent, but its messages are. */
static void test_ask_of_closed_connection(void **state)
{
	struct talk *talk = open_talk();
	struct rig node;
	uint8_t bytes[1024], question[512];
	size_t len;

	(void)state;
	talk->session.unix_socket = talk->session.linked = talk->session.gone = true;
	node = talk->rig;
	node.ask = NULL;
	assert_int_equal(rig_ask(&node, "user=7"), WEIR_WAIT);
	len = (size_t)weir_ask_question(node.ask, question, sizeof question);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.ASK", question, len));
	assert_string_equal(talk->replies, "$-1\r\n");
	assert_int_equal(fake.count, 0);
	assert_int_equal(weir_ask_store_failed(node.ask, node.now_ns), WEIR_ADMIT);
	len = (size_t)weir_ask_question(node.ask, question, sizeof question);
	say_bytes(talk, bytes, put_command(bytes, "WEIR.TELL", question, len));
	assert_string_equal(talk->replies, "+OK\r\n");
	assert_int_equal(fake.store.reports, 1);
	weir_ask_done(node.ask);
	close_talk(talk);
}

static void test_link_key_needed(void **state)
{
	struct talk *talk = open_talk();

	(void)state;
	say(talk, "WEIR.FLEET\r\n");
	assert_memory_equal(talk->replies, "-NOPERM ", 8);
	talk->session.unix_socket = true;
	say(talk,
	    "WEIR.FLEET\r\n"); /* a process that may use the socket, but has not sent the key */
	assert_memory_equal(talk->replies, "-NOPERM ", 8);
	talk->session.linked = true;
	say(talk, "WEIR.FLEET\r\n");
	assert_memory_equal(talk->replies, "$192\r\nthe fleet's", 17);
	fake.no_secret = true;
	say(talk, "WEIR.FLEET\r\n");
	assert_memory_equal(talk->replies, "-NOTYET ", 8);
	talk->host->central = NULL;
	say(talk, "WEIR.FLEET\r\n");
	assert_memory_equal(talk->replies, "-NOSTORE ", 9);
	close_talk(talk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlap_in_order),
		cmocka_unit_test(test_transaction),
		cmocka_unit_test(test_answered_at_once),
		cmocka_unit_test(test_store_fails),
		cmocka_unit_test(test_errors_keep_their_place),
		cmocka_unit_test(test_ends_in_its_turn),
		cmocka_unit_test(test_protocol_of_each),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_kept_replies_are_bounded),
		cmocka_unit_test(test_client_disconnects),
		cmocka_unit_test(test_reset_and_peek),
		cmocka_unit_test(test_throttle),
		cmocka_unit_test(test_throttle_without_answer),
		cmocka_unit_test(test_throttle_charges_share),
		cmocka_unit_test(test_ask_and_tell),
		cmocka_unit_test(test_ask_of_closed_connection),
		cmocka_unit_test(test_link_key_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
