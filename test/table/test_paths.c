/* The default folder of a table: /run/weir, $XDG_RUNTIME_DIR/weir or /dev/shm, depending on the
 * user and on existing folders. Each case runs in a child process with its own mounts, in which
 * /run and /dev/shm are empty, and the user `weir` exists or not. */
#include "needs.h"
#include "table/table_test.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEIR_UID 64000
#define OTHER_UID 64005

static int write_passwd(const char *path, bool with_weir)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return -1;
	fprintf(file, "root:x:0:0:root:/root:/bin/sh\n");
	if (with_weir)
		fprintf(file, "weir:x:%d:%d::/:/bin/false\n", WEIR_UID, WEIR_UID);
	return fclose(file);
}

/* Makes /run, /dev/shm and the accounts look like a fresh machine. */
static int own_machine(bool with_weir)
{
	unsetenv("XDG_RUNTIME_DIR");
	return unshare(CLONE_NEWNS) == 0 &&
			       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			       write_passwd(in_folder("passwd"), with_weir) == 0 &&
			       mount(in_folder("passwd"), "/etc/passwd", NULL, MS_BIND, NULL) ==
				       0 &&
			       mount("weir", "/run", "tmpfs", 0, "mode=755") == 0 &&
			       mount("weir", "/dev/shm", "tmpfs", 0, "mode=1777") == 0
		       ? 0
		       : -1;
}

static int become(uid_t uid)
{
	return setgid(uid) == 0 && setuid(uid) == 0 ? 0 : -1;
}

static int open_default(const char *name, uint32_t flags, struct weir_info *info,
			struct weir_error *error)
{
	struct weir_opts opts = {
		.size = sizeof opts, .name = name, .memory_bytes = 256 * KIB, .flags = flags};
	struct weir_table *table;
	int rc = weir_open(&opts, &table, error);

	if (rc < 0)
		return rc;
	*info = (struct weir_info){.size = sizeof *info};
	rc = weir_info(table, T0, info);
	weir_close(table);
	return rc;
}

static bool is_at(const char *path, uid_t uid, gid_t gid, mode_t mode)
{
	struct stat st;

	if (lstat(path, &st) < 0 || st.st_uid != uid || st.st_gid != gid ||
	    (st.st_mode & 07777) != mode) {
		fprintf(stderr, "%s: %s, %u:%u %04o\n", path, strerror(errno), st.st_uid, st.st_gid,
			st.st_mode & 07777);
		return false;
	}
	return true;
}

static int root_alone(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(own_machine(false) == 0);
	CHILD_CHECK(open_default(NULL, WEIR_OPEN_EXISTING, &info, &error) == WEIR_ENOENT);
	CHILD_CHECK(access("/run/weir", F_OK) < 0); /* WEIR_OPEN_EXISTING creates no folder */
	CHILD_CHECK(open_default(NULL, 0, &info, &error) == 0);
	CHILD_CHECK(strcmp(info.path, "/run/weir/default.v2") == 0);
	CHILD_CHECK(is_at("/run/weir", 0, 0, 0750));
	CHILD_CHECK(is_at(info.path, 0, 0, 0600));
	CHILD_CHECK(weir_remove(NULL, NULL, &error) == 0);
	return 0;
}

static int service_user(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(become(WEIR_UID) == 0);
	CHILD_CHECK(open_default("api", WEIR_OPEN_EXISTING, &info, &error) == 0);
	CHILD_CHECK(strcmp(info.path, "/run/weir/api.v2") == 0);
	return 0;
}

static int stranger(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(become(OTHER_UID) == 0);
	CHILD_CHECK(open_default("api", 0, &info, &error) == 0);
	CHILD_CHECK(strcmp(info.path, "/dev/shm/weir-64005-api.v2") == 0);
	CHILD_CHECK(is_at(info.path, OTHER_UID, OTHER_UID, 0600));
	return 0;
}

