/* Makes a plan from settings and rules: files, table, domain. Called by the subcommand `weir
 * gateway`.
 */
#include "gateway/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/str.h"
#include "gateway/paths.h"
#include "limiter/engine.h"
#include "rules/rules.h"
#include "table/paths.h"

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"
#define DEFAULT_RULES "/etc/weir/rules"
#define OPEN_FILES_MAX 65536

/* Checks that a text can be written into nginx's configuration. Refuses `$`, because nginx reads it
 * as the start of a variable and has no escape for it. Refuses control characters. The option
 * parser refuses them too, but the path of the current folder, to which a relative path is
 * appended, can contain them. */
static int check_text(const char *flag, const char *text, struct weir_error *error)
{
	for (const char *c = text ? text : ""; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return wr_error(error, WEIR_EINVAL,
					"the path of %s contains control characters", flag);
	if (text && strchr(text, '$'))
		return wr_error(error, WEIR_EINVAL,
				"%s '%s' contains '$', which nginx reads as a variable", flag,
				text);
	return 0;
}

/* Sets *path to the absolute path of a readable file, or to NULL if `given` is NULL. */
static int plan_file(const char *flag, const char *given, struct wr_arena *arena, const char **path,
		     struct weir_error *error)
{
	*path = given ? wr_gateway_absolute_path(arena, given) : NULL;
	if (!given)
		return 0;
	if (!*path || access(*path, R_OK) != 0)
		return wr_error_errno(error, WEIR_EINVAL, "%s %s", flag, given);
	return check_text(flag, *path, error);
}

static int plan_tls(struct wr_gateway_plan *plan, struct wr_arena *arena, struct weir_error *error)
{
	const struct wr_gateway_settings *s = plan->settings;

	if (!s->tls_cert != !s->tls_key)
		return wr_error(error, WEIR_EINVAL,
				"--tls-cert and --tls-key go together: %s is missing",
				s->tls_cert ? "--tls-key" : "--tls-cert");
	if (plan_file("--tls-cert", s->tls_cert, arena, &plan->tls_cert, error) != 0 ||
	    plan_file("--tls-key", s->tls_key, arena, &plan->tls_key, error) != 0 ||
	    plan_file("--upstream-ca", s->upstream_ca, arena, &plan->upstream_ca, error) != 0)
		return -1;
	if ((plan->upstream_name || plan->auth_name) && !plan->upstream_ca) {
		plan->upstream_ca = SYSTEM_CA;
		if (access(SYSTEM_CA, R_OK) != 0)
			return wr_error(
				error, WEIR_EINVAL,
				"certificates of https:// servers are checked with " SYSTEM_CA
				", which does not exist: apt install ca-certificates, or "
				"name a file with --upstream-ca FILE");
	}
	return 0;
}

static int plan_rules(struct wr_gateway_plan *plan, struct wr_arena *arena,
		      struct weir_error *error)
{
	const char *given = plan->settings->rules ? plan->settings->rules : DEFAULT_RULES;
	struct stat st;

	plan->rules = wr_gateway_absolute_path(arena, given);
	if (!plan->rules || stat(plan->rules, &st) != 0)
		return wr_error(error, WEIR_EINVAL, "%s%s: %s%s",
				plan->settings->rules ? "--rules " : "", given, strerror(errno),
				plan->settings->rules ? "" : "; name the rules with --rules PATH");
	return check_text("--rules", plan->rules, error);
}

static int plan_access_log(struct wr_gateway_plan *plan, struct wr_arena *arena,
			   struct weir_error *error)
{
	const char *given = plan->settings->access_log;
	struct stat st;

	if (!given || strcmp(given, "off") == 0)
		return 0;
	if (strcmp(given, "-") == 0 && !plan->settings->print_config &&
	    fstat(STDOUT_FILENO, &st) == 0 && S_ISSOCK(st.st_mode))
		return wr_error(error, WEIR_EINVAL,
				"--access-log -: standard output is a socket (systemd does that), "
				"and nginx cannot open a socket: name a file, or set "
				"StandardOutput=append:FILE in the unit");
	plan->access_log =
		strcmp(given, "-") == 0 ? "/dev/stdout" : wr_gateway_absolute_path(arena, given);
	if (!plan->access_log)
		return wr_error_errno(error, WEIR_EINVAL, "--access-log %s", given);
	return check_text("--access-log", plan->access_log, error);
}

static void plan_machine(struct wr_gateway_plan *plan)
{
	struct rlimit files = {0};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	plan->has_v6 = fd >= 0 && access("/proc/net/if_inet6", F_OK) == 0;
	if (fd >= 0)
		close(fd);
	getrlimit(RLIMIT_NOFILE, &files);
	plan->open_files = files.rlim_max < OPEN_FILES_MAX ? files.rlim_max : OPEN_FILES_MAX;
}

int wr_gateway_plan(const struct wr_gateway_settings *settings, struct wr_arena *arena,
		    struct wr_gateway_plan *plan, struct weir_error *error)
{
	struct wr_table_paths table;
	struct weir_error why;

	wr_assert(settings && arena);
	*plan = (struct wr_gateway_plan){.settings = settings};
	if (wr_plan_upstreams(plan, error) != 0 || wr_plan_auth(plan, error) != 0 ||
	    wr_plan_listens(plan, error) != 0 || wr_plan_trust(plan, error) != 0 ||
	    plan_tls(plan, arena, error) != 0 || plan_rules(plan, arena, error) != 0 ||
	    plan_access_log(plan, arena, error) != 0)
		return -1;
	/* The table need not exist yet, but its name must be valid in any case. */
	if (wr_table_paths_find("/", settings->table, false, &table, &why) != 0)
		return wr_error(error, WEIR_EINVAL, "--table %s", why.text);
	if (wr_gateway_paths_find(plan, arena, error) != 0 ||
	    check_text("the runtime folder", plan->runtime, error) != 0 ||
	    check_text("the module", plan->module, error) != 0)
		return -1;
	plan_machine(plan);
	return 0;
}

/* Writes the names of domains as "a, b, c". If with_requests is set, only domains that have
 * `requests:` are listed. */
static void list_domains(const struct weir_rules *rules, bool with_requests, char *text, size_t cap)
{
	size_t len = 0;

	text[0] = 0;
	for (const struct wr_node *d = rules->first_domain; d && len < cap; d = d->more->next)
		if (!with_requests || d->more->requests)
			len += (size_t)snprintf(text + len, cap - len, "%s%.*s", len ? ", " : "",
						(int)d->key.len, d->key.ptr);
}

static const struct wr_node *only_domain(const struct weir_rules *rules, size_t *count)
{
	const struct wr_node *found = NULL;

	*count = 0;
	for (const struct wr_node *d = rules->first_domain; d; d = d->more->next)
		if (d->more->requests) {
			found = d;
			++*count;
		}
	return found;
}

const struct wr_node *wr_gateway_find_domain(const struct weir_rules *rules, const char *name)
{
	const struct wr_node *d = rules->first_domain;

	while (d && !wr_str_equal(d->key, wr_str(name)))
		d = d->more->next;
	return d;
}

const struct wr_node *wr_gateway_next_node(const struct wr_node *node)
{
	const struct wr_node *next = wr_limiter_node_next(node);

	return next && next->depth ? next : NULL; /* depth 0: the next domain begins */
}

int wr_gateway_pick_domain(struct wr_gateway_plan *plan, const struct weir_rules *rules,
			   struct wr_arena *arena, struct weir_error *error)
{
	const char *asked = plan->settings->domain;
	const struct wr_node *domain;
	char names[512];
	size_t count = 1;

	wr_assert(rules);
	domain = asked ? wr_gateway_find_domain(rules, asked) : only_domain(rules, &count);
	list_domains(rules, !asked, names, sizeof names);
	if (asked && !domain)
		return wr_error(error, WEIR_EINVAL,
				"--domain %s is not in the rules; the rules have: %s", asked,
				names);
	if (count == 0)
		return wr_error(error, WEIR_EINVAL,
				"%s: no domain has requests:, which maps HTTP requests to "
				"descriptors; see docs/rules.md",
				plan->rules);
	if (count > 1)
		return wr_error(error, WEIR_EINVAL,
				"%s: several domains have requests:; choose one with "
				"--domain: %s",
				plan->rules, names);
	if (!domain->more->requests)
		return wr_error(error, WEIR_EINVAL,
				"--domain %s has no requests:, so no request would match a "
				"limit; see docs/rules.md",
				asked);
	plan->domain = wr_arena_copy(arena, domain->key.ptr, domain->key.len);
	/* A domain cannot be named on or off, because `weir on` and `weir off` mean something else
	 * in nginx's configuration. */
	if (strcmp(plan->domain, "on") == 0 || strcmp(plan->domain, "off") == 0)
		return wr_error(error, WEIR_EINVAL,
				"nginx cannot use a domain named '%s': rename it", plan->domain);
	return check_text("the domain", plan->domain, error);
}
