/* Listen addresses and URLs: accepted spellings, error texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/endpoint.h"
#include "base/str.h"

static const struct {
	const char *text;
	enum wr_endpoint_kind kind;
	unsigned port;
	const char *host, *shown;
} listens[] = {
	{"8080", WR_ENDPOINT_ANY, 8080, "", "*:8080"},
	{":8080", WR_ENDPOINT_ANY, 8080, "", "*:8080"},
	{"*:1", WR_ENDPOINT_ANY, 1, "", "*:1"},
	{"127.0.0.1:65535", WR_ENDPOINT_V4, 65535, "127.0.0.1", "127.0.0.1:65535"},
	{"localhost:80", WR_ENDPOINT_NAME, 80, "localhost", "localhost:80"},
	{"[::1]:443", WR_ENDPOINT_V6, 443, "::1", "[::1]:443"},
	{"unix:/run/a.sock", WR_ENDPOINT_UNIX, 0, "/run/a.sock", "unix:/run/a.sock"},
};

static const char *const bad_listens[] = {
	"",         "0",        "65536",    "99999999",  "-1",        "80;",          "a:b",
	"::1:80",   "[::1]",    "[::1:80",  "[x]:80",    "1.2.3:80",  "256.1.1.1:80", "-a:80",
	"a b:80",   "unix:",    "unix:run", "unix:/a b", "unix:/a;b", "unix:/a\nb",   "h:80 ssl",
	"$host:80", "\"h\":80", "h:80}",    "127.0.0.1", "unix:/$a",
};

static void reads_and_writes_addresses(void **state)
{
	struct wr_endpoint endpoint;
	char text[WR_ENDPOINT_TEXT];

	for (size_t i = 0; i < sizeof listens / sizeof *listens; i++) {
		assert_int_equal(wr_endpoint_parse(wr_str(listens[i].text), &endpoint, NULL), 0);
		assert_int_equal(endpoint.kind, listens[i].kind);
		assert_int_equal(endpoint.port, listens[i].port);
		assert_string_equal(endpoint.host, listens[i].host);
		assert_int_equal(wr_endpoint_text(&endpoint, text), strlen(listens[i].shown));
		assert_string_equal(text, listens[i].shown);
	}
	(void)state;
}

static void refuses_other_texts(void **state)
{
	struct wr_endpoint endpoint;
	char path[200] = "unix:/";

	for (size_t i = 0; i < sizeof bad_listens / sizeof *bad_listens; i++)
		if (wr_endpoint_parse(wr_str(bad_listens[i]), &endpoint, NULL) != WEIR_EINVAL)
			fail_msg("'%s' was taken for an address", bad_listens[i]);
	memset(path + 6, 'a', 106);
	assert_int_equal(wr_endpoint_parse(wr_str(path), &endpoint, NULL), 0);
	path[6 + 106] = 'a';
	assert_int_equal(wr_endpoint_parse(wr_str(path), &endpoint, NULL), WEIR_EINVAL);
	(void)state;
}

static const struct {
	const char *text, *shown, *path;
	bool tls;
} urls[] = {
	{"http://127.0.0.1:3000", "127.0.0.1:3000", "", false},
	{"http://api", "api:80", "", false},
	{"https://api.example.com/", "api.example.com:443", "/", true},
	{"https://[::1]:8443/v1/check", "[::1]:8443", "/v1/check", true},
	{"unix:/run/api.sock", "unix:/run/api.sock", "", false},
	{"http://unix:/run/api.sock", "unix:/run/api.sock", "", false},
};

static const char *const bad_urls[] = {
	"",
	"api:3000",
	"ftp://api",
	"http://",
	"http://:80",
	"http://api:0",
	"http://api:x",
	"http://a b",
	"http://api/a b",
	"http://api/$uri",
	"http://api/a\"b",
	"http://api/a{b}",
	"http://api/?q=1",
	"http://api/#f",
	"http://api;}",
	"https://unix:/run/api.sock",
	"http://1.2.3",
};

static void reads_urls(void **state)
{
	struct wr_url url;
	char text[WR_ENDPOINT_TEXT];

	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		assert_int_equal(wr_url_parse(wr_str(urls[i].text), &url, NULL), 0);
		assert_int_equal(url.tls, urls[i].tls);
		wr_endpoint_text(&url.at, text);
		assert_string_equal(text, urls[i].shown);
		assert_true(wr_str_equal(url.path, wr_str(urls[i].path)));
	}
	for (size_t i = 0; i < sizeof bad_urls / sizeof *bad_urls; i++)
		if (wr_url_parse(wr_str(bad_urls[i]), &url, NULL) != WEIR_EINVAL)
			fail_msg("'%s' was taken for a URL", bad_urls[i]);
	(void)state;
}

static void errors_do_not_quote_passwords(void **state)
{
	struct weir_error error;
	struct wr_url url;

	assert_int_equal(wr_url_parse(wr_str("http://me:secret@api"), &url, &error), WEIR_EINVAL);
	assert_null(strstr(error.text, "secret"));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_writes_addresses),
		cmocka_unit_test(refuses_other_texts),
		cmocka_unit_test(reads_urls),
		cmocka_unit_test(errors_do_not_quote_passwords),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
