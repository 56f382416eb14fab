/* TLS to Redis: whom we believe, and who we are. One for each loop; files are looked at when a
 * connection is made and read again when they have changed. */
#ifndef WR_SERVE_FLEET_TLS_H
#define WR_SERVE_FLEET_TLS_H

#include <openssl/ssl.h>

#include <weir/error.h>

#include "redis/url.h"
#include "serve/settings.h"

struct wr_redis_tls;

/* WEIR_EINVAL: the files do not fit; the error says which and why. */
int wr_redis_tls_new(const struct wr_redis_settings *settings, struct wr_redis_tls **made,
		     struct weir_error *error);
void wr_redis_tls_free(struct wr_redis_tls *tls);

/* A client's session on a connected socket, or NULL. */
SSL *wr_redis_tls_session(struct wr_redis_tls *tls, const struct wr_endpoint *at, int fd);

/* Whether the certificate is for this address or name; for an address that a sentinel or a cluster
 * told us, one of the names in the URL will do. */
bool wr_redis_tls_fits(SSL *session, const struct wr_endpoint *at,
		       const struct wr_redis_target *target);

/* Why a handshake failed, in words; valid until the next call in this thread. */
const char *wr_redis_tls_failure(SSL *session);

#endif
