/* The life of a service: opening, changing the user, running, stopping. Called by the commands
 * serve and gateway. */
#include "serve/service.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/size.h"
#include "serve/admin/admin.h"
#include "serve/decide/log.h"

#include "net/log.h"
#include "net/client_count.h"
#include "serve/deliver/queue_host.h"
#include "serve/fleet/redis.h"
#include "serve/grpc/grpc.h"
#include "serve/http/http.h"
#include "serve/resp/resp.h"
#include "net/stream.h"
#include "net/tls.h"
#include "serve/open.h"
#include "table/paths.h"
#include "table/table.h"
#include "wire/http/http1.h"

#define FILES_BESIDE 64 /* number of file descriptors for the log, the table, the rules, … */
#define FILES_A_LOOP 16 /* number of file descriptors per loop: epoll, wake-up, listening sockets */
/* Number of file descriptors per loop for Redis: servers of a cluster, sentinels, name lookups. */
#define FILES_A_REDIS 96
#define CONNECTIONS_LEAST 16

static void init_locks(struct wr_service *service)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&service->lock, NULL);
	pthread_mutex_init(&service->table_info.lock, NULL);
	pthread_mutex_init(&service->table_info.reader, NULL);
	pthread_mutex_init(&service->admin_guard.lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&service->woken, &attributes);
	pthread_condattr_destroy(&attributes);
}

static unsigned loops_wanted(const struct wr_settings *settings)
{
	cpu_set_t cores;

	if (settings->threads)
		return settings->threads < WR_LOOPS_MAX ? (unsigned)settings->threads
							: WR_LOOPS_MAX;
	if (sched_getaffinity(0, sizeof cores, &cores) < 0)
		return 1;
	return CPU_COUNT(&cores) < (int)WR_LOOPS_MAX ? (unsigned)CPU_COUNT(&cores) : WR_LOOPS_MAX;
}

/* Raises the process's limit of open files, so that --max-connections connections can be open. If
 * the limit stays too low for that, lowers the maximum number of connections. Returns WEIR_ESYS if
 * fewer than CONNECTIONS_LEAST connections could be open, otherwise 0. */
static int reserve_files(struct wr_service *service, struct weir_error *error)
{
	uint64_t a_loop = FILES_A_LOOP + (service->redis ? FILES_A_REDIS : 0);
	uint64_t regions = service->redis ? service->redis->peer_count * FILES_A_REDIS : 0;
	uint64_t beside = FILES_BESIDE + WR_ADMIN_CONNECTIONS + WR_ADMIN_SOCKET_CONNECTIONS +
			  service->loop_count * a_loop + regions;
	uint64_t wanted = service->settings.max_connections + beside;
	uint64_t least = beside + CONNECTIONS_LEAST;
	uint64_t have = wr_serve_files_raise(wanted);

	service->quota.max = (unsigned)service->settings.max_connections;
	if (have >= wanted)
		return 0;
	if (have < least)
		return wr_error(error, WEIR_ESYS,
				"this process may open %llu files and needs at least %llu; raise "
				"ulimit -n (LimitNOFILE= in a systemd unit)",
				(unsigned long long)have, (unsigned long long)least);
	service->quota.max = (unsigned)(have - beside);
	wr_log(WR_LOG_WARN,
	       "this process may open only %llu files: --max-connections is lowered to %u from "
	       "%llu; raise ulimit -n (LimitNOFILE= in a systemd unit)",
	       (unsigned long long)have, service->quota.max,
	       (unsigned long long)service->settings.max_connections);
	return 0;
}

/* ---- ports ---- */

struct wr_port {
	const char *name; /* for example "grpc" */
	const char *flag; /* for example "--grpc" */
	size_t addresses; /* offset of the port's struct wr_text_list in struct wr_settings */
	const struct wr_protocol *protocol;
	bool tls;   /* true: the port uses TLS if certificates are set */
	bool admin; /* true: the port has its own connection quota and has to pass check_admin() */
};

#define AT(field) .addresses = offsetof(struct wr_settings, field)

