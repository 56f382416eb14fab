/* The test rig for queues, and a redis-server for tests. Used by all suites of this folder. */
#include "queue/queue_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#define PATIENCE_S 120

static void wake_rig(void *context)
{
	struct rig *rig = context;

	pthread_mutex_lock(&rig->lock);
	rig->woken = true;
	pthread_cond_broadcast(&rig->woken_set);
	pthread_mutex_unlock(&rig->lock);
}

static void note_waiting(void *context, const uint8_t key[WR_LINE_KEY_BYTES], uint64_t count)
{
	struct rig *rig = context;

	pthread_mutex_lock(&rig->lock);
	rig->waiting[key[0]] = count;
	pthread_mutex_unlock(&rig->lock);
}

static void append_log_line(void *context, enum wr_queue_level level, const char *text)
{
	struct rig *rig = context;
	size_t len;

	(void)level;
	pthread_mutex_lock(&rig->lock);
	len = strlen(rig->log);
	snprintf(rig->log + len, sizeof rig->log - len, "%s\n", text);
	pthread_mutex_unlock(&rig->lock);
}

static void read_clocks(void *context, uint64_t *wall_us, uint64_t *mono_us)
{
	struct rig *rig = context;

	pthread_mutex_lock(&rig->lock);
	*wall_us = rig->wall_us;
	*mono_us = rig->mono_us;
	pthread_mutex_unlock(&rig->lock);
}

void rig_init(struct rig *rig)
{
	*rig = (struct rig){
		.dir = "/tmp/weir-test-queue-XXXXXX", .wall_us = T0_US, .mono_us = 1000 * S_US};
	pthread_mutex_init(&rig->lock, NULL);
	pthread_cond_init(&rig->woken_set, NULL);
	if (!mkdtemp(rig->dir))
		fail_msg("no folder in /tmp: %s", strerror(errno));
	snprintf(rig->url, sizeof rig->url, "file:%s/q", rig->dir);
	rig->opts = (struct wr_queue_opts){.url = rig->url,
					   .waiting = note_waiting,
					   .log = append_log_line,
					   .context = rig,
					   .now = read_clocks};
}

void rig_open(struct rig *rig)
{
	struct weir_error error = {0};

	if (wr_queue_open(&rig->opts, &rig->queue, &error) != 0)
		fail_msg("%s", error.text);
	rig->port = wr_queue_port_new(rig->queue, wake_rig, rig);
	assert_non_null(rig->port);
}

void rig_close(struct rig *rig)
{
	if (!rig->queue)
		return;
	wr_queue_close(rig->queue);
	wr_queue_port_run(rig->port);
	wr_queue_port_free(rig->port);
	wr_queue_free(rig->queue);
	rig->queue = NULL;
	rig->port = NULL;
}

void remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[512];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		if (entry->d_type == DT_DIR)
			remove_tree(name);
		else
			unlink(name);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

void rig_free(struct rig *rig)
{
	rig_close(rig);
	remove_tree(rig->dir);
	pthread_cond_destroy(&rig->woken_set);
	pthread_mutex_destroy(&rig->lock);
}

static void mark_done(struct wr_queue_job *job)
{
	*(bool *)job->context = true;
}

enum wr_queue_reason rig_do(struct rig *rig, struct wr_queue_job *job)
{
	struct timespec until;
	bool done = false;

	job->done = mark_done;
	// cppcheck-suppress autoVariables ; the job is done before this function returns
	job->context = &done;
	wr_queue_submit(rig->port, job);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	while (!done) {
		pthread_mutex_lock(&rig->lock);
		while (!rig->woken)
			if (pthread_cond_timedwait(&rig->woken_set, &rig->lock, &until) ==
			    ETIMEDOUT) {
				pthread_mutex_unlock(&rig->lock);
				fail_msg("a job was not done within %d s", PATIENCE_S);
			}
		rig->woken = false;
		pthread_mutex_unlock(&rig->lock);
		wr_queue_port_run(rig->port);
	}
	job->context = NULL;
	return job->reason;
}

void rig_pass(struct rig *rig, uint64_t us)
{
	if (rig->redis)
		redis_run(rig->redis, "HINCRBY weir:1:{queue}:n ahead %llu",
			  (unsigned long long)us);
	pthread_mutex_lock(&rig->lock);
	rig->wall_us += us;
	rig->mono_us += us;
	pthread_mutex_unlock(&rig->lock);
}

void rig_set_wall(struct rig *rig, uint64_t us)
{
	pthread_mutex_lock(&rig->lock);
	rig->wall_us = us;
	pthread_mutex_unlock(&rig->lock);
}

uint64_t rig_waiting(struct rig *rig, uint8_t line)
{
	uint64_t count;

	pthread_mutex_lock(&rig->lock);
	count = rig->waiting[line];
	pthread_mutex_unlock(&rig->lock);
	return count;
}

struct wr_queue_request request_of(uint8_t line, const char *body)
{
	return (struct wr_queue_request){.key = {line},
					 .rule = WR_STR("orders"),
					 .domain = WR_STR("api"),
					 .method = WR_STR("POST"),
					 .uri = WR_STR("/orders?x=1"),
					 .max_tries = 3,
					 .body = wr_str(body)};
}

struct wr_queue_job rig_put_as(struct rig *rig, const struct wr_queue_request *request,
			       uint64_t max_waiting, uint64_t max_age_us, uint64_t wait_us)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_PUT,
				   .put = {.request = request,
					   .max_waiting = max_waiting,
					   .max_age_us = max_age_us,
					   .wait_us = wait_us}};

	rig_do(rig, &job);
	return job;
}

struct wr_queue_job rig_put(struct rig *rig, uint8_t line, const char *body)
{
	struct wr_queue_request request = request_of(line, body);
	struct wr_queue_job job = rig_put_as(rig, &request, 1000, 86400 * S_US, 0);

