/* HTTP requests → descriptors: two spellings of one request have the same counter, two clients have
 * different counters.
 */
#include "helper.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "rules/http.h"
#include "rules/http_target.h"

static const char yaml[] =
	"domain: d\n"
	"requests:\n"
	"  - when: {remote_address: [10.0.0.0/8, '::1']}\n"
	"    allow: true\n"
	"  - when: {method: POST, path: /v1/posts}\n"
	"    descriptor: [{key: post, from: [header.X-User-Id, remote_address]}]\n"
	"  - when: {path: '/users/{id}/files/{file}'}\n"
	"    descriptor: [{key: user, from: path.id}, {key: file, from: path.file}]\n"
	"  - when: {path: '/deep/*'}\n"
	"    descriptor: [{key: path, from: path}]\n"
	"  - when: {path: /q}\n"
	"    descriptor: [{key: q, from: query.user}]\n"
	"  - when: {path: /qd}\n"
	"    descriptor: [{key: q, from: query.user, default: nobody}]\n"
	"  - when: {path: /qx}\n"
	"    descriptor: [{key: q, from: query.user, missing: deny}]\n"
	"  - when: {path: /c}\n"
	"    descriptor: [{key: c, from: cookie.sid}]\n"
	"  - when: {path: /m}\n"
	"    descriptor: [{key: m, from: masked_remote_address, v4_prefix: 24, v6_prefix: 48}]\n"
	"  - when: {path: /m64}\n"
	"    descriptor: [{key: m, from: masked_remote_address}]\n"
	"  - when: {path: /r}\n"
	"    descriptor: [{key: r, from: remote_address}]\n"
	"  - when: {path: /i}\n"
	"    descriptor: [{key: i, from: identity}, {key: way, from: method}]\n"
	"  - when: {host: ['*.example.com', example.org], path: /h}\n"
	"    descriptor: [{key: h, from: host}]\n"
	"  - when: {path: /a/first}\n"
	"    descriptor: [{key: q, from: query.user, ambiguous: first}]\n"
	"  - when: {path: /a/last}\n"
	"    descriptor: [{key: q, from: query.user, ambiguous: last}]\n"
	"  - when: {path: /a/next}\n"
	"    descriptor: [{key: q, from: [query.user, remote_address], ambiguous: next}]\n"
	"  - when: {path: /a/default}\n"
	"    descriptor: [{key: q, from: query.user, ambiguous: next, default: nobody}]\n"
	"  - when: {path: /a/deny}\n"
	"    descriptor: [{key: q, from: query.user, ambiguous: deny}]\n"
	"  - when: {path: /a/share}\n"
	"    descriptor: [{key: q, from: query.user, ambiguous: share, missing: deny}]\n"
	"  - when: {path: /a/join}\n"
	"    descriptor: [{key: q, from: header.x-dn, ambiguous: join}]\n"
	"  - when: {path: /a/agent}\n"
	"    descriptor: [{key: q, from: header.User-Agent}]\n"
	"  - when: {path: /a/firstlisted}\n"
	"    descriptor: [{key: q, from: header.x-user-id, ambiguous: first}]\n"
	"  - when: {path: /c2}\n"
	"    descriptor: [{key: q, from: query.user}, {key: c, from: cookie.sid}]\n"
	"  - when: {path: /get, method: GET}\n"
	"    descriptor: [{key: g, value: 1}]\n"
	"  - when: {path: /head, method: HEAD}\n"
	"    descriptor: [{key: g, value: 2}]\n"
	"  - when: {path: /two}\n"
	"    descriptor: [{key: a, value: 1}]\n"
	"  - when: {path: /two}\n"
	"    descriptor: [{key: b, value: 2}, {key: q, from: query.user}]\n"
	"descriptors:\n"
	"  - {key: q, rate_limit: {unit: day, requests_per_unit: 1}}\n";

