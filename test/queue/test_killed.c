/* A process that stores and delivers requests is killed at random moments and replaced. Each
 * accepted request is delivered in order, and is not delivered again after its delivery was
 * recorded. With the argument `redis`, two processes share a Redis, and the test kills Redis too.
 *
 * A child reports its actions through a pipe. The parent gets each report even if the child is
 * killed right after it:
 *   P line seq   the put succeeded: the client would get its 202 now
 *   D line seq   the delivery begins
 *   S line seq   the delivery was recorded */
#include "queue/queue_test.h"
#include "rounds.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINES 8u
#define ROUNDS_MAX 30u
#define PER_ROUND 100000u /* sequence numbers that each child may use; no child needs that many */
#define SEQS (ROUNDS_MAX * PER_ROUND)
#define LEASE_US (5 * S_US)
#define FRESH_US                                                                                   \
	(2 *                                                                                       \
	 S_US) /* a request that was taken longer ago is released, because its lease may expire */

struct report {
	char what;
	uint8_t line;
	uint32_t seq;
};

static struct rig rig;
static struct redis redis;
static int reports[2];
static uint32_t seed;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)(seed >> 8) * n) >> 24);
}

static uint64_t mono_us(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * S_US + (uint64_t)at.tv_nsec / 1000;
}

/* ---- the child ---- */

struct producer {
	struct wr_queue_job job;
	struct wr_queue_request request;
	uint8_t line;
	bool parked;
	uint32_t seq;
	char body[4096]; /* line and sequence number, then padding to fill pages */
};

static struct producer producers[LINES];
static struct wr_queue_job taking;
static bool take_soon;

static void send_report(char what, uint8_t line, uint32_t seq)
{
	struct report n;

	memset(&n, 0, sizeof n);
	n.what = what;
	n.line = line;
	n.seq = seq;
	if (write(reports[1], &n, sizeof n) != sizeof n)
		_exit(3);
}

static void put_next(struct producer *p);

static void on_put_done(struct wr_queue_job *job)
{
	struct producer *p = job->context;

	if (job->reason == WR_QUEUE_OK) {
		send_report('P', p->line, p->seq);
		put_next(p);
	} else {
		p->parked = true; /* no put is in flight; the next take submits a put again */
	}
}

static void put_next(struct producer *p)
{
	int len = snprintf(p->body, sizeof p->body, "%u %u ", p->line, ++p->seq);

	p->parked = false;
	p->request = request_of(p->line, p->body);
	p->request.max_tries = 1000000;
	p->request.body.len = (size_t)len + random_below(3000);
	p->job = (struct wr_queue_job){
		.verb = WR_QUEUE_PUT,
		.done = on_put_done,
		.context = p,
		.put = {.request = &p->request, .max_waiting = 30, .max_age_us = 86400 * S_US}};
	wr_queue_submit(rig.port, &p->job);
}

struct delivery {
	struct wr_queue_job job;
	uint8_t line;
	uint32_t seq;
};

static void on_settle_done(struct wr_queue_job *job)
{
	struct delivery *d = job->context;

	if (job->reason == WR_QUEUE_OK && job->settle.outcome == WR_QUEUE_DELIVERED)
		send_report('S', d->line, d->seq);
	free(d);
	take_soon = true;
}

static void read_body(const struct wr_queue_request *r, unsigned *line, unsigned *seq)
{
	char text[64];

	snprintf(text, sizeof text, "%.*s", (int)(r->body.len < 63 ? r->body.len : 63),
		 r->body.ptr);
	if (sscanf(text, "%u %u ", line, seq) != 2) // NOLINT(cert-err34-c): it is ours
		_exit(4);
}

static void deliver_request(const struct wr_queue_request *r, uint64_t taken_us)
{
	struct delivery *d = calloc(1, sizeof *d);
	uint32_t luck = random_below(10);
	unsigned line, seq;

	if (!d)
		_exit(5);
	read_body(r, &line, &seq);
	d->line = (uint8_t)line;
	d->seq = seq;
	d->job = (struct wr_queue_job){.verb = WR_QUEUE_SETTLE,
				       .done = on_settle_done,
				       .context = d,
				       .settle = {.id = r->id,
						  .fence = r->fence,
						  .outcome = luck < 7   ? WR_QUEUE_DELIVERED
							     : luck < 9 ? WR_QUEUE_AGAIN
									: WR_QUEUE_RELEASE,
						  .wait_us = random_below(2000)}};
	memcpy(d->job.settle.key, r->key, sizeof r->key);
	if (mono_us() - taken_us > FRESH_US)
		d->job.settle.outcome = WR_QUEUE_RELEASE;
	if (d->job.settle.outcome == WR_QUEUE_DELIVERED)
		send_report('D', d->line, d->seq);
	wr_queue_submit(rig.port, &d->job);
}

