/* Starts, reloads and restarts the gateway's service, and derives its settings from the options of
 * the gateway. Called by gateway.c. */
#include "cli/gateway/service.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/gateway/child.h"
#include "cli/gateway/gateway.h"
#include "cli/options/shared.h"
#include "gateway/paths.h"
#include "gateway/supervisor.h"
#include "serve/admin/admin.h"
#include "net/dial.h"
#include "net/log.h"

#define ARENA_BYTES ((size_t)256 * 1024)
#define CONNECTIONS 1024
#define STEADY_MS 10000 /* after a run of this length, failed_starts counts from 0 again */

struct wr_cli_gateway_service {
	struct wr_cli_gateway_child child;
	struct wr_settings settings;
	const char *domain;
	/* owns copies of the settings' texts, because a reload frees the options */
	struct wr_arena arena;
	bool asleep; /* no port is configured, so the service is not started */
	/* true if --admin was not given; then it is no error if the default port is in use */
	bool default_admin;
	bool draining;
	unsigned starts; /* how often the process was restarted */
	/* how often in a row the process has ended early or has not started */
	unsigned failed_starts;
	uint64_t started_ms, again_ms;
	/* fingerprint of the certificate files when the service was started */
	uint64_t certificate;
};

/* ---- settings ---- */

/* The options of the gateway that configure the service. `at` is the offset, in struct wr_settings,
 * of the struct that the options fill. */
static const struct {
	const struct wr_cli_option *options;
	size_t count, at;
} parts[] = {
	{wr_cli_gateway_service_options, WR_GATEWAY_SERVICE_OPTIONS, 0},
	{wr_cli_admin_options, WR_ADMIN_OPTIONS, 0},
	{wr_cli_redis_options, WR_REDIS_OPTIONS, offsetof(struct wr_settings, redis)},
	{wr_cli_queue_options, WR_QUEUE_OPTIONS, offsetof(struct wr_settings, queue)},
};
#define PARTS (sizeof parts / sizeof *parts)

static const char *copy_option_text(struct wr_cli_gateway_service *service, const char *from)
{
	const char *copy = from ? wr_arena_copy(&service->arena, from, strlen(from)) : NULL;

	if (from && !copy)
		abort();
	return copy;
}

/* Replaces the texts of an option's field by copies in the service's arena. */
static void copy_field(struct wr_cli_gateway_service *service, enum wr_cli_option_kind kind,
		       void *field)
{
	struct wr_text_list *list = field;

	if (kind == WR_OPTION_TEXT)
		*(const char **)field = copy_option_text(service, *(const char **)field);
	for (size_t i = 0; kind == WR_OPTION_LIST && i < list->count; i++)
		list->items[i] = copy_option_text(service, list->items[i]);
}

static bool is_off(const struct wr_text_list *list)
{
	return list->count == 0 ||
	       (list->count == 1 && list->items[0] && strcmp(list->items[0], "off") == 0);
}

static void add_socket(struct wr_cli_gateway_service *service, const char *path)
{
	struct wr_text_list *resp = &service->settings.resp;

	if (resp->count < WR_TEXT_LIST_MAX)
		resp->items[resp->count++] = wr_gateway_print(&service->arena, "unix:%s", path);
}

/* Adds Unix sockets to the addresses of --resp: weir.sock for the user that runs the gateway and,
 * if Redis or a queue is used, the socket for nginx. If both have the same path, one socket is
 * added. */
