/* TLS to Redis: trusted certificates and the client certificate, one object per loop. The files are
 * checked at each connection and read again when they have changed. */
#ifndef WR_SERVE_FLEET_TLS_H
#define WR_SERVE_FLEET_TLS_H

#include <openssl/ssl.h>

#include <weir/error.h>

#include "redis/url.h"
#include "serve/settings.h"

struct wr_redis_tls;

/* Returns 0, or WEIR_EINVAL for unusable files; `error` names the file and the reason. */
int wr_redis_tls_new(const struct wr_redis_settings *settings, struct wr_redis_tls **made,
		     struct weir_error *error);
void wr_redis_tls_free(struct wr_redis_tls *tls);

/* Returns a client session on a connected socket, or NULL without memory. */
SSL *wr_redis_tls_session(struct wr_redis_tls *tls, const struct wr_endpoint *at, int fd);

/* Whether the certificate matches this address or name. An address learned from a Sentinel or a cluster
 * may also match a name of the URL. */
bool wr_redis_tls_fits(SSL *session, const struct wr_endpoint *at,
		       const struct wr_redis_target *target);

/* The reason why a handshake failed, valid until the next call in this thread. */
const char *wr_redis_tls_failure(SSL *session);

#endif
