/* Reads and checks --redis and the options that belong to it. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/str.h"
#include "serve/fleet/redis.h"
#include "net/tls_client.h"

#define FILE_MAX 4096u   /* a file with a password or a secret has to be shorter (bytes) */
#define SECRET_LEAST 16u /* minimum length of the secret in the file of --key-secret */

int wr_serve_redis_password_read(const struct wr_serve_redis_settings *settings,
				 struct wr_redis_target *target, struct weir_error *error)
{
	char text[FILE_MAX];
	struct weir_error why;
	size_t len;
	int rc = wr_secret_file_read(settings->password_file, WR_SECRET_SHARED, text, sizeof text,
				     &len, &why);

	if (rc < 0)
		wr_error(error, rc, "--redis-password-file %s", why.text);
	else if (wr_redis_target_password(target, (struct weir_str){text, len}, &why) != 0)
		rc = wr_error(error, WEIR_EINVAL, "--redis-password-file %s: %s",
			      settings->password_file, why.text);
	explicit_bzero(text, sizeof text);
	return rc;
}

/* Derives the fleet's secret from the content of the file of --key-secret. The derivation uses
 * SHAKE256. Newlines at the end of the file are ignored, because editors add them. */
static int read_secret(struct wr_serve_redis *redis, struct weir_error *error)
{
	const char *path = redis->settings->key_secret;
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	char text[FILE_MAX];
	struct weir_error why;
	size_t len;
	int rc = wr_secret_file_read(path, WR_SECRET_SHARED, text, sizeof text, &len, &why);

	if (rc < 0)
		wr_error(error, rc, "--key-secret %s", why.text);
	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (rc == 0 && len < SECRET_LEAST)
		rc = wr_error(error, WEIR_EINVAL,
			      "--key-secret %s has fewer than %u bytes: head -c 32 /dev/urandom | "
			      "base64 makes a secret",
			      path, SECRET_LEAST);
	if (rc == 0 && (!hash || EVP_DigestInit_ex(hash, EVP_shake256(), NULL) != 1 ||
			EVP_DigestUpdate(hash, text, len) != 1 ||
			EVP_DigestFinalXOF(hash, redis->secret, sizeof redis->secret) != 1))
		rc = wr_error(error, WEIR_EMEMORY, "--key-secret: OpenSSL has no SHAKE256");
	redis->secret_set = redis->secret_known = rc == 0;
	EVP_MD_CTX_free(hash);
	explicit_bzero(text, sizeof text);
	return rc;
}

int wr_serve_redis_tls_new(const struct wr_serve_redis_settings *settings,
			   struct wr_tls_client **made, struct weir_error *error)
{
	return wr_tls_client_new(
		&(struct wr_tls_client_files){settings->ca, settings->cert, settings->key}, made,
		error);
}

static bool uses_tls(const struct wr_serve_redis *redis)
{
	bool any = redis->target.tls;

	for (uint32_t i = 0; i < redis->peer_count; i++)
		any |= redis->peers[i].tls;
	return any;
}

/* Checks the files for TLS, so that unusable files are reported at the start and not at the first
 * connection. */
static int check_tls(const struct wr_serve_redis *redis, struct weir_error *error)
{
	const struct wr_serve_redis_settings *s = redis->settings;
	struct wr_tls_client *tls = NULL;
	int rc;

	if (!uses_tls(redis) && !s->tls_elsewhere && (s->ca || s->cert || s->key))
		return wr_error(error, WEIR_EINVAL,
				"--redis-ca, --redis-cert and --redis-key are for TLS: write "
				"rediss:// in --redis, --peer or --queue");
	if (!s->cert != !s->key)
		return wr_error(error, WEIR_EINVAL,
				"--redis-cert and --redis-key must be set together");
	if (!uses_tls(redis))
		return 0;
	rc = wr_serve_redis_tls_new(s, &tls, error);
	wr_tls_client_free(tls);
	return rc;
}

