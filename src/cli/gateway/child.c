/* Forks the process of the gateway's service. Passes commands of the gateway to this process, and
 * reports of this process to the gateway. Called by service.c. */
#include "cli/gateway/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gateway/plan.h"
#include "limiter/engine.h"
#include "net/log.h"
#include "serve/admin/admin.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"
#include "table/table.h"

#define REPORT_MS 250
/* At least every REPORT_MS, the process of the service checks whether the service still uses the
 * old table after a resize. If it does in this many checks in a row, the service counts as stuck: a
 * service that can open the new table has changed to it by then. */
#define STUCK_REPORTS 6
#define STOP_MS 10000
#define SUMMARY_MAX 32768

enum message_kind { MESSAGE_STARTED = 1, MESSAGE_FAILED, MESSAGE_REPORT };

struct service_message {
	uint32_t kind;
	struct wr_cli_gateway_report report;
	char text[]; /* the service's ports, one per line; only if kind is MESSAGE_STARTED */
};

/* ---- in the child ---- */

struct service_process {
	struct wr_service service;
	const struct wr_cli_gateway_child_opts *opts;
	struct wr_cli_gateway_report report, sent;
	int fd, ended;
	unsigned moved_looks;
};

static void on_ended(void *context)
{
	const struct service_process *process = context;
	uint64_t one = 1;

	if (write(process->ended, &one, sizeof one) < 0)
		return; /* cannot happen: the counter of the eventfd is far from its maximum */
}

static int open_ports(struct service_process *process, struct weir_error *error)
{
	int rc = wr_service_init(&process->service, process->opts->settings, error);
	struct wr_settings settings;
	struct weir_error why;

	if (rc == 0 || !process->opts->default_admin)
		return rc;
	settings = *process->opts->settings;
	settings.admin.count = 0;
	why = *error;
	rc = wr_service_init(&process->service, &settings, error);
	if (rc == 0)
		wr_log(WR_LOG_WARN, "no admin port: %s", why.text);
	return rc;
}

/* Records which files the service's user cannot read. If these files change, the gateway has to
 * restart the service, because a new process reads the files before it changes its user. */
static void note_unreadable(struct service_process *process)
{
	const struct wr_settings *s = process->opts->settings;
	struct weir_rules *rules = NULL;

	process->report.no_rules = weir_rules_load(s->rules, &rules, NULL) != 0;
	weir_rules_free(rules);
	process->report.no_certificate = (s->tls_cert && access(s->tls_cert, R_OK) < 0) ||
					 (s->tls_key && access(s->tls_key, R_OK) < 0);
}