static const struct wr_port ports[] = {
	{"grpc", "--grpc", AT(grpc), .protocol = &wr_serve_grpc_protocol, .tls = true},
	{"http", "--http", AT(http), .protocol = &wr_serve_http_protocol},
	{"admin", "--admin", AT(admin), .protocol = &wr_admin_protocol, .admin = true},
	{"resp", "--resp", AT(resp), .protocol = &wr_serve_resp_protocol, .tls = true},
};

#undef AT

#define PORT_COUNT (sizeof ports / sizeof *ports)

static const struct wr_text_list *addresses(const struct wr_service *service,
					    const struct wr_port *port)
{
	return (const struct wr_text_list *)((const char *)&service->settings + port->addresses);
}

static bool is_off(const struct wr_text_list *list)
{
	return list->count == 0 || (list->count == 1 && strcmp(list->items[0], "off") == 0);
}

/* Checks that the admin port is local or protected by a token, because the admin API can lift
 * limits. */
static int check_admin(const struct wr_service *service, const struct wr_listener *listener,
		       struct weir_error *error)
{
	if (wr_listener_local(listener) || service->settings.admin_token_file)
		return 0;
	return wr_error(error, WEIR_EINVAL,
			"--admin %s is reachable from other machines: protect it with "
			"--admin-token-file, or listen at 127.0.0.1 or a Unix socket",
			listener->text);
}

static int open_port(struct wr_service *service, const struct wr_port *port,
		     struct weir_error *error)
{
	const struct wr_text_list *list = addresses(service, port);
	struct wr_listener like = {.name = port->name,
				   .protocol = port->protocol,
				   .tls = port->tls ? service->tls : NULL,
				   .quota = &service->port_quotas[port - ports],
				   .client_counts = port->admin ? NULL : service->client_counts,
				   .group = port->admin ? 0 : service->settings.socket_group};

