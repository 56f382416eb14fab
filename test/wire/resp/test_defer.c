/* Tests WEIR.DEFER and WEIR.TICKET with a queue whose answers the test controls, and the JSON of a
 * ticket. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/resp/commands_defer.h"
#include "wire/check/ticket_json.h"

#define WAITS 300

static struct {
	struct wr_resp_wait
		*waits[WAITS]; /* waits in the order of the commands; NULL: answered or abandoned */
	struct wr_wire_defer_request last;
	char uri[64], body_first, body_last;
	struct weir_str ticket;
	char ticket_text[64];
	int count, open, left;
	bool no_memory;
} fake;

static struct wr_resp_wait *begin(struct wr_resp_host *host)
{
	struct wr_resp_wait *wait = fake.no_memory ? NULL : calloc(1, sizeof *wait);

	(void)host;
	fake.open += wait != NULL;
	return wait;
}

static void end(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	free(wait);
	fake.open--;
}

static void defer(struct wr_resp_host *host, struct wr_resp_wait *wait,
		  const struct wr_wire_defer_request *request, uint64_t now_ns)
{
	(void)host;
	(void)now_ns;
	assert_true(fake.count < WAITS);
	fake.waits[fake.count++] = wait;
	fake.last = *request;
	snprintf(fake.uri, sizeof fake.uri, "%.*s", (int)request->uri.len, request->uri.ptr);
	if (request->body.len) {
		fake.body_first = request->body.ptr[0];
		fake.body_last = request->body.ptr[request->body.len - 1];
	}
}

static void ticket(struct wr_resp_host *host, struct wr_resp_wait *wait, struct weir_str text,
		   uint64_t now_ns)
{
	(void)host;
	(void)now_ns;
	fake.waits[fake.count++] = wait;
	snprintf(fake.ticket_text, sizeof fake.ticket_text, "%.*s", (int)text.len, text.ptr);
}

static void leave(struct wr_resp_host *host, struct wr_resp_wait *wait)
{
	(void)host;
	for (int i = 0; i < fake.count; i++)
		if (fake.waits[i] == wait)
			fake.waits[i] = NULL;
	fake.left++;
}

static const struct wr_resp_queue queue = {begin, end, defer, ticket, leave};

static struct talk *open_talk(bool with_queue)
{
	struct talk *talk = talk_open("a-password");

	memset(&fake, 0, sizeof fake);
	talk->session.unix_socket = talk->session.linked = true;
	talk->host->queue = with_queue ? &queue : NULL;
	return talk;
}

static void close_talk(struct talk *talk)
{
	talk_close(talk);
	assert_int_equal(fake.open, 0);
}

static bool answer(int at, const struct wr_wire_defer_answer *answered)
{
	struct wr_resp_wait *wait = fake.waits[at];

	fake.waits[at] = NULL;
	return wr_resp_answered(wait, answered, sizeof *answered, NOW_NS);
}

/* Returns a command with these arguments. The argument BODY becomes `body` times x between < and
 * >. */
static char *make(const char *const *args, size_t count, size_t body, size_t *len)
{
	char *bytes = malloc(32768 + body);
	size_t at = (size_t)sprintf(bytes, "*%zu\r\n", count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(args[i], "BODY") != 0) {
			at += (size_t)sprintf(bytes + at, "$%zu\r\n%s\r\n", strlen(args[i]),
					      args[i]);
			continue;
		}
		at += (size_t)sprintf(bytes + at, "$%zu\r\n", body);
		memset(bytes + at, 'x', body);
		if (body > 1) {
			bytes[at] = '<';
			bytes[at + body - 1] = '>';
		}
		at += body;
		bytes[at++] = '\r';
		bytes[at++] = '\n';
	}
	*len = at;
	return bytes;
}

#define GOOD                                                                                       \
	{                                                                                          \
		"WEIR.DEFER", "1", "api", "api/user", "0123456789abcdef", "POST", "/orders?a=b",   \
			"descriptors", "1000", "86400", "20", "2500000000", "1000000000", "BODY",  \
			"host", "shop.example", "content-type", "text/plain"                       \
	}
#define COUNT(args) (sizeof(args) / sizeof *(args))

static const char *defer_args(struct talk *talk, const char *const *args, size_t count, size_t body)
{
	size_t len;
	char *bytes = make(args, count, body, &len);

	say_bytes(talk, bytes, len);
	free(bytes);
	return talk->replies;
}

