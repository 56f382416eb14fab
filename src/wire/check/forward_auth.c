/* Reads the request that a proxy describes in header fields. Called by serve/http/forward.c. */
#include "wire/check/forward_auth.h"

#include <pthread.h>

#include "base/assert.h"

#define VALUES_MAX 16 /* maximum number of X-Forwarded-For fields in an auth request */

/* Finds the field `name` of the auth request, and sets *value. Returns 1 if the field was found, 0
 * if there is no such field. If the field occurs more than once, sets `problem` and returns -1,
 * because one of the fields may come from the client. */
static int find_one(const struct wr_forward *forward, struct weir_str name, struct weir_str *value,
		    struct wr_problem *problem)
{
	struct weir_str values[2] = {{"", 0}, {"", 0}};
	size_t count = forward->header(forward->context, name, values, 2);

	*value = values[0];
	if (count > 1)
		return wr_problem(problem, WR_BAD_REQUEST,
				  "%.*s occurs %zu times; configure the proxy to replace this "
				  "header instead of adding another",
				  (int)name.len, name.ptr, count);
	return (int)count;
}

/* The method and the target in an auth request, from the fields of one of the two sets that
 * forward_auth.h describes. */
struct family {
	struct weir_str method;
	struct weir_str target;
	int found; /* number of fields that were found */
};

/* Reads the fields named `method` and `target`. If `other_target` is not empty, a proxy may send
 * the field of that name instead of `target`. Returns 0, or -1 with `problem` set. */
static int read_family(const struct wr_forward *forward, struct weir_str method,
		       struct weir_str target, struct weir_str other_target, struct family *family,
		       struct wr_problem *problem)
{
	int methods = find_one(forward, method, &family->method, problem);
	int targets = methods < 0 ? -1 : find_one(forward, target, &family->target, problem);
	struct weir_str other = {"", 0};
	int others = 0;

	if (targets >= 0 && other_target.len)
		others = find_one(forward, other_target, &other, problem);
	if (methods < 0 || targets < 0 || others < 0)
		return -1;
	if (targets && others)
		return wr_problem(problem, WR_BAD_REQUEST,
				  "the request has both %.*s and %.*s; configure the proxy to "
				  "remove one of these headers",
				  (int)target.len, target.ptr, (int)other_target.len,
				  other_target.ptr);
	if (others)
		family->target = other;
	family->found = methods + targets + others;
	return 0;
}

static int choose_family(const struct wr_forward *forward, struct family *chosen,
			 struct wr_problem *problem)
{
	struct family forwarded = {.found = 0}, original = {.found = 0};

	if (forward->by != WR_FORWARD_ORIGINAL &&
	    read_family(forward, WR_STR("x-forwarded-method"), WR_STR("x-forwarded-uri"),
			WR_STR(""), &forwarded, problem) != 0)
		return -1;
	if (forward->by != WR_FORWARD_FORWARDED &&
	    read_family(forward, WR_STR("x-original-method"), WR_STR("x-original-uri"),
			WR_STR("x-original-url"), &original, problem) != 0)
		return -1;
	if (forwarded.found && original.found)
		return wr_problem(
			problem, WR_BAD_REQUEST,
			"the request has X-Forwarded-Method or -Uri and also X-Original-Method or "
			"-URI, and some of them may come from the client; add ?by=forwarded or "
			"?by=original to the URL that the proxy requests");
	*chosen = forwarded.found ? forwarded : original;
	if (chosen->target.len == 0 || chosen->method.len == 0)
		return wr_problem(problem, WR_BAD_REQUEST,
				  "%s; the proxy must send X-Forwarded-Method and X-Forwarded-Uri, "
				  "or X-Original-Method and X-Original-URI",
				  chosen->target.len ? "the request's method is missing"
						     : "the request's URI is missing");
	return 0;
}

/* Removes the last item from a comma-separated list. Returns that item. */
static struct weir_str cut_last(struct weir_str *list)
{
	size_t comma = list->len;
	struct weir_str item;

	while (comma && list->ptr[comma - 1] != ',')
		comma--;
	item = wr_str_trim(wr_str_from(*list, comma));
	list->len = comma ? comma - 1 : 0;
	return item;
}

/* Reads an address with or without a port: 192.0.2.7, 192.0.2.7:4711, 2001:db8::7,
 * [2001:db8::7]:4711. */
