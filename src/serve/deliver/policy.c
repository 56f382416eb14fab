/* Implements the policy of delivery that policy.h describes. Called by the deliverer and by its
 * simulation. */
#include "serve/deliver/policy.h"

#include <curl/curl.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hop_by_hop.h"
#include "base/str.h"

#define SECOND_US 1000000u
#define DATE_MAX 64u

bool wr_deliver_is_final(unsigned status)
{
	return status >= 200 && status < 500 && status != 408 && status != 425 && status != 429;
}

bool wr_deliver_is_absent(unsigned status)
{
	return status >= 502 && status <= 504;
}

uint64_t wr_deliver_backoff_us(uint32_t tries, uint64_t random)
{
	uint64_t whole = WR_DELIVER_BACKOFF_MOST_US;

	if (tries < 16 && (uint64_t)WR_DELIVER_BACKOFF_FIRST_US << tries < whole)
		whole = (uint64_t)WR_DELIVER_BACKOFF_FIRST_US << tries;
	return whole / 2 + random % (whole / 2 + 1);
}

static bool read_seconds(struct weir_str value, uint64_t *seconds)
{
	*seconds = 0;
	for (size_t i = 0; i < value.len; i++) {
		unsigned digit = (unsigned char)value.ptr[i] - (unsigned)'0';

		if (digit > 9)
			return false;
		/* Ignore the remaining digits once the value has reached UINT32_MAX seconds,
		 * because every request expires before that time. */
		if (*seconds < UINT32_MAX)
			*seconds = *seconds * 10 + digit;
	}
	return value.len > 0;
}

bool wr_deliver_retry_after(struct weir_str value, uint64_t now_us, uint64_t *wait_us)
{
	char text[DATE_MAX];
	uint64_t seconds;
	time_t date;

	value = wr_str_trim(value);
	if (read_seconds(value, &seconds)) {
		*wait_us = seconds * SECOND_US;
		return true;
	}
	/* A date of RFC 9110 has at least 24 characters. curl_getdate() would accept many other
	 * texts. */
	if (value.len >= sizeof text || value.len < 24)
		return false;
	snprintf(text, sizeof text, "%.*s", (int)value.len, value.ptr);
	date = curl_getdate(text, NULL);
	if (date < 0)
		return false;
	*wait_us = (uint64_t)date * SECOND_US > now_us ? (uint64_t)date * SECOND_US - now_us : 0;
	return true;
}

uint64_t wr_deliver_wait_us(uint64_t backoff_us, uint64_t asked_us, uint64_t left_us)
{
	uint64_t wait_us = asked_us > backoff_us ? asked_us : backoff_us;

	return wait_us < left_us ? wait_us : left_us;
}

/* ---- header fields ---- */

bool wr_deliver_keeps(struct weir_str name, const struct weir_str *connection, size_t connections)
{
	wr_assert(connection || connections == 0);
	if (wr_hop_by_hop_name(name))
		return false;
	for (size_t i = 0; i < connections; i++)
		if (wr_hop_by_hop_listed(connection[i], name))
			return false;
	return true;
}

/* ---- the target ---- */

static int read_unix(const char *path, struct wr_deliver_target *target, struct weir_error *error)
{
	if (path[0] != '/' || strlen(path) >= sizeof target->unix_socket)
		return wr_error(error, WEIR_EINVAL,
				"'unix:%s' is not an absolute path of at most %zu bytes", path,
				sizeof target->unix_socket - 1);
	snprintf(target->unix_socket, sizeof target->unix_socket, "%s", path);
	snprintf(target->url, sizeof target->url, "http://localhost/");
	return 0;
}

/* Returns whether libcurl parses the text as a URL of HTTP or HTTPS that has only a host and a
 * port. */
static bool is_base(CURLU *url, const char *text)
{
	char *part = NULL;
	bool good = curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK;

	if (good && curl_url_get(url, CURLUPART_PATH, &part, 0) == CURLUE_OK)
		good = strcmp(part, "/") == 0;
	curl_free(part);
	part = NULL;
	if (good && curl_url_get(url, CURLUPART_SCHEME, &part, 0) == CURLUE_OK)
		good = strcmp(part, "http") == 0 || strcmp(part, "https") == 0;
	curl_free(part);
	for (int i = 0; i < 3 && good; i++) {
		static const CURLUPart others[] = {CURLUPART_QUERY, CURLUPART_FRAGMENT,
						   CURLUPART_USER};

		part = NULL;
		good = curl_url_get(url, others[i], &part, 0) != CURLUE_OK;
		curl_free(part);
	}
	return good;
}

int wr_deliver_target_read(const char *text, struct wr_deliver_target *target,
			   struct weir_error *error)
{
	size_t len = strlen(text);
	CURLU *url;
	bool good;

	*target = (struct wr_deliver_target){0};
	if (strncmp(text, "unix:", 5) == 0)
		return read_unix(text + 5, target, error);
	url = curl_url();
	good = url && len + 2 < sizeof target->url && is_base(url, text);
	curl_url_cleanup(url);
	if (!good)
		return wr_error(
			error, WEIR_EINVAL,
			"'%s' is not http://HOST[:PORT], https://HOST[:PORT] or unix:/path; leave "
			"out the path of the URL: each request is sent to its own path",
			text);
	snprintf(target->url, sizeof target->url, "%s%s", text, text[len - 1] == '/' ? "" : "/");
	return 0;
}
