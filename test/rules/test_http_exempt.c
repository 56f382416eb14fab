/* An exemption applies if all readings of a request match, a limit if any reading matches. The test
 * has many models of servers, which are sequences of steps in different orders. The steps are
 * written independently of src/rules. */
#include "helper.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/http.h"
#include "rules/match.h"

static const char yaml[] =
	"domain: d\n"
	"requests:\n"
	"  - {when: {path: /health}, allow: true}\n"
	"  - {when: {path: '/static/*'}, allow: true}\n"
	"  - {when: {path: /ready, method: GET}, allow: true}\n"
	"  - {when: {path: '/v1/*'}, descriptor: [{key: api, value: v1}]}\n"
	"  - {when: {path: '/free/*'}, descriptor: [{key: free, value: yes}]}\n"
	"  - {when: {path: /need}, descriptor: [{key: n, from: header.n, "
	"missing: deny}]}\n"
	"  - {when: {path: '/by/{who}/*'}, descriptor: [{key: who, from: "
	"path.who}]}\n"
	"  - {when: {path: '/h/*'}, descriptor: [{key: user, from: header.u}]}\n"
	"  - {when: {path: /}, descriptor: [{key: root, value: r}]}\n"
	"descriptors:\n"
	"  - {key: root, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: api, rate_limit: {name: api, unit: day, requests_per_unit: 1}}\n"
	"  - {key: free, rate_limit: {unlimited: true, replaces: [{name: api}]}}\n"
	"  - {key: n, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: who, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n";

static int read_target(const struct wr_node *domain, struct weir_str method, struct weir_str target,
		       char memory[WR_HTTP_MEMORY], struct wr_rules_http *http)
{
	struct weir_http_view view = {.size = sizeof view,
				      .method = method,
				      .target = target,
				      .host = WR_STR("api.example")};

	return wr_rules_http_read(domain, &view, memory, WR_HTTP_MEMORY, http);
}

/* "allow", "deny", "400", or keys of the descriptors, in capitals if every reading makes it. */
static const char *outcome(const struct wr_node *domain, const char *line, char text[64])
{
	char memory[WR_HTTP_MEMORY];
	struct wr_rules_http http;
	size_t blank = strcspn(line, " "), len = 0;
	int rc = read_target(domain, (struct weir_str){line, blank}, wr_str(line + blank + 1),
			     memory, &http);

	if (rc != 0)
		return rc == WEIR_EFORMAT ? "400" : "?";
	if (http.allowed || http.denied)
		return http.allowed ? "allow" : "deny";
	text[0] = '\0';
	for (uint32_t i = 0; i < http.count; i++) {
		struct weir_str key = http.descriptors[i].entries[0].key;

		len += (size_t)snprintf(text + len, 64 - len, "%s%.*s%s", i ? " " : "",
					(int)key.len, key.ptr,
					http.descriptors[i].certain ? "!" : "");
	}
	return text;
}