static const struct {
	const char *why;
	const char *line;    /* "METHOD TARGET" */
	const char *headers; /* "name: value\nname: value" */
	const char *from;
	const char *made; /* "key=value@source|…; …", "allow", "deny", or "" */
} cases[] = {
	{"allow list", "POST /v1/posts", "", "10.1.2.3", "allow"},
	{"allow list, IPv6", "POST /v1/posts", "", "::1", "allow"},
	{"allow list, IPv4-mapped", "POST /v1/posts", "", "::ffff:10.1.2.3", "allow"},
	{"header", "POST /v1/posts", "x-user-id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"header, any case", "POST /v1/posts", "X-USER-ID: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"header, blanks around", "POST /v1/posts", "x-user-id:  7\t ", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"no header: the next source", "POST /v1/posts", "", "192.0.2.1",
	 "post=192.0.2.1@remote_address"},
	{"empty header is none", "POST /v1/posts", "x-user-id: ", "192.0.2.1",
	 "post=192.0.2.1@remote_address"},
	{"a user called like an address", "POST /v1/posts", "x-user-id: 192.0.2.1", "192.0.2.1",
	 "post=192.0.2.1@header.x-user-id"},
	{"header twice, same", "POST /v1/posts", "x-user-id: 7\nX-User-Id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"header twice, different: who knows", "POST /v1/posts", "x-user-id: 7\nX-User-Id: 8",
	 "192.0.2.1", "post=7@ambiguous; post=8@ambiguous"},
	{"header twice, joined by a proxy", "POST /v1/posts", "x-user-id: 7, 8", "192.0.2.1",
	 "post=7@ambiguous; post=8@ambiguous"},
	{"… without a blank, and another field", "POST /v1/posts", "x-user-id: 7,8\nx-user-id: 7",
	 "192.0.2.1", "post=7@ambiguous; post=8@ambiguous"},
	{"… in quotes, which many do not heed", "POST /v1/posts", "x-user-id: \"7,8\"", "192.0.2.1",
	 "post=\"7@ambiguous; post=8\"@ambiguous"},
	{"one value and commas", "POST /v1/posts", "x-user-id: ,7, ,7,", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"nothing but commas is none", "POST /v1/posts", "x-user-id: , ,", "192.0.2.1",
	 "post=192.0.2.1@remote_address"},
	{"the first of a list", "GET /a/firstlisted", "x-user-id: 7, 8\nx-user-id: 9", "192.0.2.1",
	 "q=7"},
	{"a value with a comma", "GET /a/join", "x-dn: CN=Jo, O=Org", "192.0.2.1",
	 "q=CN=Jo, O=Org"},
	{"… in two fields", "GET /a/join", "x-dn: CN=Jo\nX-DN:\nX-DN: O=Org ", "192.0.2.1",
	 "q=CN=Jo, O=Org"},
	{"… in none", "GET /a/join", "", "192.0.2.1", ""},
	{"a field known for its commas", "GET /a/agent", "user-agent: A/1 (KHTML, like B)",
	 "192.0.2.1", "q=A/1 (KHTML, like B)"},
	{"… twice", "GET /a/agent", "user-agent: A, B\nuser-agent: C", "192.0.2.1",
	 "q=A, B@ambiguous; q=C@ambiguous"},
	{"header thrice, one of them empty", "POST /v1/posts",
	 "x-user-id: 7\nx-user-id:\nX-User-Id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"method in small letters", "post /v1/posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"another method", "GET /v1/posts", "x-user-id: 7", "192.0.2.1", ""},
	{"slash at the end", "POST /v1/posts/", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"doubled slashes", "POST //v1///posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"dot segments", "POST /v1/./x/../posts/.", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"dot segments above the root", "POST /../../v1/posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"encoded letters", "POST /%76%31/%70osts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"encoded dots", "POST /v1/x/%2e%2E/posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"encoded slash", "POST /v1%2Fposts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"backslash", "POST /v1\\posts", "x-user-id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"path parameters", "POST /v1;a=b/posts;x", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"hidden dot segment", "POST /v1/x/..;/posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"query", "POST /v1/posts?a=/b", "x-user-id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"absolute target", "POST http://User@Example.com:80/v1/posts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"encoded twice", "POST /v1/%2570osts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"encoded thrice is another path", "POST /v1/%252570osts", "x-user-id: 7", "192.0.2.1", ""},
	{"slash encoded twice", "POST /v1%252Fposts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"slash in overlong UTF-8", "POST /v1%c0%afposts", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"… of three and four bytes, of letters too", "POST /v1%e0%80%af%f0%80%81%b0osts",
	 "x-user-id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"encoded parameters", "POST /v1/posts%3bx", "x-user-id: 7", "192.0.2.1",
	 "post=7@header.x-user-id"},
	{"dots behind an empty segment, resolved before it goes", "POST /v1//../posts",
	 "x-user-id: 7", "192.0.2.1", "post=7@header.x-user-id"},
	{"case of a path counts", "POST /V1/posts", "x-user-id: 7", "192.0.2.1", ""},
	{"longer path", "POST /v1/posts/1", "x-user-id: 7", "192.0.2.1", ""},
	{"template", "GET /users/7/files/a.txt", "", "192.0.2.1", "user=7|file=a.txt"},
	{"template, parameters make no counter", "GET /users/7;a=1/files/a.txt;v=2", "",
	 "192.0.2.1", "user=7|file=a.txt"},
	{"template, encoded part", "GET /users/%37/files/a%20b", "", "192.0.2.1",
	 "user=7|file=a b"},
	{"template, slash in a part", "GET /users/a%2fb/files/x", "", "192.0.2.1",
	 "user=a%2Fb|file=x"},
	{"template, escaped escape in a part", "GET /users/a%252Fb/files/x", "", "192.0.2.1",
	 "user=a%252Fb|file=x; user=a%2Fb|file=x"},
	{"template, a percent sign of no use", "GET /users/a%%32Fb/files/100%", "", "192.0.2.1",
	 "user=a%252Fb|file=100%25; user=a%2Fb|file=100%25"},
	{"template, encoded parameters make no counter", "GET /users/7%3ba/files/a.txt", "",
	 "192.0.2.1", "user=7|file=a.txt"},
	{"template, nothing but parameters", "GET /users/;a/files/x", "", "192.0.2.1",
	 "user=;a|file=x"},
	{"template, one for each reading", "GET /users/7/files/1%2f..%2f2", "", "192.0.2.1",
	 "user=7|file=2; user=7|file=1%2F..%2F2"},
	{"template, too short", "GET /users/7/files", "", "192.0.2.1", ""},
	{"prefix itself", "GET /deep", "", "192.0.2.1", "path=/deep"},
	{"prefix", "GET /deep/a//b/", "", "192.0.2.1", "path=/deep/a/b"},
	{"prefix, one for each reading", "GET /deep/a/../b", "", "192.0.2.1",
	 "path=/deep/b; path=/deep/a/../b"},
	{"prefix, parameters make no counter", "GET /deep/a;x/b;y=1", "", "192.0.2.1",
	 "path=/deep/a/b"},
	{"prefix is whole segments", "GET /deeper", "", "192.0.2.1", ""},
	{"query", "GET /q?user=7", "", "192.0.2.1", "q=7"},
	{"query, encoded name and value", "GET /q?%75ser=%37", "", "192.0.2.1", "q=7"},
	{"query, plus and %20", "GET /q?user=a+b", "", "192.0.2.1", "q=a b"},
	{"query, plus and %20 the other way", "GET /q?user=a%20b", "", "192.0.2.1", "q=a b"},
	{"query, bad encoding stays", "GET /q?user=a%2", "", "192.0.2.1", "q=a%2"},
	{"query, not the only one", "GET /q?x=1&user=7&y", "", "192.0.2.1", "q=7"},
	{"query, repeated", "GET /q?user=7&user=%37", "", "192.0.2.1", "q=7"},
	{"query, contradictory", "GET /q?user=7&user=8&user=7", "", "192.0.2.1",
	 "q=7@ambiguous; q=8@ambiguous"},
	{"… the first", "GET /a/first?user=7&user=8&user=7", "", "192.0.2.1", "q=7"},
	{"… the last", "GET /a/last?user=7&user=8", "", "192.0.2.1", "q=8"},
	{"… the last, which is also the first", "GET /a/last?user=7&user=8&user=7", "", "192.0.2.1",
	 "q=7"},
	{"… the next source", "GET /a/next?user=7&user=8", "", "192.0.2.1",
	 "q=192.0.2.1@remote_address"},
	{"… the next source, and there is none", "GET /a/next?user=7&user=8", "", "",
	 "q=7@ambiguous; q=8@ambiguous"},
	{"… the next source is the default", "GET /a/default?user=7&user=8", "", "192.0.2.1",
	 "q=nobody@default"},
	{"… refused", "GET /a/deny?user=7&user=8", "", "192.0.2.1", "deny"},
	{"… refused, and only then", "GET /a/deny", "", "192.0.2.1", ""},
	{"… shared although a missing one is refused", "GET /a/share?user=7&user=8", "",
	 "192.0.2.1", "q=7@ambiguous; q=8@ambiguous"},
	{"two names are contradictory", "GET /c2?user=7&user=8", "cookie: sid=a; sid=b",
	 "192.0.2.1",
	 "q=7@ambiguous|c=a@ambiguous; q=8@ambiguous|c=a@ambiguous; "
	 "q=7@ambiguous|c=b@ambiguous; q=8@ambiguous|c=b@ambiguous"},
	{"query, missing", "GET /q?user", "", "192.0.2.1", ""},
	{"default", "GET /qd", "", "192.0.2.1", "q=nobody@default"},
	{"default and somebody of that name", "GET /qd?user=nobody", "", "192.0.2.1", "q=nobody"},
	{"default does not stand for a contradiction", "GET /qd?user=7&user=8", "", "192.0.2.1",
	 "q=7@ambiguous; q=8@ambiguous"},
	{"deny", "GET /qx", "", "192.0.2.1", "deny"},
	{"deny when contradictory", "GET /qx?user=7&user=8", "", "192.0.2.1", "deny"},
	{"deny does not touch who is allowed", "GET /qx", "", "10.0.0.1", "allow"},
	{"cookie", "GET /c", "Cookie: a=1; sid=x%20y; b", "192.0.2.1", "c=x y"},
	{"cookie, quoted, in a second line", "GET /c", "cookie: a=1\ncookie: sid=\"xy\"",
	 "192.0.2.1", "c=xy"},
	{"cookie, plus stays", "GET /c", "cookie: sid=a+b", "192.0.2.1", "c=a+b"},
	{"masked IPv4", "GET /m", "", "192.0.2.77", "m=192.0.2.0/24"},
	{"masked IPv4-mapped", "GET /m", "", "::ffff:192.0.2.77", "m=192.0.2.0/24"},
	{"masked IPv6", "GET /m", "", "2001:db8:1:2:3::4", "m=2001:db8:1::/48"},
	{"masked by default: an IPv6 client owns a /64", "GET /m64", "", "2001:db8:1:2:3::4",
	 "m=2001:db8:1:2::/64"},
	{"masked by default: an IPv4 client an address", "GET /m64", "", "192.0.2.77",
	 "m=192.0.2.77"},
	{"IPv6 in its shortest spelling", "GET /r", "", "2001:DB8:0:0:0:0:0:1", "r=2001:db8::1"},
	{"IPv4-mapped is IPv4", "GET /r", "", "::ffff:192.0.2.77", "r=192.0.2.77"},
	{"no address", "GET /r", "", "", ""},
	{"identity", "get /i", "", "192.0.2.1", "i=alice|way=GET"},
	{"host", "GET /h", "host: API.Example.COM.:8080", "192.0.2.1", "h=api.example.com"},
	{"host, exact", "GET /h", "host: example.org", "192.0.2.1", "h=example.org"},
	{"host, apex is not below", "GET /h", "host: example.com", "192.0.2.1", ""},
	{"host of an absolute target", "GET http://a.example.com/h", "host: evil.example.net",
	 "192.0.2.1", "h=a.example.com"},
	{"HEAD is limited as GET is", "HEAD /get", "", "192.0.2.1", "g=1"},
	{"GET is not limited as HEAD is", "GET /head", "", "192.0.2.1", ""},
	{"all entries that match, in order", "GET /two?user=9", "", "192.0.2.1", "a=1; b=2|q=9"},
	{"one of them incomplete", "GET /two", "", "192.0.2.1", "a=1"},
};

