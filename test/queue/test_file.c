/* The folder and the file of a queue: access rights, full and read-only disks, damage, a second
 * process, and clocks that are set. */
#include "needs.h"
#include "queue/queue_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "queue/backend.h"

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
	rig_close(&rig);
	umount2(rig.dir, MNT_DETACH); /* some tests mount a disk at this folder */
	rig_free(&rig);
	return 0;
}

static const char *in_folder(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/q/%s", rig.dir, name);
	return path;
}

static unsigned mode_of(const char *name)
{
	struct stat st;

	if (stat(in_folder(name), &st) < 0)
		fail_msg("%s: %s", in_folder(name), strerror(errno));
	return st.st_mode & 07777;
}

/* Checks that a put fails with this reason, that wr_queue_state() returns this reason, and that the
 * error text and the log contain these words. */
static void expect_failure(enum wr_queue_reason reason, const char *words)
{
	struct wr_queue_request request = request_of(1, "x");
	struct weir_error why = {0};

	assert_reason(rig_put_as(&rig, &request, 10, S_US, 0).reason, reason);
	assert_reason(wr_queue_state(rig.queue, &why), reason);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
	pthread_mutex_lock(&rig.lock);
	if (!strstr(rig.log, words))
		fail_msg("\"%s\" was not logged: %s", words, rig.log);
	pthread_mutex_unlock(&rig.lock);
}

/* Advances the clock of the test until the queue has reopened its file and a put succeeds. */
static void expect_recovery(void)
{
	struct wr_queue_request request = request_of(1, "after");
	struct wr_queue_job job = {0};

	for (int i = 0; i < 1000; i++) {
		rig_pass(&rig, 2 * S_US);
		job = rig_put_as(&rig, &request, 1000, 86400 * S_US, 0);
		if (job.reason == WR_QUEUE_OK)
			break;
		usleep(10000);
	}
	assert_reason(job.reason, WR_QUEUE_OK);
	assert_reason(wr_queue_state(rig.queue, NULL), WR_QUEUE_OK);
}

static void test_modes(void **state)
{
	mode_t old = umask(0);

	(void)state;
	rig_open(&rig);
	umask(old);
	rig_put(&rig, 1, "x");
	assert_int_equal(mode_of(""), 0700);
	assert_int_equal(mode_of("queue.db"), 0600);
	assert_int_equal(mode_of("queue.db-wal"), 0600);
	assert_int_equal(mode_of("queue.lock"), 0600);
	assert_int_equal(access(in_folder("queue.db-shm"), F_OK), -1);
}

static void test_restart_keeps_all(void **state)
{
	struct wr_queue_job first, second, job;
	struct wr_queue_request *taken;
	uint64_t accepted_us;

	(void)state;
	rig_open(&rig);
	first = rig_put(&rig, 1, "a");
	second = rig_put(&rig, 1, "b");
	rig_put(&rig, 2, "c");
	rig_deliver(&rig, NULL, WR_QUEUE_DELIVERED, 0, 204, "");
	taken = rig_take(&rig, 1).take.first;
	accepted_us = taken->accepted_us;
	wr_queue_request_free(taken); /* never settled */
	rig_close(&rig);
	memset(rig.waiting, 0, sizeof rig.waiting);
	rig_pass(&rig, 5 * S_US);
	rig_open(&rig);
	assert_int_equal(rig_waiting(&rig, 1), 1);
	assert_int_equal(rig_waiting(&rig, 2), 1);
	assert_int_equal(rig_stats(&rig).waiting, 2);
	assert_int_equal(rig_stats(&rig).delivering, 0);
	assert_int_equal(rig_stats(&rig).delivered_total, 1);
	assert_int_equal(rig_stats(&rig).put_total, 3);
	job = rig_ticket(&rig, first.put.ticket);
	assert_int_equal(job.ticket.found->status, 204);
	wr_queue_request_free(job.ticket.found);
	job = rig_ticket(&rig, second.put.ticket);
	assert_int_equal(job.ticket.found->position, 1);
	assert_int_equal(job.ticket.found->accepted_us, accepted_us);
	wr_queue_request_free(job.ticket.found);
	job = rig_take(&rig, 10);
	assert_int_equal(job.take.count, 2);
	wr_queue_request_free(job.take.first);
	/* The next id is 4, because ids are not used again after a restart. */
	assert_int_equal(rig_put(&rig, 3, "d").put.id, 4);
}