static uint64_t take_sent_us;

static void on_take_done(struct wr_queue_job *job)
{
	for (const struct wr_queue_request *r = job->take.first; r; r = r->next)
		deliver_request(r, take_sent_us);
	wr_queue_request_free(job->take.first);
	take_soon = true;
	job->verb = WR_QUEUE_STATS; /* no take is in flight */
}

static void submit_take(void)
{
	take_soon = false;
	if (taking.verb == WR_QUEUE_TAKE)
		return;
	taking = (struct wr_queue_job){
		.verb = WR_QUEUE_TAKE, .done = on_take_done, .take = {.max = 1 + random_below(8)}};
	take_sent_us = mono_us();
	wr_queue_submit(rig.port, &taking);
}

/* Waits up to 5 ms for finished jobs. Then submits takes and puts. */
static void run_loop_once(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 5000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&rig.lock);
	while (!rig.woken)
		if (pthread_cond_timedwait(&rig.woken_set, &rig.lock, &until) == ETIMEDOUT) {
			take_soon = true;
			break;
		}
	rig.woken = false;
	pthread_mutex_unlock(&rig.lock);
	wr_queue_port_run(rig.port);
	if (!take_soon)
		return;
	submit_take();
	for (unsigned i = 0; i < LINES; i++)
		if (producers[i].parked)
			put_next(&producers[i]);
}

/* Runs the child: puts requests into its own lines and delivers requests of all lines, until the
 * child is killed. */
static _Noreturn void run_child(uint32_t first_seq, unsigned part, unsigned parts, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	seed = first_seq * 7 + part;
	taking.verb = WR_QUEUE_STATS; /* no take is in flight */
	take_soon = true;
	rig_open(&rig);
	for (unsigned i = part; i < LINES; i += parts) {
		producers[i].line = (uint8_t)i;
		producers[i].seq = first_seq;
		put_next(&producers[i]);
	}
	for (;;)
		run_loop_once();
}

/* ---- the parent ---- */

enum { ACCEPTED = 1, BEGUN = 2, RECORDED = 4 };

static uint8_t *seen[LINES]; /* for each sequence number: a set of ACCEPTED, BEGUN and RECORDED */
static uint32_t last_begun[LINES];
static size_t accepted, delivered, repeated;

static void apply_report(const struct report *n)
{
	uint8_t *at;

	assert_true(n->line < LINES && n->seq < SEQS);
	at = &seen[n->line][n->seq];
	switch (n->what) {
	case 'P':
		*at |= ACCEPTED;
		accepted++;
		return;
	case 'S':
		*at |= RECORDED;
		return;
	}
	assert_int_equal(n->what, 'D');
	if (*at & RECORDED)
		fail_msg("line %u: %u is delivered again after its delivery was recorded", n->line,
			 n->seq);
	if (n->seq < last_begun[n->line])
		fail_msg("line %u: %u is delivered after %u", n->line, n->seq, last_begun[n->line]);
	last_begun[n->line] = n->seq;
	repeated += (*at & BEGUN) != 0;
	delivered += !(*at & BEGUN);
	*at |= BEGUN;
}

/* Reads all reports in the pipe. */
static void read_reports(void)
{
	struct pollfd fd = {reports[0], POLLIN, 0};
	struct report n;

	while (poll(&fd, 1, 0) == 1 && read(reports[0], &n, sizeof n) == sizeof n)
		apply_report(&n);
}

/* Waits until the child has reported an accepted request, so that each child makes progress. Then
 * waits for a random time. */
static void let_children_work(uint32_t beyond_us)
{
	size_t before = accepted;
	uint64_t until = mono_us() + 120 * S_US;

	while (accepted == before && mono_us() < until) {
		struct pollfd fd = {reports[0], POLLIN, 0};

		poll(&fd, 1, 100);
		read_reports();
	}
	assert_true(accepted > before);
	usleep(beyond_us);
}