static const struct {
	const char *line;
	/* "allow", "deny", "400", or keys of descriptors; a ! marks a descriptor that all readings
	 * make. */
	const char *made;
} cases[] = {
	/* plain requests */
	{"GET /health", "allow"},
	{"GET /health/", "allow"},
	{"GET /health?x=/v1/a", "allow"},
	{"GET http://api.example/health", "allow"},
	{"GET /static/a%20b.css", "allow"},
	{"GET /static/a/../b.css", "allow"},
	{"GET /static/a%2Fb", "allow"},
	{"GET /static/a;v=1", "allow"},
	{"GET /static/100%25", "allow"},
	{"GET /static/a%2520b", "allow"},
	{"GET /static/..well", "allow"},
	{"GET /v1/a", "api!"},
	{"GET /free/a", "free!"},
	{"GET /need", "deny"},
	/* paths that must not be exempt */
	{"GET /v1/users/7;x=%2f..%2f..%2f..%2fhealth", "api"},
	{"GET /v1/users/7%2f..%2f..%2f..%2fhealth", "api"},
	{"GET /v1/users/7/..%5c..%5c..%5chealth", "api"},
	{"GET /health#/../v1/users/7", "400"},
	{"GET /health?a=#&api_key=K", "400"},
	/* dot segments that the API may keep, or resolve before it drops empty segments */
	{"GET /v1/users/../../health", "api"},
	{"GET /v1/./../health", "api"},
	{"GET /v1//../health", "api"},
	{"GET /v1/%2e%2e/health", "api"},
	{"GET /static/../v1/a", "api"},
	{"GET /static/..;/v1/a", "api"},
	{"GET /static/%2e%2e%3b/v1/a", "api"},
	{"GET /static/..\\v1\\a", "api"},
	{"GET /static/..%2fv1%2fa", "api"},
	/* encoded twice */
	{"GET /static/%252e%252e/v1/a", "api"},
	{"GET /static/..%252fv1/a", "api"},
	{"GET /static/x%2Fy/%252e%252e/%252e%252e/v1/a", "api"},
	{"GET /static/..%25%32%66v1/a", "api"},
	/* overlong UTF-8 */
	{"GET /static/%c0%ae%c0%ae/v1/a", "api"},
	{"GET /static/..%c0%afv1/a", "api"},
	{"GET /static/..%e0%80%afv1/a", "api"},
	/* zero bytes and control characters */
	{"GET /health%00/../v1/a", "400"},
	{"GET /v1/a%00/../../health", "400"},
	{"GET /static/%2500", "400"},
	{"GET /static/\x01", "400"},
	{"GET /static/a\tb", "400"},
	/* only few servers treat these as dots */
	{"GET /static/.../a", ""},
	{"GET /static/..%20/v1/a", ""},
	{"GET /static/%20../v1/a", ""},
	{"GET /static/ ../v1/a", ""},
	{"GET /static/..%09/v1/a", ""},
	{"GET /static/..%0d/v1/a", ""},
	{"GET /static/..%7f/v1/a", ""},
	{"GET /static/a%20b/c d", "allow"},
	/* a percent sign that begins no escape */
	{"GET /static/%u002e%u002e/v1/a", ""},
	{"GET /static/%zz", ""},
	{"GET /static/100%", ""},
	{"GET /health%", ""},
	{"GET /v1/100%", "api"},
	/* no %-decoding at all */
	{"GET /%68ealth", ""},
	{"GET /s%74atic/a", ""},
	/* paths with another case or with dots at the end are other paths */
	{"GET /HEALTH", ""},
	{"GET /health.", ""},
	/* absolute targets that servers split in different ways */
	{"GET http://api.example\\v1/health", ""},
	{"GET http://v1@api.example/health", ""},
	{"GET gopher://api.example/health", ""},
	{"GET health", ""},
	{"GET http://api.example/v1/a", "api!"},
	/* a host without a scheme, which JavaScript's URL accepts */
	{"GET //api.example/v1/a", "api"},
	{"GET ///api.example/v1/a", "api"},
	{"GET /\\api.example\\v1\\a", "api"},
	{"GET //static/v1/a", "api"},
	{"GET //v1/health", "api"},
	{"GET //api.example/%2fapi.example/health", ""},
	{"GET //api.example/health", ""},
	{"GET //v1/a", "api"},
	{"GET //static//a", ""},
	{"GET //health", "root"},
	{"GET //health?query", "root"},
	{"GET /\\health", "root"},
	{"GET //health/", "root"},
	{"GET /", "root!"},
	/* `unlimited` and `replaces` */
	{"GET /v1/a%2f..%2f..%2ffree/x", "api free"},
	{"GET /v1/../free/a", "api free"},
	{"GET /v1/..;/free/a", "api free"},
	/* `missing: deny`, unless `allow: true` applies in all readings */
	{"GET /need;%2f..%2fhealth", "deny"},
	{"GET /health;/../need", "deny"},
	{"GET /health%2f..%2fneed", "deny"},
	/* an encoded ? or #, for a server that decodes the target before it splits it */
	{"GET /need%3fx", "deny"},
	{"GET /need%23x", "deny"},
	{"GET /need%253Fx", "deny"},
	{"GET /need;x%3fy", "deny"},
	{"GET /v1%3f/../health", "api"},
	{"GET /a/%3f/../../v1%3f", "api"},
	{"GET /static/a%3fb", "allow"},
	{"GET /health%3fx", ""},
	/* each reading has its own value of a path part */
	{"GET /by/7/..%2f8/x", "who who"},
	{"GET /by/7/x", "who!"},
	/* HEAD is exempt only if it is named */
	{"GET /ready", "allow"},
	{"HEAD /ready", ""},
	{"HEAD /health", "allow"},
	{"POST /ready", ""},
	/* for some servers a method in lower case is another method */
	{"get /ready", ""},
	{"get /health", "allow"},
	{"get /v1/a", "api!"},
};

static void exemptions(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	int wrong = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];
		const char *made = outcome(domain, cases[i].line, text);

		if (strcmp(made, cases[i].made) == 0)
			continue;
		print_message("%s made '%s', not '%s'\n", cases[i].line, made, cases[i].made);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	weir_rules_free(rules);
	(void)state;
}