static void add_sockets(struct wr_cli_gateway_service *service, const struct wr_settings *settings,
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

/* Fills in the settings of the service. Without --queue-target, deliveries go through nginx, which
 * knows the addresses of the API servers. */
static void fill_settings(struct wr_cli_gateway_service *service, const struct wr_settings *options,
			  const struct wr_gateway_plan *plan)
{
	struct wr_settings *settings = &service->settings;

	*settings = *options;
	for (size_t p = 0; p < PARTS; p++)
		for (size_t i = 0; i < parts[p].count; i++)
			copy_field(service, parts[p].options[i].kind,
				   (char *)settings + parts[p].at + parts[p].options[i].at);
	settings->queue.url = copy_option_text(service, plan->queue);
	if (!settings->queue.target)
		settings->queue.target =
			wr_gateway_print(&service->arena, "unix:%s", plan->deliver);
	settings->rules = copy_option_text(service, plan->rules);
	settings->table = copy_option_text(service, options->table);
	settings->tls_cert = copy_option_text(service, plan->tls_cert);
	settings->tls_key = copy_option_text(service, plan->tls_key);
	settings->link_key_file = copy_option_text(service, plan->link_key);
	settings->keys = copy_option_text(service, plan->settings->keys);
	settings->user = plan->drops ? copy_option_text(service, plan->service_user) : NULL;
	settings->limit_header = "RateLimit-Limit";
	settings->remaining_header = "RateLimit-Remaining";
	settings->reset_header = "RateLimit-Reset";
	settings->headers = weir_profile_by_name(wr_str(plan->settings->headers));
	settings->threads = 1;
	settings->drain_ns = plan->settings->drain_ns;
	settings->idle_ns = 3600000000000;
	settings->slow_ns = 10000000000;
	settings->max_connections = CONNECTIONS;
	settings->near_limit_percent = 80;
	settings->shadow = plan->settings->dry_run;
	settings->renewed = true;
	settings->quiet = true;
	service->domain = copy_option_text(service, plan->domain);
	service->default_admin = settings->admin.count == 0;
	if (service->default_admin)
		settings->admin = (struct wr_text_list){1, {WR_GATEWAY_DEFAULT_ADMIN}};
	add_sockets(service, options, plan);
	service->asleep = is_off(&settings->grpc) && is_off(&settings->http) &&
			  is_off(&settings->resp) && is_off(&settings->admin);
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

static bool same_field(enum wr_cli_option_kind kind, const void *a, const void *b)
{
	if (kind == WR_OPTION_TEXT)
		return same_text(*(const char *const *)a, *(const char *const *)b);
	if (kind == WR_OPTION_LIST)
		return same_list(a, b);
	return memcmp(a, b, kind == WR_OPTION_SWITCH ? sizeof(bool) : sizeof(uint64_t)) == 0;
}

/* Returns whether a and b agree in all settings that a running service cannot change. The size of
 * the table is not such a setting: nginx resizes the table, and the service changes to the new
 * table by itself. */
static bool same_settings(const struct wr_settings *a, const struct wr_settings *b)
{
	for (size_t p = 0; p < PARTS; p++)
		for (size_t i = 0; i < parts[p].count; i++) {
			size_t at = parts[p].at + parts[p].options[i].at;

			if (!same_field(parts[p].options[i].kind, (const char *)a + at,
					(const char *)b + at))
				return false;
		}
	return same_text(a->rules, b->rules) && same_text(a->table, b->table) &&
	       same_text(a->tls_cert, b->tls_cert) && same_text(a->tls_key, b->tls_key) &&
	       same_text(a->link_key_file, b->link_key_file) && same_text(a->keys, b->keys) &&
	       same_text(a->user, b->user) && a->shadow == b->shadow && a->headers == b->headers &&
	       a->drain_ns == b->drain_ns && a->socket_group == b->socket_group;
}

static struct wr_cli_gateway_service *new_service(const struct wr_settings *settings,
						  const struct wr_gateway_plan *plan)
{
	struct wr_cli_gateway_service *service = calloc(1, sizeof *service);

	if (!service)
		abort();
	wr_arena_init(&service->arena, ARENA_BYTES);
	fill_settings(service, settings, plan);
	return service;
}

static void free_service(struct wr_cli_gateway_service *service)
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

static uint64_t certificate_fingerprint(const struct wr_cli_gateway_service *service)
{
	return fingerprint(service->settings.tls_cert) + 3 * fingerprint(service->settings.tls_key);
}

static int launch_child(struct wr_cli_gateway_service *service)
{
	struct wr_cli_gateway_child_opts opts = {.settings = &service->settings,
						 .domain = service->domain,
						 .default_admin = service->default_admin};
	struct weir_error error = {0};

	if (service->asleep)
		return 0;
	/* The gateway makes the token of the admin API, so that a restarted service has the same
	 * token. */
	if (wr_admin_make_start_token(&service->settings, &error) < 0) {
		wr_log(WR_LOG_ERROR, "%s", error.text);
		return -1;
	}
	service->certificate = certificate_fingerprint(service);
	service->started_ms = mono_ms();
	return wr_cli_gateway_child_start(&service->child, &opts);
}

struct wr_cli_gateway_service *wr_cli_gateway_service_start(const struct wr_settings *settings,
							    const struct wr_gateway_plan *plan)
{
	struct wr_cli_gateway_service *service = new_service(settings, plan);

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
 * root's folders. `ports` lists the service's ports, one per line. The line of a socket ends with
 * " unix:PATH". */
static void remove_sockets(const char *ports)
{
	static const char mark[] = " unix:";

	while ((ports = strstr(ports, mark))) {
		size_t len = strcspn(ports += sizeof mark - 1, "\n");

		remove_socket(ports, len);
		ports += len;
	}
}

static void end_child(struct wr_cli_gateway_service *service)
{
	char *ports;

	if (service->asleep)
		return;
	ports = service->child.summary;
	service->child.summary = NULL;
	wr_cli_gateway_child_stop(&service->child);
	if (ports)
		remove_sockets(ports);
	free(ports);
}

/* Ends the old service, so that its ports become free, and starts the new service. If the new
 * service does not start, restarts the old service. Returns the service that runs, or NULL if no
 * service runs. */
static struct wr_cli_gateway_service *replace_service(struct wr_cli_gateway_service *old,
						      struct wr_cli_gateway_service *fresh)
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

/* Returns whether only a new process can read the files of the service: the user of the service
 * cannot read the rules, or it cannot read the certificate and the certificate has changed. */
static bool is_stale(const struct wr_cli_gateway_service *service)
{
	const struct wr_cli_gateway_report *report = &service->child.report;

	return report->no_rules ||
	       (report->no_certificate && certificate_fingerprint(service) != service->certificate);
}

void wr_cli_gateway_service_reload(struct wr_cli_gateway_service **service,
				   const struct wr_settings *settings,
				   const struct wr_gateway_plan *plan)
{
	struct wr_cli_gateway_service *fresh = new_service(settings, plan);

	if (!*service) {
		free_service(fresh);
		*service = wr_cli_gateway_service_start(settings, plan);
		return;
	}
	if (!same_settings(&(*service)->settings, &fresh->settings) ||
	    !same_text((*service)->domain, fresh->domain) || is_stale(*service)) {
		*service = replace_service(*service, fresh);
		return;
	}
	free_service(fresh);
	wr_cli_gateway_child_send(&(*service)->child, WR_GATEWAY_CHILD_RELOAD);
}

/* ---- supervision ---- */

static void plan_restart(struct wr_cli_gateway_service *service)
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

static void restart_child(struct wr_cli_gateway_service *service)
{
	if (launch_child(service) < 0) {
		snprintf(service->child.ended, sizeof service->child.ended,
			 "the service could not be started");
		return;
	}
	service->starts++;
	wr_log(WR_LOG_INFO, "the service runs again (process %d)", (int)service->child.pid);
	wr_cli_gateway_service_summary(service, stdout);
	fflush(stdout);
}

void wr_cli_gateway_service_poll(struct wr_cli_gateway_service *service)
{
	if (!service || service->asleep)
		return;
	wr_cli_gateway_child_poll(&service->child);
	if (service->child.pid || service->draining)
		return;
	if (service->child.ended[0])
		plan_restart(service);
	else if (mono_ms() >= service->again_ms)
		restart_child(service);
}

bool wr_cli_gateway_service_runs(const struct wr_cli_gateway_service *service)
{
	return service && (service->asleep || service->child.pid);
}

bool wr_cli_gateway_service_renew(struct wr_cli_gateway_service *service)
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

void wr_cli_gateway_service_summary(const struct wr_cli_gateway_service *service, FILE *out)
{
	if (service && service->child.summary)
		fputs(service->child.summary, out);
}

void wr_cli_gateway_service_drain(struct wr_cli_gateway_service *service)
{
	if (!service || service->asleep)
		return;
	service->draining = true;
	wr_cli_gateway_child_send(&service->child, WR_GATEWAY_CHILD_DRAIN);
}

bool wr_cli_gateway_service_drained(struct wr_cli_gateway_service *service)
{
	if (!service || service->asleep)
		return true;
	wr_cli_gateway_child_poll(&service->child);
	return !service->child.pid || service->child.report.drained;
}

unsigned wr_cli_gateway_service_moves(const struct wr_cli_gateway_service *service, uint64_t *bytes)
{
	if (!service || service->asleep)
		return 0;
	*bytes = service->child.report.table_bytes;
	return (unsigned)service->child.report.moves;
}

uint64_t wr_cli_gateway_service_rules(const struct wr_cli_gateway_service *service, bool *defers)
{
	*defers = false;
	if (!service || service->asleep || !service->child.pid)
		return 0;
	*defers = service->child.report.defers;
	/* The upper 32 bits of the result count the restarts. Without them the result could stay
	 * the same after a restart, because a new process counts generations from 1 again. */
	return ((uint64_t)service->starts << 32) + service->child.report.rules;
}

void wr_cli_gateway_service_stop(struct wr_cli_gateway_service *service)
{
	if (!service)
		return;
	end_child(service);
	free_service(service);
}
