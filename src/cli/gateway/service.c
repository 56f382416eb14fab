#include "cli/gateway/service.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/gateway/child.h"
#include "gateway/paths.h"
#include "gateway/supervisor.h"
#include "serve/admin/admin.h"
#include "net/log.h"
#include "serve/fleet/redis.h"
#include "serve/service.h"

#define AT(field) .at = offsetof(struct gateway_service_settings, field)
#define ARENA_BYTES ((size_t)256 * 1024)
#define USUAL_ADMIN "127.0.0.1:9099"
#define CONNECTIONS 1024
#define STEADY_MS 10000 /* after so long a death is the first one again */

struct gateway_service_settings gateway_service_settings;

const struct wr_option gateway_service_options[GATEWAY_SERVICE_OPTIONS] = {
	{"admin", WR_OPTION_LIST, "ADDR,…", NULL,
	 "rules, counters, bans; off for none (" USUAL_ADMIN ",\n"
	 "if nobody else has it)",
	 AT(admin)},
	{"admin-socket", WR_OPTION_TEXT, "PATH", NULL,
	 "Unix socket of the same for root and the service's user,\n"
	 "which weir's commands ask; off for none (TABLE.admin in\n"
	 "the table's folder, unless --admin is off)",
	 AT(admin_socket)},
	{"admin-token-file", WR_OPTION_TEXT, "FILE", NULL,
	 "tokens for --admin, one a line; needed when others than\n"
	 "this machine can reach it (otherwise: one that is made at\n"
	 "start and printed in the dashboard's address)",
	 AT(admin_token_file)},
	{"admin-open", WR_OPTION_SWITCH, NULL, NULL,
	 "let every user of this machine use --admin without a token", AT(admin_open)},
	{"grpc", WR_OPTION_LIST, "ADDR,…", NULL, "also be Envoy's rate limit service there",
	 AT(grpc)},
	{"http", WR_OPTION_LIST, "ADDR,…", NULL, "… answer /v1/check, /check/DOMAIN and /json",
	 AT(http)},
	{"resp", WR_OPTION_LIST, "ADDR,…", NULL, "… speak the Redis protocol", AT(resp)},
	{"refunds", WR_OPTION_LIST, "CIDR,…", NULL,
	 "clients of these that may give hits back, and reset\n"
	 "counters by --resp; unix: is all on Unix sockets",
	 AT(refunds)},
	{"resp-password-file", WR_OPTION_TEXT, "FILE", NULL, "password for AUTH of --resp",
	 AT(resp_password_file)},
};

struct gateway_service {
	struct gateway_child child;
	struct wr_settings settings;
	const char *domain;
	struct wr_arena
		arena;    /* of its texts: the options they came from are read again and freed */
	bool asleep;      /* there is nothing to open */
	bool usual_admin; /* nobody asked for it, so it may be missing */
	bool draining;
	unsigned starts;        /* that were not the first */
	unsigned failed_starts; /* one after the other */
	uint64_t started_ms, again_ms;
	uint64_t certificate; /* what was read of it, in a number */
};

/* ---- settings ---- */

static const char *text(struct gateway_service *service, const char *from)
{
	const char *copy = from ? wr_arena_copy(&service->arena, from, strlen(from)) : NULL;

	if (from && !copy)
		abort();
	return copy;
}

static struct wr_text_list list(struct gateway_service *service, const struct wr_text_list *from)
{
	struct wr_text_list copy = {.count = from->count};

	for (size_t i = 0; i < from->count; i++)
		copy.items[i] = text(service, from->items[i]);
	return copy;
}

static bool is_off(const struct wr_text_list *list)
{
	return list->count == 0 ||
	       (list->count == 1 && list->items[0] && strcmp(list->items[0], "off") == 0);
}

static void add_socket(struct gateway_service *service, const char *path)
{
	struct wr_text_list *resp = &service->settings.resp;

	if (resp->count < WR_TEXT_LIST_MAX)
		resp->items[resp->count++] = wr_gateway_print(&service->arena, "unix:%s", path);
}

/* Whatever else is open: one for whoever runs the gateway, and if there is Redis or a queue one for
 * nginx, which may be the same. */
