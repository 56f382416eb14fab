/* TLS to the queue's Redis. Called by redis_link.c. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/error.h"
#include "queue/redis_backend.h"

static int file_error(struct weir_error *error, const char *path, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return wr_error(error, WEIR_EINVAL, "%s of the queue's Redis: %s: %s", what,
			path ? path : "(of the system)", reason ? reason : "not usable");
}

static int read_files(SSL_CTX *tls, const struct wr_queue_tls *files, struct weir_error *error)
{
	if (files->ca ? SSL_CTX_load_verify_file(tls, files->ca) != 1
		      : SSL_CTX_set_default_verify_paths(tls) != 1)
		return file_error(error, files->ca, "trusted certificates");
	if (!files->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(tls, files->cert) != 1)
		return file_error(error, files->cert, "certificate");
	if (SSL_CTX_use_PrivateKey_file(tls, files->key ? files->key : files->cert,
					SSL_FILETYPE_PEM) != 1)
		return file_error(error, files->key ? files->key : files->cert, "private key");
	return 0;
}

SSL_CTX *wr_queue_redis_tls_new(const struct wr_queue_tls *files, struct weir_error *error)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	ERR_clear_error();
	if (!tls) {
		wr_error(error, WEIR_EMEMORY, "out of memory");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
	SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(tls, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	if (read_files(tls, files, error) == 0)
		return tls;
	SSL_CTX_free(tls);
	return NULL;
}

/* Makes the handshake fail unless the server's certificate is for the host of the URL. */
static bool set_expected_name(SSL *session, const struct wr_endpoint *at)
{
	X509_VERIFY_PARAM *wanted = SSL_get0_param(session);

	if (at->kind != WR_ENDPOINT_NAME)
		return X509_VERIFY_PARAM_set1_ip_asc(wanted, at->host) == 1;
	return SSL_set_tlsext_host_name(session, at->host) == 1 &&
	       X509_VERIFY_PARAM_set1_host(wanted, at->host, 0) == 1;
}

static void report_failure(SSL *session, struct weir_error *error)
{
	long verified = SSL_get_verify_result(session);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	wr_error(error, WEIR_ESYS, "TLS with the queue's Redis failed: %s",
		 verified != X509_V_OK ? X509_verify_cert_error_string(verified)
		 : reason              ? reason
				       : "Redis closed the connection, or did not reply");
}

/* Does the handshake. Repeats the call if the process was stopped and continued, because that
 * interrupts calls with a timeout. */
static bool run_handshake(SSL *session)
{
	int rc;

	do
		rc = SSL_connect(session);
	while (rc < 0 && errno == EINTR && !SSL_want_nothing(session));
	return rc == 1;
}

SSL *wr_queue_redis_handshake(SSL_CTX *tls, int fd, const struct wr_endpoint *at,
			      struct weir_error *error)
{
	SSL *session = SSL_new(tls);

	ERR_clear_error();
	if (session && SSL_set_fd(session, fd) == 1 && set_expected_name(session, at) &&
	    run_handshake(session))
		return session;
	if (session)
		report_failure(session, error);
	ERR_clear_error();
	SSL_free(session);
	return NULL;
}