	for (size_t i = 0; !is_off(list) && i < list->count; i++) {
		struct wr_listener *before = service->listeners;
		int rc = wr_listener_open(&like, port->flag, list->items[i], service->loop_count,
					  &service->listeners, error);

		for (struct wr_listener *l = service->listeners; rc == 0 && l != before;
		     l = l->next)
			rc = port->admin ? check_admin(service, l, error) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Sets the maximum number of connections of each port. If several ports are open, each port can use
 * at most 7/8 of all connections, so that a flood of connections on one port leaves room for the
 * other ports. */
static int share_quota(struct wr_service *service, struct weir_error *error)
{
	unsigned max = service->quota.max, open = 0;
	uint64_t per_address = service->settings.max_per_address;

	service->port_quotas = calloc(PORT_COUNT, sizeof *service->port_quotas);
	service->client_counts =
		wr_client_counts_new(per_address ? (unsigned)per_address : (max + 3) / 4);
	if (!service->port_quotas || !service->client_counts)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	for (size_t i = 0; i < PORT_COUNT; i++)
		open += !ports[i].admin && !is_off(addresses(service, &ports[i]));
	for (size_t i = 0; i < PORT_COUNT; i++) {
		struct wr_quota *quota = &service->port_quotas[i];

		quota->max = ports[i].admin ? WR_ADMIN_CONNECTIONS : open > 1 ? max - max / 8 : max;
		quota->within = ports[i].admin ? NULL : &service->quota;
	}
	return 0;
}

static int open_ports(struct wr_service *service, struct weir_error *error)
{
	int shared = share_quota(service, error);

	if (shared < 0)
		return shared;
	for (size_t i = 0; i < PORT_COUNT; i++) {
		int rc = open_port(service, &ports[i], error);

		if (rc < 0)
			return rc;
	}
	if (!service->listeners)
		return wr_error(error, WEIR_EINVAL,
				"nothing to serve: every port is off; give --grpc, "
				"--http, --resp or --admin an address");
	return wr_admin_socket_open(service, error);
}

static int open_tls(struct wr_service *service, struct weir_error *error)
{
	const struct wr_settings *s = &service->settings;

	if (s->tls_cert && s->tls_key)
		return wr_tls_new(&(struct wr_tls_files){s->tls_cert, s->tls_key, s->tls_client_ca,
							 &s->tls_client_san},
				  &service->tls, error);
	if (s->tls_cert || s->tls_key)
		return wr_error(error, WEIR_EINVAL,
				"--tls-cert and --tls-key must be set together");
	if (s->tls_client_ca || s->tls_client_san.count)
		return wr_error(error, WEIR_EINVAL,
				"--tls-client-ca and --tls-client-san need --tls-cert and "
				"--tls-key");
	return 0;
}

/* Checks the value of the option `flag`, which is the name of a header field. The name has to
 * be valid, because Envoy copies it into responses unchecked. */
static int check_header(const char *flag, const char *name, struct weir_error *error)
{
	if (!name || wr_http1_is_token(wr_str(name)))
		return 0;
	return wr_error(error, WEIR_EINVAL, "%s '%s' is not a valid header field name", flag, name);
}

static int check_settings(const struct wr_settings *settings, struct weir_error *error)
{
	if (check_header("--limit-header", settings->limit_header, error) < 0 ||
	    check_header("--remaining-header", settings->remaining_header, error) < 0 ||
	    check_header("--reset-header", settings->reset_header, error) < 0)
		return WEIR_EINVAL;
	if (!settings->rules)
		return wr_error(error, WEIR_EINVAL,
				"--rules is missing: a file or a directory of rule files");
	if (access(settings->rules, R_OK) < 0)
		return wr_error_errno(error, WEIR_EINVAL, "--rules %s", settings->rules);
	if (settings->admin_open && settings->admin_token_file)
		return wr_error(error, WEIR_EINVAL,
				"--admin-open and --admin-token-file exclude each other: leave out "
				"one of them");
	if (settings->tls_client_san.count && !settings->tls_client_ca)
		return wr_error(error, WEIR_EINVAL,
				"--tls-client-san needs --tls-client-ca: without it, clients send "
				"no certificate");
	return wr_serve_queue_check(&settings->queue, error);
}

/* Reads the list of --refunds: networks, and optionally the word `unix:` for all clients on Unix
 * sockets. */
static int read_refunds(struct wr_service *service, struct weir_error *error)
{
	const struct wr_text_list *list = &service->settings.refunds;
	struct wr_text_list networks = {0};

	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i], "unix:") == 0)
			service->refunds_unix = true;
		else
			networks.items[networks.count++] = list->items[i];
	return wr_networks_read(&service->refunds, &networks, "--refunds", error);
}

int wr_service_init(struct wr_service *service, const struct wr_settings *settings,
		    struct weir_error *error)
{
	struct weir_rules *rules = NULL;
	int rc;

	memset(service, 0, sizeof *service);
	init_locks(service);
	wr_metrics_choice_init(&service->metrics,
			       (uint32_t)(settings->metrics_rules ? settings->metrics_rules
								  : WR_METRICS_RULES_MAX));
	service->changes = wr_changes_new();
	service->settings = *settings;
	service->loop_count = loops_wanted(settings);
	wr_notify_open(&service->notify);
	rc = check_settings(&service->settings, error);
	if (rc == 0)
		rc = read_refunds(service, error);
	if (rc == 0)
		rc = wr_networks_read(&service->trusted, &service->settings.trust, "--trust",
				      error);
	service->settings.redis.tls_elsewhere =
		settings->queue.url && strncmp(settings->queue.url, "rediss", 6) == 0;
	if (rc == 0)
		rc = wr_serve_redis_new(&service->settings.redis, service->loop_count,
					&service->redis, error);
	if (rc == 0) {
		service->core = wr_core_open(service, !settings->quiet, &rules, error);
		rc = service->core ? 0 : WEIR_EINVAL;
	}
	if (rc == 0)
		rc = open_tls(service, error);
	if (rc == 0)
		rc = wr_serve_decision_log_open(&service->settings, service->loop_count,
						&service->decision_log, error);
	if (rc == 0)
		rc = wr_serve_resp_setup(&service->settings, error);
	if (rc == 0)
		rc = reserve_files(service, error);
	if (rc == 0)
		rc = wr_admin_make_start_token(&service->settings, error);
	if (rc == 0)
		rc = open_ports(service, error);
	service->first_rules = rules;
	if (rc < 0)
		wr_service_free(service);
	return rc;
}

