/* Converts the Redis variables of envoyproxy/ratelimit to a URL of --redis. */
#ifndef WR_CLI_OPTIONS_REDIS_ENVIRONMENT_H
#define WR_CLI_OPTIONS_REDIS_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/error.h>

/* Values of the environment; NULL: not set. */
struct wr_redis_environment {
	const char *type;        /* SINGLE, SENTINEL, CLUSTER */
	const char *socket_type; /* tcp, unix */
	const char *url;         /* host:port, a path, master,sentinel:port,… or node:port,… */
	const char *auth;        /* PASSWORD or USER:PASSWORD */
	const char *sentinel_auth; /* the same, for the sentinels */
	bool tls;
};

/* Writes the URL. Returns 0, or WEIR_EINVAL with an error that names the variable but no password. */
int wr_redis_environment_url(const struct wr_redis_environment *from, char *url, size_t cap,
			     struct weir_error *error);

#endif
