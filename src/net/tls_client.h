/* TLS on connections to Redis: the trusted certificates and the client certificate. The files are
 * checked at each connection, and read again if they have changed. Each struct wr_tls_client is
 * used by one thread only. */
#ifndef WR_NET_TLS_CLIENT_H
#define WR_NET_TLS_CLIENT_H

#include <openssl/types.h>
#include <stdbool.h>

#include <weir/error.h>

#include "base/endpoint.h"

struct wr_tls_client;

/* The files of --redis-ca, --redis-cert and --redis-key, in PEM form. The texts must live as long
 * as the wr_tls_client. */
struct wr_tls_client_files {
	const char *ca;   /* NULL: the trusted certificates of the system */
	const char *cert; /* NULL: no client certificate */
	const char *key;  /* NULL: `cert` also contains the private key */
};

/* Reads the files and sets *made. Returns 0. On failure, returns WEIR_EINVAL, and `error` names the
 * option, the file and the reason. */
int wr_tls_client_new(const struct wr_tls_client_files *files, struct wr_tls_client **made,
		      struct weir_error *error);
void wr_tls_client_free(struct wr_tls_client *tls);

/* Returns a new TLS session on a connected socket, or NULL if there is no memory. The handshake
 * checks that the server's certificate is trusted. After the handshake, the caller has to check the
 * name in the certificate with wr_tls_client_matches. */
SSL *wr_tls_client_session(struct wr_tls_client *tls, const struct wr_endpoint *at, int fd);

/* Returns whether the server's certificate is for the host name or the address of `at`. */
bool wr_tls_client_matches(const SSL *session, const struct wr_endpoint *at);

#endif