static size_t parse_headers(const char *text, struct weir_header *headers, struct weir_str *host)
{
	struct weir_str rest = wr_str(text);
	size_t count = 0;

	while (rest.len) {
		struct weir_str line = wr_str_first(rest, wr_str_find(rest, '\n'));
		size_t colon = wr_str_find(line, ':');

		headers[count] = (struct weir_header){wr_str_first(line, colon),
						      wr_str_from(line, colon + 1)};
		if (wr_str_equal_nocase(headers[count].name, WR_STR("host")))
			*host = headers[count].value;
		count++;
		rest = wr_str_from(rest, line.len + (line.len < rest.len));
	}
	return count;
}

static struct weir_http_view make_view(const char *line, const char *from, const char *header_text,
				       struct weir_header *headers)
{
	struct weir_str text = wr_str(line);
	size_t blank = wr_str_find(text, ' ');
	struct weir_http_view view = {.size = sizeof view,
				      .method = wr_str_first(text, blank),
				      .target = wr_str_from(text, blank + 1),
				      .host = WR_STR(""),
				      .identity = WR_STR("alice"),
				      .headers = headers};

	view.header_count = parse_headers(header_text, headers, &view.host);
	if (inet_pton(AF_INET, from, view.peer) == 1)
		view.peer_len = 4;
	else if (inet_pton(AF_INET6, from, view.peer) == 1)
		view.peer_len = 16;
	return view;
}

