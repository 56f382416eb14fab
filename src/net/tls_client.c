/* TLS on connections to Redis; see tls_client.h. */
#include "net/tls_client.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/log.h"
#include "net/tls.h"

#define WR_TLS_CLIENT_MAGIC 0x746c7363u

struct wr_tls_client {
	uint32_t magic; /* WR_TLS_CLIENT_MAGIC */
	struct wr_tls_client_files files;
	SSL_CTX *context;
	uint64_t tried; /* fingerprint of the files at the latest attempt to read them */
};

static uint64_t fingerprint(const struct wr_tls_client_files *files)
{
	return wr_tls_fingerprint(
		files->ca, wr_tls_fingerprint(files->key, wr_tls_fingerprint(files->cert, 0)));
}

static int read_files(SSL_CTX *context, const struct wr_tls_client_files *files,
		      struct weir_error *error)
{
	const char *key = files->key ? files->key : files->cert;

	if (files->ca ? SSL_CTX_load_verify_file(context, files->ca) != 1
		      : SSL_CTX_set_default_verify_paths(context) != 1)
		return wr_tls_file_error(error, "--redis-ca",
					 files->ca ? files->ca : "(the system's)",
					 "certificate in PEM form");
	if (!files->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
		return wr_tls_file_error(error, "--redis-cert", files->cert,
					 "certificate in PEM form");
	if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return wr_tls_file_error(error, "--redis-key", key,
					 "private key of this certificate in PEM form");
	return 0;
}

static SSL_CTX *make_context(const struct wr_tls_client_files *files, struct weir_error *error)
{
	SSL_CTX *context = wr_tls_context_new(TLS_client_method(), error);

	if (!context)
		return NULL;
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (read_files(context, files, error) == 0)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

int wr_tls_client_new(const struct wr_tls_client_files *files, struct wr_tls_client **made,
		      struct weir_error *error)
{
	struct wr_tls_client *tls = calloc(1, sizeof *tls);

	if (!tls)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	tls->magic = WR_TLS_CLIENT_MAGIC;
	tls->files = *files;
	tls->tried = fingerprint(files);
	tls->context = make_context(files, error);
	if (!tls->context) {
		free(tls);
		return WEIR_EINVAL;
	}
	*made = tls;
	return 0;
}

void wr_tls_client_free(struct wr_tls_client *tls)
{
	if (!tls)
		return;
	wr_assert_magic(tls, WR_TLS_CLIENT_MAGIC);
	SSL_CTX_free(tls->context);
	tls->magic = 0;
	free(tls);
}

/* Reads the files again if they have changed. If they are unusable, the old certificates stay in
 * use. */
static void reload_if_changed(struct wr_tls_client *tls)
{
	uint64_t seen = fingerprint(&tls->files);
	struct weir_error error = {0};
	SSL_CTX *context;

	if (seen == tls->tried)
		return;
	tls->tried = seen;
	context = make_context(&tls->files, &error);
	if (!context) {
		wr_log(WR_LOG_ERROR,
		       "the new certificates for Redis are unusable, the old ones "
		       "stay in use: %s",
		       error.text);
		return;
	}
	SSL_CTX_free(tls->context); /* open TLS sessions keep the old context alive */
	tls->context = context;
}

SSL *wr_tls_client_session(struct wr_tls_client *tls, const struct wr_endpoint *at, int fd)
{
	SSL *session;

	wr_assert_magic(tls, WR_TLS_CLIENT_MAGIC);
	wr_assert(fd >= 0);
	reload_if_changed(tls);
	session = SSL_new(tls->context);
	if (!session)
		return NULL;
	if (SSL_set_fd(session, fd) != 1 ||
	    (at->kind == WR_ENDPOINT_NAME && SSL_set_tlsext_host_name(session, at->host) != 1)) {
		SSL_free(session);
		return NULL;
	}
	SSL_set_connect_state(session);
	return session;
}

bool wr_tls_client_matches(const SSL *session, const struct wr_endpoint *at)
{
	X509 *certificate = SSL_get0_peer_certificate(session);

	if (!certificate)
		return false;
	return at->kind == WR_ENDPOINT_NAME
		       ? X509_check_host(certificate, at->host, 0, 0, NULL) == 1
		       : X509_check_ip_asc(certificate, at->host, 0) == 1;
}