/* Root creates the folder, the service uses it, and another user gets another table. */
static int root_with_a_service(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(own_machine(true) == 0);
	CHILD_CHECK(open_default("api", 0, &info, &error) == 0);
	CHILD_CHECK(is_at("/run/weir", 0, WEIR_UID, 0750));
	CHILD_CHECK(is_at("/run/weir/api.v2", WEIR_UID, WEIR_UID, 0660));
	CHILD_CHECK(in_child(service_user, NULL) == 0);
	CHILD_CHECK(in_child(stranger, NULL) == 0);
	return 0;
}

static int user_without_session(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(own_machine(false) == 0 && become(OTHER_UID) == 0);
	CHILD_CHECK(open_default("t", 0, &info, &error) == 0);
	CHILD_CHECK(strcmp(info.path, "/dev/shm/weir-64005-t.v2") == 0);
	CHILD_CHECK(is_at(info.path, OTHER_UID, OTHER_UID, 0600));
	/* If the variable is not an absolute path of a folder, it is ignored. */
	setenv("XDG_RUNTIME_DIR", "tmp", 1);
	CHILD_CHECK(open_default("t", WEIR_OPEN_EXISTING, &info, &error) == 0);
	setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
	CHILD_CHECK(open_default("t", WEIR_OPEN_EXISTING, &info, &error) == 0);
	CHILD_CHECK(weir_remove("t", NULL, &error) == 0);
	CHILD_CHECK(access("/dev/shm/weir-64005-t.v2", F_OK) < 0);
	return 0;
}

static int user_with_session(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;

	(void)unused;
	CHILD_CHECK(own_machine(false) == 0);
	CHILD_CHECK(mkdir("/run/u", 0700) == 0 && chown("/run/u", OTHER_UID, OTHER_UID) == 0);
	CHILD_CHECK(become(OTHER_UID) == 0);
	setenv("XDG_RUNTIME_DIR", "/run/u", 1);
	CHILD_CHECK(open_default("t", 0, &info, &error) == 0);
	CHILD_CHECK(strcmp(info.path, "/run/u/weir/t.v2") == 0);
	CHILD_CHECK(is_at("/run/u/weir", OTHER_UID, OTHER_UID, 0700));
	CHILD_CHECK(is_at(info.path, OTHER_UID, OTHER_UID, 0600));
	return 0;
}

/* All users can write to /dev/shm: a file of another user at this user's path is not trusted. */
static int squatter(void *unused)
{
	struct weir_error error = {0};
	struct weir_info info;
	FILE *file;

	(void)unused;
	CHILD_CHECK(own_machine(false) == 0);
	file = fopen("/dev/shm/weir-64005-t.v2", "w");
	CHILD_CHECK(file && fclose(file) == 0);
	CHILD_CHECK(chown("/dev/shm/weir-64005-t.v2", 64006, 64006) == 0);
	CHILD_CHECK(chmod("/dev/shm/weir-64005-t.v2", 0666) == 0);
	CHILD_CHECK(become(OTHER_UID) == 0);
	CHILD_CHECK(open_default("t", 0, &info, &error) == WEIR_EACCESS);
	CHILD_CHECK(strstr(error.text, "belongs to user 64006"));
	return 0;
}

static void in_own_machine(void **run)
{
	int (*function)(void *) = *(int (**)(void *)) * run;

	needs("root"); /* only root can act for other users */
	needs("mounts");
	assert_int_equal(in_child(function, NULL), 0);
}

static int (*const cases[])(void *) = {root_alone, root_with_a_service, user_without_session,
				       user_with_session, squatter};

#define CASE(text, i)                                                                              \
	{                                                                                          \
		text, in_own_machine, NULL, NULL, (void *)&cases[i]                                \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE("root makes /run/weir for itself", 0),
		CASE("root makes /run/weir for user weir", 1),
		CASE("a user without a session has /dev/shm", 2),
		CASE("a user with a session has its folder", 3),
		CASE("what a stranger put in /dev/shm is refused", 4),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_drop);
}
