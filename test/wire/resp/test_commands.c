/* Tests the exact replies to commands about the connection and the server. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <string.h>

static void test_ping_echo(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "PING", "+PONG\r\n");
	expect_array(talk, "pInG hi", "$2\r\nhi\r\n");
	expect_array(talk, "PING a b", "-ERR wrong number of arguments for 'ping' command\r\n");
	expect_array(talk, "ECHO hi", "$2\r\nhi\r\n");
	expect_array(talk, "ECHO", "-ERR wrong number of arguments for 'echo' command\r\n");
	talk_close(talk);
}

static void test_unknown(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "GET a b",
		     "-ERR unknown command 'GET', with args beginning with: 'a' 'b' \r\n");
	expect(talk, "*1\r\n$4\r\na\r\nb\r\n",
	       "-ERR unknown command 'a  b', with args beginning with: \r\n");
	expect_array(talk, "CLIENT", "-ERR wrong number of arguments for 'client' command\r\n");
	expect_array(talk, "CLIENT KILL",
		     "-ERR unknown subcommand 'KILL'. COMMAND DOCS lists the subcommands of "
		     "'client'.\r\n");
	expect_array(talk, "CLIENT ID 1",
		     "-ERR wrong number of arguments for 'client|id' command\r\n");
	expect_array(talk, "CLIENTX",
		     "-ERR unknown command 'CLIENTX', with args beginning with: \r\n");
	talk_close(talk);
}

/* Errors show only the beginning of a long argument. */
static void test_unknown_long(void **state)
{
	struct talk *talk = talk_open(NULL);
	char words[900];

	(void)state;
	memset(words, 'x', sizeof words);
	words[300] = words[600] = ' ';
	words[899] = '\0';
	say_array(talk, words);
	assert_int_equal(strlen(talk->replies),
			 strlen("-ERR unknown command '', with args beginning with: '' \r\n") +
				 256);
	talk_close(talk);
}

