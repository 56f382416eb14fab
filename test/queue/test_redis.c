/* The queue in Redis: what it must be set to, going away and coming back, leases, two gateways. */
#include "queue/queue_test.h"
#include "queue/redis_backend.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

static struct redis redis;
static struct rig rig, other;

static void ready(struct rig *of)
{
	of->redis = &redis;
	snprintf(of->url, sizeof of->url, "redis+unix://%s/redis.sock", redis.dir);
	of->opts.timeout_us = 60 * S_US;
	of->opts.lease_us = 1000 * S_US;
}

static int setup(void **state)
{
	(void)state;
	/* One that rewrites its file would be asked to wait. */
	redis_kill(&redis);
	redis_start(&redis);
	redis_tell(&redis, "FLUSHALL");
	rig_init(&rig);
	rig_init(&other);
	ready(&rig);
	ready(&other);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(&rig);
	rig_free(&other);
	return 0;
}

static enum wr_queue_reason try_put(struct rig *of)
{
	struct wr_deferred request = request_of(1, "x");

	return rig_put_as(of, &request, 1000, 86400 * S_US, 0).reason;
}

static void expect_said(struct rig *of, const char *words)
{
	pthread_mutex_lock(&of->lock);
	if (!strstr(of->said, words))
		fail_msg("\"%s\" was not said: %s", words, of->said);
	pthread_mutex_unlock(&of->lock);
}

static void expect_unsaid(struct rig *of, const char *words)
{
	pthread_mutex_lock(&of->lock);
	if (strstr(of->said, words))
		fail_msg("\"%s\" was said: %s", words, of->said);
	pthread_mutex_unlock(&of->lock);
}

/* A file that is switched on has to be written first. */
static void expect_kept(struct rig *of)
{
	enum wr_queue_reason reason = WR_QUEUE_NOT_PERSISTENT;

	for (int i = 0; i < 3000 && reason == WR_QUEUE_NOT_PERSISTENT; i++) {
		usleep(10000);
		reason = try_put(of);
	}
	assert_reason(reason, WR_QUEUE_OK);
}

/* Asked before every store: it may be set otherwise at any time. */
static void test_what_redis_must_keep(void **state)
{
	static const struct {
		const char *setting, *bad, *good;
	} cases[] = {
		{"appendfsync", "everysec", "always"},
		{"appendonly", "no", "yes"},
		{"maxmemory-policy", "allkeys-lru", "noeviction"},
		{"no-appendfsync-on-rewrite", "yes", "no"},
	};

	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char remedy[128];

		redis_tell(&redis, "CONFIG SET %s %s", cases[i].setting, cases[i].bad);
		assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
		snprintf(remedy, sizeof remedy, "CONFIG SET %s %s", cases[i].setting,
			 cases[i].good);
		expect_said(&rig, remedy);
		/* What waits is delivered all the same. */
		assert_int_equal(rig_stats(&rig).waiting, i + 1);
		redis_tell(&redis, "CONFIG SET %s %s", cases[i].setting, cases[i].good);
		expect_kept(&rig);
		expect_said(&rig, "again");
	}
	redis_tell(&redis, "CONFIG SET maxmemory-policy volatile-ttl");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_tell(&redis, "CONFIG SET maxmemory-policy noeviction");
}

static void test_user_without_config(void **state)
{
	(void)state;
	redis_tell(&redis, "ACL SETUSER weak reset on >pw ~* +@all -config");
	snprintf(rig.url, sizeof rig.url, "redis+unix://weak:pw@%s/redis.sock", redis.dir);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_said(&rig, "+config|get");
	redis_tell(&redis, "ACL DELUSER weak");
}

static void open_weak(bool assume)
{
	snprintf(rig.url, sizeof rig.url, "redis+unix://weak:pw@%s/redis.sock", redis.dir);
	rig.opts.assume_durable = assume;
	rig_open(&rig);
}

/* A service that does not tell its settings is believed where the operator says so; what it does
 * tell holds all the same. */