static void test_locked_by_another_process(void **state)
{
	int ready[2], status;
	pid_t child;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		rig_open(&rig);
		rig_put(&rig, 1, "of the other");
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	rig_open(&rig);
	expect_failure(WR_QUEUE_AWAY, "is in use by another process");
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	expect_recovery();
	assert_int_equal(rig_waiting(&rig, 1), 2);
	close(ready[0]);
	close(ready[1]);
}

static void test_folder_writable_for_others(void **state)
{
	(void)state;
	assert_int_equal(mkdir(in_folder(""), 0700), 0);
	assert_int_equal(chmod(in_folder(""), 0777), 0);
	rig_open(&rig);
	expect_failure(WR_QUEUE_READ_ONLY, "chmod 700");
	assert_int_equal(chmod(in_folder(""), 0755), 0);
	expect_recovery();
}

static void test_read_only(void **state)
{
	(void)state;
	needs("mounts");
	assert_int_equal(mount("none", rig.dir, "tmpfs", 0, "size=16m"), 0);
	rig_open(&rig);
	rig_put(&rig, 1, "before");
	rig_close(&rig);
	assert_int_equal(mount("none", rig.dir, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
	rig_open(&rig);
	expect_failure(WR_QUEUE_READ_ONLY, "Read-only file system");
	assert_int_equal(mount("none", rig.dir, "tmpfs", MS_REMOUNT, NULL), 0);
	expect_recovery();
	wr_queue_request_free(rig_take_one(&rig, "before"));
}

/* Removes or renames the folder while the queue is open. SQLite still writes to the open file,
 * which no later process will find. So the queue refuses new requests and delivers the waiting
 * requests. */
static void check_removal(void (*remove)(void))
{
	struct wr_queue_request lost = request_of(1, "lost");

	rig_open(&rig);
	rig_put(&rig, 1, "before");
	remove();
	assert_reason(rig_put_as(&rig, &lost, 10, S_US, 0).reason, WR_QUEUE_AWAY);
	rig_pass(&rig, 2 * S_US);
	assert_reason(rig_put_as(&rig, &lost, 10, S_US, 0).reason, WR_QUEUE_AWAY);
	assert_reason(rig_deliver(&rig, "before", WR_QUEUE_DELIVERED, 0, 200, "").reason,
		      WR_QUEUE_OK);
	expect_recovery();
	pthread_mutex_lock(&rig.lock);
	assert_non_null(strstr(rig.log, "WAS REMOVED: its 1 requests"));
	pthread_mutex_unlock(&rig.lock);
	rig_close(&rig);
	rig_open(&rig);
	wr_queue_request_free(rig_take_one(&rig, "after"));
}

static void remove_folder(void)
{
	remove_tree(in_folder(""));
}

static void move_folder(void)
{
	char to[sizeof rig.dir + 8];

	snprintf(to, sizeof to, "%s/old", rig.dir);
	assert_int_equal(rename(in_folder(""), to), 0);
}

static void test_removed(void **state)
{
	(void)state;
	check_removal(remove_folder);
}

static void test_moved_away(void **state)
{
	(void)state;
	check_removal(move_folder);
}

/* Puts requests of 100 KiB until a put fails. Returns the number of stored requests. */
static unsigned fill_disk(enum wr_queue_reason expected)
{
	static char body[100 << 10];
	struct wr_queue_request request = request_of(1, "");
	unsigned count = 0;
	struct wr_queue_job job;

	memset(body, 'x', sizeof body);
	request.body = (struct weir_str){body, sizeof body};
	while ((job = rig_put_as(&rig, &request, 1000, 86400 * S_US, 0)).reason == WR_QUEUE_OK)
		count++;
	assert_reason(job.reason, expected);
	return count;
}

/* On a full disk no accepted request is lost, and the results of deliveries can be recorded. */
static void test_full_disk(void **state)
{
	unsigned stored;

	(void)state;
	needs("mounts");
	assert_int_equal(mount("none", rig.dir, "tmpfs", 0, "size=8m"), 0);
	rig_open(&rig);
	stored = fill_disk(WR_QUEUE_NO_SPACE);
	assert_in_range(stored, 10, 80);
	assert_non_null(strstr(rig.log, "queue.db is full or nearly full: "));
	assert_int_equal(rig_stats(&rig).waiting, stored);
	for (unsigned i = 0; i < stored; i++) {
		struct wr_queue_job job = rig_take(&rig, 1);

		assert_int_equal(job.take.count, 1);
		assert_int_equal(job.take.first->id, i + 1);
		assert_reason(
			rig_settle(&rig, job.take.first, WR_QUEUE_DELIVERED, 0, 200, "").reason,
			WR_QUEUE_OK);
		wr_queue_request_free(job.take.first);
	}
	/* Delivered requests have freed their space. */
	assert_in_range(fill_disk(WR_QUEUE_NO_SPACE), stored / 2, 80);
}

static int hog; /* a file that fills the disk */

static void take_all_space(void)
{
	char bytes[4096] = {0};
	char path[128];

	snprintf(path, sizeof path, "%s/hog", rig.dir);
	hog = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(hog >= 0);
	while (write(hog, bytes, sizeof bytes) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

/* Another program has used the last free byte of the disk, so the commit itself fails. */
static void test_disk_full_in_a_commit(void **state)
{
	struct wr_queue_request request = request_of(1, "y");
	struct wr_queue_request *taken;
	struct wr_queue_job put;

	(void)state;
	needs("mounts");
	assert_int_equal(mount("none", rig.dir, "tmpfs", 0, "size=8m"), 0);
	rig.opts.free_bytes_min = 1;
	rig_open(&rig);
	put = rig_put(&rig, 1, "x");
	take_all_space();
	assert_reason(rig_put_as(&rig, &request, 10, 86400 * S_US, 0).reason, WR_QUEUE_NO_SPACE);
	assert_int_equal(rig_waiting(&rig, 1), 1);
	/* The request can still be taken. If the result of the delivery does not fit on the disk,
	 * the request stays in delivery. */
	taken = rig_take_one(&rig, "x");
	fill_disk(WR_QUEUE_NO_SPACE);
	if (rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason != WR_QUEUE_OK) {
		struct wr_queue_job job = rig_ticket(&rig, put.put.ticket);

		assert_int_equal(job.ticket.found->state, WR_QUEUE_REQUEST_DELIVERING);
		wr_queue_request_free(job.ticket.found);
		assert_int_equal(ftruncate(hog, 0), 0);
		assert_reason(rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "").reason,
			      WR_QUEUE_OK);
	}
	assert_int_equal(ftruncate(hog, 0), 0);
	close(hog);
	wr_queue_request_free(taken);
	expect_recovery();
}

/* Overwrites bytes of a file. */
static void overwrite_bytes(const char *name, off_t at, size_t len)
{
	int fd = open(in_folder(name), O_RDWR | O_CLOEXEC);
	char bytes[4096];

	assert_true(fd >= 0);
	memset(bytes, 0xa5, sizeof bytes);
	for (; len; at += (off_t)(len < sizeof bytes ? len : sizeof bytes),
		    len -= len < sizeof bytes ? len : sizeof bytes)
		assert_true(pwrite(fd, bytes, len < sizeof bytes ? len : sizeof bytes, at) > 0);
	close(fd);
}

static bool is_moved_away(void)
{
	char path[64];

	snprintf(path, sizeof path, "queue.db.corrupt-%llu", T0_US / S_US);
	return access(in_folder(path), F_OK) == 0;
}

static void check_damage(off_t at, size_t len)
{
	rig_open(&rig);
	for (int i = 0; i < 50; i++)
		rig_put(&rig, 1,
			"some bytes to fill pages with, so that there are several of them");
	rig_close(&rig);
	overwrite_bytes("queue.db", at, len);
	rig_open(&rig);
	pthread_mutex_lock(&rig.lock);
	assert_non_null(strstr(rig.log, "DAMAGED"));
	assert_non_null(strstr(rig.log, ".recover"));
	pthread_mutex_unlock(&rig.lock);
	assert_true(is_moved_away());
	assert_reason(wr_queue_state(rig.queue, NULL), WR_QUEUE_OK);
	assert_int_equal(rig_stats(&rig).waiting, 0);
	rig_put(&rig, 1, "new");
}

static void test_damaged_first_page(void **state)
{
	(void)state;
	check_damage(0, 4096);
}

static void test_damaged_page(void **state)
{
	(void)state;
	check_damage(3 * 4096, 2 * 4096);
}

static void test_truncated_file(void **state)
{
	(void)state;
	rig_open(&rig);
	for (int i = 0; i < 50; i++)
		rig_put(&rig, 1,
			"some bytes to fill pages with, so that there are several of them");
	rig_close(&rig);
	assert_int_equal(truncate(in_folder("queue.db"), 5 * 4096), 0);
	rig_open(&rig);
	assert_true(is_moved_away());
	rig_put(&rig, 1, "new");
}

/* Damages the write-ahead log while the file is open. The queue works again after the next open. */
static void test_damaged_log(void **state)
{
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	rig_put(&rig, 1, "old");
	rig_close(&rig); /* copies the log into the file */
	rig_open(&rig);
	rig_put(&rig, 1, "in the log");
	/* Changes the log as a crash during a write would. SQLite detects the change by its
	 * checksums. */
	if (fork() == 0) {
		overwrite_bytes("queue.db-wal", 32 + 24 + 100, 8);
		_exit(0);
	}
	assert_true(wait(NULL) > 0);
	job = rig_take(&rig, 10);
	wr_queue_request_free(job.take.first);
	rig_close(&rig);
	rig_open(&rig);
	assert_reason(wr_queue_state(rig.queue, NULL), WR_QUEUE_OK);
	rig_put(&rig, 1, "new");
}

static void run_sql(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(in_folder("queue.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void test_other_version(void **state)
{
	(void)state;
	rig_open(&rig);
	rig_close(&rig);
	run_sql("PRAGMA user_version = 3");
	rig_open(&rig);
	expect_failure(WR_QUEUE_FAILED, "another version of weir");
	assert_false(is_moved_away());
}

static void test_older_version(void **state)
{
	struct wr_queue_job put;

	(void)state;
	rig_open(&rig);
	put = rig_put(&rig, 1, "old");
	rig_close(&rig);
	run_sql("DROP TABLE delivered; PRAGMA user_version = 1");
	rig_open(&rig);
	assert_reason(rig_deliver(&rig, "old", WR_QUEUE_DELIVERED, 0, 200, "").reason, WR_QUEUE_OK);
	rig_close(&rig);
	rig_open(&rig);
	put = rig_ticket(&rig, put.put.ticket);
	assert_int_equal(put.ticket.found->state, WR_QUEUE_REQUEST_DELIVERED);
	wr_queue_request_free(put.ticket.found);
}

static void test_not_a_queue(void **state)
{
	(void)state;
	assert_int_equal(mkdir(in_folder(""), 0700), 0);
	run_sql("CREATE TABLE mine (x)");
	rig_open(&rig);
	expect_failure(WR_QUEUE_FAILED, "not a queue of weir");
}

/* ---- reopened by the same process, as after an error ---- */

static enum wr_queue_reason run_job(struct wr_queue_backend *backend, struct wr_queue_job *job)
{
	backend->ops->run(backend, &job, 1, (struct wr_queue_moment){T0_US, S_US});
	return job->reason;
}

static void reopen_backend(struct wr_queue_backend *backend)
{
	struct weir_error error;

	backend->ops->close(backend);
	assert_reason(backend->ops->open(backend, (struct wr_queue_moment){T0_US, S_US}, &error),
		      WR_QUEUE_OK);
}

/* A request that was taken before the file was reopened can be settled, unless it was taken again.
 */
static void test_settle_after_reopen(void **state)
{
	struct wr_queue_opts opts = {.url = rig.url,
				     .max_requests = 10,
				     .max_bytes = 100000,
				     .max_tickets = 10,
				     .keep_us = S_US};
	struct wr_queue_backend *backend = wr_sqlite_new(&opts, NULL);
	struct wr_queue_request request = request_of(1, "x");
	struct wr_queue_job put = {
		.verb = WR_QUEUE_PUT,
		.put = {.request = &request, .max_waiting = 10, .max_age_us = S_US}};
	struct wr_queue_job take = {.verb = WR_QUEUE_TAKE, .take = {.max = 1}}, again = take;
	struct wr_queue_job settle = {.verb = WR_QUEUE_SETTLE, .settle = {.key = {1}}};

	(void)state;
	assert_non_null(backend);
	reopen_backend(backend);
	assert_reason(run_job(backend, &put), WR_QUEUE_OK);
	assert_reason(run_job(backend, &take), WR_QUEUE_OK);
	reopen_backend(backend);
	assert_reason(run_job(backend, &again), WR_QUEUE_OK);
	assert_int_equal(again.take.count, 1);
	settle.settle.id = take.take.first->id;
	settle.settle.fence = take.take.first->fence;
	assert_reason(run_job(backend, &settle), WR_QUEUE_LOST);
	settle.reason = WR_QUEUE_OK;
	settle.settle.fence = again.take.first->fence;
	reopen_backend(backend);
	assert_reason(run_job(backend, &settle), WR_QUEUE_OK);
	assert_int_equal(settle.settle.state, WR_QUEUE_REQUEST_DELIVERED);
	wr_queue_request_free(take.take.first);
	wr_queue_request_free(again.take.first);
	backend->ops->close(backend);
	backend->ops->free(backend);
}

/* ---- clocks ---- */

static void put_waiting(uint64_t wait_us)
{
	struct wr_queue_request request = request_of(1, "x");

	assert_reason(rig_put_as(&rig, &request, 10, 3600 * S_US, wait_us).reason, WR_QUEUE_OK);
}

static void test_clock_set_while_open(void **state)
{
	static const uint64_t walls[] = {T0_US - 365 * 86400 * S_US, T0_US + 365 * 86400 * S_US};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct wr_queue_request *taken;

		rig_set_wall(&rig, T0_US);
		rig_open(&rig);
		put_waiting(60 * S_US);
		rig_set_wall(&rig, walls[i]);
		assert_int_equal(rig_take(&rig, 1).take.next_us, 60 * S_US);
		rig_pass(&rig, 60 * S_US);
		taken = rig_take_one(&rig, "x");
		/* The queue converts its times to the wall clock as the wall clock is set now. */
		assert_int_equal(taken->accepted_us, walls[i]);
		assert_int_equal(taken->expires_us, walls[i] + 3600 * S_US);
		rig_settle(&rig, taken, WR_QUEUE_DELIVERED, 0, 200, "");
		wr_queue_request_free(taken);
		rig_close(&rig);
		remove_tree(in_folder(""));
	}
}

/* The machine starts with its clock in the past, and the clock is corrected later. Requests must
 * not wait for years. */
static void test_clock_in_the_past_at_start(void **state)
{
	(void)state;
	rig_open(&rig);
	put_waiting(60 * S_US);
	rig_close(&rig);
	rig_set_wall(&rig, 1000 * S_US); /* 1970 */
	rig_open(&rig);
	assert_int_equal(rig_take(&rig, 1).take.next_us, 60 * S_US);
	rig_pass(&rig, 30 * S_US);
	/* Now the clock is corrected. */
	rig_set_wall(&rig, T0_US + 3600 * S_US);
	assert_int_equal(rig_take(&rig, 1).take.next_us, 30 * S_US);
	rig_pass(&rig, 30 * S_US);
	wr_queue_request_free(rig_take_one(&rig, "x"));
}

/* The waits and ages of requests include the time in which the queue was closed. */
static void test_time_while_closed(void **state)
{
	struct wr_queue_job job;

	(void)state;
	rig_open(&rig);
	put_waiting(60 * S_US);
	rig_close(&rig);
	rig_pass(&rig, 59 * S_US);
	rig_open(&rig);
	assert_int_equal(rig_take(&rig, 1).take.next_us, S_US);
	rig_close(&rig);
	rig_pass(&rig, 3600 * S_US);
	rig_open(&rig);
	job = rig_take(&rig, 1);
	assert_int_equal(job.take.expired, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_modes),
		TEST(test_restart_keeps_all),
		TEST(test_locked_by_another_process),
		TEST(test_folder_writable_for_others),
		TEST(test_read_only),
		TEST(test_removed),
		TEST(test_moved_away),
		TEST(test_full_disk),
		TEST(test_disk_full_in_a_commit),
		TEST(test_damaged_first_page),
		TEST(test_damaged_page),
		TEST(test_truncated_file),
		TEST(test_damaged_log),
		TEST(test_other_version),
		TEST(test_older_version),
		TEST(test_not_a_queue),
		TEST(test_settle_after_reopen),
		TEST(test_clock_set_while_open),
		TEST(test_clock_in_the_past_at_start),
		TEST(test_time_while_closed),
	};

	/* The disks are mounted in a mount namespace of this process. */
	if (!test_lacks("mounts") && test_own_mounts() != 0) {
		perror("no namespace for mounts");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
