/* Tests the connections of the Redis backend: passwords, outages, signals and TLS. */
#include "queue/redis_rig.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <hiredis/hiredis.h>

static void test_wrong_password(void **state)
{
	struct weir_error why = {0};

	(void)state;
	snprintf(rig.url, sizeof rig.url, "redis+unix://nobody:pw@%s/redis.sock", redis.dir);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	assert_reason(wr_queue_state(rig.queue, &why), WR_QUEUE_AWAY);
	assert_non_null(strstr(why.text, "WRONGPASS"));
}

static void test_away_and_back(void **state)
{
	struct wr_queue_job put;
	struct wr_queue_request *taken;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "kept");
	taken = rig_take_one(&rig, "kept");
	redis_kill(&redis);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason,
		      WR_QUEUE_AWAY);
	assert_reason(rig_ticket(&rig, put.put.ticket).reason, WR_QUEUE_AWAY);
	expect_logged(&rig, "retrying every second");
	redis_start(&redis);
	wait_until_ok(&rig);
	/* The take from before the outage is still valid. */
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_OK);
	wr_queue_request_free(taken);
	put = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(put.ticket.found->state, WR_QUEUE_REQUEST_DELIVERED);
	wr_queue_request_free(put.ticket.found);
}

/* A put succeeds even if the connection was lost or the script was flushed before the put. */
static void test_connection_lost(void **state)
{
	(void)state;
	rig_open(&rig);
	expect_durable(&rig);
	redis_run(&redis, "CLIENT KILL TYPE normal SKIPME yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_run(&redis, "SCRIPT FLUSH");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_int_equal(rig_stats(&rig).waiting, 3);
}

static void test_unavailable_at_start(void **state)
{
	(void)state;
	redis_kill(&redis);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	expect_logged(&rig, "no connection");
	redis_start(&redis);
	wait_until_ok(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
}

/* ---- signals ---- */

static void on_signal(int number)
{
	(void)number;
}

static void mark_done(struct wr_queue_job *job)
{
	*(bool *)job->context = true;
}

/* Returns the number with this name in the reply to INFO. */
static long long read_info(const char *name)
{
	redisReply *reply = redisCommand(redis.link, "INFO");
	const char *at = reply ? strstr(reply->str, name) : NULL;
	long long count = at ? strtoll(strchr(at, ':') + 1, NULL, 10) : -1;

	assert_true(count >= 0);
	freeReplyObject(reply);
	return count;
}

/* Makes Redis delay a reply. Meanwhile 100 signals interrupt the waiting thread, as SIGSTOP and
 * SIGCONT would do. The connection must not be closed. */
static void expect_signals_ignored(struct rig *of)
{
	/* The handler stays installed, because the last signal may arrive late. */
	struct sigaction mine = {.sa_handler = on_signal};
	struct wr_queue_request request = request_of(1, "x");
	long long connected = read_info("total_connections_received");
	bool done = false;
	sigset_t one;
	struct wr_queue_job job = {
		.verb = WR_QUEUE_PUT,
		.done = mark_done,
		.context = &done,
		.put = {.request = &request, .max_waiting = 1000, .max_age_us = 86400 * S_US}};

	sigaction(SIGUSR1, &mine, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one,
			NULL); /* makes the kernel deliver the signal to the queue's thread */
	redis_run(&redis, "CLIENT PAUSE 60000 WRITE");
	wr_queue_submit(of->port, &job);
	while (read_info("blocked_clients") == 0)
		usleep(1000);
	for (int i = 0; i < 100; i++) {
		kill(getpid(), SIGUSR1);
		usleep(1000);
	}
	wr_queue_port_run(of->port);
	assert_false(done);
	redis_run(&redis, "CLIENT UNPAUSE");
	while (!done) {
		wr_queue_port_run(of->port);
		usleep(1000);
	}
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(read_info("total_connections_received"), connected);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void test_signals(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_signals_ignored(&rig);
}

/* ---- TLS ---- */

/* Returns a free port outside of the ranges that the kernel gives to clients and that the
 * end-to-end tests give to servers. */
static int free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 10000 + getpid() % 1900;

	assert_true(fd >= 0);
	do {
		assert_true(port < 12000);
		at.sin_port = htons((uint16_t)port++);
	} while (bind(fd, (const struct sockaddr *)&at, sizeof at) != 0);
	close(fd);
	return port - 1;
}

/* Makes a self-signed certificate for localhost. */
static void make_certificate(const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int nowhere = open("/dev/null", O_RDWR);

		dup2(nowhere, 2);
		if (chdir(dir) != 0)
			_exit(1);
		execlp("openssl", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
		       "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem", "-out",
		       "cert.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
		       "subjectAltName=DNS:localhost", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect_tls_failure(const char *words)
{
	struct weir_error why;

	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	assert_reason(wr_queue_state(rig.queue, &why), WR_QUEUE_AWAY);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
	rig_close(&rig);
}

/* Makes Redis listen with TLS on a free port. If another process takes the port first, tries
 * another port. Returns the port. */
static int listen_with_tls(void)
{
	for (int i = 0; i < 100; i++) {
		int port = free_port();
		redisReply *reply = redisCommand(redis.link,
						 "CONFIG SET tls-cert-file cert.pem tls-key-file "
						 "key.pem tls-ca-cert-file cert.pem "
						 "tls-auth-clients no tls-port %d",
						 port);
		bool listens = reply && reply->type == REDIS_REPLY_STATUS;

		freeReplyObject(reply);
		if (listens)
			return port;
	}
	fail_msg("Redis listens on no port");
	return 0;
}

static void test_tls(void **state)
{
	char ca[96];
	int port;

	(void)state;
	make_certificate(redis.dir);
	port = listen_with_tls();
	snprintf(ca, sizeof ca, "%s/cert.pem", redis.dir);
	rig.opts.tls.ca = ca;
	snprintf(rig.url, sizeof rig.url, "rediss://localhost:%d", port);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	wr_queue_request_free(rig_take_one(&rig, "x"));
	expect_signals_ignored(&rig);
	rig_close(&rig);
	/* The certificate is refused if it is for another name or from an unknown CA. */
	snprintf(rig.url, sizeof rig.url, "rediss://127.0.0.1:%d", port);
	expect_tls_failure("does not match the host name");
	snprintf(rig.url, sizeof rig.url, "rediss://localhost:%d", port);
	rig.opts.tls.ca = NULL;
	expect_tls_failure("certificate");
}

static void test_bad_files(void **state)
{
	struct weir_error error;
	char path[96];
	int fd;

	(void)state;
	snprintf(rig.url, sizeof rig.url, "rediss://localhost");
	rig.opts.tls.ca = "/nowhere/ca.pem";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "/nowhere/ca.pem"));
	rig.opts.tls.ca = NULL;
	rig.opts.password_file = "/nowhere/password";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "/nowhere/password"));
	snprintf(path, sizeof path, "%s/password", rig.dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && fchmod(fd, 0644) == 0 && close(fd) == 0);
	rig.opts.password_file = path;
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "is accessible to other users: run chmod 600 on it"));
	rig.opts.password_file = NULL;
	rig.opts.prefix = "no{braces}";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	rig.queue = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_wrong_password),  TEST(test_away_and_back),        TEST(test_signals),
		TEST(test_connection_lost), TEST(test_unavailable_at_start), TEST(test_tls),
		TEST(test_bad_files),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	redis_end(&redis);
	return failed;
}