static void test_assumed_to_keep(void **state)
{
	(void)state;
	redis_tell(&redis, "ACL SETUSER weak reset on >pw ~* +@all -config");
	redis_tell(&redis, "CONFIG SET appendonly no");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_said(&rig, "--queue-assume-durable");
	redis_tell(&redis, "CONFIG SET maxmemory-policy allkeys-lru");
	rig_close(&rig);
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_said(&rig, "maxmemory_policy:allkeys-");
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_unsaid(&rig, "again");
	redis_tell(&redis, "CONFIG SET maxmemory-policy noeviction");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_said(&rig, "again");
	rig_close(&rig);
	/* It may be asked: then its settings decide, and nobody's word. */
	redis_tell(&redis, "ACL SETUSER weak +config");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	expect_said(&rig, "CONFIG SET appendonly yes");
	rig_close(&rig);
	/* … also where INFO alone is blocked. */
	redis_tell(&redis, "ACL SETUSER weak -info");
	open_weak(true);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	redis_tell(&redis, "CONFIG SET appendonly yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	rig.opts.assume_durable = false;
	redis_tell(&redis, "ACL DELUSER weak");
}

/* Requests of an older weir, which did not add up bytes of lines and of dead ones. */
static void test_filled_by_an_older_weir(void **state)
{
	static char body[9000];
	struct wr_deferred request = request_of(1, ""), *taken;

	(void)state;
	request.body = (struct weir_str){body, sizeof body};
	rig.opts.max_line_bytes = 35000;
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
			      i < 3 ? WR_QUEUE_OK : WR_QUEUE_KEY_BYTES_FULL);
	taken = rig_take(&rig, 1).take.first;
	rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 400, "no");
	wr_deferred_free(taken);
	redis_tell(&redis, "DEL weir:1:{queue}:held");
	redis_tell(&redis, "HDEL weir:1:{queue}:n dead_bytes");
	/* Two wait, and there is room for a third. */
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason, WR_QUEUE_OK);
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
		      WR_QUEUE_KEY_BYTES_FULL);
	rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(rig_stats(&rig).dead, 0);
	assert_int_equal(rig_stats(&rig).bytes, 0);
	for (int i = 0; i < 4; i++)
		assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason,
			      i < 3 ? WR_QUEUE_OK : WR_QUEUE_KEY_BYTES_FULL);
}

/* docs/deferred.md names these. */
static void test_user_with_just_enough(void **state)
{
	struct wr_deferred *taken;
	struct wr_queue_job job;

	(void)state;
	redis_tell(&redis,
		   "ACL SETUSER weir reset on >pw ~weir:1:{queue}:* ~weir:1:{queue} "
		   "+evalsha +script|load +config|get +info +select +time +get +incr +del +hset "
		   "+hget +hmget +hdel +hexists +hincrby +zadd +zrem +zcard +zrange "
		   "+zrangebyscore +zrank");
	snprintf(rig.url, sizeof rig.url, "redis+unix://weir:pw@%s/redis.sock?db=1", redis.dir);
	rig.redis = NULL; /* its time is in another database */
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	taken = rig_take(&rig, 1).take.first;
	assert_non_null(taken);
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_AGAIN, 0, 500, "x").reason, WR_QUEUE_OK);
	wr_deferred_free(taken);
	taken = rig_take(&rig, 1).take.first;
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_GIVE_UP, 0, 500, "x").reason, WR_QUEUE_OK);
	wr_deferred_free(taken);
	job = rig_page(&rig, WR_QUEUE_RETRY, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_reason(job.reason, WR_QUEUE_OK);
	job = rig_page(&rig, WR_QUEUE_DROP, (struct wr_queue_filter){0}, 0, 10);
	assert_int_equal(job.page.count, 2);
	rig_pass(&rig, 5 * S_US);
	assert_int_equal(rig_stats(&rig).tickets, 2);
	redis_tell(&redis, "ACL DELUSER weir");
}

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

static void test_full_memory(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_tell(&redis, "CONFIG SET maxmemory 1mb");
	assert_reason(try_put(&rig), WR_QUEUE_NO_SPACE);
	redis_tell(&redis, "CONFIG SET maxmemory 0");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_int_equal(rig_stats(&rig).waiting, 2);
}

static void wait_until_ok(struct rig *of)
{
	for (int i = 0; i < 3000 && wr_queue_state(of->queue, NULL) != WR_QUEUE_OK; i++) {
		pthread_mutex_lock(&of->lock);
		of->mono_us += 2 * S_US;
		pthread_mutex_unlock(&of->lock);
		usleep(10000);
	}
	assert_reason(wr_queue_state(of->queue, NULL), WR_QUEUE_OK);
}

