/* Starts, reloads and restarts the service beside nginx, and derives its settings from the options
 * of the gateway. Called by gateway.c. */
#include "cli/gateway/service.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "cli/gateway/child.h"
#include "gateway/paths.h"
#include "gateway/supervisor.h"
#include "serve/admin/admin.h"
#include "net/dial.h"
#include "net/log.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"

#define AT(field) .at = offsetof(struct wr_gateway_service_settings, field)
#define ARENA_BYTES ((size_t)256 * 1024)
#define DEFAULT_ADMIN "127.0.0.1:9099"
#define CONNECTIONS 1024
#define STEADY_MS 10000 /* if the service has run for so long, failed starts count from 0 again */

struct wr_gateway_service_settings wr_gateway_service_settings;

const struct wr_option wr_gateway_service_options[WR_GATEWAY_SERVICE_OPTIONS] = {
	{"admin", WR_OPTION_LIST, "ADDR,…", NULL,
	 "addresses of the admin API: rules, counters, bans; off\n"
	 "for none. Without it " DEFAULT_ADMIN ", if that port is\n"
	 "free",
	 AT(admin)},
	{"admin-socket", WR_OPTION_TEXT, "PATH", NULL,
	 "Unix socket of the admin API for root and the service's\n"
	 "user, used by weir's commands; off for none. Without it\n"
	 "TABLE.admin in the table's folder, unless --admin is off",
	 AT(admin_socket)},
	{"admin-token-file", WR_OPTION_TEXT, "FILE", NULL,
	 "tokens for --admin, one per line; required if other\n"
	 "machines can reach it. Without it a token is made at\n"
	 "start and printed in the dashboard's address",
	 AT(admin_token_file)},
	{"admin-open", WR_OPTION_SWITCH, NULL, NULL,
	 "let every user of this machine use --admin without a token", AT(admin_open)},
	{"grpc", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of Envoy's rate limit service",
	 AT(grpc)},
	{"http", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of /v1/check, /check/DOMAIN and /json",
	 AT(http)},
	{"resp", WR_OPTION_LIST, "ADDR,…", NULL, "addresses of the Redis protocol", AT(resp)},
	{"refunds", WR_OPTION_LIST, "CIDR,…", NULL,
	 "clients of these addresses that may give hits back, and\n"
	 "reset counters at --resp; unix: is every client of a Unix\n"
	 "socket",
	 AT(refunds)},
	{"resp-password-file", WR_OPTION_TEXT, "FILE", NULL,
	 "file with the password for AUTH at --resp", AT(resp_password_file)},
};

struct wr_gateway_service {
	struct wr_gateway_child child;
	struct wr_settings settings;
	const char *domain;
	/* memory of the settings' texts, because a reload frees the options */
	struct wr_arena arena;
	bool asleep;        /* no port is configured, so the service is not started */
	bool default_admin; /* --admin was not given, so the default port may be in use */
	bool draining;
	unsigned starts;        /* number of restarts */
	unsigned failed_starts; /* number of failed starts in a row */
	uint64_t started_ms, again_ms;
	/* fingerprint of the certificate files when the service was started */
	uint64_t certificate;
};

/* ---- settings ---- */

static const char *copy_text(struct wr_gateway_service *service, const char *from)
{
	const char *copy = from ? wr_arena_copy(&service->arena, from, strlen(from)) : NULL;

	if (from && !copy)
		abort();
	return copy;
}

static struct wr_text_list copy_list(struct wr_gateway_service *service,
				     const struct wr_text_list *from)
{
	struct wr_text_list copy = {.count = from->count};

	for (size_t i = 0; i < from->count; i++)
		copy.items[i] = copy_text(service, from->items[i]);
	return copy;
}

static bool is_off(const struct wr_text_list *list)
{
	return list->count == 0 ||
	       (list->count == 1 && list->items[0] && strcmp(list->items[0], "off") == 0);
}

static void add_socket(struct wr_gateway_service *service, const char *path)
{
	struct wr_text_list *resp = &service->settings.resp;

	if (resp->count < WR_TEXT_LIST_MAX)
		resp->items[resp->count++] = wr_gateway_print(&service->arena, "unix:%s", path);
}