/* Refuses options that make no sense without --redis. */
static int check_without_redis(const struct wr_serve_redis_settings *s, struct weir_error *error)
{
	bool tls = !s->tls_elsewhere && (s->ca || s->cert || s->key);

	if (!s->password_file && !tls && !s->key_secret && !s->region && s->peers.count == 0)
		return 0;
	return wr_error(error, WEIR_EINVAL, "%s needs --redis",
			s->password_file ? "--redis-password-file"
			: tls && s->ca   ? "--redis-ca"
			: tls && s->cert ? "--redis-cert"
			: tls            ? "--redis-key"
			: s->key_secret  ? "--key-secret"
			: s->region      ? "--region"
					 : "--peer");
}

static int read_settings(struct wr_serve_redis *redis, struct weir_error *error)
{
	const struct wr_serve_redis_settings *s = redis->settings;
	struct weir_error why;
	int rc = 0;

	if (wr_redis_target_parse(wr_str(s->url), &redis->target, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--redis: %s", why.text);
	if (s->prefix && wr_redis_prefix_check(s->prefix, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--redis-prefix: %s", why.text);
	wr_redis_target_text(&redis->target, redis->text);
	if (s->password_file)
		rc = wr_serve_redis_password_read(s, &redis->target, error);
	else if (redis->target.login.user[0] && !redis->target.login.password[0])
		rc = wr_error(
			error, WEIR_EINVAL,
			"--redis has a user without a password: put the password into a file "
			"and name it with --redis-password-file, or write USER:PASSWORD@HOST");
	if (rc == 0 && s->key_secret)
		rc = read_secret(redis, error);
	if (rc == 0)
		rc = wr_serve_redis_regions_read(redis, error);
	return rc == 0 ? check_tls(redis, error) : rc;
}

int wr_serve_redis_new(const struct wr_serve_redis_settings *settings, unsigned loops,
		       struct wr_serve_redis **made, struct weir_error *error)
{
	struct wr_serve_redis *redis;
	int rc;

	wr_assert(loops > 0);
	*made = NULL;
	if (!settings->url)
		return check_without_redis(settings, error);
	redis = calloc(1, sizeof *redis);
	if (!redis)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	redis->settings = settings;
	redis->loop_count = loops;
	pthread_mutex_init(&redis->lock, NULL);
	redis->status = calloc(loops, sizeof *redis->status);
	rc = redis->status ? read_settings(redis, error)
			   : wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc < 0)
		wr_serve_redis_free(redis);
	else
		*made = redis;
	return rc;
}

void wr_serve_redis_free(struct wr_serve_redis *redis)
{
	if (!redis)
		return;
	for (unsigned i = 0; redis->status && i < redis->loop_count; i++)
		free(redis->status[i].info);
	free(redis->status);
	pthread_mutex_destroy(&redis->lock);
	explicit_bzero(redis, sizeof *redis);
	free(redis);
}

void wr_serve_redis_engine_opts(struct wr_serve_redis *redis, struct weir_engine_opts *opts,
				uint8_t secret[WEIR_SECRET_BYTES])
{
	if (!redis)
		return;
	opts->flags |= WEIR_ENGINE_CENTRAL;
	opts->fleet_size = (uint32_t)redis->settings->fleet_size;
	pthread_mutex_lock(&redis->lock);
	if (redis->secret_known) {
		memcpy(secret, redis->secret, WEIR_SECRET_BYTES);
		opts->fleet_secret = secret;
	}
	pthread_mutex_unlock(&redis->lock);
}

void wr_serve_redis_share_secret(struct wr_serve_redis *redis, struct weir_engine *engine)
{
	if (!redis)
		return;
	pthread_mutex_lock(&redis->lock);
	if (redis->secret_known)
		weir_engine_fleet(engine, redis->secret);
	pthread_mutex_unlock(&redis->lock);
}