static int start_service(struct service_process *process, pid_t gateway, struct weir_error *error)
{
	struct wr_user user;
	int rc = wr_user_find(process->opts->settings->user, &user, error);

	if (rc == 0 && !process->opts->settings->user)
		user.change = false; /* no user is set: the service keeps the gateway's user */
	if (rc == 0)
		rc = open_ports(process, error);
	if (rc < 0)
		return rc;
	process->service.ended = on_ended;
	process->service.context = process;
	wr_service_report_redis(&process->service);
	wr_service_report_shielded(&process->service);
	rc = wr_service_give(&process->service, &user, error);
	/* Set PDEATHSIG again, because a change of the user clears it. The service must end if the
	 * gateway is killed, because the next gateway needs the ports. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != gateway)
		_exit(1);
	if (rc == 0) {
		note_unreadable(process);
		rc = wr_service_start(&process->service, error);
	}
	if (rc < 0) {
		wr_service_stop(&process->service);
		wr_service_free(&process->service);
	}
	return rc;
}

/* Sets report->rules to the generation of the rules in use. Sets report->defers to whether a rule
 * of `domain` has on_limit: defer. */
static void read_rules(struct weir_engine *engine, const char *domain,
		       struct wr_cli_gateway_report *report)
{
	unsigned shard = wr_limiter_shard_mine();
	struct wr_generation *held = wr_generation_hold(engine, shard);

	report->rules = held->number;
	report->defers = wr_gateway_defers(held->rules, domain);
	wr_generation_release(engine, held, shard);
}

static void update_report(struct service_process *process)
{
	struct wr_cli_gateway_report *report = &process->report;
	struct wr_service *service = &process->service;
	struct wr_core *core = wr_service_core(service);

	report->moves = __atomic_load_n(&service->moves, __ATOMIC_ACQUIRE);
	report->table_bytes = core->table->header.memory_bytes;
	read_rules(core->engine, process->opts->domain, report);
	process->moved_looks = weir_moved(core->table) ? process->moved_looks + 1 : 0;
	report->stuck = process->moved_looks >= STUCK_REPORTS;
	report->drained = __atomic_load_n(&service->stage, __ATOMIC_ACQUIRE) == WR_SERVICE_ENDED;
	wr_core_release(core);
}

static void send_message(const struct service_process *process, enum message_kind kind,
			 const char *text)
{
	size_t len = strlen(text) + 1;
	struct service_message *message = calloc(1, sizeof *message + len);

	if (!message)
		abort();
	message->kind = kind;
	message->report = process->report;
	memcpy(message->text, text, len);
	if (send(process->fd, message, sizeof *message + len, MSG_NOSIGNAL) < 0)
		_exit(1); /* the gateway has ended */
	free(message);
}

/* Writes the ports of the service, one per line. */
static void write_ports(const struct wr_service *service, FILE *out)
{
	const char *token = wr_admin_start_token(&service->settings);

	for (const struct wr_listener *l = service->listeners; l; l = l->next)
		fprintf(out, "  %-9s %s\n", l->name, l->text);
	for (const struct wr_listener *l = service->listeners; l; l = l->next)
		if (strcmp(l->name, "admin") == 0 && l->endpoint.kind != WR_ENDPOINT_UNIX)
			fprintf(out, "  %-9s http://%s/%s%s\n", "dashboard", l->text,
				token ? "#token=" : "", token ? token : "");
	if (service->redis)
		fprintf(out, "  %-9s %s\n", "redis", service->redis->text);
}

static void send_started(struct service_process *process)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		abort();
	write_ports(&process->service, out);
	fclose(out);
	if (len > SUMMARY_MAX)
		text[SUMMARY_MAX] = 0;
	update_report(process);
	process->sent = process->report;
	send_message(process, MESSAGE_STARTED, text);
	free(text);
}

/* Receives a command of the gateway and carries it out. Returns false if the process has to end. */
static bool obey_order(struct service_process *process)
{
	char order;

	if (recv(process->fd, &order, 1, 0) != 1)
		return false;
	if (order == WR_GATEWAY_CHILD_RELOAD)
		wr_service_reload(&process->service);
	else if (order == WR_GATEWAY_CHILD_DRAIN)
		wr_service_drain(&process->service);
	return order != WR_GATEWAY_CHILD_STOP;
}

static bool reports_differ(const struct wr_cli_gateway_report *a,
			   const struct wr_cli_gateway_report *b)
{
	return a->moves != b->moves || a->table_bytes != b->table_bytes || a->rules != b->rules ||
	       a->defers != b->defers || a->drained != b->drained || a->stuck != b->stuck ||
	       a->no_rules != b->no_rules || a->no_certificate != b->no_certificate;
}

static void run_service(struct service_process *process)
{
	struct pollfd fds[] = {{process->fd, POLLIN, 0}, {process->ended, POLLIN, 0}};
	uint64_t count;

	for (;;) {
		if (poll(fds, 2, REPORT_MS) < 0 && errno != EINTR)
			return;
		if (fds[0].revents && !obey_order(process))
			return;
		if (fds[1].revents && read(process->ended, &count, sizeof count) < 0)
			return;
		update_report(process);
		if (reports_differ(&process->report, &process->sent))
			send_message(process, MESSAGE_REPORT, "");
		process->sent = process->report;
	}
}