/* Adds the Unix sockets of --resp: one for the user that runs the gateway, and with Redis or a
 * queue one for nginx. Both may be the same socket. */
static void add_sockets(struct wr_gateway_service *service,
			const struct wr_gateway_service_settings *settings,
			const struct wr_gateway_plan *plan)
{
	const char *own = wr_gateway_print(&service->arena, "%s/weir.sock", plan->runtime);
	const struct group *workers = plan->group ? getgrnam(plan->group) : NULL;

	if (!own)
		abort();
	if (is_off(&settings->resp))
		service->settings.resp.count = 0;
	if (strlen(own) > WR_UNIX_PATH_MAX)
		wr_log(WR_LOG_WARN, "no weir.sock: the path of %s is too long for a socket",
		       plan->runtime);
	else
		add_socket(service, own);
	if (!plan->settings->central && !plan->queue)
		return;
	if (strcmp(own, plan->socket) != 0)
		add_socket(service, plan->socket);
	service->settings.socket_group = workers ? workers->gr_gid : 0;
}

static struct wr_redis_settings copy_redis(struct wr_gateway_service *service,
					   const struct wr_redis_settings *from)
{
	return (struct wr_redis_settings){.url = copy_text(service, from->url),
					  .prefix = copy_text(service, from->prefix),
					  .timeout_ns = from->timeout_ns,
					  .password_file = copy_text(service, from->password_file),
					  .ca = copy_text(service, from->ca),
					  .cert = copy_text(service, from->cert),
					  .key = copy_text(service, from->key),
					  .key_secret = copy_text(service, from->key_secret),
					  .fleet_size = from->fleet_size,
					  .sync_ns = from->sync_ns,
					  .region = copy_text(service, from->region),
					  .peers = copy_list(service, &from->peers)};
}

/* Copies the settings of the queue. Without --queue-target, deliveries go through nginx, which
 * knows the addresses of the API servers. */
static struct wr_queue_settings copy_queue(struct wr_gateway_service *service,
					   const struct wr_queue_settings *from,
					   const struct wr_gateway_plan *plan)
{
	struct wr_queue_settings settings = *from;

	settings.url = copy_text(service, plan->queue);
	settings.password_file = copy_text(service, from->password_file);
	settings.key_file = copy_text(service, from->key_file);
	settings.target_ca = copy_text(service, from->target_ca);
	settings.target = from->target
				  ? copy_text(service, from->target)
				  : wr_gateway_print(&service->arena, "unix:%s", plan->deliver);
	return settings;
}

