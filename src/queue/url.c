/* Checks the URLs of queues, and creates the backend that a URL selects. Called by queue.c and by
 * the parsers of options. */
#include "queue/url.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "redis/url.h"

static int check_folder(const char *folder, struct weir_error *error)
{
	if (folder[0] != '/')
		return wr_error(error, WEIR_EINVAL,
				"the folder of a file: queue must be an absolute path, as in "
				"file:/var/lib/weir/queue");
	if (strlen(folder) > PATH_MAX / 2)
		return wr_error(error, WEIR_EINVAL, "the path of the queue's folder is too long");
	return 0;
}

static int parse_redis(const char *url, struct wr_redis_target *target, struct weir_error *error)
{
	int rc = wr_redis_target_parse(wr_str(url), target, error);

	if (rc == 0 && target->kind != WR_REDIS_SINGLE)
		return wr_error(
			error, WEIR_EINVAL,
			"a queue needs a single Redis: redis://, rediss:// or redis+unix://; a "
			"failover of Sentinel or Redis Cluster could lose accepted requests");
	return rc;
}

int wr_queue_url_check(const char *url, struct weir_error *error)
{
	const char *folder;
	struct wr_redis_target target = {0};

	wr_assert(url);
	folder = wr_sqlite_folder(url);
	if (folder)
		return check_folder(folder, error);
	if (strncmp(url, "redis", 5) == 0)
		return parse_redis(url, &target, error);
	return wr_error(error, WEIR_EINVAL,
			"the URL of a queue begins with file: (a folder), redis://, rediss:// or "
			"redis+unix://");
}

size_t wr_queue_url_text(const char *url, char *text, size_t cap)
{
	struct wr_redis_target target = {0};
	char shown[WR_REDIS_TEXT];
	int len;

	if (!wr_sqlite_folder(url) && wr_redis_target_parse(wr_str(url), &target, NULL) == 0) {
		wr_redis_target_text(&target, shown);
		url = shown;
	}
	len = snprintf(text, cap, "%s", url);
	return len < 0 ? 0 : (size_t)len < cap ? (size_t)len : cap - 1;
}

int wr_queue_backend_new(const struct wr_queue_opts *opts, const struct wr_seals *seals,
			 struct wr_queue_backend **made, struct weir_error *error)
{
	if (wr_sqlite_folder(opts->url)) {
		*made = wr_sqlite_new(opts, seals);
		return *made ? 0 : wr_error(error, WEIR_EMEMORY, "out of memory");
	}
	return wr_queue_redis_new(opts, seals, made, error);
}
