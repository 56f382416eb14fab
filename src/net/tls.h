/* TLS on accepted connections. The certificates are read from files, and are read again when the
 * files change. */
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
	/* A client certificate needs one of these names. If the list is empty, every name is
	 * accepted. */
	const struct wr_text_list *sans;
};

/* Reads the files. Returns 0, or WEIR_EINVAL if a file is unusable; `error` names the file and the
 * reason. */
int wr_tls_new(const struct wr_tls_files *files, struct wr_tls **made, struct weir_error *error);
void wr_tls_free(struct wr_tls *tls);

/* Reloads the certificates if their files have changed since they were last read. The reload waits
 * until two calls in a row have found the same state of the files, so that a new certificate is not
 * read before its new key is written. If `now` is true, reloads the certificates in any case. New
 * connections then use the new certificates. If the files are unusable, logs an error once, and the
 * old certificates stay in use. Called once a second, always by the same thread. */
void wr_tls_look(struct wr_tls *tls, bool now);

/* Returns a TLS session for the side of the server, or NULL if there is no memory. The session
 * reads and writes memory BIOs. The handshake fails if the client offers ALPN protocols and `alpn`
 * is not one of them. Can be called from any thread. */
SSL *wr_tls_session(struct wr_tls *tls, const char *alpn);

/* Returns the reason why a handshake or a read of a TLS session failed, as server or as client.
 * Clears OpenSSL's errors. The text is valid until the next call in this thread. */
const char *wr_tls_failure(SSL *session);

/* ---- for other files that read certificates ---- */

/* Returns a context with the settings that servers and clients share: TLS 1.2 or newer, without
 * renegotiation, compression and the session cache. Returns NULL with `error` set if there is no
 * memory. */
SSL_CTX *wr_tls_context_new(const SSL_METHOD *method, struct weir_error *error);

/* Returns a fingerprint of the file, a number that changes when the file changes. To combine
 * several files into one fingerprint, the caller passes the fingerprint of the previous file as
 * `seed`. For the first file `seed` is 0. */
uint64_t wr_tls_fingerprint(const char *path, uint64_t seed);

/* Sets `error` to OpenSSL's error about the file at `path`. The file was given with the option
 * `flag` and should contain `what`. Returns WEIR_EINVAL. */
int wr_tls_file_error(struct weir_error *error, const char *flag, const char *path,
		      const char *what);

/* Returns whether one of the `allowed` names is an alternative name of the certificate: a DNS name
 * (with wildcards), a URI, an address or an e-mail address. The subject's common name is
 * ignored. */
bool wr_tls_san_allowed(X509 *certificate, const struct wr_text_list *allowed);

#endif
