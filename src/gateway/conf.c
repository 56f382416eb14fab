#include "gateway/conf.h"

#include <string.h>

#include "gateway/paths.h"

/* Connections of a worker: each request may have one to a client and one to an API server, which
 * both are open files. */
static unsigned long long connections(const struct wr_gateway_plan *plan)
{
	uint64_t most = plan->open_files > 256 ? plan->open_files - 128 : 128;

	return most < 16384 ? most : 16384;
}

static void put_intro(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	if (use == WR_CONF_SHOW)
		fputs("# Made by weir gateway --print-config. Process id and temporary files are "
		      "relative\n"
		      "# to a folder of nginx's own, which -p names:\n"
		      "#\n"
		      "#     mkdir run && nginx -p $PWD/run -c $PWD/saved.conf\n"
		      "#\n"
		      "# To take it into a configuration of yours: load_module to its top, what "
		      "begins with\n"
		      "# weir_ and the maps to its http block, the rest to a server block.\n\n",
		      out);
	else
		fputs("# Made by weir gateway at every start and SIGHUP: changes here are "
		      "lost.\n\n",
		      out);
	(void)plan;
}

static void put_main(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	wr_conf_line(out, 0, "load_module", plan->module);
	if (plan->user) {
		fputs("user ", out);
		wr_conf_quote(out, plan->user);
		fputc(' ', out);
		wr_conf_quote(out, plan->group);
		fputs(";\n", out);
	}
	if (plan->settings->workers)
		fprintf(out, "worker_processes %llu;\n",
			(unsigned long long)plan->settings->workers);
	else
		fputs("worker_processes auto;\n", out);
	fprintf(out, "worker_rlimit_nofile %llu;\n", (unsigned long long)plan->open_files);
	if (use == WR_CONF_RUN)
		fputs("daemon off;\n", out);
	fprintf(out,
		"pid nginx.pid;\n"
		"lock_file nginx.lock;\n"
		"error_log stderr warn;\n"
		"events {\n"
		"    worker_connections %llu;\n"
		"}\n\n",
		connections(plan));
}

/* nginx makes all of these at start, used or not, and its own defaults belong to root. */
static void put_temporary(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	const char *const *names = wr_gateway_temporary_kinds;

	for (size_t i = 0; i < WR_GATEWAY_TEMPORARY_KINDS; i++) {
		char path[4096 + 64], directive[32];

		snprintf(path, sizeof path, "%s%s%s_temp", use == WR_CONF_RUN ? plan->bodies : "",
			 use == WR_CONF_RUN ? "/" : "", names[i]);
		snprintf(directive, sizeof directive, "%s_temp_path", names[i]);
		wr_conf_line(out, 1, directive, path);
	}
}

/* nginx waits a little longer than the service does for Redis, whose word it is then. */
static void put_central(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	uint64_t timeout_ns = plan->settings->central_timeout_ns;
	uint64_t timeout_ms = (timeout_ns + timeout_ns / 4 + 999999) / 1000000;
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	if (use == WR_CONF_SHOW)
		fprintf(out,
			"    # The Unix socket of weir serve --resp unix:%s --redis …\n"
			"    # that nginx's workers may connect to.\n",
			plan->socket);
	snprintf(address, sizeof address, "unix:%s", plan->socket);
	fputs("    weir_central ", out);
	wr_conf_quote(out, address);
	fprintf(out, " timeout=%llums fleet=%llu;\n", (unsigned long long)timeout_ms,
		(unsigned long long)plan->settings->fleet_size);
}

/* Whoever shows it at the socket is believed what it says of a request. */
static void put_link_key(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	if (use == WR_CONF_SHOW)
		fputs("    # The file of weir serve --link-key, which only its owner can read.\n",
		      out);
	wr_conf_line(out, 1, "weir_link_key", plan->link_key);
}

static void put_queue(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	if (use == WR_CONF_SHOW)
		fprintf(out,
			"    # The Unix socket of weir serve --resp unix:%s --queue URL\n"
			"    # --queue-target unix:%s, whose folder has to be there and is\n"
			"    # closed to all others (0700): what comes from it passes without "
			"limits.\n",
			plan->socket, plan->deliver);
	snprintf(address, sizeof address, "unix:%s", plan->socket);
	wr_conf_line(out, 1, "weir_queue", address);
}