static void test_away_and_back(void **state)
{
	struct wr_queue_job put;
	struct wr_deferred *taken;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "kept");
	taken = rig_take_one(&rig, "kept");
	redis_kill(&redis);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason,
		      WR_QUEUE_AWAY);
	assert_reason(rig_ticket(&rig, put.put.ticket).reason, WR_QUEUE_AWAY);
	expect_said(&rig, "retrying every second");
	redis_start(&redis);
	wait_until_ok(&rig);
	/* Who has taken it still has. */
	assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_OK);
	wr_deferred_free(taken);
	put = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(put.ticket.found->state, WR_DEFERRED_DELIVERED);
	wr_deferred_free(put.ticket.found);
}

/* Switched on while it runs, Redis keeps nothing until its file is written for the first time: what
 * is accepted after that survives kill -9. */
static void test_file_is_written_first(void **state)
{
	(void)state;
	redis_tell(&redis, "CONFIG SET appendonly no");
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_NOT_PERSISTENT);
	/* So much that it takes a while. */
	redis_tell(&redis, "DEBUG POPULATE 200000 filler 100");
	redis_tell(&redis, "CONFIG SET appendonly yes");
	expect_kept(&rig);
	redis_kill(&redis);
	redis_start(&redis);
	wait_until_ok(&rig);
	assert_int_equal(rig_stats(&rig).waiting, 1);
	expect_kept(&rig);
	/* A later rewrite is no reason to refuse. */
	redis_tell(&redis, "BGREWRITEAOF");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_tell(&redis, "CLIENT KILL TYPE normal SKIPME yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	/* The next server starts without this large file. */
	rig_close(&rig);
	redis_end(&redis);
}

/* ---- signals ---- */

static void on_signal(int number)
{
	(void)number;
}

static void note_done(struct wr_queue_job *job)
{
	*(bool *)job->context = true;
}

/* The value of a line of INFO. */
static long long info(const char *name)
{
	redisReply *reply = redisCommand(redis.link, "INFO");
	const char *at = reply ? strstr(reply->str, name) : NULL;
	long long count = at ? strtoll(strchr(at, ':') + 1, NULL, 10) : -1;

	assert_true(count >= 0);
	freeReplyObject(reply);
	return count;
}

/* Redis holds a command back. The thread that waits for its answer is interrupted 100 times, as by
 * being stopped and going on. That is no loss of the connection. */
static void expect_undisturbed(struct rig *of)
{
	struct sigaction mine = {.sa_handler = on_signal}; /* for good: the last may come late */
	struct wr_deferred request = request_of(1, "x");
	long long connected = info("total_connections_received");
	bool done = false;
	sigset_t one;
	struct wr_queue_job job = {
		.verb = WR_QUEUE_PUT,
		.done = note_done,
		.context = &done,
		.put = {.request = &request, .max_waiting = 1000, .max_age_us = 86400 * S_US}};

	sigaction(SIGUSR1, &mine, NULL);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, NULL); /* here: the queue's thread gets it */
	redis_tell(&redis, "CLIENT PAUSE 60000 WRITE");
	wr_queue_submit(of->port, &job);
	while (info("blocked_clients") == 0)
		usleep(1000);
	for (int i = 0; i < 100; i++) {
		kill(getpid(), SIGUSR1);
		usleep(1000);
	}
	wr_queue_port_run(of->port);
	assert_false(done);
	redis_tell(&redis, "CLIENT UNPAUSE");
	while (!done) {
		wr_queue_port_run(of->port);
		usleep(1000);
	}
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_int_equal(info("total_connections_received"), connected);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void test_signals(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	expect_undisturbed(&rig);
}

/* The connection alone is lost: nobody notices. */
static void test_connection_lost(void **state)
{
	(void)state;
	rig_open(&rig);
	expect_kept(&rig);
	redis_tell(&redis, "CLIENT KILL TYPE normal SKIPME yes");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	redis_tell(&redis, "SCRIPT FLUSH");
	assert_reason(try_put(&rig), WR_QUEUE_OK);
	assert_int_equal(rig_stats(&rig).waiting, 3);
}

static void test_not_there_at_the_start(void **state)
{
	(void)state;
	redis_kill(&redis);
	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	expect_said(&rig, "no connection");
	redis_start(&redis);
	wait_until_ok(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_OK);
}