static const struct {
	const char *target;
	const char *host;
	bool allowed;
} hosts[] = {
	{"/a", "free.example", true},
	{"/a", "FREE.Example:8080", true},
	{"/a", "free.example.", true},
	{"/a", " free.example", true},
	{"http://free.example/a", "api.example", true},
	{"http://api.example/a", "free.example", false},
	/* hosts that some servers read differently */
	{"/a", "free%2eexample", false},
	{"/a", "fre%65.example", false},
	{"/a", "free.example..", false},
	{"/a", "free.example:80:80", false},
	{"/a", "free.example:x", false},
	{"/a", "free.example:80@api.example", false},
	{"http://api.example@free.example/a", "", false},
	{"ftp://free.example/a", "", false},
};

static void hosts_exempt(void **state)
{
	struct weir_rules *rules =
		test_rules("domain: d\n"
			   "requests:\n"
			   "  - {when: {host: free.example}, allow: true}\n"
			   "  - {descriptor: [{key: api, value: all}]}\n"
			   "descriptors:\n"
			   "  - {key: api, rate_limit: {unit: day, requests_per_unit: 1}}\n");
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	int wrong = 0;

	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		char memory[WR_HTTP_MEMORY];
		struct weir_http_view view = {.size = sizeof view,
					      .method = WR_STR("GET"),
					      .target = wr_str(hosts[i].target),
					      .host = wr_str(hosts[i].host)};
		struct wr_rules_http http;

		assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http),
				 0);
		if (http.allowed == hosts[i].allowed && http.count == !hosts[i].allowed)
			continue;
		print_message("%s of '%s': %d\n", hosts[i].target, hosts[i].host, http.allowed);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	weir_rules_free(rules);
	(void)state;
}

/* ---- servers ---- */

struct path {
	char text[256];
	size_t len;
};

static void put(struct path *path, char c)
{
	assert_true(path->len < sizeof path->text);
	path->text[path->len++] = c;
}

static int digit(char c)
{
	const char *digits = "0123456789abcdef0123456789ABCDEF", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)((at - digits) % 16) : -1;
}

static void step_decode(struct path *path, char keep)
{
	struct path out = {.len = 0};

	for (size_t i = 0; i < path->len; i++) {
		int high = i + 2 < path->len ? digit(path->text[i + 1]) : -1;
		int low = i + 2 < path->len ? digit(path->text[i + 2]) : -1;

		if (path->text[i] != '%' || high < 0 || low < 0 || 16 * high + low == keep) {
			put(&out, path->text[i]);
			continue;
		}
		put(&out, (char)(16 * high + low));
		i += 2;
	}
	*path = out;
}

static void step_strip(struct path *path)
{
	struct path out = {.len = 0};
	bool inside = false;

	for (size_t i = 0; i < path->len; i++) {
		inside = path->text[i] != '/' && (inside || path->text[i] == ';');
		if (!inside)
			put(&out, path->text[i]);
	}
	*path = out;
}

static void step_turn(struct path *path)
{
	for (size_t i = 0; i < path->len; i++)
		if (path->text[i] == '\\')
			path->text[i] = '/';
}

static void step_end(struct path *path)
{
	size_t at = 0;

	while (at < path->len && path->text[at] != '?' && path->text[at] != '#')
		at++;
	path->len = at;
}

static void step_merge(struct path *path)
{
	struct path out = {.len = 0};

	for (size_t i = 0; i < path->len; i++)
		if (path->text[i] != '/' || i == 0 || path->text[i - 1] != '/')
			put(&out, path->text[i]);
	*path = out;
}

/* RFC 3986, 5.2.4. */
static void step_resolve(struct path *path)
{
	struct path out = {.len = 0};
	size_t at = 1;

	while (at <= path->len) {
		size_t end = at;

		while (end < path->len && path->text[end] != '/')
			end++;
		if (end - at == 2 && memcmp(path->text + at, "..", 2) == 0) {
			while (out.len && out.text[--out.len] != '/')
				;
		} else if (end - at != 1 || path->text[at] != '.') {
			put(&out, '/');
			for (size_t i = at; i < end; i++)
				put(&out, path->text[i]);
		}
		at = end + 1;
	}
	*path = out;
}

/* Drops the host of //host/path, like a server that resolves the target against a base URL (RFC
 * 3986, 4.2). */
static void step_host(struct path *path)
{
	struct path out = {.len = 0};
	size_t at = 0;

	while (at < path->len && path->text[at] == '/')
		at++;
	if (at < 2)
		return;
	while (at < path->len && path->text[at] != '/')
		at++;
	while (at < path->len)
		put(&out, path->text[at++]);
	*path = out;
}

/* Whether a server with these steps sees a path whose first segment is `where`. Slashes are merged
 * at the end, as routers do. */
