/* Checks the URLs of queues, and creates the backend that a URL selects. Called by queue.c and by
 * the parsers of options. */
#include "queue/backend.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "redis/url.h"

int wr_queue_url_check(const char *url, struct weir_error *error)
{
	const char *folder = wr_sqlite_folder(url);
	struct wr_redis_target target = {0};
	int rc = 0;

	if (!folder && strncmp(url, "redis", 5) != 0)
		return wr_error(error, WEIR_EINVAL,
				"the URL of a queue begins with file: (a folder), redis://, "
				"rediss:// or redis+unix://");
	if (!folder)
		rc = wr_redis_target_parse(wr_str(url), &target, error);
	else if (folder[0] != '/')
		rc = wr_error(error, WEIR_EINVAL,
			      "the folder of a file: queue must be an absolute path, as in "
			      "file:/var/lib/weir/queue");
	else if (strlen(folder) > PATH_MAX / 2)
		rc = wr_error(error, WEIR_EINVAL, "the path of the queue's folder is too long");
	if (rc == 0 && !folder && target.kind != WR_REDIS_SINGLE)
		return wr_error(
			error, WEIR_EINVAL,
			"a queue needs a single Redis: redis://, rediss:// or redis+unix://; a "
			"failover of Sentinel or Redis Cluster could lose accepted requests");
	return rc;
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
