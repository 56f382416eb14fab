/* Converts the Redis variables of envoyproxy/ratelimit to a URL of --redis. */
#ifndef WR_CLI_OPTIONS_REDIS_ENVIRONMENT_H
#define WR_CLI_OPTIONS_REDIS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

/* Values of environment variables. NULL: the variable is not set. */
struct wr_cli_redis_environment {
	const char *type;        /* REDIS_TYPE: SINGLE, SENTINEL or CLUSTER */
	const char *socket_type; /* REDIS_SOCKET_TYPE: tcp or unix */
	/* REDIS_URL: host:port, a path, master,sentinel:port,… or node:port,… */
	const char *url;
	const char *auth; /* REDIS_AUTH: PASSWORD or USER:PASSWORD */
	/* REDIS_SENTINEL_AUTH: PASSWORD or USER:PASSWORD for the sentinels */
	const char *sentinel_auth;
	bool tls;
};

/* Writes the URL into `url`. Returns 0 or WEIR_EINVAL. The error names the variable, but never
 * shows a password. */
int wr_cli_redis_environment_url(const struct wr_cli_redis_environment *from, char *url, size_t cap,
				 struct weir_error *error);

#endif
