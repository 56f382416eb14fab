/* TLS for accepted connections. Certificates are read from files, and read again when the files
 * change. */
#ifndef WR_NET_TLS_H
#define WR_NET_TLS_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdbool.h>

#include <weir/error.h>

#include "base/text_list.h"

struct wr_tls;

/* The files of the --tls-* options. The texts must live as long as the wr_tls. */
struct wr_tls_files {
	const char *cert, *key;
	const char *client_ca; /* NULL: clients need no certificate */
	const struct wr_text_list
		*sans; /* a client certificate needs one of these names; empty: any name */
};

/* Reads the files. Returns 0, or WEIR_EINVAL if a file is unusable; `error` names the file and the
 * reason. */
int wr_tls_new(const struct wr_tls_files *files, struct wr_tls **made, struct weir_error *error);
void wr_tls_free(struct wr_tls *tls);

/* Reloads the certificates if the files have changed and are the same as at the previous call; with
 * `now`, reloads them in any case. New connections then use the new certificates. If the files are
 * unusable, that is logged once, and the old certificates stay in use. Called once a second, always
 * by the same thread. */
void wr_tls_look(struct wr_tls *tls, bool now);

/* Returns a server session that reads and writes memory BIOs, or NULL if there is no memory. A
 * client that offers ALPN must offer `alpn`. Any thread may call it. */
SSL *wr_tls_session(struct wr_tls *tls, const char *alpn);

/* Returns the reason why a handshake failed. The text is valid until the next call in this thread.
 */
const char *wr_tls_failure(SSL *session, unsigned long code);

/* ---- for other files that read certificates ---- */

/* Returns a context with the settings that servers and clients share: TLS 1.2 or newer, without
 * renegotiation, compression and the session cache. Returns NULL with `error` set if there is no
 * memory. */
SSL_CTX *wr_tls_context_new(const SSL_METHOD *method, struct weir_error *error);

/* Returns a number that changes when the file changes. To combine several files, the caller passes
 * the number of the previous file as `seed`; for the first file, `seed` is 0. */
uint64_t wr_tls_fingerprint(const char *path, uint64_t seed);

/* Fills `error` with OpenSSL's error about a file that should contain `what`. Returns WEIR_EINVAL.
 */
int wr_tls_file_error(struct weir_error *error, const char *flag, const char *path,
		      const char *what);

/* Returns whether the certificate has one of these names as an alternative name: DNS (with
 * wildcards), URI, address or e-mail. The common name of the subject is ignored. */
bool wr_tls_san_allowed(X509 *certificate, const struct wr_text_list *allowed);

#endif
