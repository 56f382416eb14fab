/* Kills the process that uses the queue's file at any of its writes. Afterwards all jobs that the
 * process reported as done are in the file, the job in flight is in the file completely or not at
 * all, and nothing else has changed.
 *
 * A child does random jobs one after the other, with a SQLite file system that counts writes, syncs
 * and truncations. At the n-th of these operations the child exits, before a write or in the middle
 * of it. The child reports each job through a pipe before and after it does the job. The parent
 * computes the expected content of the queue, opens the file after each death of the child, and
 * compares. */
#include "queue/queue_test.h"
#include "rounds.h"

#include <sqlite3.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES 3u
#define ROWS 4096u
#define TRIES 3u

enum verb { PUT, TAKE, SETTLE, RETRY, DROP };

struct report {
	bool done; /* true: the job is done; false: the job begins */
	enum verb verb;
	uint8_t line;
	enum wr_queue_outcome outcome;
	uint64_t id; /* the new id after PUT; the id of a taken request after TAKE */
	enum wr_queue_reason reason;
	uint8_t ticket[WR_TICKET_BYTES];
};

struct row {
	bool there, accepted;
	uint8_t line;
	enum wr_queue_request_state state;
	uint32_t tries;
	uint8_t ticket[WR_TICKET_BYTES];
};

static struct rig rig;
static int reports[2];
static uint64_t seed;
static struct row rows[ROWS]; /* by id */

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(((seed >> 32) * n) >> 32);
}

/* ---- a file system that ends the process ---- */

struct file {
	sqlite3_file base;
	sqlite3_file *real; /* the file of the real file system */
};

static sqlite3_vfs counted;
static sqlite3_io_methods methods;
static uint32_t writes_left;

static sqlite3_file *real_file(sqlite3_file *file)
{
	return ((struct file *)file)->real;
}

static void count_down(void)
{
	if (--writes_left == 0)
		_exit(9);
}

static int x_close(sqlite3_file *file)
{
	return real_file(file)->pMethods->xClose(real_file(file));
}

static int x_read(sqlite3_file *file, void *to, int len, sqlite3_int64 at)
{
	return real_file(file)->pMethods->xRead(real_file(file), to, len, at);
}

/* Writes to the file. The last write before the process ends writes only a part of the bytes. */
static int x_write(sqlite3_file *file, const void *from, int len, sqlite3_int64 at)
{
	if (writes_left == 1)
		real_file(file)->pMethods->xWrite(real_file(file), from,
						  (int)random_below((uint32_t)len), at);
	count_down();
	return real_file(file)->pMethods->xWrite(real_file(file), from, len, at);
}

static int x_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	count_down();
	return real_file(file)->pMethods->xTruncate(real_file(file), size);
}

static int x_sync(sqlite3_file *file, int flags)
{
	count_down();
	return real_file(file)->pMethods->xSync(real_file(file), flags);
}

static int x_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return real_file(file)->pMethods->xFileSize(real_file(file), size);
}

static int x_lock(sqlite3_file *file, int kind)
{
	return real_file(file)->pMethods->xLock(real_file(file), kind);
}

static int x_unlock(sqlite3_file *file, int kind)
{
	return real_file(file)->pMethods->xUnlock(real_file(file), kind);
}

static int x_check_lock(sqlite3_file *file, int *is)
{
	return real_file(file)->pMethods->xCheckReservedLock(real_file(file), is);
}

static int x_control(sqlite3_file *file, int what, void *with)
{
	return real_file(file)->pMethods->xFileControl(real_file(file), what, with);
}

static int x_sector(sqlite3_file *file)
{
	return real_file(file)->pMethods->xSectorSize(real_file(file));
}

static int x_traits(sqlite3_file *file)
{
	return real_file(file)->pMethods->xDeviceCharacteristics(real_file(file));
}

static int x_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *out)
{
	sqlite3_vfs *below_it = vfs->pAppData;
	struct file *made = (struct file *)file;
	int rc;

	made->real = (sqlite3_file *)(made + 1);
	rc = below_it->xOpen(below_it, name, made->real, flags, out);
	made->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
	return rc;
}

