/* Finds limits in what the clients of a log do, see tune.h: makes the routes, and keeps the requests
 * that come before the routes are known. */
#include "lab/tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "lab/tune/inner.h"
#include "rules/match.h"

#define TEXT_BYTES ((size_t)4 << 20)
#define YAML_BYTES ((size_t)4 << 20)
#define WAITING_HEADERS WR_LAB_HEADERS_MAX

static int out_of_memory(struct weir_error *error)
{
	return wr_error(error, WEIR_EMEMORY, "out of memory");
}

/* ---- given rules ---- */

static bool same_shape(const struct wr_rules_request *a, const struct wr_rules_request *b)
{
	if (a->part_count != b->part_count)
		return false;
	for (uint32_t i = 0; i < a->part_count; i++) {
		const struct wr_rules_part *x = &a->parts[i], *y = &b->parts[i];

		if (!wr_str_equal(x->key, y->key) ||
		    (x->source_count == 0) != (y->source_count == 0) ||
		    (x->source_count == 0 && !wr_str_equal(x->value, y->value)))
			return false;
	}
	return true;
}

/* Writes the keys of a descriptor: "route=login, client". */
static const char *shape_text(struct wr_lab_tune *tune, const struct wr_rules_request *entry)
{
	struct wr_buf text;
	const char *copy;

	wr_buf_init(&text, TEXT_BYTES);
	for (uint32_t i = 0; i < entry->part_count; i++) {
		const struct wr_rules_part *part = &entry->parts[i];

		wr_buf_add_str(&text, i ? WR_STR(", ") : WR_STR(""));
		wr_buf_add_str(&text, part->key);
		if (part->source_count == 0) {
			wr_buf_add_char(&text, '=');
			wr_buf_add_str(&text, part->value);
		}
	}
	copy = wr_arena_copy(&tune->texts, wr_buf_str(&text).ptr, text.len);
	wr_buf_free(&text);
	return copy;
}

static int add_given_routes(struct wr_lab_tune *tune, struct weir_error *error)
{
	for (const struct wr_rules_request *entry = tune->domain->more->requests->first; entry;
	     entry = entry->next) {
		size_t at = 0;

		if (entry->allow)
			continue;
		while (at < tune->route_count && !same_shape(tune->states[at].entry, entry))
			at++;
		if (at < tune->route_count)
			continue;
		if (tune->route_count == WR_LAB_TUNE_ROUTES)
			return wr_error(error, WEIR_EMANY,
					"--rules: the entries of requests: make more than %u "
					"different descriptors; tune a part of them at a time",
					WR_LAB_TUNE_ROUTES);
		tune->states[at].entry = entry;
		tune->routes[at].name = tune->routes[at].text = shape_text(tune, entry);
		if (!tune->routes[at].text)
			return out_of_memory(error);
		tune->route_count++;
	}
	if (tune->route_count == 0)
		return wr_error(
			error, WEIR_EINVAL,
			"--rules: no entry of requests: has a descriptor; add one, or leave "
			"out --rules to find the routes in the log");
	return 0;
}

/* Returns the domain of the given rules whose `requests:` are the routes. */
static const struct wr_node *find_domain(const struct wr_lab_tune_opts *opts,
					 struct weir_error *error)
{
	const struct wr_node *found = NULL;

	for (const struct wr_node *domain = opts->rules->first_domain; domain;
	     domain = domain->more->next) {
		if (!domain->more->requests ||
		    (opts->domain && !wr_str_equal(domain->key, wr_str(opts->domain))))
			continue;
		if (found) {
			wr_error(error, WEIR_EINVAL,
				 "--rules: several domains have requests:; name one with --domain");
			return NULL;
		}
		found = domain;
	}
	if (!found)
		wr_error(error, WEIR_EINVAL,
			 "--rules: no domain%s%s has requests:; leave out --rules to find the "
			 "routes "
			 "in the log",
			 opts->domain ? " " : "", opts->domain ? opts->domain : "");
	return found;
}

/* ---- found routes ---- */

/* Writes a name for the rules: "post-wp-login-php". Only letters, digits and '-' are used, so that
 * the name is the same in YAML, in statistics and in shells. */
static const char *make_name(struct wr_lab_tune *tune, const struct wr_lab_route *route)
{
	char name[80], *copy;
	size_t len = 0;
	struct weir_str path = wr_str(route->is_static                    ? "static"
				      : strcmp(route->paths[0], "/") == 0 ? "/root"
									  : route->paths[0]);

	for (const char *c = route->method; *c && !route->is_static; c++)
		name[len++] = wr_lower(*c);
	for (size_t i = 0; i < path.len && len < sizeof name - 8; i++) {
		char c = wr_lower(path.ptr[i]);

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			name[len++] = c;
		else if (len && name[len - 1] != '-' && c != '}')
			name[len++] = '-';
	}
	while (len && name[len - 1] == '-')
		len--;
	name[len] = '\0';
	for (size_t i = 0, number = 2; i < tune->route_count; i++)
		if (strcmp(tune->routes[i].name, name) == 0) {
			snprintf(name + len, sizeof name - len, "-%zu", number++);
			i = 0;
		}
	copy = wr_arena_copy(&tune->texts, name, strlen(name));
	return copy;
}

