/* Writes the main and http blocks of nginx's configuration. `weir gateway` calls wr_conf_write() at
 * its start, at every reload and for --print-config. */
#include "gateway/conf.h"

#include <string.h>

#include "base/assert.h"
#include "gateway/paths.h"

/* Writes the text between double quotes, with `"` and `\` escaped. Asserts that the text has no `$`
 * and no control characters, because nginx cannot escape them; wr_gateway_plan() refuses such
 * texts.
 */
static void put_quoted(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		wr_assert(*text != '$' && (unsigned char)*text >= 0x20 && *text != 0x7f);
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void wr_conf_line(FILE *out, int depth, const char *directive, const char *text)
{
	fprintf(out, "%*s%s ", depth * 4, "", directive);
	put_quoted(out, text);
	fputs(";\n", out);
}

static void put_intro(enum wr_conf_use use, FILE *out)
{
	if (use == WR_CONF_SHOW)
		fputs("# Written by weir gateway --print-config. The paths of the process id and "
		      "of temporary\n"
		      "# files are relative to the folder that nginx gets with -p:\n"
		      "#\n"
		      "#     mkdir run && nginx -p $PWD/run -c $PWD/saved.conf\n"
		      "#\n"
		      "# To merge it into another configuration: put load_module at the top, the "
		      "directives that\n"
		      "# begin with weir_ and the maps into the http block, the rest into a server "
		      "block.\n\n",
		      out);
	else
		fputs("# Written by weir gateway at every start and SIGHUP. Changes made here are "
		      "lost.\n\n",
		      out);
}

static void put_main(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	/* Maximum number of connections to clients and API servers. Each connection is an open
	 * file, and 128 open files are reserved for logs, the table and the rules. */
	uint64_t connections = plan->open_files > 256 ? plan->open_files - 128 : 128;

	wr_conf_line(out, 0, "load_module", plan->module);
	if (plan->user) {
		fputs("user ", out);
		put_quoted(out, plan->user);
		fputc(' ', out);
		put_quoted(out, plan->group);
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
		(unsigned long long)(connections < 16384 ? connections : 16384));
}

/* Sets the temporary folders. nginx creates all of them when it starts, even unused folders. Its
 * default folders belong to root, so a gateway that runs as another user could not start. */
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

/* nginx waits for the service 25 % longer than the service waits for Redis. So if Redis is slow,
 * the service decides by the rule's on_store_failure, and nginx gets this decision in time. */
static void put_central(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	uint64_t timeout_ns = plan->settings->central_timeout_ns;
	uint64_t timeout_ms = (timeout_ns + timeout_ns / 4 + 999999) / 1000000;
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	if (use == WR_CONF_SHOW)
		fprintf(out,
			"    # The Unix socket of weir serve --resp unix:%s --redis …\n"
			"    # nginx's workers need permission to connect to it.\n",
			plan->socket);
	snprintf(address, sizeof address, "unix:%s", plan->socket);
	fputs("    weir_central ", out);
	put_quoted(out, address);
	fprintf(out, " timeout=%llums fleet=%llu;\n", (unsigned long long)timeout_ms,
		(unsigned long long)plan->settings->fleet_size);
}

static void put_queue(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	if (use == WR_CONF_SHOW)
		fprintf(out,
			"    # The Unix socket of weir serve --resp unix:%s --queue URL\n"
			"    # --queue-target unix:%s. Its folder must exist and must be\n"
			"    # closed to other users (0700): requests from this socket are not "
			"limited.\n",
			plan->socket, plan->deliver);
	snprintf(address, sizeof address, "unix:%s", plan->socket);
	wr_conf_line(out, 1, "weir_queue", address);
}

static void put_weir(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	const struct wr_gateway_settings *s = plan->settings;

	wr_conf_line(out, 1, "weir_rules", plan->rules);
	fputs("    weir_table ", out);
	put_quoted(out, s->table);
	if (!plan->table_as_is)
		fprintf(out, " %lluk", (unsigned long long)((s->memory_bytes + 1023) / 1024));
	if (!plan->table_as_is && s->log_bytes)
		fprintf(out, " log=%lluk", (unsigned long long)((s->log_bytes + 1023) / 1024));
	fputs(";\n", out);
	fprintf(out, "    weir_headers %s;\n", s->headers);
	if (s->keys && strcmp(s->keys, "text") != 0)
		fprintf(out, "    weir_keys %s;\n", s->keys);
	if ((s->central || plan->queue) && use == WR_CONF_SHOW)
		fputs("    # The file of weir serve --link-key, which only its owner can read.\n",
		      out);
	/* The service accepts the commands of nginx's workers only on connections that have sent
	 * the link key. */
	if (s->central || plan->queue)
		wr_conf_line(out, 1, "weir_link_key", plan->link_key);
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
		put_quoted(out, plan->access_log);
		fputs(" weir;\n\n", out);
	} else {
		fputs("    access_log off;\n\n", out);
	}
}

/* Writes the limits on the memory, connections and time that one client can use. */
static void put_bounds(const struct wr_gateway_plan *plan, FILE *out)
{
	/* Over HTTP/2 a client can open and reset streams without reading responses. nginx's only
	 * limit on that is keepalive_requests, so its value is lower if clients can use HTTP/2.
	 * Over HTTP/1 a client has to read a response for each request. */
	int requests_max = plan->tls_cert || plan->settings->h2c.count ? 1000 : 10000;

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
		"    # Many frameworks read x_user_id and x-user-id as the same header: nginx "
		"passes "
		"only the name with hyphens.\n"
		"    underscores_in_headers off;\n"
		"    ignore_invalid_headers on;\n\n",
		requests_max, (unsigned long long)plan->settings->max_body_bytes);
}

void wr_conf_write(const struct wr_gateway_plan *plan, enum wr_conf_use use, FILE *out)
{
	wr_assert(plan->settings && plan->domain && plan->rules && plan->module);
	put_intro(use, out);
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