static void describe(const struct wr_rules_http *http, char *text, size_t cap)
{
	size_t len = 0;

	text[0] = '\0';
	if (http->allowed || http->denied) {
		snprintf(text, cap, http->allowed ? "allow" : "deny");
		return;
	}
	for (uint32_t i = 0; i < http->count; i++)
		for (uint32_t j = 0; j < http->descriptors[i].count; j++) {
			const struct weir_entry *e = &http->descriptors[i].entries[j];

			len += (size_t)snprintf(text + len, cap - len, "%s%.*s=%.*s%s%.*s",
						j   ? "|"
						: i ? "; "
						    : "",
						(int)e->key.len, e->key.ptr, (int)e->value.len,
						e->value.ptr, e->source.len ? "@" : "",
						(int)e->source.len, e->source.ptr);
		}
}

static void spellings_and_clients(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	int wrong = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct weir_header headers[8];
		struct weir_http_view view =
			make_view(cases[i].line, cases[i].from, cases[i].headers, headers);
		char memory[WR_HTTP_MEMORY], made[512];
		struct wr_rules_http http;

		assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http),
				 0);
		describe(&http, made, sizeof made);
		if (strcmp(made, cases[i].made) == 0)
			continue;
		print_message("%s: %s made '%s', not '%s'\n", cases[i].why, cases[i].line, made,
			      cases[i].made);
		wrong++;
	}
	assert_int_equal(wrong, 0);
	weir_rules_free(rules);
	(void)state;
}