	assert_reason(job.reason, WR_QUEUE_OK);
	return job;
}

struct wr_queue_job rig_take(struct rig *rig, uint32_t max)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_TAKE, .take = {.max = max}};

	assert_reason(rig_do(rig, &job), WR_QUEUE_OK);
	return job;
}

struct wr_queue_request *rig_take_one(struct rig *rig, const char *body)
{
	struct wr_queue_job job = rig_take(rig, 10);

	assert_int_equal(job.take.count, 1);
	assert_null(job.take.first->next);
	assert_text(job.take.first->body, body);
	return job.take.first;
}

struct wr_queue_job rig_settle(struct rig *rig, const struct wr_queue_request *taken,
			       enum wr_queue_outcome outcome, uint64_t wait_us, uint16_t status,
			       const char *reason)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_SETTLE,
				   .settle = {.id = taken->id,
					      .fence = taken->fence,
					      .outcome = outcome,
					      .status = status,
					      .wait_us = wait_us,
					      .reason = wr_str(reason)}};

	memcpy(job.settle.key, taken->key, sizeof job.settle.key);
	rig_do(rig, &job);
	return job;
}

struct wr_queue_job rig_deliver(struct rig *rig, const char *body, enum wr_queue_outcome outcome,
				uint64_t wait_us, uint16_t status, const char *reason)
{
	struct wr_queue_request *taken =
		body ? rig_take_one(rig, body) : rig_take(rig, 1).take.first;
	struct wr_queue_job job;

	assert_non_null(taken);
	job = rig_settle(rig, taken, outcome, wait_us, status, reason);
	wr_queue_request_free(taken);
	return job;
}

struct wr_queue_job rig_ticket(struct rig *rig, const uint8_t *ticket)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_TICKET};

	memcpy(job.ticket.ticket, ticket, WR_TICKET_BYTES);
	rig_do(rig, &job);
	return job;
}

struct wr_queue_stats rig_stats(struct rig *rig)
{
	struct wr_queue_job job = {.verb = WR_QUEUE_STATS};

	assert_reason(rig_do(rig, &job), WR_QUEUE_OK);
	return job.stats;
}

struct wr_queue_job rig_page(struct rig *rig, enum wr_queue_verb verb,
			     struct wr_queue_filter filter, uint64_t after, uint32_t max)
{
	struct wr_queue_job job = {.verb = verb,
				   .page = {.filter = filter, .after = after, .max = max}};

	rig_do(rig, &job);
	return job;
}

void assert_near(const struct rig *rig, uint64_t us, uint64_t expected_us)
{
	if (!rig->redis)
		assert_int_equal(us, expected_us);
	else
		assert_in_range(us, expected_us > SLACK_US ? expected_us - SLACK_US : 0,
				expected_us + SLACK_US);
}

/* ---- Redis ---- */

/* Replaces the child process by a redis-server. The kernel kills the server when the parent ends,
 * even if the parent is killed by SIGKILL. */
static _Noreturn void become_redis(const char *dir, pid_t parent)
{
	int nowhere = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || nowhere < 0 || chdir(dir) != 0)
		_exit(1);
	dup2(nowhere, 0);
	dup2(nowhere, 1);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", "redis.sock",
	       "--save", "", "--appendonly", "yes", "--appendfsync", "always",
	       "--enable-debug-command", "local", "--daemonize", "no", (char *)NULL);
	_exit(127);
}

void redis_start(struct redis *redis)
{
	pid_t parent = getpid();
	char path[96];

	if (!redis->dir[0]) {
		strcpy(redis->dir, "/tmp/weir-test-redis-XXXXXX");
		if (!mkdtemp(redis->dir))
			fail_msg("no folder in /tmp: %s", strerror(errno));
	}
	snprintf(path, sizeof path, "%s/redis.sock", redis->dir);
	unlink(path);
	redis->pid = fork();
	if (redis->pid == 0)
		become_redis(redis->dir, parent);
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		redisReply *reply;

		usleep(10000);
		redis->link = redisConnectUnix(path);
		reply = redis->link && !redis->link->err ? redisCommand(redis->link, "PING") : NULL;
		if (reply && reply->type == REDIS_REPLY_STATUS) {
			freeReplyObject(reply);
			return;
		}
		if (reply)
			freeReplyObject(reply); /* Redis is still loading its data */
		redisFree(redis->link);
		redis->link = NULL;
		if (waitpid(redis->pid, NULL, WNOHANG) == redis->pid)
			break;
	}
	redis->pid = 0;
	fail_msg("redis-server did not start; tools/setup test installs it");
}

void redis_kill(struct redis *redis)
{
	if (redis->link)
		redisFree(redis->link);
	redis->link = NULL;
	if (redis->pid > 0) {
		kill(redis->pid, SIGKILL);
		waitpid(redis->pid, NULL, 0);
	}
	redis->pid = 0;
}

void redis_end(struct redis *redis)
{
	redis_kill(redis);
	if (redis->dir[0])
		remove_tree(redis->dir);
	*redis = (struct redis){0};
}

void redis_run(struct redis *redis, const char *format, ...)
{
	redisReply *reply;
	va_list args;

	va_start(args, format);
	reply = redisvCommand(redis->link, format, args);
	va_end(args);
	if (!reply || reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply ? reply->str : redis->link->errstr);
	freeReplyObject(reply);
}

void rig_use_redis(struct rig *rig, struct redis *redis)
{
	redis_run(redis, "FLUSHALL");
	rig->redis = redis;
	snprintf(rig->url, sizeof rig->url, "redis+unix://%s/redis.sock", redis->dir);
	rig->opts.timeout_us = 60 * S_US;
}
