/* Finds out which files the user of nginx's workers can access, in a child process that runs as
 * this user. Called by the subcommand `weir gateway`. */
#include "gateway/worker_view.h"

#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

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