static void put_weir(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	const struct wr_gateway_settings *s = plan->settings;

	wr_conf_line(out, 1, "weir_rules", plan->rules);
	fputs("    weir_table ", out);
	wr_conf_quote(out, s->table);
	if (!plan->table_as_is)
		fprintf(out, " %lluk", (unsigned long long)((s->memory_bytes + 1023) / 1024));
	if (!plan->table_as_is && s->log_bytes)
		fprintf(out, " log=%lluk", (unsigned long long)((s->log_bytes + 1023) / 1024));
	fputs(";\n", out);
	fprintf(out, "    weir_headers %s;\n", s->headers);
	if (s->keys && strcmp(s->keys, "text") != 0)
		fprintf(out, "    weir_keys %s;\n", s->keys);
	if (s->central || plan->queue)
		put_link_key(plan, use, out);
	if (s->central)
		put_central(plan, use, out);
	if (plan->queue)
		put_queue(plan, use, out);
	if (s->dry_run)
		fputs("    weir_dry_run on;\n", out);
	if (plan->has_auth) {
		fputs("    weir_auth_headers", out);
		for (size_t i = 0; i < s->auth_headers.count; i++)
			fprintf(out, " %s", s->auth_headers.items[i]);
		fputs(";\n", out);
	}
	fputc('\n', out);
}

static void put_log(const struct wr_gateway_plan *plan, FILE *out)
{
	fputs("    log_format weir '$remote_addr \"$weir_identity\" [$time_iso8601] \"$request\" "
	      "$status '\n"
	      "                    '$body_bytes_sent $request_time id=$request_id '\n"
	      "                    'upstream=$upstream_addr upstream_status=$upstream_status '\n"
	      "                    'upstream_time=$upstream_response_time weir=$weir_result '\n"
	      "                    'rule=\"$weir_rule\" limit=$weir_limit "
	      "remaining=$weir_remaining '\n"
	      "                    'retry_after=$weir_retry_after delay=$weir_delay';\n",
	      out);
	if (plan->access_log) {
		fputs("    access_log ", out);
		wr_conf_quote(out, plan->access_log);
		fputs(" weir;\n\n", out);
	} else {
		fputs("    access_log off;\n\n", out);
	}
}

/* nginx counts streams of HTTP/2 that the client resets as requests of the connection, and has no
 * other bound on them: after so many the connection ends. Over HTTP/1 a request costs an answer. */
static int requests_per_connection(const struct wr_gateway_plan *plan)
{
	return plan->tls_cert || plan->settings->h2c.count ? 1000 : 10000;
}

/* What one client may hold, and for how long. */
static void put_bounds(const struct wr_gateway_plan *plan, FILE *out)
{
	fprintf(out,
		"    server_tokens off;\n"
		"    client_header_timeout 15s;\n"
		"    client_body_timeout 30s;\n"
		"    send_timeout 60s;\n"
		"    keepalive_timeout 65s;\n"
		"    keepalive_requests %d;\n"
		"    reset_timedout_connection on;\n"
		"    client_header_buffer_size 1k;\n"
		"    large_client_header_buffers 4 16k;\n"
		"    client_body_buffer_size 16k;\n"
		"    client_max_body_size %llu;\n"
		"    http2_max_concurrent_streams 128;\n"
		"    # x_user_id and x-user-id are one variable to many an API: only the one with "
		"hyphens passes.\n"
		"    underscores_in_headers off;\n"
		"    ignore_invalid_headers on;\n\n",
		requests_per_connection(plan), (unsigned long long)plan->settings->max_body_bytes);
}

void wr_conf_write(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	put_intro(plan, use, out);
	put_main(plan, use, out);
	fputs("http {\n", out);
	put_weir(plan, use, out);
	put_temporary(plan, use, out);
	put_log(plan, out);
	put_bounds(plan, out);
	wr_conf_forwarded(plan, out);
	wr_conf_upstreams(plan, out);
	wr_conf_server(plan, out);
	if (plan->queue && !plan->settings->queue_target)
		wr_conf_deliver(plan, out);
	fputs("}\n", out);
}
