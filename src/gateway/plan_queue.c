/* Decides whether the gateway has a queue of deferred requests, and in which folder. The folder
 * must survive a reboot, so it is not the runtime folder. Called by the subcommand `weir gateway`.
 */
#include "gateway/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/str.h"
#include "gateway/paths.h"
#include "rules/rules.h"

#define ROOT_STATE "/var/lib/weir"

/* Returns the folder for persistent state of this user's programs, or NULL if neither HOME nor
 * XDG_STATE_HOME names a folder. */
static const char *state_folder(struct wr_arena *arena)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return ROOT_STATE;
	if (state && state[0] == '/')
		return wr_gateway_print(arena, "%s/weir", state);
	return home && home[0] == '/' ? wr_gateway_print(arena, "%s/.local/state/weir", home)
				      : NULL;
}

/* Creates a folder for state. A folder that root creates gets mode 0711, so that the service's user
 * can reach the queue's folder in it; the queue's own folder has mode 0700. On failure returns
 * false with errno set. */
static bool make_state_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, geteuid() == 0 ? 0711 : 0700) == 0)
		return true;
	if (errno != EEXIST || lstat(path, &st) != 0)
		return false;
	if (geteuid() == 0 && st.st_uid == 0 && (st.st_mode & 0777) == 0700 &&
	    strncmp(path, ROOT_STATE, strlen(ROOT_STATE)) == 0 && chmod(path, 0711) != 0)
		return false;
	errno = ENOTDIR;
	return S_ISDIR(st.st_mode) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* Creates the folder and its missing parents. */
static int make_state_folders(const char *path, struct weir_error *error)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
		size_t len = slash ? (size_t)(slash - path) : strlen(path);

		if (len >= sizeof part)
			return wr_error(error, WEIR_EINVAL, "the path %s is too long", path);
		memcpy(part, path, len);
		part[len] = 0;
		if (!make_state_folder(part))
			return wr_error(error, WEIR_ESYS,
					"cannot create the folder %s for deferred requests: %s; "
					"name another with --queue URL, or refuse requests with "
					"--queue off",
					part, strerror(errno));
		if (!slash)
			return 0;
	}
}

static bool has_queue(const char *folder)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/queue/queue.db", folder) < PATH_MAX &&
	       access(path, F_OK) == 0;
}

/* Plans a queue in a folder of this gateway if a rule defers requests. A queue that exists there
 * already is used in any case, so that its requests are delivered. */
static int plan_default_queue(struct wr_gateway_plan *plan, bool defers, struct wr_arena *arena,
			      struct weir_error *error)
{
	const char *state = state_folder(arena);
	const char *folder = state ? wr_gateway_print(arena, "%s/%s", state, plan->name) : NULL;

	if (!defers && !(folder && has_queue(folder)))
		return 0;
	if (!folder)
		return wr_error(error, WEIR_EINVAL,
				"a rule has on_limit: defer, but there is no folder for deferred "
				"requests: HOME is not set. Name one with --queue file:/FOLDER, or "
				"refuse requests with --queue off");
	if (!plan->settings->print_config && make_state_folders(folder, error) != 0)
		return -1;
	plan->queue = wr_gateway_print(arena, "file:%s/queue", folder);
	return plan->queue ? 0 : wr_error(error, WEIR_EINVAL, "the path %s is too long", folder);
}

bool wr_gateway_defers(const struct weir_rules *rules, const char *domain)
{
	const struct wr_node *node = rules ? wr_gateway_find_domain(rules, domain) : NULL;

	for (; node; node = wr_gateway_next_node(node))
		for (size_t i = 0; i < node->limit_count; i++)
			if (node->limits[i].on_limit == WR_DEFER)
				return true;
	return false;
}

int wr_gateway_plan_queue(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			  struct wr_arena *arena, struct weir_error *error)
{
	const char *given = plan->settings->queue;

	wr_assert(plan->domain && plan->socket && plan->deliver);
	plan->queue = given && strcmp(given, "off") != 0 ? given : NULL;
	if (!given &&
	    plan_default_queue(plan, wr_gateway_defers(rules, plan->domain), arena, error) != 0)
		return -1;
	if (!plan->queue)
		return 0;
	if (strlen(plan->socket) > WR_UNIX_PATH_MAX || strlen(plan->deliver) > WR_UNIX_PATH_MAX)
		return wr_error(error, WEIR_EINVAL, WR_GATEWAY_SOCKET_TOO_LONG, WR_UNIX_PATH_MAX,
				plan->deliver);
	return 0;
}