static void test_stored(void **state)
{
	static const char *const args[] = GOOD;
	struct talk *talk = open_talk(true);
	struct wr_wire_defer_answer answered = {.ticket = "00112233445566778899aabbccddeeff",
						.position = 3,
						.expected_ns = 4500000000};

	(void)state;
	assert_string_equal(defer_args(talk, args, COUNT(args), 5), "");
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.last.max_waiting, 1000);
	assert_int_equal(fake.last.max_age_s, 86400);
	assert_int_equal(fake.last.max_tries, 20);
	assert_int_equal(fake.last.wait_ns, 2500000000);
	assert_int_equal(fake.last.interval_ns, 1000000000);
	assert_int_equal(fake.last.field_count, 2);
	assert_int_equal(fake.last.body.len, 5);
	assert_string_equal(fake.uri, "/orders?a=b");
	assert_true(answer(0, &answered));
	expect(talk, "", "*3\r\n$32\r\n00112233445566778899aabbccddeeff\r\n:3\r\n:4500000000\r\n");
	close_talk(talk);
}

/* A body of the maximum size arrives in pieces. One byte more is refused. */
static void test_large_body(void **state)
{
	static const char *const args[] = GOOD;
	struct talk *talk = open_talk(true);
	size_t len;
	char *bytes = make(args, COUNT(args), WR_DEFER_BODY_MAX, &len);

	(void)state;
	for (size_t at = 0; at < len; at += 16384)
		add_bytes(talk, bytes + at, len - at < 16384 ? len - at : 16384);
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.last.body.len, WR_DEFER_BODY_MAX);
	assert_int_equal(fake.body_first, '<');
	assert_int_equal(fake.body_last, '>');
	assert_int_equal(talk->host->large, 0);
	free(bytes);
	bytes = make(args, COUNT(args), WR_DEFER_BODY_MAX + 1, &len);
	say_bytes(talk, bytes, 16384);
	assert_true(talk->session.ended);
	free(bytes);
	close_talk(talk);
}

/* The larger limit does not apply to other commands or other clients. */
static void test_large_only_for_defer(void **state)
{
	static const char *const args[] = GOOD;
	static const char echo[] = "*2\r\n$4\r\nECHO\r\n$65537\r\n";
	struct talk *talk = open_talk(true);
	size_t len;
	char *bytes = make(args, COUNT(args), 65537, &len);

	(void)state;
	expect(talk, echo, "-ERR Protocol error: invalid bulk length\r\n");
	talk_again(talk);
	talk->host->users = NULL;
	talk->session.trusted = true;
	say_bytes(talk, bytes, len);
	assert_string_equal(talk->replies, "-ERR Protocol error: invalid bulk length\r\n");
	free(bytes);
	close_talk(talk);
}

/* The memory for all incomplete commands of a host is limited. */
static void test_memory_of_all(void **state)
{
	static const char *const args[] = GOOD;
	struct talk *talk = open_talk(true);
	size_t len;
	char *bytes = make(args, COUNT(args), 4 << 20, &len);

	(void)state;
	talk->host->large = WR_RESP_LARGE_ALL_MAX;
	for (size_t at = 0; at < len && !talk->session.ended; at += 16384)
		add_bytes(talk, bytes + at, len - at < 16384 ? len - at : 16384);
	assert_true(talk->session.ended);
	assert_int_equal(fake.count, 0);
	talk_again(talk);
	assert_int_equal(talk->host->large, WR_RESP_LARGE_ALL_MAX);
	free(bytes);
	close_talk(talk);
}

static void test_refused(void **state)
{
	static const char *const args[] = GOOD;
	struct talk *talk = open_talk(true);
	struct wr_wire_defer_answer answered = {.reason = "no_space",
						.sentence = "the disk of the queue is full"};

	(void)state;
	defer_args(talk, args, COUNT(args), 5);
	answer(0, &answered);
	expect(talk, "", "-DEFER no_space the disk of the queue is full\r\n");
	answered = (struct wr_wire_defer_answer){.reason = "away", .sentence = "nobody is there"};
	defer_args(talk, args, COUNT(args), 5);
	answer(1, &answered);
	expect(talk, "", "-DEFER away nobody is there\r\n");
	fake.no_memory = true;
	assert_string_equal(defer_args(talk, args, COUNT(args), 5),
			    "-DEFER busy too many requests are being written to the queue\r\n");
	talk->host->queue = NULL;
	assert_string_equal(defer_args(talk, args, COUNT(args), 5),
			    "-DEFER off there is no queue: start weir with --queue\r\n");
	talk->host->queue = &queue;
	talk_again(talk);
	talk->host->users = NULL;
	talk->session.trusted = true;
	assert_string_equal(defer_args(talk, args, COUNT(args), 5),
			    "-NOPERM 'weir.defer' is allowed only for nginx's workers, after "
			    "WEIR.LINK with the key of --link-key\r\n");
	expect(talk, "WEIR.TICKET 00\r\n",
	       "-NOPERM 'weir.ticket' is allowed only for nginx's workers, after WEIR.LINK with "
	       "the key of --link-key\r\n");
	close_talk(talk);
}