static void count_writes(uint32_t most)
{
	sqlite3_vfs *usual = sqlite3_vfs_find(NULL);

	methods = (sqlite3_io_methods){
		.iVersion = 1,
		.xClose = x_close,
		.xRead = x_read,
		.xWrite = x_write,
		.xTruncate = x_truncate,
		.xSync = x_sync,
		.xFileSize = x_size,
		.xLock = x_lock,
		.xUnlock = x_unlock,
		.xCheckReservedLock = x_check_lock,
		.xFileControl = x_control,
		.xSectorSize = x_sector,
		.xDeviceCharacteristics = x_traits,
	};
	counted = *usual;
	counted.zName = "counted";
	counted.szOsFile += (int)sizeof(struct file);
	counted.pAppData = usual;
	counted.xOpen = x_open;
	writes_left = most;
	sqlite3_vfs_register(&counted, 1);
}

/* ---- the child ---- */

static void send_report(const struct report *report)
{
	if (write(reports[1], report, sizeof *report) != sizeof *report)
		_exit(3);
}

static void do_put(struct report *report)
{
	static char body[3000];
	struct wr_queue_request request = request_of(report->line, "");
	struct wr_queue_job job;

	request.max_tries = TRIES;
	request.body = (struct weir_str){body, 1 + random_below(sizeof body)};
	job = rig_put_as(&rig, &request, 1000, 86400 * S_US, 0);
	report->id = job.put.id;
	report->reason = job.reason;
	memcpy(report->ticket, job.put.ticket, sizeof report->ticket);
}

static void do_settle(struct report *report, const struct wr_queue_request *taken)
{
	report->verb = SETTLE;
	report->done = false;
	report->id = taken->id;
	report->outcome = (enum wr_queue_outcome)random_below(5);
	send_report(report);
	report->reason = rig_settle(&rig, taken, report->outcome, 0, 500, "no").reason;
	report->done = true;
	send_report(report);
}

static void do_random_job(uint64_t last_id)
{
	uint32_t luck = random_below(10);
	struct report report;

	memset(&report, 0, sizeof report);
	report.line = (uint8_t)random_below(LINES);
	report.id = last_id ? 1 + random_below((uint32_t)last_id) : 1;
	report.verb = luck < 4 ? PUT : luck < 8 ? TAKE : luck < 9 ? RETRY : DROP;
	if (report.verb == TAKE) {
		struct wr_queue_request *taken = rig_take(&rig, 1 + random_below(LINES)).take.first;

		for (const struct wr_queue_request *each = taken; each; each = each->next)
			do_settle(&report, each);
		wr_queue_request_free(taken);
		return;
	}
	send_report(&report);
	if (report.verb == PUT)
		do_put(&report);
	else
		report.reason =
			rig_page(&rig, report.verb == RETRY ? WR_QUEUE_RETRY : WR_QUEUE_DROP,
				 (struct wr_queue_filter){.id = report.id}, 0, 1)
				.reason;
	report.done = true;
	send_report(&report);
}

static _Noreturn void run_child(uint32_t writes, uint64_t last_id, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	count_writes(writes);
	rig_open(&rig);
	for (;;)
		do_random_job(last_id);
}

/* ---- the parent ---- */

static void apply_settle(struct row *row, enum wr_queue_outcome outcome)
{
	if (outcome == WR_QUEUE_AGAIN || outcome == WR_QUEUE_GIVE_UP)
		row->tries++;
	if (outcome == WR_QUEUE_DELIVERED)
		row->state = WR_QUEUE_REQUEST_DELIVERED;
	if (outcome == WR_QUEUE_GIVE_UP || (outcome == WR_QUEUE_AGAIN && row->tries == TRIES))
		row->state = WR_QUEUE_REQUEST_DEAD;
}

static void apply_report(const struct report *report, uint64_t id)
{
	struct row *row = &rows[id];

	switch (report->verb) {
	case PUT:
		*row = (struct row){.there = true, .line = report->line, .accepted = report->done};
		memcpy(row->ticket, report->ticket, sizeof row->ticket);
		break;
	case SETTLE:
		apply_settle(row, report->outcome);
		break;
	case RETRY:
		if (row->state == WR_QUEUE_REQUEST_DEAD) {
			row->state = WR_QUEUE_REQUEST_WAITING;
			row->tries = 0;
		}
		break;
	default:
		if (row->state == WR_QUEUE_REQUEST_WAITING || row->state == WR_QUEUE_REQUEST_DEAD)
			row->state = WR_QUEUE_REQUEST_DROPPED;
	}
}

