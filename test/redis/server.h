/* A real redis-server for one suite, on a Unix socket in a directory of its own. The server ends
 * with the suite. */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include <sys/types.h>

#include <hiredis/hiredis.h>

struct redis_server {
	pid_t pid;
	char dir[64];
	redisContext *link;
};

/* Returns 0. If redis-server is missing, prints that and returns -1. */
int redis_server_start(struct redis_server *server);
void redis_server_stop(struct redis_server *server);

/* Sends one command whose reply must not be an error. */
redisReply *redis_ask(struct redis_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void redis_run(struct redis_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
long long redis_number(struct redis_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
