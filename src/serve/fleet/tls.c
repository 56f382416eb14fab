/* Client side TLS for Redis; see tls.h. */
#include "serve/fleet/tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/log.h"
#include "net/tls.h"

struct wr_redis_tls {
	const struct wr_redis_settings *settings;
	SSL_CTX *context;
	uint64_t tried; /* fingerprint of the files at the last attempt to read them */
};

static uint64_t fingerprint(const struct wr_redis_settings *s)
{
	return wr_tls_fingerprint(s->ca,
				  wr_tls_fingerprint(s->key, wr_tls_fingerprint(s->cert, 0)));
}

static int read_files(SSL_CTX *context, const struct wr_redis_settings *s, struct weir_error *error)
{
	if (s->ca ? SSL_CTX_load_verify_file(context, s->ca) != 1
		  : SSL_CTX_set_default_verify_paths(context) != 1)
		return wr_tls_file_error(error, "--redis-ca", s->ca ? s->ca : "(the system's)",
					 "certificate in PEM form");
	if (!s->cert)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(context, s->cert) != 1)
		return wr_tls_file_error(error, "--redis-cert", s->cert, "certificate in PEM form");
	if (SSL_CTX_use_PrivateKey_file(context, s->key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return wr_tls_file_error(error, "--redis-key", s->key,
					 "private key of this certificate in PEM form");
	return 0;
}

static SSL_CTX *make_context(const struct wr_redis_settings *settings, struct weir_error *error)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	ERR_clear_error();
	if (!context) {
		wr_error(error, WEIR_EMEMORY, "out of memory");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	if (read_files(context, settings, error) == 0)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

int wr_redis_tls_new(const struct wr_redis_settings *settings, struct wr_redis_tls **made,
		     struct weir_error *error)
{
	struct wr_redis_tls *tls = calloc(1, sizeof *tls);

	if (!tls)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	tls->settings = settings;
	tls->tried = fingerprint(settings);
	tls->context = make_context(settings, error);
	if (!tls->context) {
		free(tls);
		return WEIR_EINVAL;
	}
	*made = tls;
	return 0;
}

void wr_redis_tls_free(struct wr_redis_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	free(tls);
}

/* Reads the files again if they have changed. If they are unusable, the old certificates stay in
 * use. */
static void reload_if_changed(struct wr_redis_tls *tls)
{
	uint64_t seen = fingerprint(tls->settings);
	struct weir_error error = {0};
	SSL_CTX *context;

	if (seen == tls->tried)
		return;
	tls->tried = seen;
	context = make_context(tls->settings, &error);
	if (!context) {
		wr_log(WR_LOG_ERROR,
		       "the new certificates for Redis are unusable, the old ones "
		       "stay in use: %s",
		       error.text);
		return;
	}
	SSL_CTX_free(tls->context); /* open sessions hold references to the old context */
	tls->context = context;
}

SSL *wr_redis_tls_session(struct wr_redis_tls *tls, const struct wr_endpoint *at, int fd)
{
	SSL *session;

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

static bool is_for_url(X509 *certificate, const struct wr_redis_target *target)
{
	for (size_t i = 0; i < target->at.count; i++)
		if (target->at.items[i].kind == WR_ENDPOINT_NAME &&
		    X509_check_host(certificate, target->at.items[i].host, 0, 0, NULL) == 1)
			return true;
	return false;
}

bool wr_redis_tls_fits(SSL *session, const struct wr_endpoint *at,
		       const struct wr_redis_target *target)
{
	X509 *certificate = SSL_get0_peer_certificate(session);

	if (!certificate)
		return false;
	if (at->kind == WR_ENDPOINT_NAME)
		return X509_check_host(certificate, at->host, 0, 0, NULL) == 1;
	return X509_check_ip_asc(certificate, at->host, 0) == 1 ||
	       (target->kind != WR_REDIS_SINGLE && is_for_url(certificate, target));
}

const char *wr_redis_tls_failure(SSL *session)
{
	long verified = SSL_get_verify_result(session);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	return reason ? reason : "the connection was closed";
}