static pid_t start_child(uint32_t round, unsigned part, unsigned parts)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0)
		run_child(round * PER_ROUND, part, parts, parent);
	assert_true(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	int status;

	/* The child ends only when it is killed. If it has ended by itself, it has found an error.
	 */
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Delivers the remaining requests in this process. */
static void deliver_rest(void)
{
	uint64_t until = mono_us() + 120 * S_US;

	rig_open(&rig);
	while (rig_stats(&rig).lines) {
		struct wr_queue_job job = rig_take(&rig, 100);

		for (const struct wr_queue_request *r = job.take.first; r; r = r->next) {
			struct report n = {.what = 'D'};
			unsigned line, seq;

			read_body(r, &line, &seq);
			n.line = (uint8_t)line;
			n.seq = seq;
			apply_report(&n);
			assert_reason(rig_settle(&rig, r, WR_QUEUE_DELIVERED, 0, 200, "").reason,
				      WR_QUEUE_OK);
			n.what = 'S';
			apply_report(&n);
		}
		if (!job.take.first)
			usleep(10000);
		wr_queue_request_free(job.take.first);
		assert_true(mono_us() < until);
	}
	rig_close(&rig);
}

static void check_all_delivered(void)
{
	for (unsigned line = 0; line < LINES; line++)
		for (uint32_t seq = 0; seq < SEQS; seq++)
			if ((seen[line][seq] & (ACCEPTED | BEGUN)) == ACCEPTED)
				fail_msg("line %u: %u was accepted and never delivered", line, seq);
}

static void begin_test(void)
{
	assert_int_equal(pipe(reports), 0);
	rig_init(&rig);
	rig.opts.now = NULL;
	rig.opts.lease_us = LEASE_US;
	for (unsigned i = 0; i < LINES; i++) {
		seen[i] = calloc(SEQS, 1);
		assert_non_null(seen[i]);
		last_begun[i] = 0;
	}
	accepted = delivered = repeated = 0;
}

static void finish_test(void)
{
	read_reports();
	deliver_rest();
	check_all_delivered();
	print_message("%zu accepted, %zu delivered, %zu of them repeatedly\n", accepted, delivered,
		      repeated);
	for (unsigned i = 0; i < LINES; i++)
		free(seen[i]);
	rig_free(&rig);
	close(reports[0]);
	close(reports[1]);
}

static void test_killed(void **state)
{
	const uint32_t rounds = (uint32_t)test_rounds(12, ROUNDS_MAX);

	(void)state;
	begin_test();
	for (uint32_t round = 0; round < rounds; round++) {
		pid_t child = start_child(round, 0, 1);

		let_children_work(random_below(30000));
		end_child(child);
		read_reports();
	}
	finish_test();
}

/* Two processes share a Redis. Each round kills one of the processes, or Redis. */
static void test_killed_redis(void **state)
{
	const uint32_t rounds = (uint32_t)test_rounds(8, ROUNDS_MAX / 2);
	pid_t children[2];

	(void)state;
	begin_test();
	redis_start(&redis);
	rig_use_redis(&rig, &redis);
	rig.opts.timeout_us = 5 * S_US;
	for (unsigned i = 0; i < 2; i++)
		children[i] = start_child(0, i, 2);
	for (uint32_t round = 1; round < rounds; round++) {
		unsigned victim = random_below(3);

		let_children_work(random_below(30000));
		if (victim == 2) {
			redis_kill(&redis);
			redis_start(&redis);
			continue;
		}
		end_child(children[victim]);
		read_reports();
		children[victim] = start_child(round, victim, 2);
	}
	for (unsigned i = 0; i < 2; i++)
		end_child(children[i]);
	rig_pass(&rig, LEASE_US); /* the leases of the killed processes expire */
	finish_test();
	redis_end(&redis);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest in_file[] = {cmocka_unit_test(test_killed)};
	const struct CMUnitTest in_redis[] = {cmocka_unit_test(test_killed_redis)};
	const char *given = getenv("WEIR_SEED");

	seed = given ? (uint32_t)strtoull(given, NULL, 0) : 20240229;
	if (argc > 1 && strcmp(argv[1], "redis") == 0)
		return cmocka_run_group_tests(in_redis, NULL, NULL);
	return cmocka_run_group_tests(in_file, NULL, NULL);
}
