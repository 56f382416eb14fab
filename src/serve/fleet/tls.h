/* TLS to Redis: trusted certificates and the client certificate. Each loop has one object. At each
 * connection the files are checked, and read again if they have changed. */
#ifndef WR_SERVE_FLEET_TLS_H
#define WR_SERVE_FLEET_TLS_H

#include <openssl/ssl.h>

#include <weir/error.h>

#include "redis/url.h"
#include "serve/settings.h"

struct wr_redis_tls;

/* Reads the files and sets *made. Returns 0. On failure, returns WEIR_EINVAL, and `error` names the
 * file and the reason. */
int wr_redis_tls_new(const struct wr_redis_settings *settings, struct wr_redis_tls **made,
		     struct weir_error *error);
void wr_redis_tls_free(struct wr_redis_tls *tls);

/* Returns a new client session on a connected socket, or NULL if there is no memory. */
SSL *wr_redis_tls_session(struct wr_redis_tls *tls, const struct wr_endpoint *at, int fd);

/* Returns whether the server's certificate matches this address or name. If the address was learned
 * from a Sentinel or a cluster, the certificate may match a name of the URL instead. */
bool wr_redis_tls_fits(SSL *session, const struct wr_endpoint *at,
		       const struct wr_redis_target *target);

/* Returns the reason why a handshake failed. The text is valid until the next call in this
 * thread. */
const char *wr_redis_tls_failure(SSL *session);

#endif