static int read_address(struct weir_str text, struct wr_address *address)
{
	size_t end;

	if (text.len && text.ptr[0] == '[')
		return wr_address_parse(
			wr_str_first(wr_str_from(text, 1), wr_str_find(text, ']') - 1), address);
	if (wr_address_parse(text, address) == 0)
		return 0;
	end = wr_str_find(text, ':');
	return end < text.len ? wr_address_parse(wr_str_first(text, end), address) : -1;
}

/* Finds the client's address in X-Forwarded-For. Each proxy appends the address that it got the
 * request from. So the list is read from the right, and the first address that is not a trusted
 * proxy is the client. Addresses further left are ignored, because the client may have invented
 * them. Returns 1 if the client was found, 0 if the list is empty, and -1 with `problem` set if an
 * item is not an address. */
static int read_client(const struct wr_forward *forward, struct weir_str *fields, size_t count,
		       struct wr_address *client, struct wr_problem *problem)
{
	bool found = false;

	for (size_t i = count; i-- > 0;) {
		while (fields[i].len) {
			struct weir_str item = cut_last(&fields[i]);

			if (item.len == 0)
				continue;
			if (read_address(item, client) != 0)
				return wr_problem(problem, WR_BAD_REQUEST,
						  "X-Forwarded-For contains an item that is not an "
						  "IP address");
			found = true;
			if (!forward->proxies || !wr_address_ranges_hold(forward->proxies, client))
				return 1;
		}
	}
	return found;
}

static int read_peer(const struct wr_forward *forward, struct weir_http_view *view,
		     struct wr_problem *problem)
{
	struct weir_str fields[VALUES_MAX];
	struct wr_address client;
	struct weir_str real;
	size_t count =
		forward->header(forward->context, WR_STR("x-forwarded-for"), fields, VALUES_MAX);
	int found;

	if (count > VALUES_MAX)
		return wr_problem(problem, WR_BAD_REQUEST,
				  "X-Forwarded-For occurs %zu times; at most %d are allowed", count,
				  VALUES_MAX);
	found = read_client(forward, fields, count, &client, problem);
	if (found == 0) {
		found = find_one(forward, WR_STR("x-real-ip"), &real, problem);
		if (found > 0 && read_address(wr_str_trim(real), &client) != 0)
			return wr_problem(problem, WR_BAD_REQUEST,
					  "X-Real-IP is not an IP address");
	}
	if (found > 0) {
		memcpy(view->peer, client.bytes, sizeof view->peer);
		view->peer_len = sizeof view->peer;
	}
	return found < 0 ? -1 : 0;
}

int wr_forward_view(const struct wr_forward *forward, struct weir_http_view *view,
		    struct wr_problem *problem)
{
	struct family family;
	int hosts;

	wr_assert(forward->header && view && problem);
	*view = (struct weir_http_view){
		.size = sizeof *view, .header = forward->header, .context = forward->context};
	if (choose_family(forward, &family, problem) != 0)
		return -1;
	hosts = find_one(forward, WR_STR("x-forwarded-host"), &view->host, problem);
	if (hosts < 0 || read_peer(forward, view, problem) != 0)
		return -1;
	if (hosts == 0)
		view->host = forward->host;
	view->method = family.method;
	view->target = family.target;
	if (forward->identity.len &&
	    find_one(forward, forward->identity, &view->identity, problem) < 0)
		return -1;
	return 0;
}

int wr_forward_by_name(struct weir_str name)
{
	if (wr_str_equal(name, WR_STR("forwarded")))
		return WR_FORWARD_FORWARDED;
	return wr_str_equal(name, WR_STR("original")) ? WR_FORWARD_ORIGINAL : -1;
}

static const char *const neighbour_prefixes[] = {
	"127.0.0.0/8",    "::1",       "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
	"169.254.0.0/16", "fe80::/10", "fc00::/7",   "100.64.0.0/10",
};
#define NEIGHBOURS (sizeof neighbour_prefixes / sizeof *neighbour_prefixes)

static struct wr_address_range neighbour_ranges[NEIGHBOURS];
static struct wr_address_ranges neighbours;

static void make_neighbours(void)
{
	unsigned bits;

	for (size_t i = 0; i < NEIGHBOURS; i++)
		wr_address_prefix_parse(wr_str(neighbour_prefixes[i]), &neighbour_ranges[i], &bits);
	neighbours.items = neighbour_ranges;
	neighbours.count = (uint32_t)wr_address_ranges_join(neighbour_ranges, NEIGHBOURS);
}

const struct wr_address_ranges *wr_forward_neighbours(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_neighbours);
	return &neighbours;
}
