/* Reads, checks and reloads the server's certificates; see tls.h. */
#include "net/tls.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/error.h"
#include "net/log.h"

/* The ciphers for TLS 1.2: only ciphers with forward secrecy and authenticated encryption. All
 * ciphers of TLS 1.3 have these two properties. */
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"

#define WR_TLS_MAGIC 0x746c7373u

struct wr_tls {
	uint32_t magic; /* WR_TLS_MAGIC */
	struct wr_tls_files files;
	pthread_mutex_t lock; /* protects `context`; locked once per connection */
	SSL_CTX *context;
	/* `tried` and `looked` are used only by the housekeeping thread. */
	uint64_t tried;  /* fingerprint of the files at the latest attempt to read them */
	uint64_t looked; /* fingerprint of the files at the previous call of wr_tls_look */
};

/* ---- the files ---- */

static uint64_t mix(uint64_t seed, uint64_t value)
{
	return (seed ^ value) * 0x9e3779b97f4a7c15 + (seed >> 29);
}

uint64_t wr_tls_fingerprint(const char *path, uint64_t seed)
{
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return mix(seed, 1);
	seed = mix(seed, st.st_ino);
	seed = mix(seed, (uint64_t)st.st_size);
	seed = mix(seed, (uint64_t)st.st_mtim.tv_sec);
	return mix(seed, (uint64_t)st.st_mtim.tv_nsec);
}

static uint64_t fingerprint(const struct wr_tls *tls)
{
	return wr_tls_fingerprint(
		tls->files.client_ca,
		wr_tls_fingerprint(tls->files.key, wr_tls_fingerprint(tls->files.cert, 0)));
}

int wr_tls_file_error(struct weir_error *error, const char *flag, const char *path,
		      const char *what)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_reason_error_string(code);

	if (ERR_SYSTEM_ERROR(code)) /* the file is missing or unreadable */
		wr_error(error, WEIR_EINVAL, "%s %s: %s", flag, path,
			 strerror(ERR_GET_REASON(code)));
	else
		wr_error(error, WEIR_EINVAL, "%s %s: the file contains no %s (%s)", flag, path,
			 what, reason ? reason : "not PEM");
	ERR_clear_error();
	return WEIR_EINVAL;
}

/* ---- the context ---- */

static int select_alpn(SSL *session, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *offered, unsigned offered_len, void *context)
{
	const char *wanted = SSL_get_app_data(session);
	size_t len = wanted ? strlen(wanted) : 0;

	(void)context;
	if (!wanted)
		return SSL_TLSEXT_ERR_NOACK;
	for (unsigned at = 0; at < offered_len && offered[at] < offered_len - at;
	     at += 1u + offered[at])
		if (offered[at] == len && memcmp(offered + at + 1, wanted, len) == 0) {
			*out = offered + at + 1;
			*out_len = offered[at];
			return SSL_TLSEXT_ERR_OK;
		}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int verify(int good, X509_STORE_CTX *store)
{
	SSL *session = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	const struct wr_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(session));

	if (!good || X509_STORE_CTX_get_error_depth(store) > 0 || tls->files.sans->count == 0)
		return good;
	if (wr_tls_san_allowed(X509_STORE_CTX_get_current_cert(store), tls->files.sans))
		return 1;
	X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

static int require_clients(SSL_CTX *context, const struct wr_tls *tls, struct weir_error *error)
{
	STACK_OF(X509_NAME) * names;

	if (!tls->files.client_ca)
		return 0;
	if (SSL_CTX_load_verify_file(context, tls->files.client_ca) != 1)
		return wr_tls_file_error(error, "--tls-client-ca", tls->files.client_ca,
					 "certificate in PEM form");
	names = SSL_load_client_CA_file(tls->files.client_ca);
	if (!names)
		return wr_tls_file_error(error, "--tls-client-ca", tls->files.client_ca,
					 "certificate in PEM form");
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, verify);
	return 0;
}

