/* Tests jobs from many threads, the maximum number of jobs, closing a queue, URLs, and damaged
 * records. */
#include "queue/queue_test.h"

#include "queue/record.h"

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_init(&rig);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(&rig);
	return 0;
}

#define THREADS 4
#define EACH 100

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Replaces the clock. The queue's thread reads the clock before each batch, so it waits here while
 * a test has locked `gate`. */
static void read_gated(void *context, uint64_t *wall_us, uint64_t *mono_us)
{
	(void)context;
	pthread_mutex_lock(&gate);
	*wall_us = T0_US;
	*mono_us = S_US;
	pthread_mutex_unlock(&gate);
}

static pthread_barrier_t submitted;

struct loop {
	struct wr_queue_port *port;
	pthread_mutex_t lock;
	pthread_cond_t woken_set;
	bool woken;
	uint8_t line;
	unsigned stored, last_position;
	struct wr_queue_job jobs[EACH];
	struct wr_queue_request requests[EACH];
};

static void wake_loop(void *context)
{
	struct loop *loop = context;

	pthread_mutex_lock(&loop->lock);
	loop->woken = true;
	pthread_cond_signal(&loop->woken_set);
	pthread_mutex_unlock(&loop->lock);
}

static void on_stored(struct wr_queue_job *job)
{
	struct loop *loop = job->context;

	if (job->reason == WR_QUEUE_OK && job->put.position == loop->last_position + 1)
		loop->stored++;
	loop->last_position = (unsigned)job->put.position;
}

static void *run_loop(void *argument)
{
	struct loop *loop = argument;
	size_t done = 0;

	for (int i = 0; i < EACH; i++) {
		loop->requests[i] = request_of(loop->line, "x");
		loop->jobs[i] = (struct wr_queue_job){.verb = WR_QUEUE_PUT,
						      .done = on_stored,
						      .context = loop,
						      .put = {.request = &loop->requests[i],
							      .max_waiting = EACH,
							      .max_age_us = S_US}};
		wr_queue_submit(loop->port, &loop->jobs[i]);
	}
	pthread_barrier_wait(&submitted);
	while (done < EACH) {
		pthread_mutex_lock(&loop->lock);
		while (!loop->woken)
			pthread_cond_wait(&loop->woken_set, &loop->lock);
		loop->woken = false;
		pthread_mutex_unlock(&loop->lock);
		done += wr_queue_port_run(loop->port);
	}
	return NULL;
}

/* Jobs of a port are done in order and share commits with jobs of other ports. */
static void test_many_threads(void **state)
{
	static struct loop loops[THREADS];
	pthread_t threads[THREADS];
	struct wr_queue_stats stats;

	(void)state;
	rig.opts.now = read_gated;
	rig_open(&rig);
	assert_int_equal(pthread_barrier_init(&submitted, NULL, THREADS + 1), 0);
	pthread_mutex_lock(&gate);
	for (uint8_t i = 0; i < THREADS; i++) {
		loops[i].line = i;
		pthread_mutex_init(&loops[i].lock, NULL);
		pthread_cond_init(&loops[i].woken_set, NULL);
		loops[i].port = wr_queue_port_new(rig.queue, wake_loop, &loops[i]);
		assert_non_null(loops[i].port);
		assert_int_equal(pthread_create(&threads[i], NULL, run_loop, &loops[i]), 0);
	}
	pthread_barrier_wait(&submitted);
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(loops[i].stored, EACH);
	}
	stats = rig_stats(&rig);
	assert_int_equal(stats.put_total, THREADS * EACH);
	/* The jobs that the thread fetched before it waited at the gate have one commit, and all
	 * other jobs have one commit. */
	assert_in_range(stats.commits_total, 1, 2);
	pthread_barrier_destroy(&submitted);
	rig_close(&rig);
	for (int i = 0; i < THREADS; i++)
		wr_queue_port_free(loops[i].port);
}

static unsigned ended;
static enum wr_queue_reason reasons[8];

static void record_reason(struct wr_queue_job *job)
{
	reasons[ended++] = job->reason;
}

static struct wr_queue_job put_of(const struct wr_queue_request *request)
{
	return (struct wr_queue_job){
		.verb = WR_QUEUE_PUT,
		.done = record_reason,
		.put = {.request = request, .max_waiting = 100, .max_age_us = S_US}};
}