/* ---- change of user ---- */

/* Checks that the user can read a file that is reloaded later. Called after the change of user. */
static int check_readable(const char *flag, const char *path, const struct wr_user *user,
			  struct weir_error *error)
{
	if (!path || access(path, R_OK) == 0)
		return 0;
	return wr_error_errno(error, WEIR_EACCESS,
			      "%s %s cannot be read by user %s, so the service could not read it "
			      "again after a change; make %s its owner (chown), or give its group "
			      "read access (chgrp, chmod g+r)",
			      flag, path, user->name, user->name);
}

/* If the table is in WR_SYSTEM_DIR, stores this folder in settings.table_dir. Called before the
 * process changes its user, because the new user may have another default folder. With
 * table_dir set, a resized table is looked for in WR_SYSTEM_DIR, where the old table was. */
static void keep_table_folder(struct wr_service *service)
{
	char *slash;

	if (service->settings.table_dir)
		return;
	snprintf(service->table_folder, sizeof service->table_folder, "%s",
		 service->core->table->path);
	slash = strrchr(service->table_folder, '/');
	if (slash)
		*slash = 0;
	if (strcmp(service->table_folder, WR_SYSTEM_DIR) == 0)
		service->settings.table_dir = service->table_folder;
}

int wr_service_give(struct wr_service *service, const struct wr_user *user,
		    struct weir_error *error)
{
	const struct wr_settings *s = &service->settings;
	const struct {
		const char *flag, *path;
	} files[] = {
		{"--rules", s->renewed ? NULL : s->rules},
		{"--tls-cert", s->renewed ? NULL : s->tls_cert},
		{"--tls-key", s->renewed ? NULL : s->tls_key},
		{"--tls-client-ca", s->tls_client_ca},
		{"--admin-token-file", s->admin_token_file},
		{"--redis-password-file", s->redis.password_file},
		{"--redis-ca", s->redis.ca},
		{"--redis-cert", s->redis.cert},
		{"--redis-key", s->redis.key},
		{"--queue-target-ca", s->queue.target_ca},
		{"--queue-password-file", s->queue.password_file},
	};
	int rc;

	if (!user->change)
		return wr_user_become(user, error);
	keep_table_folder(service);
	rc = wr_serve_queue_give(service, user->uid, user->gid, error);
	for (struct wr_listener *l = service->listeners; l && rc == 0; l = l->next)
		rc = wr_listener_own(l, user->uid, l->group ? l->group : user->gid, error);
	wr_serve_decision_log_give(service->decision_log, user->uid, user->gid);
	if (rc == 0)
		rc = wr_user_become(user, error);
	for (size_t i = 0; i < sizeof files / sizeof *files && rc == 0; i++)
		rc = check_readable(files[i].flag, files[i].path, user, error);
	return rc == 0 ? wr_serve_queue_check_given(&s->queue, user->name, error) : rc;
}

/* ---- running ---- */