/* With any amount of memory, either the result is the same, or the request is refused. */
static void memory_is_enough_or_not(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct weir_header headers[8];
	struct weir_http_view view = make_view("GET /two/%2F/..;x/?user=a%20b", "192.0.2.1",
					       "cookie: a=b\nhost: X.example.com", headers);
	char memory[1024], made[512];
	struct wr_rules_http http;
	int refused = 0;

	for (size_t size = 0; size <= 512; size++) {
		memset(memory, 'x', sizeof memory);
		if (wr_rules_http_read(domain, &view, memory, size, &http) == WEIR_EROOM) {
			refused++;
		} else {
			describe(&http, made, sizeof made);
			assert_string_equal(made, "a=1; b=2|q=a b");
		}
		for (size_t i = size; i < sizeof memory; i++)
			assert_int_equal(memory[i], 'x');
	}
	assert_true(refused > 64 && refused < 400);
	weir_rules_free(rules);
	(void)state;
}

static size_t lookup(void *context, struct weir_str name, struct weir_str *values, size_t max)
{
	assert_true(max > 1);
	if (!wr_str_equal(name, WR_STR("x-user-id")))
		return 0;
	values[0] = values[1] = WR_STR("77");
	++*(int *)context;
	return 2;
}

static void expect_same(struct weir_str a, struct weir_str b)
{
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.ptr, b.ptr, a.len);
}

