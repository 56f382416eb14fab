/* Reads and checks --region and --peer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "redis/script_exchange.h"
#include "serve/fleet/redis.h"

/* Checks the name of the region, which must not contain a slash or be "-". In Redis, a node that
 * exchanges counters is named REGION/NAME, or -/NAME if it has no region. */
static int check_region(const char *region, struct weir_error *error)
{
	size_t len = strlen(region);
	bool good = len > 0 && len <= WR_EXCHANGE_REGION && isalnum((unsigned char)region[0]) &&
		    isalnum((unsigned char)region[len - 1]);

	for (size_t i = 0; good && i < len; i++)
		good = isalnum((unsigned char)region[i]) || strchr("-_.", region[i]);
	if (good)
		return 0;
	return wr_error(error, WEIR_EINVAL,
			"--region must be a name of at most %u characters: letters and digits, "
			"with - _ . between them",
			WR_EXCHANGE_REGION);
}

/* Checks that a peer is not the Redis of this region or of another peer. URLs are compared without
 * passwords. */
static int check_peer(const struct wr_serve_redis *redis, struct weir_error *error)
{
	const char *text = redis->peer_text[redis->peer_count];

	if (strcmp(text, redis->text) == 0)
		return wr_error(error, WEIR_EINVAL,
				"--peer %s is the same Redis as --redis: give the Redis of another "
				"region",
				text);
	for (uint32_t i = 0; i < redis->peer_count; i++)
		if (strcmp(text, redis->peer_text[i]) == 0)
			return wr_error(error, WEIR_EINVAL,
					"--peer %s is given twice: give one Redis per other region",
					text);
	return 0;
}

static int read_peer(struct wr_serve_redis *redis, const char *url, struct weir_error *error)
{
	const struct wr_serve_redis_settings *s = redis->settings;
	struct wr_redis_target *peer = &redis->peers[redis->peer_count];
	struct weir_error why;
	int rc = 0;

	if (redis->peer_count == WR_EXCHANGE_PEERS)
		return wr_error(error, WEIR_EINVAL, "--peer: more than %u are given",
				WR_EXCHANGE_PEERS);
	if (wr_redis_target_parse(wr_str(url), peer, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--peer: %s", why.text);
	redis->peer_password[redis->peer_count] = peer->login.password[0];
	if (s->password_file && !peer->login.password[0])
		rc = wr_serve_redis_password_read(s, peer, error);
	else if (peer->login.user[0] && !peer->login.password[0])
		rc = wr_error(
			error, WEIR_EINVAL,
			"--peer has a user without a password: put the password into a file "
			"and name it with --redis-password-file, or write USER:PASSWORD@HOST");
	if (rc < 0)
		return rc;
	wr_redis_target_text(peer, redis->peer_text[redis->peer_count]);
	rc = check_peer(redis, error);
	redis->peer_count += rc == 0;
	return rc;
}

/* Reads --peer. The option is split at commas, but a URL can contain commas between hosts. An item
 * without "://" belongs to the URL before it. */
static int read_peers(struct wr_serve_redis *redis, struct weir_error *error)
{
	const struct wr_text_list *list = &redis->settings->peers;
	char url[WR_REDIS_TEXT];
	int rc = 0;

	for (size_t i = 0; i < list->count && rc == 0;) {
		size_t len = (size_t)snprintf(url, sizeof url, "%s", list->items[i++]);

		while (i < list->count && !strstr(list->items[i], "://") && len < sizeof url)
			len += (size_t)snprintf(url + len, sizeof url - len, ",%s",
						list->items[i++]);
		rc = len < sizeof url ? read_peer(redis, url, error)
				      : wr_error(error, WEIR_EINVAL, "--peer: a URL is too long");
	}
	explicit_bzero(url, sizeof url);
	return rc;
}

int wr_serve_redis_regions_read(struct wr_serve_redis *redis, struct weir_error *error)
{
	const struct wr_serve_redis_settings *s = redis->settings;
	int rc = s->region ? check_region(s->region, error) : 0;

	wr_assert(redis->peer_count == 0);
	if (rc < 0 || s->peers.count == 0)
		return rc;
	if (!s->region)
		return wr_error(error, WEIR_EINVAL,
				"--peer needs --region: every region needs a name of its own");
	if (!redis->secret_set)
		return wr_error(error, WEIR_EINVAL,
				"--peer needs --key-secret: regions cannot agree on a secret, so "
				"give all of them the same file");
	return read_peers(redis, error);
}
