/* Reads nginx's processes and listening sockets from /proc. Called by the supervisor, by
 * preflight.c and by the subcommand `weir gateway`. */
#include "gateway/process.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

#define TCP_LISTEN 0x0a
#define TCP_LINE " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*d %*d %lu"

/* Reads a small file as text. Returns the length of the text, or -1 on failure. */
static ssize_t read_text_file(const char *path, char *text, size_t cap)
{
	FILE *file = fopen(path, "re");
	size_t len;

	if (!file)
		return -1;
	len = fread(text, 1, cap - 1, file);
	fclose(file);
	text[len] = 0;
	return (ssize_t)len;
}

/* Reads /proc/PID/stat, which is `pid (name) state parent group session …`. The name can contain
 * blanks and parentheses. */
bool wr_process_read(pid_t pid, struct wr_process *process)
{
	char path[64], text[1024], *open, *close;
	int parent, group, session, fields;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (pid <= 0 || read_text_file(path, text, sizeof text) < 0)
		return false;
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close)
		return false;
	// NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
	fields = sscanf(close + 1, " %c %d %d %d", &process->state, &parent, &group, &session);
	if (fields != 4)
		return false;
	process->pid = pid;
	process->parent = parent;
	process->session = session;
	snprintf(process->name, sizeof process->name, "%.*s", (int)(close - open - 1), open + 1);
	return true;
}

/* Returns true if the process is nginx: the name that the kernel shows contains nginx, or the
 * process title begins with "nginx: ". */
static bool is_nginx(const struct wr_process *process)
{
	char path[64], title[64];

	if (process->state == 'Z')
		return false;
	if (strstr(process->name, "nginx"))
		return true;
	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process->pid);
	return read_text_file(path, title, sizeof title) > 0 && strncmp(title, "nginx: ", 7) == 0;
}

/* Returns true if a master was started with this folder. nginx's process title contains its
 * arguments: "nginx: master process nginx -p FOLDER …". */
static bool has_prefix(pid_t pid, const char *folder)
{
	char path[64], text[2 * PATH_MAX], wanted[PATH_MAX + 8];
	ssize_t len;

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	len = read_text_file(path, text, sizeof text);
	for (ssize_t i = 0; i < len; i++)
		if (text[i] == 0)
			text[i] = ' ';
	snprintf(wanted, sizeof wanted, " -p %s ", folder);
	return len > 0 && strstr(text, "master process") && strstr(text, wanted);
}

bool wr_process_master(const char *folder, struct wr_process *master, pid_t *left)
{
	char path[PATH_MAX + 16], text[32];
	pid_t pid;

	wr_assert(master && left);
	*left = 0;
	snprintf(path, sizeof path, "%s/nginx.pid", folder);
	pid = read_text_file(path, text, sizeof text) > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
	if (pid <= 0)
		return false;
	if (wr_process_read(pid, master) && is_nginx(master) && has_prefix(pid, folder))
		return true;
	/* The master with the id `pid` has died. Its workers are in a process session whose number
	 * is also `pid`. The kernel does not give this number to a new process while the session
	 * has members. So if a live process has the id `pid` now, all these workers have ended. */
	if (!wr_process_read(pid, master) || master->state == 'Z')
		*left = pid;
	return false;
}

size_t wr_process_signal_session(pid_t session, pid_t except, int signal)
{
	DIR *proc = session > 0 ? opendir("/proc") : NULL;
	const struct dirent *entry;
	size_t count = 0;

	while (proc && (entry = readdir(proc))) {
		struct wr_process process;
		pid_t pid = isdigit((unsigned char)entry->d_name[0])
				    ? (pid_t)strtol(entry->d_name, NULL, 10)
				    : 0;

		if (pid == except || !wr_process_read(pid, &process) ||
		    process.session != session || !is_nginx(&process))
			continue;
		count++;
		if (signal)
			kill(pid, signal);
	}
	if (proc)
		closedir(proc);
	return count;
}

/* Returns the inode of the socket that listens on this port, or 0 if no socket listens on it. A
 * line of /proc/net/tcp is `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
 * …`. */
static unsigned long find_inode(const char *table, unsigned port)
{
	FILE *file = fopen(table, "re");
	char line[512];
	unsigned long found = 0;

	while (file && !found && fgets(line, sizeof line, file)) {
		unsigned local, state;
		unsigned long inode;

		// NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
		int fields = sscanf(line, TCP_LINE, &local, &state, &inode);

		if (fields == 3 && state == TCP_LISTEN && local == port)
			found = inode;
	}
	if (file)
		fclose(file);
	return found;
}

static bool holds_socket(const char *pid, const char *wanted)
{
	char path[PATH_MAX], link[64];
	const struct dirent *entry;
	bool found = false;
	DIR *fds;

	snprintf(path, sizeof path, "/proc/%s/fd", pid);
	fds = opendir(path);
	while (fds && !found && (entry = readdir(fds))) {
		ssize_t len;

		snprintf(path, sizeof path, "/proc/%s/fd/%s", pid, entry->d_name);
		len = readlink(path, link, sizeof link - 1);
		link[len > 0 ? len : 0] = 0;
		found = strcmp(link, wanted) == 0;
	}
	if (fds)
		closedir(fds);
	return found;
}

bool wr_process_listening(unsigned port, struct wr_process *process)
{
	unsigned long inode = find_inode("/proc/net/tcp", port);
	const struct dirent *entry;
	bool found = false;
	char wanted[64];
	DIR *proc;

	if (!inode)
		inode = find_inode("/proc/net/tcp6", port);
	proc = inode ? opendir("/proc") : NULL;
	snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
	while (proc && !found && (entry = readdir(proc)))
		found = isdigit((unsigned char)entry->d_name[0]) &&
			holds_socket(entry->d_name, wanted) &&
			wr_process_read((pid_t)strtol(entry->d_name, NULL, 10), process);
	if (proc)
		closedir(proc);
	return found;
}