static void add_sockets(struct gateway_service *service,
			const struct gateway_service_settings *settings,
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

static struct wr_redis_settings redis(struct gateway_service *service,
				      const struct wr_redis_settings *from)
{
	return (struct wr_redis_settings){.url = text(service, from->url),
					  .prefix = text(service, from->prefix),
					  .timeout_ns = from->timeout_ns,
					  .password_file = text(service, from->password_file),
					  .ca = text(service, from->ca),
					  .cert = text(service, from->cert),
					  .key = text(service, from->key),
					  .key_secret = text(service, from->key_secret),
					  .fleet_size = from->fleet_size,
					  .sync_ns = from->sync_ns,
					  .region = text(service, from->region),
					  .peers = list(service, &from->peers)};
}

/* Deliveries go by nginx, which knows the API servers. */
static struct wr_queue_settings queue(struct gateway_service *service,
				      const struct wr_queue_settings *from,
				      const struct wr_gateway_plan *plan)
{
	struct wr_queue_settings settings = *from;

	settings.url = text(service, plan->queue);
	settings.password_file = text(service, from->password_file);
	settings.key_file = text(service, from->key_file);
	settings.target_ca = text(service, from->target_ca);
	settings.target = from->target
				  ? text(service, from->target)
				  : wr_gateway_print(&service->arena, "unix:%s", plan->deliver);
	return settings;
}

static void fill(struct gateway_service *service, const struct gateway_service_settings *settings,
		 const struct wr_gateway_plan *plan)
{
	service->settings = (struct wr_settings){
		.rules = text(service, plan->rules),
		.table = text(service, plan->settings->table),
		.memory_bytes = plan->settings->memory_bytes,
		.log_bytes = plan->settings->log_bytes,
		.threads = 1,
		.grpc = list(service, &settings->grpc),
		.http = list(service, &settings->http),
		.resp = list(service, &settings->resp),
		.admin = list(service, &settings->admin),
		.refunds = list(service, &settings->refunds),
		.redis = redis(service, &settings->redis),
		.queue = queue(service, &settings->queue, plan),
		.tls_cert = text(service, plan->tls_cert),
		.tls_key = text(service, plan->tls_key),
		.admin_token_file = text(service, settings->admin_token_file),
		.admin_socket = text(service, settings->admin_socket),
		.admin_open = settings->admin_open,
		.resp_password_file = text(service, settings->resp_password_file),
		.link_key_file = text(service, plan->link_key),
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
		.keys = text(service, plan->settings->keys),
		.user = plan->drops ? text(service, plan->service_user) : NULL,
		.renewed = true,
		.quiet = true,
	};
	service->domain = text(service, plan->domain);
	service->usual_admin = settings->admin.count == 0;
	if (service->usual_admin)
		service->settings.admin = (struct wr_text_list){1, {USUAL_ADMIN}};
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

static bool same(const struct wr_settings *a, const struct wr_settings *b)
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

static struct gateway_service *prepare(const struct gateway_service_settings *settings,
				       const struct wr_gateway_plan *plan)
{
	struct gateway_service *service = calloc(1, sizeof *service);

	if (!service)
		abort();
	wr_arena_init(&service->arena, ARENA_BYTES);
	fill(service, settings, plan);
	return service;
}

static void discard(struct gateway_service *service)
{
	wr_arena_free(&service->arena);
	free(service);
}

/* ---- running ---- */

static uint64_t mono_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t fingerprint(const char *path)
{
	struct stat st;

	if (!path || stat(path, &st) != 0)
		return 0;
	return (uint64_t)st.st_ino * 31 + (uint64_t)st.st_mtim.tv_sec * 1000000007 +
	       (uint64_t)st.st_mtim.tv_nsec;
}

static uint64_t certificate(const struct gateway_service *service)
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

static int launch(struct gateway_service *service)
{
	struct gateway_child_opts opts = {.settings = &service->settings,
					  .domain = service->domain,
					  .usual_admin = service->usual_admin,
					  .summary = write_ports};
	struct weir_error error = {0};

	if (service->asleep)
		return 0;
	/* Here, so that a service that is started again asks for the same. */
	if (wr_admin_make_start_token(&service->settings, &error) < 0) {
		wr_log(WR_LOG_ERROR, "%s", error.text);
		return -1;
	}
	service->certificate = certificate(service);
	service->started_ms = mono_ms();
	return gateway_child_start(&service->child, &opts);
}

struct gateway_service *gateway_service_start(const struct gateway_service_settings *settings,
					      const struct wr_gateway_plan *plan)
{
	struct gateway_service *service = prepare(settings, plan);

	wr_log_setup("weir gateway", WR_LOG_INFO, false);
	if (launch(service) < 0) {
		discard(service);
		return NULL;
	}
	return service;
}

static void remove_socket(const char *path, size_t len)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;
	int fd;

	if (len >= sizeof at.sun_path)
		return;
	memcpy(at.sun_path, path, len);
	if (lstat(at.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof at) != 0 &&
	    errno == ECONNREFUSED)
		unlink(at.sun_path);
	if (fd >= 0)
		close(fd);
}

/* A service that has given up its rights cannot remove its sockets from folders of root's. They are
 * in what it said of its ports: "  resp      unix:/run/weir/weir.sock". */
static void remove_sockets(const char *ports)
{
	static const char mark[] = " unix:";

	while ((ports = strstr(ports, mark))) {
		size_t len = strcspn(ports += sizeof mark - 1, "\n");

		remove_socket(ports, len);
		ports += len;
	}
}

static void end(struct gateway_service *service)
{
	char *ports;

	if (service->asleep)
		return;
	ports = service->child.summary;
	service->child.summary = NULL;
	gateway_child_stop(&service->child);
	if (ports)
		remove_sockets(ports);
	free(ports);
}

/* The ports of the old one have to be free before the new one can have them. */
static struct gateway_service *exchange(struct gateway_service *old, struct gateway_service *fresh)
{
	end(old);
	if (launch(fresh) == 0) {
		discard(old);
		return fresh;
	}
	discard(fresh);
	if (launch(old) == 0) {
		wr_log(WR_LOG_WARN, "the service goes on with the options it had");
		return old;
	}
	discard(old);
	return NULL;
}

/* Whether it has to be another process to see what has changed. */
static bool is_stale(const struct gateway_service *service)
{
	const struct gateway_report *report = &service->child.report;

	return report->no_rules ||
	       (report->no_certificate && certificate(service) != service->certificate);
}

void gateway_service_reload(struct gateway_service **service,
			    const struct gateway_service_settings *settings,
			    const struct wr_gateway_plan *plan)
{
	struct gateway_service *fresh = prepare(settings, plan);

	if (!*service) {
		discard(fresh);
		*service = gateway_service_start(settings, plan);
		return;
	}
	if (!same(&(*service)->settings, &fresh->settings) ||
	    !same_text((*service)->domain, fresh->domain) || is_stale(*service)) {
		*service = exchange(*service, fresh);
		return;
	}
	discard(fresh);
	gateway_child_tell(&(*service)->child, GATEWAY_CHILD_RELOAD);
}

/* ---- looking after it ---- */

static void plan_restart(struct gateway_service *service)
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

static void restart(struct gateway_service *service)
{
	if (launch(service) < 0) {
		snprintf(service->child.ended, sizeof service->child.ended,
			 "the service could not be started");
		return;
	}
	service->starts++;
	wr_log(WR_LOG_INFO, "the service runs again (process %d)", (int)service->child.pid);
	gateway_service_summary(service, stdout);
	fflush(stdout);
}

void gateway_service_look(struct gateway_service *service)
{
	if (!service || service->asleep)
		return;
	gateway_child_look(&service->child);
	if (service->child.pid || service->draining)
		return;
	if (service->child.ended[0])
		plan_restart(service);
	else if (mono_ms() >= service->again_ms)
		restart(service);
}

bool gateway_service_lives(const struct gateway_service *service)
{
	return service && (service->asleep || service->child.pid);
}

bool gateway_service_renew(struct gateway_service *service)
{
	char size[WR_SIZE_TEXT];

	if (!service || !service->child.report.stuck)
		return false;
	end(service);
	restart(service);
	wr_size_text(service->child.report.table_bytes, size);
	wr_log(WR_LOG_INFO, "the table was resized: it has %s, and the service was started anew",
	       size);
	return true;
}

void gateway_service_summary(const struct gateway_service *service, FILE *out)
{
	if (service && service->child.summary)
		fputs(service->child.summary, out);
}

void gateway_service_drain(struct gateway_service *service)
{
	if (!service || service->asleep)
		return;
	service->draining = true;
	gateway_child_tell(&service->child, GATEWAY_CHILD_DRAIN);
}

bool gateway_service_drained(struct gateway_service *service)
{
	if (!service || service->asleep)
		return true;
	gateway_child_look(&service->child);
	return !service->child.pid || service->child.report.drained;
}

unsigned gateway_service_moves(const struct gateway_service *service, uint64_t *bytes)
{
	if (!service || service->asleep)
		return 0;
	*bytes = service->child.report.table_bytes;
	return (unsigned)service->child.report.moves;
}

uint64_t gateway_service_rules(const struct gateway_service *service, bool *defers)
{
	*defers = false;
	if (!service || service->asleep || !service->child.pid)
		return 0;
	*defers = service->child.report.defers;
	/* Another process counts anew. */
	return ((uint64_t)service->starts << 32) + service->child.report.rules;
}

void gateway_service_stop(struct gateway_service *service)
{
	if (!service)
		return;
	end(service);
	discard(service);
}
