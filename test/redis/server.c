/* Implements server.h. */
#include "redis/server.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SOCKET "redis.sock"
#define PATIENCE_MS 30000
#define PAUSE_MS 5

/* Runs in the child process. The child ends with its parent, even if the parent is killed. */
static _Noreturn void become_redis(const char *dir, pid_t parent)
{
	int log = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || log < 0 || chdir(dir) != 0)
		_exit(1);
	dup2(log, 0);
	dup2(log, 1);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "",
	       "--appendonly", "no", "--daemonize", "no", (char *)NULL);
	_exit(errno == ENOENT ? 127 : 1);
}

static bool has_ended(struct redis_server *server)
{
	int status;

	if (waitpid(server->pid, &status, WNOHANG) != server->pid)
		return false;
	server->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		print_error("there is no redis-server: tools/setup test installs it\n");
	else
		print_error("redis-server did not start, status %d\n", status);
	return true;
}

static redisContext *connect_to(const char *dir)
{
	char path[128];
	redisContext *link;

	snprintf(path, sizeof path, "%s/" SOCKET, dir);
	link = redisConnectUnix(path);
	if (link && link->err) {
		redisFree(link);
		link = NULL;
	}
	return link;
}

int redis_server_start(struct redis_server *server)
{
	pid_t parent = getpid();

	*server = (struct redis_server){.dir = "/tmp/weir-test-redis-XXXXXX"};
	if (!mkdtemp(server->dir)) {
		print_error("no folder in /tmp: %s\n", strerror(errno));
		return -1;
	}
	server->pid = fork();
	if (server->pid == 0)
		become_redis(server->dir, parent);
	for (int ms = 0; server->pid > 0 && ms < PATIENCE_MS; ms += PAUSE_MS) {
		server->link = connect_to(server->dir);
		if (server->link)
			return 0;
		if (has_ended(server))
			break;
		usleep(PAUSE_MS * 1000);
	}
	redis_server_stop(server);
	return -1;
}

void redis_server_stop(struct redis_server *server)
{
	char path[128];

	if (server->link)
		redisFree(server->link);
	if (server->pid > 0) {
		kill(server->pid, SIGKILL);
		waitpid(server->pid, NULL, 0);
	}
	snprintf(path, sizeof path, "%s/" SOCKET, server->dir);
	unlink(path);
	rmdir(server->dir);
	*server = (struct redis_server){0};
}

static redisReply *send_command(struct redis_server *server, const char *format, va_list args)
{
	redisReply *reply = redisvCommand(server->link, format, args);

	if (!reply)
		fail_msg("redis-server hung up: %s", server->link->errstr);
	else if (reply->type == REDIS_REPLY_ERROR)
		fail_msg("%s: %s", format, reply->str);
	return reply;
}

redisReply *redis_ask(struct redis_server *server, const char *format, ...)
{
	redisReply *reply;
	va_list args;

	va_start(args, format);
	reply = send_command(server, format, args);
	va_end(args);
	return reply;
}

void redis_run(struct redis_server *server, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	freeReplyObject(send_command(server, format, args));
	va_end(args);
}

long long redis_number(struct redis_server *server, const char *format, ...)
{
	redisReply *reply;
	long long number;
	va_list args;

	va_start(args, format);
	reply = send_command(server, format, args);
	va_end(args);
	assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
	number = reply->integer;
	freeReplyObject(reply);
	return number;
}