static const char *make_text(struct wr_lab_tune *tune, const struct wr_lab_route *route)
{
	char text[1024];

	if (route->is_static)
		snprintf(text, sizeof text, "static files");
	else
		snprintf(text, sizeof text, "%s %s", route->method, route->paths[0]);
	return wr_arena_copy(&tune->texts, text, strlen(text));
}

static int add_found_routes(struct wr_lab_tune *tune)
{
	size_t count = wr_lab_routes_find(tune->finder, tune->found);

	tune->routes[0] = (struct wr_lab_tune_route){.name = "", .text = "all requests"};
	tune->route_count = 1;
	for (size_t i = 0; i < count; i++) {
		struct wr_lab_tune_route *route = &tune->routes[tune->route_count];

		route->name = make_name(tune, &tune->found[i]);
		route->text = make_text(tune, &tune->found[i]);
		route->is_static = tune->found[i].is_static;
		if (!route->name || !route->text)
			return WEIR_EMEMORY;
		tune->states[tune->route_count++].found = &tune->found[i];
	}
	return 0;
}

/* Loads rules from memory. The loader reads files, and /proc names a file without a place in the
 * file system. */
static int load_text(struct weir_str yaml, struct weir_rules **rules, struct weir_errors *errors)
{
	int fd = memfd_create("rules", MFD_CLOEXEC), rc = WEIR_EMEMORY;
	char path[64];

	if (fd < 0)
		return rc;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (write(fd, yaml.ptr, yaml.len) == (ssize_t)yaml.len)
		rc = weir_rules_load(path, rules, errors);
	close(fd);
	return rc;
}

/* Makes rules whose entries of `requests:` are the routes. */
static int make_rules(struct wr_lab_tune *tune, struct weir_error *error)
{
	struct weir_errors errors = {.size = sizeof errors};
	const struct wr_rules_request *entry;
	struct wr_buf yaml;
	int rc;

	wr_buf_init(&yaml, YAML_BYTES);
	wr_lab_tune_entries(tune, &yaml);
	rc = wr_buf_failed(&yaml) ? WEIR_EMEMORY
				  : load_text(wr_buf_str(&yaml), &tune->made, &errors);
	wr_buf_free(&yaml);
	if (rc == WEIR_ERULES)
		rc = wr_error(error, WEIR_EINVAL, "--key: %s", errors.items[0].text);
	else if (rc)
		rc = out_of_memory(error);
	weir_errors_free(&errors);
	if (rc)
		return rc;
	tune->domain = tune->made->first_domain;
	entry = tune->domain->more->requests->first;
	for (size_t i = 0; i < tune->route_count; i++, entry = entry->next)
		tune->states[i].entry = entry;
	return 0;
}

/* ---- requests that wait for the routes ---- */

static bool keep_text(struct wr_lab_tune *tune, struct weir_str *text)
{
	text->ptr = wr_arena_copy(&tune->waiting_arena, text->ptr, text->len);
	return text->ptr != NULL;
}

/* Copies the header fields that are needed: the user agent, or all if the key is one of them. */
static bool keep_headers(struct wr_lab_tune *tune, struct wr_lab_record *record)
{
	struct weir_header *headers = NULL;
	uint32_t count = 0;

	if (record->header_count)
		headers = wr_arena_alloc(&tune->waiting_arena,
					 (tune->keep_headers ? record->header_count : 1) *
						 sizeof *headers);
	for (uint32_t i = 0; headers && i < record->header_count; i++) {
		if (!tune->keep_headers &&
		    (count || !wr_str_equal_nocase(record->headers[i].name, WR_STR("user-agent"))))
			continue;
		headers[count] = record->headers[i];
		if (!keep_text(tune, &headers[count].name) ||
		    !keep_text(tune, &headers[count].value))
			return false;
		count++;
	}
	if (record->header_count && !headers)
		return false;
	record->headers = headers;
	record->header_count = count;
	return true;
}