#define KEY "0123456789abcdef0123456789abcdef"

/* A worker may send a large request directly after WEIR.LINK, without waiting for the reply to
 * WEIR.LINK. */
static void test_large_request_behind_link(void **state)
{
	static const char *const args[] = GOOD;
	static const struct wr_secret key = {sizeof KEY - 1, KEY};
	static const char link[] = "WEIR.LINK " KEY "\r\n";
	struct talk *talk = open_talk(true);
	size_t len;
	char *bytes = make(args, COUNT(args), 65537, &len);
	char *both = malloc(len + sizeof link);

	(void)state;
	memcpy(both, link, sizeof link - 1);
	memcpy(both + sizeof link - 1, bytes, len);
	talk->host->users = NULL;
	talk_again(talk);
	talk->session.unix_socket = true;
	talk->host->link_key = &key;
	say_bytes(talk, both, sizeof link - 1 + len);
	assert_string_equal(talk->replies, "+OK\r\n");
	assert_int_equal(fake.count, 1);
	free(both);
	free(bytes);
	close_talk(talk);
}

/* A process on the socket may not send WEIR.DEFER before it has sent the link key, even if it has
 * logged in with the password. */
static void test_key(void **state)
{
	static const char *const forged[] = {
		"WEIR.DEFER", "1",       "api", "api/user", "0123456789abcdef",
		"POST",       "/orders", "d",   "1000",     "86400",
		"20",         "0",       "0",   "BODY",     "Remote-User",
		"root"};
	static const struct wr_secret key = {sizeof KEY - 1, KEY};
	struct talk *talk = open_talk(true);

	(void)state;
	talk_again(talk);
	talk->session.unix_socket = true;
	expect(talk, "WEIR.LINK " KEY "\r\n",
	       "-NOPERM there is no link key: start weir serve with --link-key FILE\r\n");
	talk->host->link_key = &key;
	expect(talk, "AUTH a-password\r\n", "+OK\r\n");
	defer_args(talk, forged, COUNT(forged), 5);
	assert_memory_equal(talk->replies, "-NOPERM ", 8);
	assert_int_equal(fake.count, 0);
	expect(talk, "WEIR.LINK 0123456789abcdef0123456789abcdeF\r\n",
	       "-WRONGPASS this is not the key in the file of --link-key\r\n");
	assert_true(talk->session.ended);
	assert_false(talk->session.linked);
	talk_again(talk);
	expect(talk, "WEIR.LINK " KEY "\r\n",
	       "-NOPERM 'weir.link' is allowed only on a Unix socket\r\n");
	talk->session.unix_socket = true;
	expect(talk, "WEIR.LINK " KEY "\r\n", "+OK\r\n");
	defer_args(talk, forged, COUNT(forged), 5);
	assert_int_equal(fake.count, 1);
	expect(talk, "RESET\r\n", "");
	assert_false(talk->session.linked);
	close_talk(talk);
}

/* Each argument is checked. The error names the wrong argument, and the queue gets no request. */
static void test_arguments(void **state)
{
	static char descriptors[16385 + 1];
	static const struct {
		int at;
		const char *value, *error;
	} bad[] = {
		{1, "2",
		 "the version of the arguments is not 1; use the same version of weir and of its "
		 "nginx module"},
		{2, "", "domain must have 1 to 255 bytes"},
		{4, "0123456789abcde", "key must have 16 bytes"},
		{5, "PO ST", "method is not a token of at most 16 bytes"},
		{5, "ABCDEFGHIJKLMNOPQ", "method is not a token of at most 16 bytes"},
		{6, "orders", "uri is not a path, with an optional query, of at most 8192 bytes"},
		{6, "/a b", "uri is not a path, with an optional query, of at most 8192 bytes"},
		{7, descriptors, "descriptors may have at most 16384 bytes"},
		{8, "0", "max_waiting is not a number of at least 1"},
		{9, "-1", "max_age_s is not a number of seconds from 1 to a year"},
		{10, "1000001", "max_tries is not a number from 1 to 1000000"},
		{11, "soon", "wait_ns is not a number"},
		{12, "", "interval_ns is not a number"},
		{14, "ho st", "the name or the value of a header field is invalid"},
		{14, "", "the name or the value of a header field is invalid"},
		{15, "shop\nSet-Cookie: x", "the name or the value of a header field is invalid"},
	};
	struct talk *talk = open_talk(true);

	(void)state;
	memset(descriptors, 'x', 16385);
	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *args[] = GOOD;
		char expected[128];

		args[bad[i].at] = bad[i].value;
		snprintf(expected, sizeof expected, "-DEFER bad %s\r\n", bad[i].error);
		assert_string_equal(defer_args(talk, args, COUNT(args), 5), expected);
	}
	const char *args[] = GOOD;

	assert_string_equal(defer_args(talk, args, COUNT(args) - 1, 5),
			    "-DEFER bad a header field needs a name and a value\r\n");
	assert_int_equal(fake.count, 0);
	descriptors[16384] = '\0'; /* the maximum length */
	args[7] = descriptors;
	assert_string_equal(defer_args(talk, args, COUNT(args), 5), "");
	assert_int_equal(fake.count, 1);
	close_talk(talk);
}