static bool is_head(uint64_t id)
{
	for (uint64_t i = 1; i < id; i++)
		if (rows[i].there && rows[i].line == rows[id].line &&
		    rows[i].state == WR_QUEUE_REQUEST_WAITING)
			return false;
	return rows[id].there && rows[id].state == WR_QUEUE_REQUEST_WAITING;
}

/* Reads the child's reports. Returns true if a job was in flight, which is then in *last. */
static bool read_reports(struct report *last, uint64_t *last_id)
{
	struct report report;
	bool open = false;

	while (read(reports[0], &report, sizeof report) == sizeof report) {
		assert_true(report.id < ROWS);
		if (!report.done) {
			*last = report;
			open = true;
			continue;
		}
		open = false;
		if (report.verb == SETTLE && report.reason == WR_QUEUE_OK && !is_head(report.id))
			fail_msg("request %llu was taken out of order",
				 (unsigned long long)report.id);
		if (report.verb == PUT) {
			assert_reason(report.reason, WR_QUEUE_OK);
			assert_int_equal(report.id, *last_id + 1);
			*last_id = report.id;
		}
		if (report.reason == WR_QUEUE_OK)
			apply_report(&report, report.id);
	}
	return open;
}

/* Returns the id of the first request that differs from its expected state, or 0 if no request
 * differs. */
static uint64_t find_difference(uint64_t last_id)
{
	bool seen[ROWS] = {false};
	uint64_t wrong = 0, after = 0;

	do {
		struct wr_queue_job job =
			rig_page(&rig, WR_QUEUE_LIST, (struct wr_queue_filter){0}, after, 500);

		for (const struct wr_queue_request *each = job.page.first; each;
		     each = each->next) {
			const struct row *row = &rows[each->id];

			seen[each->id] = true;
			if (!wrong && (!row->there || row->line != each->key[0] ||
				       row->state != each->state || row->tries != each->tries))
				wrong = each->id;
		}
		wr_queue_request_free(job.page.first);
		after = job.page.last;
	} while (after);
	for (uint64_t id = 1; id <= last_id && !wrong; id++)
		if (rows[id].there && !seen[id])
			wrong = id;
	return wrong;
}

static void check_tickets(uint64_t last_id)
{
	for (uint64_t id = 1; id <= last_id; id++) {
		struct wr_queue_job job;

		if (!rows[id].accepted)
			continue;
		job = rig_ticket(&rig, rows[id].ticket);
		assert_reason(job.reason, WR_QUEUE_OK);
		assert_int_equal(job.ticket.found->id, id);
		assert_int_equal(job.ticket.found->state, rows[id].state);
		wr_queue_request_free(job.ticket.found);
	}
}

/* Opens the file and compares it with the expected state. If they differ, the job in flight must
 * have been done, so it is applied to the expected state before a second comparison. */
static void compare_with_file(const struct report *open, uint64_t *last_id)
{
	uint64_t wrong;

	rig_open(&rig);
	wrong = find_difference(*last_id);
	if (wrong && open) {
		uint64_t id = open->verb == PUT ? *last_id + 1 : open->id;

		apply_report(open, id);
		*last_id += open->verb == PUT;
		wrong = find_difference(*last_id);
	}
	if (wrong)
		fail_msg("request %llu is not in its expected state", (unsigned long long)wrong);
	check_tickets(*last_id);
	rig_close(&rig);
}

static void run_child_until_death(uint64_t *last_id)
{
	uint32_t writes = 1 + random_below(120);
	pid_t parent = getpid(), child;
	struct report open;
	bool is_open;
	int status;

	assert_int_equal(pipe(reports), 0);
	random_below(1);
	child = fork();
	if (child == 0)
		run_child(writes, *last_id, parent);
	assert_true(child > 0);
	close(reports[1]);
	is_open = read_reports(&open, last_id);
	close(reports[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 9);
	compare_with_file(is_open ? &open : NULL, last_id);
}

static void test_dies_at_any_write(void **state)
{
	const uint64_t rounds = test_rounds(40, 400);
	const char *given = getenv("WEIR_SEED");
	uint64_t last_id = 0;

	(void)state;
	seed = given ? strtoull(given, NULL, 0) : 20240301;
	rig_init(&rig);
	for (uint64_t i = 0; i < rounds && last_id < ROWS - 200; i++)
		run_child_until_death(&last_id);
	assert_true(last_id > 0);
	print_message("%llu requests\n", (unsigned long long)last_id);
	rig_free(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_dies_at_any_write)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
