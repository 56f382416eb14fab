/* Where requests are kept for later. They must outlive a reboot, so it is not the runtime folder.
 */
#include "gateway/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "gateway/paths.h"
#include "rules/rules.h"

#define ROOT_STATE "/var/lib/weir"

static bool node_defers(const struct wr_node *node)
{
	for (size_t i = 0; i < node->limit_count; i++)
		if (node->limits[i].on_limit == WR_DEFER)
			return true;
	return false;
}

/* Depth first, without recursion: trees are as deep as their files say. */
static bool domain_defers(const struct wr_node *domain)
{
	const struct wr_node *node = domain;

	while (node) {
		if (node_defers(node))
			return true;
		if (node->more->first_child) {
			node = node->more->first_child;
			continue;
		}
		while (node != domain && !node->more->next)
			node = node->parent;
		node = node == domain ? NULL : node->more->next;
	}
	return false;
}

static const struct wr_node *find_domain(const struct weir_rules *rules, const char *name)
{
	const struct wr_node *d = rules->first_domain;

	while (d && !wr_str_equal(d->key, wr_str(name)))
		d = d->more->next;
	return d;
}

/* Where programs of this user keep what outlives a reboot; NULL: nobody knows. */
static const char *state_folder(struct wr_arena *arena)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return ROOT_STATE;
	if (state && state[0] == '/')
		return wr_places_print(arena, "%s/weir", state);
	return home && home[0] == '/' ? wr_places_print(arena, "%s/.local/state/weir", home) : NULL;
}

/* What root makes can be passed through: the queue itself is closed, and its user's. */
static bool make_folder(const char *path)
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

/* With those above it that are missing. */
static int make_folders(const char *path, struct weir_error *error)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
		size_t len = slash ? (size_t)(slash - path) : strlen(path);

		if (len >= sizeof part)
			return wr_error(error, WEIR_EINVAL, "the path %s is too long", path);
		memcpy(part, path, len);
		part[len] = 0;
		if (!make_folder(part))
			return wr_error(error, WEIR_EINVAL,
					"cannot make the folder %s, where deferred requests "
					"are to be kept: %s; --queue URL names another "
					"place, --queue off none",
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

/* In a folder of this gateway. Where there is a queue already it is used, whatever rules say by
 * now: what was accepted is to be delivered. */
static int plan_default(struct wr_gateway_plan *plan, bool defers, struct wr_arena *arena,
			struct weir_error *error)
{
	const char *state = state_folder(arena);
	const char *folder = state ? wr_places_print(arena, "%s/%s", state, plan->name) : NULL;

	if (!defers && !(folder && has_queue(folder)))
		return 0;
	if (!folder)
		return wr_error(error, WEIR_EINVAL,
				"a rule says on_limit: defer, and nobody knows where to keep "
				"requests: HOME is not set. --queue file:/FOLDER says where, "
				"--queue off that they are refused");
	if (!plan->settings->print_config && make_folders(folder, error) != 0)
		return -1;
	plan->queue = wr_places_print(arena, "file:%s/queue", folder);
	return plan->queue ? 0 : wr_error(error, WEIR_EINVAL, "the path %s is too long", folder);
}

bool wr_gateway_defers(const struct weir_rules *rules, const char *domain)
{
	const struct wr_node *found = rules ? find_domain(rules, domain) : NULL;

	return found && domain_defers(found);
}

int wr_gateway_plan_queue(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			  struct wr_arena *arena, struct weir_error *error)
{
	const char *given = plan->settings->queue;

	plan->queue = given && strcmp(given, "off") != 0 ? given : NULL;
	if (!given && plan_default(plan, wr_gateway_defers(rules, plan->domain), arena, error) != 0)
		return -1;
	if (!plan->queue)
		return 0;
	if (strlen(plan->socket) > WR_UNIX_PATH_MAX || strlen(plan->deliver) > WR_UNIX_PATH_MAX)
		return wr_error(error, WEIR_EINVAL,
				"%s, where deferred requests would pass, is too long for a "
				"socket: choose another folder with --runtime DIR",
				plan->deliver);
	return 0;
}