static int read_files(SSL_CTX *context, const struct wr_tls *tls, struct weir_error *error)
{
	if (SSL_CTX_use_certificate_chain_file(context, tls->files.cert) != 1)
		return wr_tls_file_error(error, "--tls-cert", tls->files.cert,
					 "certificate in PEM form");
	if (SSL_CTX_use_PrivateKey_file(context, tls->files.key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(context) != 1)
		return wr_tls_file_error(error, "--tls-key", tls->files.key,
					 "private key of this certificate in PEM form");
	return require_clients(context, tls, error);
}

SSL_CTX *wr_tls_context_new(const SSL_METHOD *method, struct weir_error *error)
{
	SSL_CTX *context = SSL_CTX_new(method);

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
	return context;
}

/* Creates a context from the files. A new context has new session ticket keys, so no client can
 * resume a session of an older context, which may have had other certificates. */
static SSL_CTX *make_context(struct wr_tls *tls, struct weir_error *error)
{
	SSL_CTX *context = wr_tls_context_new(TLS_server_method(), error);

	if (!context)
		return NULL;
	SSL_CTX_set_app_data(context, tls);
	SSL_CTX_set_cipher_list(context, CIPHERS_1_2);
	SSL_CTX_set_options(context,
			    SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_id_context(context, (const unsigned char *)"weir", 4);
	SSL_CTX_set_alpn_select_cb(context, select_alpn, NULL);
	if (read_files(context, tls, error) == 0)
		return context;
	SSL_CTX_free(context);
	return NULL;
}

static void swap_context(struct wr_tls *tls, SSL_CTX *context)
{
	SSL_CTX *before;

	pthread_mutex_lock(&tls->lock);
	before = tls->context;
	tls->context = context;
	pthread_mutex_unlock(&tls->lock);
	SSL_CTX_free(before); /* open TLS sessions keep the old context alive */
}

int wr_tls_new(const struct wr_tls_files *files, struct wr_tls **made, struct weir_error *error)
{
	struct wr_tls *tls = calloc(1, sizeof *tls);

	if (!tls)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	tls->magic = WR_TLS_MAGIC;
	tls->files = *files;
	pthread_mutex_init(&tls->lock, NULL);
	tls->tried = tls->looked = fingerprint(tls);
	tls->context = make_context(tls, error);
	if (!tls->context) {
		wr_tls_free(tls);
		return WEIR_EINVAL;
	}
	*made = tls;
	return 0;
}

void wr_tls_free(struct wr_tls *tls)
{
	if (!tls)
		return;
	wr_assert_magic(tls, WR_TLS_MAGIC);
	SSL_CTX_free(tls->context);
	pthread_mutex_destroy(&tls->lock);
	tls->magic = 0;
	free(tls);
}

void wr_tls_look(struct wr_tls *tls, bool now)
{
	uint64_t seen = fingerprint(tls);
	bool settled = seen == tls->looked;
	struct weir_error error = {0};
	SSL_CTX *context;

	wr_assert_magic(tls, WR_TLS_MAGIC);
	tls->looked = seen;
	if (!now && (seen == tls->tried || !settled))
		return;
	tls->tried = seen;
	context = make_context(tls, &error);
	if (!context) {
		wr_log(WR_LOG_ERROR,
		       "the new certificates are unusable, the old ones stay in use: %s",
		       error.text);
		return;
	}
	swap_context(tls, context);
	wr_log(WR_LOG_INFO, "certificates reloaded: %s", tls->files.cert);
}

SSL *wr_tls_session(struct wr_tls *tls, const char *alpn)
{
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	SSL *session;

	wr_assert_magic(tls, WR_TLS_MAGIC);
	pthread_mutex_lock(&tls->lock);
	session = SSL_new(tls->context);
	pthread_mutex_unlock(&tls->lock);
	if (!session || !in || !out) {
		BIO_free(in);
		BIO_free(out);
		SSL_free(session);
		return NULL;
	}
	BIO_set_mem_eof_return(in, -1);
	SSL_set_bio(session, in, out);
	SSL_set_app_data(session, alpn);
	SSL_set_accept_state(session);
	return session;
}

const char *wr_tls_failure(SSL *session)
{
	long verified = SSL_get_verify_result(session);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	if (verified == X509_V_ERR_APPLICATION_VERIFICATION)
		return "the client's certificate has none of the names of --tls-client-san";
	if (verified != X509_V_OK)
		return X509_verify_cert_error_string(verified);
	if (reason)
		return reason;
	return SSL_is_server(session)
		       ? "the client closed the connection"
		       : "the server closed the connection, or did not reply in time";
}