/* Replies to WEIR.TICKET are in the order of the commands, even if the answers come in another
 * order. */
static void test_tickets(void **state)
{
	struct talk *talk = open_talk(true);
	struct wr_wire_defer_answer known = {.json = WR_STR("{}")}, unknown = {0};

	(void)state;
	expect(talk, "WEIR.TICKET one\r\nWEIR.TICKET two\r\nWEIR.FLEET\r\n", "");
	assert_string_equal(fake.ticket_text, "two");
	assert_false(answer(1, &unknown));
	assert_true(answer(0, &known));
	expect(talk, "",
	       "$2\r\n{}\r\n$-1\r\n-NOSTORE the service has no Redis: start weir serve with "
	       "--redis\r\n");
	close_talk(talk);
}

/* 256 commands of a connection may wait; more commands run when answers have come. The waits of a
 * client that disconnects are abandoned. */
static void test_many(void **state)
{
	struct talk *talk = open_talk(true);
	struct wr_wire_defer_answer unknown = {0};
	char text[300 * 16] = "";

	(void)state;
	append(text, sizeof text, "WEIR.TICKET x\r\n", 260);
	expect(talk, text, "");
	assert_int_equal(fake.count, 256);
	assert_true(talk->session.stopped);
	for (int i = 0; i < 256; i++)
		answer(i, &unknown);
	say(talk, "");
	assert_int_equal(talk->len, 256 * 5);
	assert_int_equal(fake.count, 260);
	assert_false(talk->session.stopped);
	talk_again(talk);
	assert_int_equal(fake.left, 4);
	assert_int_equal(talk->host->waits, 0);
	close_talk(talk);
}

static void test_secrets(void **state)
{
	(void)state;
	assert_true(wr_wire_defer_is_secret(WR_STR("Authorization")));
	assert_true(wr_wire_defer_is_secret(WR_STR("COOKIE")));
	assert_true(wr_wire_defer_is_secret(WR_STR("X-Api-Key")));
	assert_false(wr_wire_defer_is_secret(WR_STR("Content-Type")));
	assert_false(wr_wire_defer_is_secret(WR_STR("Authorizatio")));
}

/* ---- JSON ---- */

static void expect_json(const struct wr_wire_ticket_view *view, const char *expected)
{
	char text[512];
	struct wr_buf out;

	wr_buf_init_fixed(&out, text, sizeof text);
	wr_wire_ticket_json(view, &out);
	assert_string_equal(text, expected);
}

static void test_json(void **state)
{
	struct wr_wire_ticket_view view = {.ticket = WR_STR("0a"),
					   .status = WR_TICKET_WAITING,
					   .position = 3,
					   .expected_us = 4500000,
					   .accepted_us = 1700000000250000,
					   .finished_us = 1700000001000000,
					   .expires_us = 1700086400250000};

	(void)state;
	expect_json(&view, "{\"ticket\":\"0a\",\"status\":\"waiting\",\"position\":3,"
			   "\"expected_delay\":4.500,\"tries\":0,"
			   "\"accepted\":\"2023-11-14T22:13:20.250Z\","
			   "\"expires\":\"2023-11-15T22:13:20.250Z\"}\n");
	view.status = WR_TICKET_DELIVERED;
	view.http_status = 201;
	view.tries = 1;
	expect_json(&view, "{\"ticket\":\"0a\",\"status\":\"delivered\",\"http_status\":201,"
			   "\"tries\":1,\"accepted\":\"2023-11-14T22:13:20.250Z\","
			   "\"finished\":\"2023-11-14T22:13:21.000Z\"}\n");
	view.status = WR_TICKET_DEAD;
	view.http_status = 0;
	view.reason = WR_STR("no \"answer\"");
	expect_json(&view, "{\"ticket\":\"0a\",\"status\":\"dead\",\"reason\":\"no "
			   "\\\"answer\\\"\",\"http_status\":null,\"tries\":1,"
			   "\"accepted\":\"2023-11-14T22:13:20.250Z\","
			   "\"finished\":\"2023-11-14T22:13:21.000Z\"}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stored),
		cmocka_unit_test(test_large_body),
		cmocka_unit_test(test_large_only_for_defer),
		cmocka_unit_test(test_memory_of_all),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_large_request_behind_link),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_tickets),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_secrets),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