/* Keeps a copy of the request. Returns false if there is no room for it. */
static bool keep_request(struct wr_lab_tune *tune, const struct wr_lab_record *record)
{
	struct wr_lab_tune_waiting *waiting = wr_arena_alloc(&tune->waiting_arena, sizeof *waiting);

	if (!waiting)
		return false;
	waiting->record = *record;
	if (!keep_text(tune, &waiting->record.client) ||
	    !keep_text(tune, &waiting->record.method) ||
	    !keep_text(tune, &waiting->record.target) || !keep_text(tune, &waiting->record.host) ||
	    !keep_text(tune, &waiting->record.user) || !keep_headers(tune, &waiting->record))
		return false;
	*tune->last_waiting = waiting;
	tune->last_waiting = &waiting->next;
	tune->waiting_count++;
	return true;
}

/* Makes the routes from the requests that wait, then measures these requests. */
static int end_learning(struct wr_lab_tune *tune, struct weir_error *error)
{
	int rc = add_found_routes(tune);

	if (rc)
		return out_of_memory(error);
	rc = make_rules(tune, error);
	for (const struct wr_lab_tune_waiting *waiting = tune->first_waiting; waiting && rc == 0;
	     waiting = waiting->next)
		if (wr_lab_tune_measure(tune, &waiting->record) < 0)
			rc = out_of_memory(error);
	tune->first_waiting = NULL;
	wr_arena_free(&tune->waiting_arena);
	return rc;
}

/* ---- life ---- */

static int open_given(struct wr_lab_tune *tune, struct weir_error *error)
{
	tune->domain = find_domain(&tune->opts, error);
	return tune->domain ? add_given_routes(tune, error) : WEIR_EINVAL;
}

/* Checks the key by loading rules without routes. */
static int open_finding(struct wr_lab_tune *tune, struct weir_error *error)
{
	const char *key = tune->opts.key ? tune->opts.key : "address";
	struct wr_buf source;
	int rc;

	wr_buf_init(&source, TEXT_BYTES);
	rc = wr_lab_tune_source(key, &source, error);
	tune->source = wr_buf_release(&source, &(size_t){0});
	if (rc)
		return rc;
	tune->finder = wr_lab_routes_new();
	if (!tune->source || !tune->finder)
		return out_of_memory(error);
	tune->keep_headers = strstr(key, "header.") || strstr(key, "cookie.");
	tune->routes[0].name = "";
	tune->route_count = 1;
	rc = make_rules(tune, error);
	weir_rules_free(tune->made);
	tune->made = NULL;
	tune->domain = NULL;
	return rc;
}

int wr_lab_tune_open(const struct wr_lab_tune_opts *opts, struct wr_lab_tune **tune,
		     struct weir_error *error)
{
	struct wr_lab_tune *made = calloc(1, sizeof *made);
	int rc;

	*tune = NULL;
	if (!made)
		return out_of_memory(error);
	made->opts = *opts;
	wr_arena_init(&made->texts, TEXT_BYTES);
	wr_arena_init(&made->waiting_arena, WR_LAB_TUNE_LEARN_BYTES);
	made->last_waiting = &made->first_waiting;
	wr_lab_rates(opts->unit, made->report.rates);
	rc = wr_lab_clients_init(&made->table, opts->pair_max ? opts->pair_max : WR_LAB_TUNE_PAIRS);
	if (rc)
		rc = out_of_memory(error);
	else
		rc = opts->rules ? open_given(made, error) : open_finding(made, error);
	if (rc) {
		wr_lab_tune_close(made);
		return rc;
	}
	*tune = made;
	return 0;
}

void wr_lab_tune_close(struct wr_lab_tune *tune)
{
	if (!tune)
		return;
	for (size_t i = 0; i < WR_LAB_TUNE_ROUTES; i++)
		free(tune->needs[i].values);
	free(tune->is_outlier);
	free(tune->source);
	wr_lab_routes_free(tune->finder);
	wr_lab_clients_free(&tune->table);
	weir_rules_free(tune->made);
	wr_arena_free(&tune->texts);
	wr_arena_free(&tune->waiting_arena);
	free(tune);
}

int wr_lab_tune_feed(struct wr_lab_tune *tune, const struct wr_lab_record *record,
		     struct weir_error *error)
{
	if (!tune->domain) {
		int rc;

		if (tune->waiting_count < WR_LAB_TUNE_LEARN && keep_request(tune, record)) {
			wr_lab_routes_add(tune->finder, record);
			return 0;
		}
		rc = end_learning(tune, error);
		if (rc)
			return rc;
	}
	return wr_lab_tune_measure(tune, record) < 0 ? out_of_memory(error) : 0;
}

int wr_lab_tune_end(struct wr_lab_tune *tune, struct weir_error *error)
{
	if (!tune->domain) {
		int rc = end_learning(tune, error);

		if (rc)
			return rc;
	}
	return wr_lab_tune_choose(tune) < 0 ? out_of_memory(error) : 0;
}

const struct wr_lab_tune_report *wr_lab_tune_report(const struct wr_lab_tune *tune)
{
	return &tune->report;
}