/* Ignores signals, because the gateway handles them and sends commands to the service. */
static void ignore_signals(void)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};
	sigset_t none;

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_child(const struct wr_cli_gateway_child_opts *opts, int fd, pid_t gateway)
{
	static struct service_process process;
	struct weir_error error = {0};

	ignore_signals();
	process = (struct service_process){
		.opts = opts, .fd = fd, .ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (process.ended < 0)
		abort();
	if (start_service(&process, gateway, &error) < 0) {
		wr_log(WR_LOG_ERROR, "%s", error.text);
		send_message(&process, MESSAGE_FAILED, "");
		exit(1);
	}
	send_started(&process);
	run_service(&process);
	wr_service_stop(&process.service);
	wr_service_free(&process.service);
	exit(0);
}

/* ---- in the gateway ---- */

static void describe_end(struct wr_cli_gateway_child *child, int status)
{
	if (WIFSIGNALED(status))
		snprintf(child->ended, sizeof child->ended,
			 "the service (process %d) was ended by signal %d (%s)", (int)child->pid,
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(child->ended, sizeof child->ended,
			 "the service (process %d) ended with code %d", (int)child->pid,
			 WEXITSTATUS(status));
}

/* Collects the exit status of a process that has ended or was killed, and frees its data. */
static void collect_child(struct wr_cli_gateway_child *child)
{
	int status = 0;

	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	describe_end(child, status);
	close(child->fd);
	free(child->summary);
	child->summary = NULL;
	child->fd = -1;
	child->pid = 0;
}

/* Reads one message. Returns 0, -1 if there is no message at present, or -2 if the process has
 * closed the socket. */
static int read_message(struct wr_cli_gateway_child *child, uint32_t *kind, int flags)
{
	char buffer[sizeof(struct service_message) + SUMMARY_MAX + 1];
	struct service_message head;
	ssize_t len = recv(child->fd, buffer, sizeof buffer - 1, flags);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return -1;
	if (len < (ssize_t)sizeof head)
		return -2;
	memcpy(&head, buffer, sizeof head);
	buffer[len] = 0;
	child->report = head.report;
	*kind = head.kind;
	/* Only the first list of ports is used. The service sent this list before it read any bytes
	 * from clients, so no client can have influenced it. */
	if (head.kind == MESSAGE_STARTED && !child->summary)
		child->summary = strdup(buffer + sizeof head);
	return 0;
}

int wr_cli_gateway_child_start(struct wr_cli_gateway_child *child,
			       const struct wr_cli_gateway_child_opts *opts)
{
	uint32_t kind = 0;
	int ends[2], rc;
	pid_t gateway = getpid();

	*child = (struct wr_cli_gateway_child){.fd = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		wr_log(WR_LOG_ERROR, "cannot start the service: %s", strerror(errno));
		return -1;
	}
	fflush(NULL);
	child->pid = fork();
	if (child->pid == 0) {
		close(ends[0]);
		run_child(opts, ends[1], gateway);
	}
	close(ends[1]);
	child->fd = ends[0];
	if (child->pid < 0) {
		wr_log(WR_LOG_ERROR, "cannot start the service: %s", strerror(errno));
		close(ends[0]);
		child->pid = 0;
		return -1;
	}
	do
		rc = read_message(child, &kind, 0);
	while (rc == -1);
	if (rc == 0 && kind == MESSAGE_STARTED)
		return 0;
	collect_child(child);
	return -1;
}

void wr_cli_gateway_child_poll(struct wr_cli_gateway_child *child)
{
	uint32_t kind;
	int rc = 0;

	while (child->pid && rc == 0)
		rc = read_message(child, &kind, MSG_DONTWAIT);
	if (rc == -2) {
		kill(child->pid, SIGKILL); /* without the socket the process cannot be controlled */
		collect_child(child);
	}
}

void wr_cli_gateway_child_send(const struct wr_cli_gateway_child *child,
			       enum wr_cli_gateway_child_order order)
{
	char byte = (char)order;

	if (child->pid && send(child->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* wr_cli_gateway_child_poll() will detect the closed socket */
}

void wr_cli_gateway_child_stop(struct wr_cli_gateway_child *child)
{
	struct pollfd pidfd = {.events = POLLIN};

	if (!child->pid)
		return;
	wr_cli_gateway_child_send(child, WR_GATEWAY_CHILD_STOP);
	pidfd.fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
	if (pidfd.fd >= 0) {
		if (poll(&pidfd, 1, STOP_MS) == 0)
			kill(child->pid, SIGKILL);
		close(pidfd.fd);
	}
	collect_child(child);
}
