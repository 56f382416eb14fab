/* Finds, creates, locks and removes the files and folders of a gateway. Called by plan.c and by the
 * subcommand `weir gateway`. */
#include "gateway/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/secret.h"
#include "base/uid.h"
#include "gateway/process.h"
#include "table/paths.h"

#define LOCK_TRIES 100
#define LOCK_TRIES_ALIVE 4 /* number of tries before checking whether the lock's owner is alive */
#define LOCK_PAUSE_NS 50000000
#define MODULE "ngx_http_weir_module.so"

const char *wr_gateway_print(struct wr_arena *arena, const char *format, ...)
{
	char text[PATH_MAX + 256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return len < 0 || (size_t)len >= sizeof text ? NULL
						     : wr_arena_copy(arena, text, (size_t)len);
}

const char *wr_gateway_absolute_path(struct wr_arena *arena, const char *path)
{
	char here[PATH_MAX];

	if (path[0] == '/')
		return path;
	return getcwd(here, sizeof here) ? wr_gateway_print(arena, "%s/%s", here, path) : NULL;
}

static bool is_program(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* Returns the path of the first executable with this name in a colon-separated list of folders, or
 * NULL if no folder has such an executable. */
static const char *search_folders(struct wr_arena *arena, const char *folders, const char *name)
{
	while (folders && *folders) {
		size_t len = strcspn(folders, ":");
		const char *path = wr_gateway_print(arena, "%.*s/%s", (int)len, folders, name);

		if (len && path && is_program(path))
			return path;
		folders += len + (folders[len] == ':');
	}
	return NULL;
}

static int find_nginx(struct wr_gateway_plan *plan, struct wr_arena *arena,
		      struct weir_error *error)
{
	const char *given = plan->settings->nginx;

	if (given && strchr(given, '/')) {
		plan->nginx = wr_gateway_absolute_path(arena, given);
		if (!plan->nginx || access(plan->nginx, X_OK) != 0)
			return wr_error_errno(error, WEIR_EINVAL, "--nginx %s", given);
		return 0;
	}
	given = given ? given : "nginx";
	plan->nginx = search_folders(arena, getenv("PATH"), given);
	if (!plan->nginx)
		plan->nginx = search_folders(arena, "/usr/sbin:/usr/local/sbin:/sbin", given);
	if (!plan->nginx)
		return wr_error(error, WEIR_EINVAL,
				"cannot find the program %s: apt install nginx, or name its path "
				"with --nginx PATH",
				given);
	return 0;
}

/* Finds the nginx module. Looks in the folder of the weir program first, because a build puts
 * program and module into the same folder; then looks in the folders for installed modules. */
static int find_module(struct wr_gateway_plan *plan, struct wr_arena *arena,
		       struct weir_error *error)
{
	static const char *const formats[] = {"%s/" MODULE, "%s/../lib/nginx/modules/" MODULE,
					      "%s/../lib/x86_64-linux-gnu/nginx/modules/" MODULE};
	const char *given = plan->settings->module;
	char here[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", here, sizeof here - 1);

	if (given) {
		plan->module = wr_gateway_absolute_path(arena, given);
		if (!plan->module || access(plan->module, R_OK) != 0)
			return wr_error_errno(error, WEIR_EINVAL, "--module %s", given);
		return 0;
	}
	here[len > 0 ? len : 0] = 0;
	if (strrchr(here, '/'))
		*strrchr(here, '/') = 0;
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		char path[PATH_MAX + 64];

		// NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the formats are above
		snprintf(path, sizeof path, formats[i], here);
		if (access(path, R_OK) == 0) {
			plan->module = wr_gateway_print(arena, "%s", path);
			return 0;
		}
	}
	plan->module = "/usr/lib/nginx/modules/" MODULE;
	if (access(plan->module, R_OK) == 0)
		return 0;
	return wr_error(error, WEIR_EINVAL,
			"cannot find " MODULE " in %s or in nginx's module folders: "
			"build it with make, or name its path with --module PATH",
			here);
}

/* Sets the user of nginx's workers. Returns false if there is no such user or the user has no
 * group. */
static bool take_user(struct wr_gateway_plan *plan, const char *name, struct wr_arena *arena)
{
	const struct passwd *entry = getpwnam(name);
	const struct group *group = entry ? getgrgid(entry->pw_gid) : NULL;

	if (!group)
		return false;
	plan->user = name;
	plan->uid = entry->pw_uid;
	plan->gid = entry->pw_gid;
	plan->group = wr_gateway_print(arena, "%s", group->gr_name);
	return true;
}

/* Sets the user of nginx's workers to www-data or nobody, which other programs use too. Called if
 * there is no user weir, or if --user is a number, because nginx accepts only names of users. */
static int take_shared_user(struct wr_gateway_plan *plan, struct wr_arena *arena,
			    struct weir_error *error)
{
	static const char *const shared_users[] = {"www-data", "nobody"};

	for (size_t i = 0; i < sizeof shared_users / sizeof *shared_users; i++)
		if (take_user(plan, shared_users[i], arena))
			return 0;
	return wr_error(error, WEIR_EINVAL,
			"nginx's workers need a user, and none of weir, www-data and nobody "
			"exists: " WR_GATEWAY_MAKE_USER);
}

static void drop_to(struct wr_gateway_plan *plan, const char *user, uid_t uid)
{
	plan->drops = true;
	plan->service_user = user;
	plan->service_uid = uid;
}

/* Finds the users of nginx's workers and of the service. If a user other than root starts the
 * gateway, everything runs as that user. If root starts the gateway, the workers run as another
 * user, and the user of the service depends on --user. With --user root the service stays root.
 * With another user or a number, the service runs as this user. Without --user the service runs as
 * the user weir if this user exists; otherwise the service stays root. */
static int find_user(struct wr_gateway_plan *plan, struct wr_arena *arena, struct weir_error *error)
{
	const char *named = plan->settings->user;
	const struct passwd *entry = named ? getpwnam(named) : NULL;
	bool stays = named && strcmp(named, "root") == 0;
	uid_t number;

	if (geteuid() != 0)
		return !named || (entry && entry->pw_uid == geteuid())
			       ? 0
			       : wr_error(error, WEIR_EINVAL,
					  "--user %s: only root can start the gateway as another "
					  "user",
					  named);
	if (!stays && take_user(plan, named ? named : "weir", arena)) {
		if (plan->uid == 0)
			return wr_error(error, WEIR_EINVAL,
					"--user %s has the user id 0, as root; name another user",
					named);
		drop_to(plan, plan->user, plan->uid);
		return 0;
	}
	if (named && wr_uid_is_free(named, &number)) {
		drop_to(plan, named, number);
		return take_shared_user(plan, arena, error);
	}
	if (named && named[0] >= '0' && named[0] <= '9')
		return wr_error(error, WEIR_EINVAL, "--user %s: " WR_UID_TAKEN, named);
	if (named && !stays)
		return wr_error(error, WEIR_EINVAL,
				"--user %s: there is no such user; create it with useradd --system "
				"--no-create-home %s",
				named, named);
	if (stays && take_user(plan, "weir", arena))
		return 0;
	return take_shared_user(plan, arena, error);
}

/* Returns "gateway-8080" if 8080 is the port of the first listener, or "gateway-NAME" if the first
 * listener is a Unix socket with this file name. */
static const char *gateway_name(const struct wr_gateway_plan *plan, struct wr_arena *arena)
{
	const struct wr_endpoint *first = &plan->settings->listen.items[0];

	if (first->kind == WR_ENDPOINT_UNIX)
		return wr_gateway_print(arena, "gateway-%s", strrchr(first->host, '/') + 1);
	return wr_gateway_print(arena, "gateway-%u", first->port);
}

/* Sets the runtime folder and the folder for request bodies. With --print-config both are ".".
 * Otherwise, with --runtime both are the folder that this option names. Without both options, the
 * bodies are in /var/tmp, and the runtime folder is inside the folder of the tables. The folder of
 * the tables is created if it is missing. If the tables are in /dev/shm, the runtime folder is in
 * /tmp instead, because /dev/shm is for shared memory only. */
static int find_folders(struct wr_gateway_plan *plan, struct wr_arena *arena,
			struct weir_error *error)
{
	const char *name = plan->name = gateway_name(plan, arena);
	struct wr_table_paths table;
	struct weir_error why;

	if (plan->settings->print_config) {
		plan->runtime = "."; /* nginx reads it relative to the folder of its option -p */
		plan->bodies = ".";
	} else if (plan->settings->runtime) {
		plan->runtime = wr_gateway_absolute_path(arena, plan->settings->runtime);
		plan->bodies = plan->runtime;
	} else {
		if (wr_table_paths_find(NULL, plan->settings->table, true, &table, &why) != 0)
			return wr_error(error, WEIR_EINVAL, "--table %s", why.text);
		if (strcmp(table.dir, "/dev/shm") == 0)
			snprintf(table.dir, sizeof table.dir, "/tmp/weir-%u", (unsigned)geteuid());
		plan->runtime = wr_gateway_print(arena, "%s/%s", table.dir, name);
		/* Request bodies are not in the runtime folder, because they can be large and /run
		 * is in memory. */
		plan->bodies =
			wr_gateway_print(arena, "/var/tmp/weir-%u-%s", (unsigned)geteuid(), name);
	}
	if (!plan->runtime || !plan->bodies)
		return wr_error(error, WEIR_EINVAL, "the runtime folder's path is too long");
	return 0;
}

/* Sets the paths of the sockets and of the link key. The link key is in the runtime folder. If the
 * workers run as the gateway's user, the sockets are in the runtime folder too. Otherwise workers
 * cannot enter the runtime folder, so the sockets are in the folder for request bodies. With
 * --print-config the operator starts nginx and the service, and all these paths are in the folder
 * of --runtime or, without --runtime, in /run/weir. */
static int find_socket(struct wr_gateway_plan *plan, struct wr_arena *arena,
		       struct weir_error *error)
{
	const char *folder = plan->user ? plan->bodies : plan->runtime;

	if (plan->settings->print_config)
		folder = plan->settings->runtime
				 ? wr_gateway_absolute_path(arena, plan->settings->runtime)
				 : "/run/weir";
	plan->socket = folder ? wr_gateway_print(arena, "%s/weir.sock", folder) : NULL;
	plan->link_key = wr_gateway_print(arena, "%s/link.key",
					  plan->settings->print_config ? folder : plan->runtime);
	/* nginx creates the delivery socket with mode 0666. So the folder of this socket stays
	 * closed until wr_gateway_open_delivery() has changed the socket's mode and owner. */
	plan->deliver = wr_gateway_print(arena, "%s/" WR_GATEWAY_DELIVER_SOCKET, folder);
	if (!plan->socket || !plan->deliver || !plan->link_key ||
	    (plan->settings->central && strlen(plan->socket) > WR_UNIX_PATH_MAX))
		return wr_error(error, WEIR_EINVAL, WR_GATEWAY_SOCKET_TOO_LONG, WR_UNIX_PATH_MAX,
				plan->socket ? plan->socket : "");
	return 0;
}

int wr_gateway_paths_find(struct wr_gateway_plan *plan, struct wr_arena *arena,
			  struct weir_error *error)
{
	if (find_user(plan, arena, error) != 0 || find_nginx(plan, arena, error) != 0 ||
	    find_module(plan, arena, error) != 0)
		return -1;
	return find_folders(plan, arena, error) != 0 ? -1 : find_socket(plan, arena, error);
}

/* Creates a folder. If the folder exists, checks that it belongs to this user and that no other
 * user can write to it. The check is needed in /tmp, where another user can create the folder
 * first. */
static int make_folder(const char *path, mode_t mode, struct weir_error *error)
{
	struct stat st;

	if (mkdir(path, mode) != 0 && errno != EEXIST)
		return wr_error(error, WEIR_ESYS,
				"cannot create the folder %s: %s; name another with --runtime DIR",
				path, strerror(errno));
	if (lstat(path, &st) != 0)
		return wr_error_errno(error, WEIR_ESYS, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return wr_error(error, WEIR_EINVAL,
				"%s is not a folder; name another with --runtime DIR", path);
	if (st.st_uid != geteuid())
		return wr_error(error, WEIR_EINVAL,
				"the folder %s belongs to user %u, not to user %u who runs the "
				"gateway; name another with --runtime DIR",
				path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & 022)
		return wr_error(error, WEIR_EINVAL,
				"other users can write to the folder %s: chmod go-w it, or name "
				"another with --runtime DIR",
				path);
	return 0;
}

static void delivery_folder(const struct wr_gateway_plan *plan, char folder[PATH_MAX])
{
	snprintf(folder, PATH_MAX, "%s", plan->deliver);
	*strrchr(folder, '/') = 0;
}

static int make_runtime(const struct wr_gateway_plan *plan, struct weir_error *error)
{
	/* Workers that run as another user must be able to enter the folder that contains their
	 * files. */
	mode_t passable = plan->user ? 0711 : 0700;
	char parent[PATH_MAX];

	snprintf(parent, sizeof parent, "%s", plan->runtime);
	if (strrchr(parent, '/') && strrchr(parent, '/') != parent)
		*strrchr(parent, '/') = 0;
	if (!plan->settings->runtime && strncmp(parent, "/tmp/", 5) == 0 &&
	    make_folder(parent, 0700, error) != 0)
		return -1;
	if (strcmp(plan->runtime, plan->bodies) == 0)
		return make_folder(plan->runtime, passable, error);
	if (make_folder(plan->runtime, 0700, error) != 0)
		return -1;
	return make_folder(plan->bodies, passable, error);
}

void wr_gateway_close_delivery(const struct wr_gateway_plan *plan)
{
	char folder[PATH_MAX];

	delivery_folder(plan, folder);
	chmod(folder, 0700);
}

/* The folder belongs to root, so no other user can replace the socket while this function runs. */
void wr_gateway_open_delivery(const struct wr_gateway_plan *plan)
{
	char folder[PATH_MAX];
	struct stat st;

	if (!plan->drops || !plan->queue)
		return;
	if (lstat(plan->deliver, &st) != 0 || !S_ISSOCK(st.st_mode)) {
		wr_gateway_close_delivery(plan);
		return;
	}
	if (st.st_uid == plan->service_uid && (st.st_mode & 0777) == 0600)
		return;
	delivery_folder(plan, folder);
	if (chmod(folder, 0700) == 0 && chmod(plan->deliver, 0600) == 0 &&
	    lchown(plan->deliver, plan->service_uid, (gid_t)-1) == 0)
		chmod(folder, 0711);
}

int wr_gateway_paths_make(const struct wr_gateway_plan *plan, struct weir_error *error)
{
	char folder[PATH_MAX];

	wr_assert(plan->runtime && plan->bodies && plan->deliver);
	delivery_folder(plan, folder);
	return make_runtime(plan, error) != 0 ? -1 : make_folder(folder, 0700, error);
}

int wr_gateway_write_link_key(const struct wr_gateway_plan *plan, bool running,
			      struct weir_error *error)
{
	struct wr_secret key;

	wr_assert(plan->link_key);
	if (running && wr_secret_read(plan->link_key, &key, error) == 0)
		return 0;
	return wr_secret_make(plan->link_key, error);
}

const char *const wr_gateway_temporary_kinds[WR_GATEWAY_TEMPORARY_KINDS] = {
	"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};

void wr_gateway_paths_remove(const struct wr_gateway_plan *plan)
{
	static const char *const files[] = {"nginx.conf", "nginx.conf.new", "link.key", "weir.sock",
					    "gateway.lock"};
	char path[PATH_MAX + 32];

	for (size_t i = 0; i < WR_GATEWAY_TEMPORARY_KINDS; i++) {
		snprintf(path, sizeof path, "%s/%s_temp", plan->bodies,
			 wr_gateway_temporary_kinds[i]);
		rmdir(path);
	}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", plan->runtime, files[i]);
		unlink(path);
	}
	unlink(plan->socket);
	unlink(plan->deliver);
	delivery_folder(plan, path);
	rmdir(path);
	if (plan->settings->runtime)
		return;
	rmdir(plan->bodies);
	rmdir(plan->runtime);
}

/* Returns true if `path` still leads to the open file. A gateway removes its lock file when it
 * ends. If this has happened meanwhile, `path` leads to no file or to a new file. */
static bool is_at(int fd, const char *path)
{
	struct stat open_file, named;

	return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
	       open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* Returns true if a process has ended. A zombie counts as ended. */
static bool has_ended(pid_t pid)
{
	struct wr_process process;

	if (kill(pid, 0) != 0)
		return errno == ESRCH;
	return wr_process_read(pid, &process) && (process.state == 'Z' || process.state == 'X');
}

/* Waits for a lock that another gateway has taken. If the other gateway was killed, its service has
 * inherited the lock and holds it for a short time, until the service ends too. If the other
 * gateway is alive, the wait ends without the lock. The first tries do not check whether it is
 * alive, because a gateway that was killed a moment ago can still seem alive. Returns true if this
 * process has the lock now. */
static bool wait_for_lock(int fd)
{
	struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	char holder[16] = "";
	pid_t pid =
		pread(fd, holder, sizeof holder - 1, 0) > 0 ? (pid_t)strtol(holder, NULL, 10) : 0;

	for (int i = 0; i < LOCK_TRIES && pid > 0; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (i >= LOCK_TRIES_ALIVE && !has_ended(pid))
			break;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int report_lock_holder(int fd, const struct wr_gateway_plan *plan, struct weir_error *error)
{
	char holder[16] = "";
	ssize_t len = pread(fd, holder, sizeof holder - 1, 0);

	holder[len > 0 ? strspn(holder, "0123456789") : 0] = 0;
	close(fd);
	return wr_error(error, WEIR_EINVAL,
			"a weir gateway is running already in %s (process %s): stop it, or use "
			"another port with --listen PORT",
			plan->runtime, *holder ? holder : "unknown");
}

int wr_gateway_paths_lock(const struct wr_gateway_plan *plan, struct weir_error *error)
{
	char path[PATH_MAX + 16];
	int fd;

	wr_assert(plan->runtime);
	snprintf(path, sizeof path, "%s/gateway.lock", plan->runtime);
	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return wr_error_errno(error, WEIR_ESYS, "%s", path);
		if (flock(fd, LOCK_EX | LOCK_NB) != 0 && !wait_for_lock(fd))
			return report_lock_holder(fd, plan, error);
		if (is_at(fd, path))
			break;
		close(fd);
	}
	if (ftruncate(fd, 0) != 0 || dprintf(fd, "%d\n", (int)getpid()) < 0) {
		close(fd);
		return wr_error_errno(error, WEIR_ESYS, "%s", path);
	}
	return fd;
}