/* Jobs that were submitted before wr_queue_close() are done. Later jobs are refused. */
static void test_close(void **state)
{
	struct wr_queue_request request = request_of(1, "x");
	struct wr_queue_job before = put_of(&request), after = before;

	(void)state;
	ended = 0;
	rig_open(&rig);
	wr_queue_submit(rig.port, &before);
	wr_queue_close(rig.queue);
	wr_queue_submit(rig.port, &after);
	assert_int_equal(wr_queue_port_run(rig.port), 2);
	assert_reason(reasons[0], WR_QUEUE_OK);
	assert_reason(reasons[1], WR_QUEUE_ENDING);
	wr_queue_port_free(rig.port);
	wr_queue_free(rig.queue);
	rig.queue = NULL;
	rig_open(&rig);
	assert_int_equal(rig_stats(&rig).waiting, 1);
}

static void test_max_jobs(void **state)
{
	struct wr_queue_request request = request_of(1, "x");
	struct wr_queue_job jobs[3];

	(void)state;
	ended = 0;
	rig.opts.max_jobs = 2;
	rig.opts.now = read_gated;
	rig_open(&rig);
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 3; i++) {
		jobs[i] = put_of(&request);
		wr_queue_submit(rig.port, &jobs[i]);
	}
	assert_int_equal(wr_queue_port_run(rig.port), 1);
	assert_reason(reasons[0], WR_QUEUE_BUSY);
	pthread_mutex_unlock(&gate);
	assert_int_equal(rig_stats(&rig).waiting, 2);
	assert_int_equal(ended, 3);
	assert_reason(reasons[1], WR_QUEUE_OK);
	assert_reason(reasons[2], WR_QUEUE_OK);
	rig_close(&rig);
}

static void test_urls(void **state)
{
	static const char *const good[] = {"file:/var/lib/weir/queue", "file:///var/lib/weir/queue",
					   "redis://:pw@localhost:6379/2", "rediss://cache",
					   "redis+unix:///run/redis.sock"};
	static const char *const bad[][2] = {{"file:queue", "absolute path"},
					     {"/var/lib/weir", "begins with"},
					     {"redis+cluster://a,b", "single Redis"},
					     {"redis+sentinel://a/m", "single Redis"},
					     {"redis://", "Redis URL"},
					     {"", "begins with"}};
	struct weir_error error;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(wr_queue_url_check(good[i], &error), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(wr_queue_url_check(bad[i][0], &error), WEIR_EINVAL);
		if (!strstr(error.text, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], error.text);
	}
	wr_queue_url_text(good[2], text, sizeof text);
	assert_null(strstr(text, "pw"));
	assert_non_null(strstr(text, "localhost"));
	wr_queue_url_text(good[0], text, sizeof text);
	assert_string_equal(text, good[0]);
}

/* Cuts or changes a record at each byte. A cut record must be reported as damaged, and no byte
 * behind it may be read. */
static void test_damaged_records(void **state)
{
	static const struct wr_queue_request_field fields[] = {
		{.name = WR_STR("a"), .value = WR_STR("b")}};
	struct wr_queue_request request = request_of(1, "");
	uint8_t hash[32] = {0};
	size_t len;
	uint8_t *head;

	(void)state;
	request.fields = fields;
	request.field_count = 1;
	len = wr_queue_record_size(&request);
	head = malloc(len);
	assert_non_null(head);
	for (size_t cut = 1; cut <= len; cut++)
		for (unsigned change = 0; change < 3; change++) {
			struct wr_queue_record record = {.head = {(const char *)head, cut}};
			struct wr_queue_request *read;

			assert_true(wr_queue_record_write(&request, hash, NULL, head));
			if (change)
				head[cut - 1] ^= change == 1 ? 0xff : 0x01;
			read = wr_queue_record_read(&record, NULL);
			assert_non_null(read);
			if (cut == len && !change)
				assert_text(read->uri, "/orders?x=1");
			else if (cut < len)
				assert_text(read->reason,
					    "the stored data of this request is damaged");
			wr_queue_request_free(read);
		}
	free(head);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_many_threads), TEST(test_close),           TEST(test_max_jobs),
		TEST(test_urls),         TEST(test_damaged_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