static bool leads_to(struct path path, const char *steps, const char *first)
{
	char head[16];

	for (; *steps; steps++)
		switch (*steps) {
		case 'd':
			step_decode(&path, -1);
			break;
		case 's':
			step_decode(&path, '/');
			break;
		case 'p':
			step_strip(&path);
			break;
		case 'b':
			step_turn(&path);
			break;
		case 'm':
			step_merge(&path);
			break;
		case 'r':
			step_resolve(&path);
			break;
		case 'q':
			step_end(&path);
			break;
		case 'u':
			step_host(&path);
			break;
		}
	step_merge(&path);
	if (path.len == 0)
		put(&path, '/');
	snprintf(head, sizeof head, "%.*s", (int)path.len, path.text);
	return strncmp(head + 1, first, strlen(first)) == 0 &&
	       (path.len == 1 + strlen(first) || head[1 + strlen(first)] == '/');
}

/* Each letter is a step: d decodes, s decodes everything except slashes, p drops parameters, b
 * turns backslashes into slashes, m merges slashes, r resolves dot segments, q cuts the path at a ?
 * or #, u drops the host of //host/path. */
static const char *const servers[] = {
	"u",     "ur",    "udr",    "udmr", "ubdr", "budr",  "",     "d",    "s",    "r",
	"dr",    "rd",    "sr",     "rs",   "dmr",  "mdr",   "smr",  "pdr",  "dpr",  "pdmr",
	"dpmr",  "psr",   "spr",    "psmr", "p",    "pd",    "ps",   "pr",   "bdr",  "dbr",
	"bsr",   "dbmr",  "bpdr",   "dbpr", "pdbr", "pdbmr", "bd",   "db",   "ddr",  "ddmr",
	"ddbr",  "dd",    "pddr",   "ddpr", "ss",   "ssr",   "sdr",  "dsr",  "ssmr", "dbpmr",
	"pddbr", "ddbpr", "ddbpmr", "rdr",  "mrdr", "prdr",  "rpdr", "rsr",  "dq",   "dqr",
	"drq",   "dmrq",  "rdq",    "sq",   "srq",  "pdqr",  "dqpr", "dprq", "dbqr", "dbmrq",
	"ddq",   "ddqr",  "ddrq",   "udqr",
};

static const char *const pieces[] = {
	"/",       "//",    "..",     ".",      "/../",  "%2e",    "%2E%2e",   ".%2e",
	"%2f",     "%5c",   "\\",     ";",      ";x=",   "%3b",    "%25",      "%252f",
	"%252e",   "%253b", "v1",     "/v1/",   "%761",  "static", "/static/", "health",
	"/health", "a",     "/a/",    "%255c",  "/..;/", "..%2f",  "%2f..",    "%",
	"%2",      "free",  "/free/", "/..%5c", "%3f",   "%23",    "%253f",
};

/* Tries 60,000 paths of up to nine pieces. If some server reads a path below /v1, the limit
 * applies, and no exemption does. */
static void no_server_is_reached_unlimited(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	uint64_t dice = 16;
	unsigned limited = 0, allowed = 0, wrong = 0;

	for (unsigned round = 0; round < 60000; round++) {
		char memory[WR_HTTP_MEMORY];
		struct path path = {.text = "/", .len = 1};
		struct wr_rules_http http;
		bool met = false, replaced = false;

		for (unsigned n = 1 + round % 9; n; n--) {
			const char *piece;

			dice = dice * 6364136223846793005u + 1442695040888963407u;
			piece = pieces[(dice >> 33) % (sizeof pieces / sizeof *pieces)];
			for (; *piece; piece++)
				put(&path, *piece);
		}
		if (read_target(domain, WR_STR("GET"), (struct weir_str){path.text, path.len},
				memory, &http) != 0)
			continue;
		for (uint32_t i = 0; i < http.count; i++) {
			struct weir_str key = http.descriptors[i].entries[0].key;

			met |= wr_str_equal(key, WR_STR("api"));
			replaced |=
				wr_str_equal(key, WR_STR("free")) && http.descriptors[i].certain;
		}
		limited += met;
		allowed += http.allowed;
		for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
			if (leads_to(path, servers[i], "v1") && (!met || replaced) && wrong++ < 20)
				print_message("%.*s is /v1 to %s\n", (int)path.len, path.text,
					      servers[i]);
	}
	assert_int_equal(wrong, 0);
	assert_true(limited > 5000 && allowed > 300);
	weir_rules_free(rules);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exemptions),
		cmocka_unit_test(hosts_exempt),
		cmocka_unit_test(no_server_is_reached_unlimited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