/* ---- TLS ---- */

/* One that the kernel gives to no client, and the end-to-end tests to no server, before Redis has
 * it. */
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

/* For localhost, signed by itself. */
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

static void expect_no_tls(const char *words)
{
	struct weir_error why;

	rig_open(&rig);
	assert_reason(try_put(&rig), WR_QUEUE_AWAY);
	assert_reason(wr_queue_state(rig.queue, &why), WR_QUEUE_AWAY);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
	rig_close(&rig);
}

/* On a port that somebody else may take before Redis does: then on another. */
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
	wr_deferred_free(rig_take_one(&rig, "x"));
	expect_undisturbed(&rig);
	rig_close(&rig);
	/* A certificate for another name, and one that nobody vouches for. */
	snprintf(rig.url, sizeof rig.url, "rediss://127.0.0.1:%d", port);
	expect_no_tls("mismatch");
	snprintf(rig.url, sizeof rig.url, "rediss://localhost:%d", port);
	rig.opts.tls.ca = NULL;
	expect_no_tls("certificate");
}

static void test_bad_files(void **state)
{
	struct weir_error error;

	(void)state;
	snprintf(rig.url, sizeof rig.url, "rediss://localhost");
	rig.opts.tls.ca = "/nowhere/ca.pem";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "/nowhere/ca.pem"));
	rig.opts.tls.ca = NULL;
	rig.opts.password_file = "/nowhere/password";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "/nowhere/password"));
	rig.opts.password_file = NULL;
	rig.opts.prefix = "no{braces}";
	assert_int_equal(wr_queue_open(&rig.opts, &rig.queue, &error), WEIR_EINVAL);
	rig.queue = NULL;
}

/* ---- two gateways ---- */

static void test_two_share_lines(void **state)
{
	struct wr_deferred *a, *b;

	(void)state;
	rig_open(&rig);
	rig_open(&other);
	rig_put(&rig, 1, "first");
	rig_put(&other, 1, "second");
	rig_put(&other, 2, "elsewhere");
	a = rig_take(&rig, 1).take.first;
	assert_text(a->body, "first");
	/* While one delivers the first, the other has only what is in other lines. */
	b = rig_take_one(&other, "elsewhere");
	wr_deferred_free(b);
	rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 200, "");
	wr_deferred_free(a);
	b = rig_take_one(&other, "second");
	wr_deferred_free(b);
}

static void test_told_of_what_others_did(void **state)
{
	struct wr_deferred *taken;

	(void)state;
	rig_put((rig_open(&rig), &rig), 3, "x");
	rig_open(&other);
	assert_int_equal(rig_waiting(&other, 3), 1); /* when it was opened */
	rig_put(&rig, 3, "y");
	for (int i = 0; i < 3000 && rig_waiting(&other, 3) != 2; i++) {
		rig_pass(&other, S_US);
		usleep(10000);
	}
	assert_int_equal(rig_waiting(&other, 3), 2);
	for (int i = 0; i < 2; i++) {
		taken = rig_take(&rig, 1).take.first;
		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_deferred_free(taken);
	}
	for (int i = 0; i < 3000 && rig_waiting(&other, 3) != 0; i++) {
		rig_pass(&other, S_US);
		usleep(10000);
	}
	assert_int_equal(rig_waiting(&other, 3), 0);
}