/* A plain target has the same readings if it is read like any other target. Tries every target of
 * up to six special bytes. */
static void plain_targets(void **state)
{
	static const char bytes[] = "/.a?#;%\\";
	size_t plain = 0;

	for (uint32_t number = 0; number < 7u << 18; number++) {
		char text[6], memory[128];
		struct wr_rules_http_memory room = {memory, memory + sizeof memory};
		struct weir_str target = {text, number % 7};
		struct wr_target quick, full;

		for (uint32_t i = 0; i < sizeof text; i++)
			text[i] = bytes[number / 7 >> 3 * i & 7];
		if (!wr_target_plain(target, &quick))
			continue;
		plain++;
		assert_int_equal(wr_target_split(target, &full), 0);
		assert_int_equal(wr_target_read(&full, &room), 0);
		assert_false(full.unsure);
		assert_int_equal(full.reading_count, 1);
		assert_int_equal(quick.reading_count, 1);
		expect_same(quick.readings[0], full.readings[0]);
		expect_same(quick.path, full.path);
		expect_same(quick.query, full.query);
		expect_same(quick.authority, full.authority);
	}
	assert_true(plain > 1000);
	(void)state;
}

static void headers_by_callback(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct weir_http_view view = make_view("POST /v1/posts", "192.0.2.1", "", NULL);
	char memory[WR_HTTP_MEMORY], made[512];
	struct wr_rules_http http;
	int calls = 0;

	view.header = lookup;
	view.context = &calls;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	describe(&http, made, sizeof made);
	assert_string_equal(made, "post=77@header.x-user-id");
	assert_int_equal(calls, 1);
	weir_rules_free(rules);
	(void)state;
}

/* A long value is not cut: two values that differ only at the end have different counters. */
static void long_values_are_not_cut(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	static char value[8000];
	struct weir_header header = {WR_STR("x-user-id"), {value, sizeof value}};
	struct weir_http_view view = make_view("POST /v1/posts", "192.0.2.1", "", NULL);
	char memory[WR_HTTP_MEMORY];
	struct wr_rules_http http;

	memset(value, 'x', sizeof value);
	view.headers = &header;
	view.header_count = 1;
	assert_int_equal(wr_rules_http_read(domain, &view, memory, sizeof memory, &http), 0);
	assert_int_equal(http.count, 1);
	assert_int_equal(http.descriptors[0].entries[0].value.len, sizeof value);
	weir_rules_free(rules);
	(void)state;
}

/* An invalid view of the host program is an error, never a crash or an unlimited request. */
static void wrong_views_are_errors(void **state)
{
	struct weir_rules *rules = test_rules(yaml);
	const struct wr_node *domain = wr_rules_domain(rules, WR_STR("d"));
	struct weir_http_view good = make_view("POST /v1/posts", "192.0.2.1", "", NULL);
	struct weir_header nameless = {{NULL, 4}, {"x", 1}};
	struct weir_http_view views[4] = {good, good, good, good};
	char memory[WR_HTTP_MEMORY];
	struct wr_rules_http http;

	views[0].header_count = 5;
	views[1].target = (struct weir_str){NULL, 10};
	views[2].peer_len = 7;
	views[3].headers = &nameless;
	views[3].header_count = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			wr_rules_http_read(domain, &views[i], memory, sizeof memory, &http),
			WEIR_EINVAL);
	assert_int_equal(wr_rules_http_read(domain, &good, memory, sizeof memory, &http), 0);
	weir_rules_free(rules);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_views_are_errors),  cmocka_unit_test(spellings_and_clients),
		cmocka_unit_test(memory_is_enough_or_not), cmocka_unit_test(headers_by_callback),
		cmocka_unit_test(long_values_are_not_cut), cmocka_unit_test(plain_targets),
	};

	return cmocka_run_group_tests_name("rules_http", tests, NULL, NULL);
}
