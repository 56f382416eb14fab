/* TLS for accepted connections: certificates are read from files, and again when the files change. */
#ifndef WR_NET_TLS_H
#define WR_NET_TLS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>

#include <weir/error.h>

#include "base/text_list.h"

struct wr_tls;

/* The files of --tls-*; the texts must live as long as the wr_tls. */
struct wr_tls_files {
	const char *cert, *key;
	const char *client_ca; /* NULL: clients need no certificate */
	const struct wr_text_list
		*sans; /* names of which a client certificate needs one; empty: any */
};

/* Returns 0, or WEIR_EINVAL for unusable files; `error` names the file and the reason. */
int wr_tls_new(const struct wr_tls_files *files, struct wr_tls **made, struct weir_error *error);
void wr_tls_free(struct wr_tls *tls);

/* Called once a second by one thread: new connections use files that have changed and are stable.
 * Unusable files are logged once, and the old certificates stay. With `now` the files are read even
 * if they have not changed. */
void wr_tls_look(struct wr_tls *tls, bool now);

/* Returns a server session on memory BIOs, or NULL without memory. A client that offers ALPN must
 * offer `alpn`. Any thread. */
SSL *wr_tls_session(struct wr_tls *tls, const char *alpn);

/* The reason why a handshake failed, valid until the next call in this thread. */
const char *wr_tls_failure(SSL *session, unsigned long code);

/* ---- for other readers of certificate files ---- */

/* A number that changes when the file changes. `seed` is the fingerprint of other files to combine
 * it with, or 0. */
uint64_t wr_tls_fingerprint(const char *path, uint64_t seed);

/* Reports the error of OpenSSL about a file that should contain `what`. Returns WEIR_EINVAL. */
int wr_tls_file_error(struct weir_error *error, const char *flag, const char *path,
		      const char *what);

/* Whether the certificate has one of these names as an alternative name: DNS (wildcards count), URI,
 * address or e-mail. The common name of the subject does not count. */
bool wr_tls_san_allowed(X509 *certificate, const struct wr_text_list *allowed);

#endif
