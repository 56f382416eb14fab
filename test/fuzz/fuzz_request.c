/* Fuzzes an HTTP request with rules that use every source. The first byte selects the amount of
 * memory, the next 17 the peer. Lines follow: method, target, host, identity, header fields. */
#include "fuzz.h"

#include "base/str.h"
#include "rules/http.h"
#include "rules/http_target.h"
#include "rules/key.h"
#include "rules/match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADERS_MAX 24

static const char yaml[] =
	"domain: d\n"
	"requests:\n"
	"  - {when: {remote_address: [10.0.0.0/8]}, allow: true}\n"
	"  - {when: {path: ['/static/*', /health]}, allow: true}\n"
	"  - descriptor: [{key: path, from: path}]\n"
	"  - descriptor: [{key: a, from: [header.x, query.q, cookie.c, remote_address]}]\n"
	"  - descriptor: [{key: a, from: query.q, default: none}, {key: h, from: host}]\n"
	"  - descriptor: [{key: a, from: cookie.c}, {key: m, from: method}]\n"
	"  - descriptor: [{key: a, from: masked_remote_address, v4_prefix: 20, v6_prefix: 33}]\n"
	"  - {when: {path: '/a/{b}/{c}'}, descriptor: [{key: a, from: path.b}, {key: a, from: "
	"path.c}]}\n"
	"  - {when: {path: ['/p/*', /q], method: [GET, POST], host: ['*.x.y', z]}, descriptor: "
	"[{key: "
	"i, from: identity}]}\n"
	"  - {when: {path: /deny}, descriptor: [{key: a, from: header.y, missing: deny}]}\n"
	"descriptors:\n"
	"  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: a, value: 'x*y', share_threshold: true, rate_limit: {unit: day, "
	"requests_per_unit: 1}}\n"
	"  - {key: a, cidr: ['::/1'], rate_limit: {unit: day, requests_per_unit: 1}}\n"
	"  - {key: path, value: '*/a*/b*', rate_limit: {unit: day, requests_per_unit: 1}}\n";

static struct weir_rules *rules_once(void)
{
	static struct weir_rules *rules;

	if (!rules)
		rules = load_rules(yaml);
	return rules;
}

static struct weir_str next_line(struct weir_str *rest)
{
	struct weir_str first = wr_str_first(*rest, wr_str_find(*rest, '\n'));

	*rest = wr_str_from(*rest, first.len + (first.len < rest->len));
	return first;
}

static bool is_plain(struct weir_str path)
{
	return !wr_str_has(path, '?') && !wr_str_has(path, '#') && !wr_str_has(path, ';') &&
	       !wr_str_has(path, '\\');
}

/* The canonical form of a canonical path is the path itself. */
static void check_path(const struct wr_node *domain, struct weir_http_view view,
		       struct weir_str path)
{
	size_t room = 80 * path.len + 16384;
	char *memory = malloc(room);
	struct wr_rules_http http;

	view.target = path;
	view.header_count = 0;
	view.peer_len = 0;
	if (wr_rules_http_read(domain, &view, memory, room, &http) == 0 && !http.allowed)
		require(http.count && wr_str_equal(http.descriptors[0].entries[0].value, path));
	free(memory);
}

/* A path that is exempt is exempt in its canonical form too. */
static void check_exempt(const struct weir_http_view *view, const struct wr_rules_http *http)
{
	size_t room = 80 * view->target.len + 16384;
	char *memory = malloc(room);
	struct wr_rules_http_memory readings = {memory, memory + room};
	struct wr_target target;

	require(wr_target_split(view->target, &target) == 0);
	require(wr_target_read(&target, &readings) == 0);
	require(!target.unsure && target.reading_count);
	for (uint32_t i = 0; i < target.reading_count; i++) {
		bool met = false;

		for (uint32_t p = 0; p < http->allowed_by->path_count; p++)
			met |= wr_path_match(&http->allowed_by->paths[p], target.readings[i],
					     (struct weir_str[WR_CAPTURES_MAX]){{0}});
		require(met);
	}
	free(memory);
}

static void check_result(const struct wr_node *domain, const struct weir_http_view *view,
			 const struct wr_rules_http *http)
{
	struct weir_rules *rules = rules_once();

	require(!http->allowed || http->count == 0);
	if (http->allowed && http->allowed_by->path_count)
		check_exempt(view, http);
	for (uint32_t i = 0; i < http->count; i++) {
		const struct wr_rules_descriptor *d = &http->descriptors[i];
		struct wr_match match;
		char key[128];

		wr_rules_match(rules, domain, d->entries, d->count, &match);
		wr_rules_key_write(domain, match.node, d->entries, d->count, key, sizeof key);
		if (i == 0 && is_plain(d->entries[0].value))
			check_path(domain, *view, d->entries[0].value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct wr_node *domain = wr_rules_domain(rules_once(), WR_STR("d"));
	struct weir_http_view view = {.size = sizeof view};
	struct weir_header headers[HEADERS_MAX];
	struct weir_str rest;
	struct wr_rules_http http;
	size_t room;
	char *memory;

	if (size < 18)
		return 0;
	room = (size_t)data[0] * 64;
	view.peer_len = data[1] % 3 == 0 ? 0 : data[1] % 3 == 1 ? 4 : 16;
	memcpy(view.peer, data + 2, 16);
	rest = (struct weir_str){(const char *)data + 18, size - 18};
	view.method = next_line(&rest);
	view.target = next_line(&rest);
	view.host = next_line(&rest);
	view.identity = next_line(&rest);
	view.headers = headers;
	while (rest.len && view.header_count < HEADERS_MAX) {
		struct weir_str field = next_line(&rest);
		size_t colon = wr_str_find(field, ':');

		headers[view.header_count++] = (struct weir_header){
			wr_str_first(field, colon),
			wr_str_from(field, colon < field.len ? colon + 1 : colon)};
	}
	memory = malloc(room + 1);
	if (wr_rules_http_read(domain, &view, memory, room, &http) == 0)
		check_result(domain, &view, &http);
	free(memory);
	return 0;
}