/* One that has died, or is slow: its lease runs out, and what it says afterwards does not count. */
static void test_lease(void **state)
{
	struct wr_deferred *a, *b;

	(void)state;
	rig_open(&rig);
	rig_open(&other);
	rig_put(&rig, 1, "x");
	a = rig_take_one(&rig, "x");
	rig_pass(&rig, 1000 * S_US - 2 * SLACK_US);
	assert_int_equal(rig_take(&other, 1).take.count, 0);
	rig_pass(&rig, 3 * SLACK_US);
	b = rig_take_one(&other, "x");
	assert_true(b->fence > a->fence);
	assert_reason(rig_settle(&rig, a, WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_LOST);
	assert_reason(rig_settle(&other, b, WR_QUEUE_AGAIN, 0, 503, "").reason, WR_QUEUE_OK);
	wr_deferred_free(b);
	b = rig_take_one(&other, "x");
	assert_int_equal(b->tries, 1);
	wr_deferred_free(a);
	wr_deferred_free(b);
}

/* The clock of another server, or one that was set back: what waits does not wait longer. */
/* A take as the script is called, of an owner and the number of its connection. The reply is to be
 * freed. */
static redisReply *take_raw(const char *owner, int heard, int link)
{
	redisReply *reply = redisCommand(
		redis.link, "EVALSHA %s 1 weir:1:{queue} take 10 100000000 1000000 %s %d %d",
		wr_script_lines.sha1, owner, heard, link);

	assert_non_null(reply);
	assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
	return reply;
}

/* A take that was on its way for so long that its owner has a new connection does nothing: nobody
 * hears what it gives out, and what it would take back its owner has heard of. */
static void test_late_take(void **state)
{
	redisReply *reply;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "a");
	rig_put(&rig, 2, "b");
	reply = take_raw("me", 0, 2);
	assert_int_equal(reply->elements, 4 + 4); /* both */
	freeReplyObject(reply);
	rig_put(&rig, 3, "c");
	reply = take_raw("me", 0, 1);
	assert_int_equal(reply->elements, 4);
	assert_int_equal(reply->element[1]->integer, -1);
	assert_int_equal(reply->element[2]->integer, 2);
	freeReplyObject(reply);
	/* Another owner counts for himself. */
	reply = take_raw("you", 0, 1);
	assert_int_equal(reply->elements, 4 + 2); /* c alone */
	freeReplyObject(reply);
	/* The same connection goes on; a new one takes back what was not heard of. */
	reply = take_raw("me", -1, 2);
	assert_int_equal(reply->elements, 4);
	assert_int_equal(reply->element[1]->integer, 0);
	freeReplyObject(reply);
	reply = take_raw("me", 1, 3);
	assert_int_equal(reply->elements, 4 + 2); /* b: fence 2 was not heard of */
	freeReplyObject(reply);
}

static void test_clock_set_back(void **state)
{
	struct wr_deferred request = request_of(1, "x");
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	/* As if Redis had been a day ahead when this was put. */
	rig_pass(&rig, 86400 * S_US);
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 1000 * S_US).reason,
		      WR_QUEUE_OK);
	redis_tell(&redis, "HSET weir:1:{queue}:n ahead 0");
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.count, 0);
	assert_near(&rig, job.take.next_us, 1000 * S_US);
}

/* Nothing is left of a queue through which everything went but tickets and a word of each owner; of
 * tickets nothing when they were forgotten. */
static void test_nothing_is_left(void **state)
{
	redisReply *keys;

	(void)state;
	rig.opts.keep_us = S_US;
	rig_open(&rig);
	for (uint8_t i = 0; i < 10; i++)
		rig_put(&rig, i, "x");
	for (int i = 0; i < 10; i++) {
		struct wr_deferred *taken = rig_take(&rig, 1).take.first;

		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_deferred_free(taken);
	}
	while (rig_stats(&rig).tickets)
		rig_pass(&rig, 2 * S_US);
	assert_int_equal(rig_stats(&rig).bytes, 0);
	keys = redisCommand(redis.link, "KEYS *");
	for (size_t i = 0; i < keys->elements; i++) {
		const char *name = keys->element[i]->str + strlen("weir:1:{queue}:");

		if (strcmp(name, "seq") != 0 && strcmp(name, "fences") != 0 &&
		    strcmp(name, "n") != 0 && strcmp(name, "changes") != 0 &&
		    strcmp(name, "changed") != 0 && strcmp(name, "links") != 0 &&
		    strcmp(name, "owners") != 0)
			fail_msg("%s is left", keys->element[i]->str);
	}
	freeReplyObject(keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_what_redis_must_keep),
		TEST(test_user_without_config),
		TEST(test_assumed_to_keep),
		TEST(test_filled_by_an_older_weir),
		TEST(test_user_with_just_enough),
		TEST(test_wrong_password),
		TEST(test_full_memory),
		TEST(test_away_and_back),
		TEST(test_file_is_written_first),
		TEST(test_signals),
		TEST(test_connection_lost),
		TEST(test_not_there_at_the_start),
		TEST(test_tls),
		TEST(test_bad_files),
		TEST(test_two_share_lines),
		TEST(test_told_of_what_others_did),
		TEST(test_lease),
		TEST(test_late_take),
		TEST(test_clock_set_back),
		TEST(test_nothing_is_left),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	redis_end(&redis);
	return failed;
}
