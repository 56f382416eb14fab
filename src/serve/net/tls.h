/* TLS for streams: certificates read from files and read again when those change. */
#ifndef WR_SERVE_NET_TLS_H
#define WR_SERVE_NET_TLS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>

#include <weir/error.h>

#include "base/text_list.h"
#include "serve/settings.h"

struct wr_tls;

/* 0, WEIR_EINVAL: the files do not fit; the error says which and why. */
int wr_tls_new(const struct wr_settings *settings, struct wr_tls **made, struct weir_error *error);
void wr_tls_free(struct wr_tls *tls);

/* Once a second: files that changed and have settled are taken for new connections. Ones that do
 * not work are logged, once, and the old ones stay. With `now`, they are read changed or not. */
void wr_tls_look(struct wr_tls *tls, bool now);

/* A server's session on memory BIOs; the client has to agree to `alpn` if it offers anything. NULL:
 * no memory. Any thread. */
SSL *wr_tls_session(struct wr_tls *tls, const char *alpn);

/* Why a handshake failed, in words; valid until the next call in this thread. */
const char *wr_tls_failure(SSL *session, unsigned long code);

/* ---- for who reads files of certificates ---- */

/* A number that changes when the file does; `seed` is that of others to be noticed with it. */
uint64_t wr_tls_fingerprint(const char *path, uint64_t seed);

/* The error of OpenSSL about a file in which `what` should be; returns WEIR_EINVAL. */
int wr_tls_file_error(struct weir_error *error, const char *flag, const char *path,
		      const char *what);

/* Whether the certificate is for one of these names: DNS (its wildcards count), URI, address or
 * e-mail, as an alternative name. The subject's common name does not count. */
bool wr_tls_san_allowed(X509 *certificate, const struct wr_text_list *allowed);

#endif