static int start_loop(struct wr_service *service, unsigned number, struct weir_error *error)
{
	struct wr_loop *loop = &service->loops[number];
	int rc = wr_loop_init(loop, service, number);

	if (rc < 0)
		return wr_error(error, rc, "cannot create an event loop: %s", weir_strerror(rc));
	service->loops_ready++;
	for (struct wr_listener *l = service->listeners; l; l = l->next) {
		rc = wr_net_listen(&loop->net, l, error);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int wr_service_start(struct wr_service *service, struct weir_error *error)
{
	int rc;

	wr_assert(service->loop_count > 0 && !service->loops);
	service->loops = calloc(service->loop_count, sizeof *service->loops);
	if (!service->loops)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = wr_serve_queue_host_open(service, error);
	for (unsigned i = 0; i < service->loop_count && rc == 0; i++)
		rc = start_loop(service, i, error);
	if (rc == 0)
		rc = wr_core_watch_rules(service, service->core, service->first_rules,
					 &service->watch, error);
	for (unsigned i = 0; i < service->loop_count && rc == 0; i++) {
		rc = wr_loop_start(&service->loops[i]);
		if (rc < 0)
			wr_error_errno(error, rc, "cannot start a thread");
	}
	if (rc == 0 && (wr_serve_decision_log_start(service->decision_log) < 0 ||
			wr_housekeeping_start(service) < 0))
		rc = wr_error_errno(error, WEIR_ESYS, "cannot start a thread");
	if (rc == 0)
		wr_notify_send(&service->notify, "READY=1");
	return rc;
}

void wr_service_wake(struct wr_service *service, bool *flag)
{
	pthread_mutex_lock(&service->lock);
	if (flag)
		*flag = true;
	pthread_cond_signal(&service->woken);
	pthread_mutex_unlock(&service->lock);
}

void wr_service_reload(struct wr_service *service)
{
	wr_service_wake(service, &service->reload_asked);
}

void wr_service_drain(struct wr_service *service)
{
	wr_service_wake(service, &service->drain_asked);
}

void wr_service_notify_loops(struct wr_service *service, enum wr_loop_message message)
{
	wr_assert(service->loops_ready <= service->loop_count);
	for (unsigned i = 0; i < service->loops_ready; i++)
		wr_loop_notify(&service->loops[i], message);
}

bool wr_service_is_ending(const struct wr_service *service)
{
	return __atomic_load_n(&service->stage, __ATOMIC_ACQUIRE) != WR_SERVICE_RUNNING;
}

enum wr_health wr_service_health(const struct wr_service *service)
{
	return wr_service_is_ending(service) || __atomic_load_n(&service->unready, __ATOMIC_RELAXED)
		       ? WR_HEALTH_NOT_SERVING
		       : WR_HEALTH_SERVING;
}

bool wr_service_refunds(const struct wr_service *service, const struct wr_stream *stream)
{
	if (wr_stream_listener(stream)->endpoint.kind == WR_ENDPOINT_UNIX)
		return service->refunds_unix || wr_stream_is_own(stream);
	return wr_networks_hold(&service->refunds, wr_stream_peer(stream));
}

struct wr_core *wr_service_core(struct wr_service *service)
{
	struct wr_core *core;

	pthread_mutex_lock(&service->lock);
	core = service->core;
	wr_assert(core);
	wr_core_hold(core);
	pthread_mutex_unlock(&service->lock);
	return core;
}

void wr_service_stop(struct wr_service *service)
{
	wr_housekeeping_stop(service);
	wr_service_notify_loops(service, WR_LOOP_STOP);
	for (unsigned i = 0; i < service->loops_ready; i++)
		wr_loop_join(&service->loops[i]);
	wr_serve_queue_host_close(service->queue);
	weir_watch_stop(service->watch);
	service->watch = NULL;
}

void wr_service_free(struct wr_service *service)
{
	wr_serve_queue_host_close(service->queue);
	wr_serve_queue_forget_seals(service);
	for (unsigned i = 0; i < service->loops_ready; i++)
		wr_loop_free(&service->loops[i]);
	free(service->loops);
	wr_serve_decision_log_close(service->decision_log);
	wr_serve_resp_release();
	wr_listeners_close(service->listeners);
	wr_client_counts_free(service->client_counts);
	free(service->port_quotas);
	wr_tls_free(service->tls);
	wr_serve_redis_free(service->redis);
	wr_networks_free(&service->refunds);
	wr_networks_free(&service->trusted);
	wr_core_release(service->core);
	wr_notify_close(&service->notify);
	wr_changes_free(service->changes);
	pthread_cond_destroy(&service->woken);
	wr_metrics_choice_free(&service->metrics);
	pthread_mutex_destroy(&service->table_info.reader);
	pthread_mutex_destroy(&service->table_info.lock);
	pthread_mutex_destroy(&service->admin_guard.lock);
	pthread_mutex_destroy(&service->lock);
}