static void test_select_config(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "SELECT 0", "+OK\r\n");
	expect_array(talk, "SELECT 1", "-ERR DB index is out of range\r\n");
	expect_array(talk, "SELECT x", "-ERR value is not an integer or out of range\r\n");
	expect_array(talk, "CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
	expect_array(talk, "CONFIG GET Appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
	expect_array(talk, "CONFIG GET dir", "*0\r\n");
	expect_array(talk, "CONFIG SET save x",
		     "-ERR unknown subcommand 'SET'. COMMAND DOCS lists the subcommands of "
		     "'config'.\r\n");
	talk_close(talk);
}

static void test_client(void **state)
{
	struct talk *talk = talk_open(NULL);
	char text[512], reply[600];
	int len;

	(void)state;
	expect_array(talk, "CLIENT GETNAME", "$-1\r\n");
	expect_array(talk, "CLIENT SETNAME bob", "+OK\r\n");
	expect_array(talk, "CLIENT GETNAME", "$3\r\nbob\r\n");
	expect(talk, "client setname \"a b\"\r\n",
	       "-ERR Client names cannot contain spaces, newlines or special characters, and have "
	       "64 bytes at most.\r\n");
	expect_array(talk, "CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n");
	expect_array(talk, "CLIENT SETINFO lib-ver 5.0", "+OK\r\n");
	expect_array(talk, "CLIENT SETINFO x y", "-ERR Unrecognized option 'x'\r\n");
	expect_array(talk, "CLIENT NO-EVICT on", "+OK\r\n");
	expect_array(talk, "CLIENT NO-EVICT maybe", "-ERR syntax error\r\n");
	snprintf(reply, sizeof reply, ":%llu\r\n", (unsigned long long)talk->session.id);
	expect_array(talk, "CLIENT ID", reply);
	talk->rig.now_ns += 7 * SECOND_NS;
	len = snprintf(text, sizeof text,
		       "id=%llu addr=192.0.2.1:4711 laddr= fd=0 name=bob age=7 idle=0 flags=N db=0 "
		       "sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 "
		       "rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=client|info "
		       "user=default redir=-1 resp=2 lib-name=redis-py lib-ver=5.0\n",
		       (unsigned long long)talk->session.id);
	snprintf(reply, sizeof reply, "$%d\r\n%s\r\n", len, text);
	expect_array(talk, "CLIENT INFO", reply);
	talk_close(talk);
}

static void test_hello(void **state)
{
	struct talk *talk = talk_open(NULL);
	char two[256], three[256];

	(void)state;
	snprintf(two, sizeof two,
		 "*14\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n"
		 "$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:%llu\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
		 "$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
		 strlen("7.0.0"), "7.0.0", (unsigned long long)talk->session.id);
	snprintf(three, sizeof three,
		 "%%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n"
		 "$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:%llu\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
		 "$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
		 strlen("7.0.0"), "7.0.0", (unsigned long long)talk->session.id);
	expect_array(talk, "HELLO", two);
	expect_array(talk, "HELLO 3", three);
	expect_array(talk, "CLIENT GETNAME", "_\r\n");
	expect_array(talk, "CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
	expect_array(talk, "HELLO 4", "-NOPROTO unsupported protocol version\r\n");
	expect_array(talk, "HELLO x",
		     "-ERR Protocol version is not an integer or out of range\r\n");
	expect_array(talk, "HELLO 2 NAME x", "-ERR Syntax error in HELLO option 'NAME'\r\n");
	expect_array(talk, "HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n");
	expect_array(talk, "CLIENT GETNAME", "_\r\n"); /* the failed HELLO changed nothing */
	expect_array(talk, "HELLO 3 AUTH default any SETNAME bob", three);
	expect_array(talk, "CLIENT GETNAME", "$3\r\nbob\r\n");
	expect_array(talk, "HELLO 2", two);
	expect_array(talk, "RESET", "+RESET\r\n");
	expect_array(talk, "CLIENT GETNAME", "$-1\r\n");
	talk_close(talk);
}

static void test_command(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "COMMAND COUNT", ":30\r\n");
	expect_array(talk, "COMMAND INFO ping nosuch",
		     "*2\r\n*10\r\n$4\r\nping\r\n:-1\r\n*3\r\n+fast\r\n+loading\r\n+stale\r\n"
		     ":0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n");
	expect_array(talk, "COMMAND INFO CL.THROTTLE",
		     "*1\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n"
		     ":1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n");
	expect_array(
		talk, "COMMAND DOCS client|id nosuch",
		"*2\r\n$9\r\nclient|id\r\n*8\r\n$7\r\nsummary\r\n$36\r\nreturns the number of the "
		"connection\r\n$5\r\nsince\r\n$5\r\n0.1.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n$"
		"6\r\nsyntax\r\n$0\r\n\r\n");
	assert_memory_equal(say_array(talk, "COMMAND"), "*30\r\n*10\r\n$11\r\ncl.throttle\r\n", 27);
	assert_memory_equal(say_array(talk, "COMMAND DOCS"), "*60\r\n$11\r\ncl.throttle\r\n", 23);
	assert_memory_equal(say_array(talk, "COMMAND LIST"), "*30\r\n$11\r\ncl.throttle\r\n", 23);
	say_array(talk, "HELLO 3");
	expect_array(talk, "COMMAND INFO ping",
		     "*1\r\n*10\r\n$4\r\nping\r\n:-1\r\n~3\r\n+fast\r\n+loading\r\n+stale\r\n"
		     ":0\r\n:0\r\n:0\r\n~0\r\n~0\r\n~0\r\n*0\r\n");
	talk_close(talk);
}

/* No reply is longer than WR_RESP_REPLY_BYTES_MAX. */
static void test_longest_replies(void **state)
{
	struct talk *talk = talk_open(NULL);
	char docs[400] = "COMMAND DOCS", info[400] = "COMMAND INFO";

	(void)state;
	append(docs, sizeof docs, " client", 32);
	append(info, sizeof info, " client", 32);
	say_array(talk, docs);
	assert_true(talk->len > 10000 && talk->len < WR_RESP_REPLY_BYTES_MAX);
	say_array(talk, info);
	assert_true(talk->len > 10000 && talk->len < WR_RESP_REPLY_BYTES_MAX);
	append(info, sizeof info, " client", 1);
	expect_array(talk, info, "-ERR wrong number of arguments for 'command|info' command\r\n");
	talk_close(talk);
}

static void test_info(void **state)
{
	struct talk *talk = talk_open(NULL);
	const char *all;

	(void)state;
	expect_array(talk, "INFO clients", "$32\r\n# Clients\r\nconnected_clients:1\r\n\r\n");
	say_array(talk, "HELLO 3");
	expect_array(talk, "INFO clients", "=36\r\ntxt:# Clients\r\nconnected_clients:1\r\n\r\n");
	all = say_array(talk, "INFO");
	assert_non_null(strstr(all, "\r\nuptime_in_seconds:5\r\n"));
	assert_non_null(strstr(all, "\r\ntotal_commands_processed:4\r\n"));
	assert_non_null(strstr(all, "\r\nrules_generation:1\r\n"));
	assert_non_null(strstr(all, "\r\nweir_version:" WEIR_VERSION "\r\n"));
	assert_non_null(strstr(all, "\r\nrole:master\r\n"));
	talk_close(talk);
}

/* ---- passwords ---- */

static void test_auth(void **state)
{
	struct talk *talk = talk_open("secret\nann:pass:word\n\r\n");

	(void)state;
	expect_array(talk, "PING", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "CLIENT ID", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "CLIENT NOSUCH", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "CL.THROTTLE k 1 1 1", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "AUTH wrong",
		     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	expect_array(talk, "AUTH secre",
		     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	expect_array(talk, "AUTH ann secret",
		     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	expect_array(talk, "AUTH secret", "+OK\r\n");
	expect_array(talk, "PING", "+PONG\r\n");
	expect_array(talk, "RESET", "+RESET\r\n");
	expect_array(talk, "PING", "-NOAUTH Authentication required.\r\n");
	expect_array(talk, "AUTH ann pass:word", "+OK\r\n");
	expect_array(talk, "PING", "+PONG\r\n");
	talk_close(talk);
}

static void test_hello_auth(void **state)
{
	struct talk *talk = talk_open("secret");

	(void)state;
	assert_memory_equal(say_array(talk, "HELLO 3"), "-NOAUTH HELLO must be called", 28);
	expect_array(talk, "HELLO 3 AUTH default wrong",
		     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	assert_int_equal(talk->session.protocol, 2);
	assert_memory_equal(say_array(talk, "HELLO 3 AUTH default secret"), "%7\r\n", 4);
	expect_array(talk, "PING", "+PONG\r\n");
	talk_close(talk);
}

static void test_no_passwords(void **state)
{
	struct talk *talk = talk_open(NULL);

	(void)state;
	expect_array(talk, "AUTH x",
		     "-ERR AUTH <password> called without any password configured for the default "
		     "user. Are you sure your configuration is correct?\r\n");
	for (int i = 0; i < 2; i++) {
		expect_array(talk, i ? "AUTH ann x" : "HELLO 3 AUTH ann x",
			     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	}
	expect_array(talk, "AUTH default x", "+OK\r\n");
	assert_memory_equal(say_array(talk, "HELLO 3 AUTH default x"), "%7\r\n", 4);
	talk_close(talk);
}

/* An address may send 60 wrong passwords a minute, over all connections. After the 60th, the right
 * password is refused for a second, too. Right passwords do not count. */
static void test_guessing(void **state)
{
	struct talk *talk = talk_open("secret");

	(void)state;
	for (int i = 0; i < 100; i++)
		expect_array(talk, "AUTH secret", "+OK\r\n");
	for (int i = 0; i < 60; i++) {
		talk_again(talk);
		expect_array(talk, "AUTH wrong",
			     "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
	}
	expect_array(talk, "AUTH secret",
		     "-ERR too many failed attempts from this address, try again in 2 s\r\n");
	talk->session.address[8] = '2'; /* 192.0.2.2 */
	expect_array(talk, "AUTH secret", "+OK\r\n");
	talk->session.address[8] = '1';
	talk->rig.now_ns += SECOND_NS;
	expect_array(talk, "AUTH secret", "+OK\r\n");
	talk_close(talk);
}

static void come_from(struct talk *talk, const char *address)
{
	snprintf(talk->session.address, sizeof talk->session.address, "%s", address);
}

/* All IPv6 addresses of a /64 share one counter. The two spellings of an IPv4 address share one
 * counter, too. */
static void test_guessing_from_a_prefix(void **state)
{
	static const struct {
		const char *guesser, *same, *other;
	} cases[] = {
		{"2001:db8:1:2::3", "2001:db8:1:2:ffff::9", "2001:db8:1:3::3"},
		{"192.0.2.7", "::ffff:192.0.2.7", "192.0.2.8"},
	};
	struct talk *talk = talk_open("secret");

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		come_from(talk, cases[i].guesser);
		for (int n = 0; n < 60; n++)
			assert_memory_equal(say_array(talk, "AUTH wrong"), "-WRONGPASS", 10);
		assert_memory_equal(say_array(talk, "AUTH secret"), "-ERR too many", 13);
		come_from(talk, cases[i].same);
		assert_memory_equal(say_array(talk, "AUTH secret"), "-ERR too many", 13);
		come_from(talk, cases[i].other);
		expect_array(talk, "AUTH secret", "+OK\r\n");
	}
	talk_close(talk);
}

static void test_users_file(void **state)
{
	static struct wr_resp_users users;
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "the file contains no password"},
		{"\n\r\n", "the file contains no password"},
		{"a\n:x", "line 2: the user name must have 1 to 64 bytes"},
		{"a\n\nb:", "line 3: the password must have 1 to 256 bytes"},
	};
	struct weir_error error;
	char many[17 * 4 + 1] = "";

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(
			wr_resp_users_read(&users, cases[i].text, strlen(cases[i].text), &error),
			WEIR_EINVAL);
		assert_string_equal(error.text, cases[i].error);
	}
	append(many, sizeof many, "u:p\n", 17);
	assert_int_equal(wr_resp_users_read(&users, many, strlen(many), &error), WEIR_EINVAL);
	assert_string_equal(error.text, "line 17: more than 16 users");
	assert_int_equal(wr_resp_users_read(&users, many, 16 * 4, &error), 0);
	assert_int_equal(users.count, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ping_echo),    cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_unknown_long), cmocka_unit_test(test_select_config),
		cmocka_unit_test(test_client),       cmocka_unit_test(test_hello),
		cmocka_unit_test(test_command),      cmocka_unit_test(test_longest_replies),
		cmocka_unit_test(test_info),         cmocka_unit_test(test_auth),
		cmocka_unit_test(test_hello_auth),   cmocka_unit_test(test_no_passwords),
		cmocka_unit_test(test_guessing),     cmocka_unit_test(test_guessing_from_a_prefix),
		cmocka_unit_test(test_users_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
