/* Tries to listen on the addresses of a plan, and finds out in a child process which files the user
 * of nginx's workers can access. Called by the subcommand `weir gateway`. */
#include "gateway/preflight.h"

#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "gateway/process.h"
#include "net/dial.h"

/* ---- addresses ---- */

/* Tries to listen on the address. Returns 0, or the errno of the failure. Sets SO_REUSEADDR,
 * because otherwise the port would seem to be in use while old connections are in TIME_WAIT. */
static int try_listen(const struct sockaddr *address, socklen_t len)
{
	int one = 1, failed = 0;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (address->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(fd, address, len) != 0 || listen(fd, 1) != 0)
		failed = errno;
	close(fd);
	return failed;
}

static int report_port_in_use(const struct wr_endpoint *at, pid_t ours, struct weir_error *error)
{
	char text[WR_ENDPOINT_TEXT], who[64] = "";
	struct wr_process holder;

	if (wr_process_listening(at->port, &holder)) {
		if (ours && holder.session == ours)
			return 0;
		snprintf(who, sizeof who, " by %s (process %d)", holder.name, (int)holder.pid);
	}
	wr_endpoint_text(at, text);
	return wr_error(error, WEIR_EINVAL,
			"cannot listen on %s: port %u is in use%s; stop that process, or choose "
			"another port with --listen PORT",
			text, at->port, who);
}

static int report_listen_failure(const struct wr_endpoint *at, int why, pid_t ours,
				 struct weir_error *error)
{
	char text[WR_ENDPOINT_TEXT];

	if (why == EADDRINUSE)
		return report_port_in_use(at, ours, error);
	wr_endpoint_text(at, text);
	if (why == EACCES)
		return wr_error(
			error, WEIR_EINVAL,
			"only root may listen on port %u: choose a port from 1024 up, start as "
			"root, or lower net.ipv4.ip_unprivileged_port_start",
			at->port);
	if (why == EADDRNOTAVAIL)
		return wr_error(error, WEIR_EINVAL, "%s is not an address of this machine", text);
	return wr_error(error, WEIR_EINVAL, "cannot listen on %s: %s", text, strerror(why));
}

/* Tries to listen on every address that the host at->host has. A port without a host means all
 * IPv4 addresses and, if the machine has IPv6, all IPv6 addresses. */
static int check_tcp(const struct wr_gateway_plan *plan, const struct wr_endpoint *at, pid_t ours,
		     struct weir_error *error)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%u", at->port);
	rc = getaddrinfo(at->kind == WR_ENDPOINT_ANY ? NULL : at->host, port, &hints, &found);
	if (rc != 0)
		return wr_error(error, WEIR_EINVAL, "--listen %s: %s", at->host, gai_strerror(rc));
	for (const struct addrinfo *a = found; a && rc == 0; a = a->ai_next) {
		int why = a->ai_family == AF_INET6 && !plan->has_v6
				  ? 0
				  : try_listen(a->ai_addr, a->ai_addrlen);

		if (why)
			rc = report_listen_failure(at, why, ours, error);
	}
	freeaddrinfo(found);
	return rc;
}

/* Removes the Unix socket that a killed nginx left behind, because nginx does not start if the file
 * exists. It is an error if another process listens on the socket. */
static int check_unix(const struct wr_endpoint *at, pid_t ours, struct weir_error *error)
{
	struct stat st;

	if (lstat(at->host, &st) != 0 || ours)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return wr_error(error, WEIR_EINVAL,
				"--listen unix:%s: the path is a file, not a socket", at->host);
	if (wr_dial_is_listening(at->host))
		return wr_error(error, WEIR_EINVAL,
				"unix:%s is in use: another process listens on it", at->host);
	if (unlink(at->host) != 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot remove the old socket %s",
				      at->host);
	return 0;
}

int wr_gateway_ports_check(const struct wr_gateway_plan *plan, pid_t ours, struct weir_error *error)
{
	const struct wr_endpoint_list *lists[] = {&plan->settings->listen, &plan->settings->h2c};

	wr_assert(plan->settings);
	for (size_t l = 0; l < 2; l++)
		for (size_t i = 0; i < lists[l]->count; i++) {
			const struct wr_endpoint *at = &lists[l]->items[i];

			if ((at->kind == WR_ENDPOINT_UNIX ? check_unix(at, ours, error)
							  : check_tcp(plan, at, ours, error)) != 0)
				return -1;
		}
	return 0;
}

/* ---- the workers' view ---- */

static int try_access(const struct wr_gateway_plan *plan)
{
	struct weir_rules *rules = NULL;
	int seen = WR_WORKER_SEES_ALL;

	if (weir_rules_load(plan->rules, &rules, NULL) != 0)
		seen |= WR_WORKER_NO_RULES;
	if (access(plan->bodies, X_OK) != 0)
		seen |= WR_WORKER_NO_BODIES;
	return seen;
}

int wr_worker_view(const struct wr_gateway_plan *plan)
{
	const struct passwd *user = plan->user ? getpwnam(plan->user) : NULL;
	int status;
	pid_t child;

	wr_assert(plan->rules && plan->bodies);
	if (!user)
		return WR_WORKER_SEES_ALL;
	child = fork();
	if (child == 0) {
		if (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
		    setuid(user->pw_uid) != 0)
			/* report nothing: if this process cannot change its user, nginx cannot do
			 * so either, and nginx reports the error itself */
			_exit(WR_WORKER_SEES_ALL);
		_exit(try_access(plan));
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return WR_WORKER_SEES_ALL;
	return WEXITSTATUS(status);
}