static void fill_settings(struct wr_gateway_service *service,
			  const struct wr_gateway_service_settings *settings,
			  const struct wr_gateway_plan *plan)
{
	service->settings = (struct wr_settings){
		.rules = copy_text(service, plan->rules),
		.table = copy_text(service, plan->settings->table),
		.memory_bytes = plan->settings->memory_bytes,
		.log_bytes = plan->settings->log_bytes,
		.threads = 1,
		.grpc = copy_list(service, &settings->grpc),
		.http = copy_list(service, &settings->http),
		.resp = copy_list(service, &settings->resp),
		.admin = copy_list(service, &settings->admin),
		.refunds = copy_list(service, &settings->refunds),
		.redis = copy_redis(service, &settings->redis),
		.queue = copy_queue(service, &settings->queue, plan),
		.tls_cert = copy_text(service, plan->tls_cert),
		.tls_key = copy_text(service, plan->tls_key),
		.admin_token_file = copy_text(service, settings->admin_token_file),
		.admin_socket = copy_text(service, settings->admin_socket),
		.admin_open = settings->admin_open,
		.resp_password_file = copy_text(service, settings->resp_password_file),
		.link_key_file = copy_text(service, plan->link_key),
		.drain_ns = plan->settings->drain_ns,
		.idle_ns = 3600000000000,
		.slow_ns = 10000000000,
		.max_connections = CONNECTIONS,
		.shadow = plan->settings->dry_run,
		.limit_header = "RateLimit-Limit",
		.remaining_header = "RateLimit-Remaining",
		.reset_header = "RateLimit-Reset",
		.headers = weir_profile_by_name((struct weir_str){plan->settings->headers,
								  strlen(plan->settings->headers)}),
		.near_limit_percent = 80,
		.keys = copy_text(service, plan->settings->keys),
		.user = plan->drops ? copy_text(service, plan->service_user) : NULL,
		.renewed = true,
		.quiet = true,
	};
	service->domain = copy_text(service, plan->domain);
	service->default_admin = settings->admin.count == 0;
	if (service->default_admin)
		service->settings.admin = (struct wr_text_list){1, {DEFAULT_ADMIN}};
	add_sockets(service, settings, plan);
	service->asleep = is_off(&service->settings.grpc) && is_off(&service->settings.http) &&
			  is_off(&service->settings.resp) && is_off(&service->settings.admin);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_list(const struct wr_text_list *a, const struct wr_text_list *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return a->count == b->count;
}

static bool same_redis(const struct wr_redis_settings *a, const struct wr_redis_settings *b)
{
	return same_text(a->url, b->url) && same_text(a->prefix, b->prefix) &&
	       a->timeout_ns == b->timeout_ns && same_text(a->password_file, b->password_file) &&
	       same_text(a->ca, b->ca) && same_text(a->cert, b->cert) &&
	       same_text(a->key, b->key) && same_text(a->key_secret, b->key_secret) &&
	       a->fleet_size == b->fleet_size && a->sync_ns == b->sync_ns &&
	       same_text(a->region, b->region) && same_list(&a->peers, &b->peers);
}

static bool same_queue(const struct wr_queue_settings *a, const struct wr_queue_settings *b)
{
	return same_text(a->url, b->url) && same_text(a->password_file, b->password_file) &&
	       same_text(a->target, b->target) && same_text(a->target_ca, b->target_ca) &&
	       same_text(a->key_file, b->key_file) && a->max_requests == b->max_requests &&
	       a->assume_durable == b->assume_durable && a->max_bytes == b->max_bytes &&
	       a->max_line_bytes == b->max_line_bytes && a->max_dead == b->max_dead &&
	       a->max_dead_bytes == b->max_dead_bytes && a->connections == b->connections &&
	       a->timeout_ns == b->timeout_ns && a->keep_ns == b->keep_ns;
}

static bool same_settings(const struct wr_settings *a, const struct wr_settings *b)
{
	return same_text(a->rules, b->rules) && same_text(a->table, b->table) &&
	       same_list(&a->grpc, &b->grpc) && same_list(&a->http, &b->http) &&
	       same_list(&a->resp, &b->resp) && same_list(&a->admin, &b->admin) &&
	       same_list(&a->refunds, &b->refunds) && same_redis(&a->redis, &b->redis) &&
	       same_queue(&a->queue, &b->queue) && same_text(a->tls_cert, b->tls_cert) &&
	       same_text(a->tls_key, b->tls_key) &&
	       same_text(a->admin_token_file, b->admin_token_file) &&
	       same_text(a->admin_socket, b->admin_socket) && a->admin_open == b->admin_open &&
	       same_text(a->resp_password_file, b->resp_password_file) &&
	       same_text(a->link_key_file, b->link_key_file) && a->shadow == b->shadow &&
	       same_text(a->keys, b->keys) && a->headers == b->headers &&
	       a->drain_ns == b->drain_ns && a->socket_group == b->socket_group &&
	       same_text(a->user, b->user);
}

static struct wr_gateway_service *new_service(const struct wr_gateway_service_settings *settings,
					      const struct wr_gateway_plan *plan)
{
	struct wr_gateway_service *service = calloc(1, sizeof *service);

	if (!service)
		abort();
	wr_arena_init(&service->arena, ARENA_BYTES);
	fill_settings(service, settings, plan);
	return service;
}

static void free_service(struct wr_gateway_service *service)
{
	wr_arena_free(&service->arena);
	free(service);
}

/* ---- running ---- */

static uint64_t mono_ms(void)
{
	return wr_clock_mono_ns() / 1000000;
}

static uint64_t fingerprint(const char *path)
{
	struct stat st;

	if (!path || stat(path, &st) != 0)
		return 0;
	return (uint64_t)st.st_ino * 31 + (uint64_t)st.st_mtim.tv_sec * 1000000007 +
	       (uint64_t)st.st_mtim.tv_nsec;
}

static uint64_t certificate_fingerprint(const struct wr_gateway_service *service)
{
	return fingerprint(service->settings.tls_cert) + 3 * fingerprint(service->settings.tls_key);
}

static void write_ports(const struct wr_service *service, FILE *out)
{
	const char *token = wr_admin_start_token(&service->settings);

	for (const struct wr_listener *l = service->listeners; l; l = l->next)
		fprintf(out, "  %-9s %s\n", l->name, l->text);
	for (const struct wr_listener *l = service->listeners; l; l = l->next)
		if (strcmp(l->name, "admin") == 0 && l->endpoint.kind != WR_ENDPOINT_UNIX)
			fprintf(out, "  %-9s http://%s/%s%s\n", "dashboard", l->text,
				token ? "#token=" : "", token ? token : "");
	if (service->redis)
		fprintf(out, "  %-9s %s\n", "redis", service->redis->text);
}

static int launch_child(struct wr_gateway_service *service)
{
	struct wr_gateway_child_opts opts = {.settings = &service->settings,
					     .domain = service->domain,
					     .default_admin = service->default_admin,
					     .summary = write_ports};
	struct weir_error error = {0};

	if (service->asleep)
		return 0;
	/* The gateway makes the token, so that the token does not change if the service is
	 * restarted. */
	if (wr_admin_make_start_token(&service->settings, &error) < 0) {
		wr_log(WR_LOG_ERROR, "%s", error.text);
		return -1;
	}
	service->certificate = certificate_fingerprint(service);
	service->started_ms = mono_ms();
	return wr_gateway_child_start(&service->child, &opts);
}

struct wr_gateway_service *
wr_gateway_service_start(const struct wr_gateway_service_settings *settings,
			 const struct wr_gateway_plan *plan)
{
	struct wr_gateway_service *service = new_service(settings, plan);

	wr_log_setup("weir gateway", WR_LOG_INFO, false);
	if (launch_child(service) < 0) {
		free_service(service);
		return NULL;
	}
	return service;
}

static void remove_socket(const char *path, size_t len)
{
	char file[WR_UNIX_PATH_MAX + 1] = "";
	struct stat st;

	if (len >= sizeof file)
		return;
	memcpy(file, path, len);
	if (lstat(file, &st) == 0 && S_ISSOCK(st.st_mode) && !wr_dial_is_listening(file))
		unlink(file);
}

/* Removes the socket files of the service, because the service itself cannot remove them from
 * root's folders. `ports` is the service's summary: "  resp      unix:/run/weir/weir.sock". */
static void remove_sockets(const char *ports)
{
	static const char mark[] = " unix:";

	while ((ports = strstr(ports, mark))) {
		size_t len = strcspn(ports += sizeof mark - 1, "\n");

		remove_socket(ports, len);
		ports += len;
	}
}

static void end_child(struct wr_gateway_service *service)
{
	char *ports;

	if (service->asleep)
		return;
	ports = service->child.summary;
	service->child.summary = NULL;
	wr_gateway_child_stop(&service->child);
	if (ports)
		remove_sockets(ports);
	free(ports);
}

/* Ends the old service, so that its ports become free, and starts the new service. If that fails,
 * restarts the old one. Returns the service that runs, or NULL if neither runs. */
static struct wr_gateway_service *replace_service(struct wr_gateway_service *old,
						  struct wr_gateway_service *fresh)
{
	end_child(old);
	if (launch_child(fresh) == 0) {
		free_service(old);
		return fresh;
	}
	free_service(fresh);
	if (launch_child(old) == 0) {
		wr_log(WR_LOG_WARN, "the service continues with its previous options");
		return old;
	}
	free_service(old);
	return NULL;
}

/* Returns whether files have changed that only a new process can read. */
static bool is_stale(const struct wr_gateway_service *service)
{
	const struct wr_gateway_report *report = &service->child.report;

	return report->no_rules ||
	       (report->no_certificate && certificate_fingerprint(service) != service->certificate);
}

void wr_gateway_service_reload(struct wr_gateway_service **service,
			       const struct wr_gateway_service_settings *settings,
			       const struct wr_gateway_plan *plan)
{
	struct wr_gateway_service *fresh = new_service(settings, plan);

	if (!*service) {
		free_service(fresh);
		*service = wr_gateway_service_start(settings, plan);
		return;
	}
	if (!same_settings(&(*service)->settings, &fresh->settings) ||
	    !same_text((*service)->domain, fresh->domain) || is_stale(*service)) {
		*service = replace_service(*service, fresh);
		return;
	}
	free_service(fresh);
	wr_gateway_child_send(&(*service)->child, WR_GATEWAY_CHILD_RELOAD);
}

/* ---- supervision ---- */

static void plan_restart(struct wr_gateway_service *service)
{
	uint64_t now = mono_ms(), wait_ms;

	if (now - service->started_ms > STEADY_MS)
		service->failed_starts = 0;
	wait_ms = wr_supervisor_backoff_ms(++service->failed_starts);
	service->again_ms = now + wait_ms;
	wr_log(WR_LOG_WARN, "%s; starting it again in %.1f s", service->child.ended,
	       (double)wait_ms / 1000);
	service->child.ended[0] = 0;
}

static void restart_child(struct wr_gateway_service *service)
{
	if (launch_child(service) < 0) {
		snprintf(service->child.ended, sizeof service->child.ended,
			 "the service could not be started");
		return;
	}
	service->starts++;
	wr_log(WR_LOG_INFO, "the service runs again (process %d)", (int)service->child.pid);
	wr_gateway_service_summary(service, stdout);
	fflush(stdout);
}

void wr_gateway_service_poll(struct wr_gateway_service *service)
{
	if (!service || service->asleep)
		return;
	wr_gateway_child_poll(&service->child);
	if (service->child.pid || service->draining)
		return;
	if (service->child.ended[0])
		plan_restart(service);
	else if (mono_ms() >= service->again_ms)
		restart_child(service);
}

bool wr_gateway_service_runs(const struct wr_gateway_service *service)
{
	return service && (service->asleep || service->child.pid);
}

bool wr_gateway_service_renew(struct wr_gateway_service *service)
{
	char size[WR_SIZE_TEXT];

	if (!service || !service->child.report.stuck)
		return false;
	end_child(service);
	restart_child(service);
	wr_size_text(service->child.report.table_bytes, size);
	wr_log(WR_LOG_INFO, "the table was resized: it has %s, and the service was restarted",
	       size);
	return true;
}

void wr_gateway_service_summary(const struct wr_gateway_service *service, FILE *out)
{
	if (service && service->child.summary)
		fputs(service->child.summary, out);
}

void wr_gateway_service_drain(struct wr_gateway_service *service)
{
	if (!service || service->asleep)
		return;
	service->draining = true;
	wr_gateway_child_send(&service->child, WR_GATEWAY_CHILD_DRAIN);
}

bool wr_gateway_service_drained(struct wr_gateway_service *service)
{
	if (!service || service->asleep)
		return true;
	wr_gateway_child_poll(&service->child);
	return !service->child.pid || service->child.report.drained;
}

unsigned wr_gateway_service_moves(const struct wr_gateway_service *service, uint64_t *bytes)
{
	if (!service || service->asleep)
		return 0;
	*bytes = service->child.report.table_bytes;
	return (unsigned)service->child.report.moves;
}

uint64_t wr_gateway_service_rules(const struct wr_gateway_service *service, bool *defers)
{
	*defers = false;
	if (!service || service->asleep || !service->child.pid)
		return 0;
	*defers = service->child.report.defers;
	/* The number includes the restarts, because a new process counts generations from 1. */
	return ((uint64_t)service->starts << 32) + service->child.report.rules;
}

void wr_gateway_service_stop(struct wr_gateway_service *service)
{
	if (!service)
		return;
	end_child(service);
	free_service(service);
}
