/* Tests the text of nginx's configuration. The suites in test/e2e start nginx with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "gateway/conf.h"

static struct wr_gateway_settings settings;
static struct wr_gateway_plan plan;
static char *text;

static int setup(void **state)
{
	struct weir_error error = {0};

	(void)state;
	settings = (struct wr_gateway_settings){
		.upstream = {.count = 2, .items = {"http://127.0.0.1:3000", "unix:/run/api.sock"}},
		.listen = {.count = 1},
		.table = "default",
		.headers = "x",
		.memory_bytes = 67108864,
		.auth_headers = {.count = 2, .items = {"Remote-User", "X-Auth"}},
		.max_body_bytes = 16777216,
		.upstream_timeout_ns = 1500000000,
	};
	plan = (struct wr_gateway_plan){
		.settings = &settings,
		.rules = "/etc/weir/rules",
		.domain = "api",
		.module = "/lib/module.so",
		.runtime = "/run/weir/gateway-8080",
		.bodies = "/var/tmp/bodies",
		.open_files = 1024,
	};
	if (wr_endpoint_parse(wr_str("8080"), &settings.listen.items[0], NULL) != 0)
		return -1;
	return wr_plan_upstreams(&plan, &error);
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

static void write_conf(enum wr_conf_use use)
{
	size_t len;
	FILE *out;

	free(text);
	out = open_memstream(&text, &len);
	wr_conf_write(&plan, use, out);
	fclose(out);
}

static void expect_text(const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("no '%s' in:\n%s", wanted, text);
}

static void expect_no_text(const char *unwanted)
{
	if (strstr(text, unwanted))
		fail_msg("'%s' in:\n%s", unwanted, text);
}

static void writes_the_log_share_of_the_table(void **state)
{
	(void)state;
	settings.log_bytes = 16777217;
	write_conf(WR_CONF_RUN);
	expect_text("    weir_table \"default\" 65536k log=16385k;\n");
	plan.table_as_is = true;
	write_conf(WR_CONF_RUN);
	expect_text("    weir_table \"default\";\n");
}

static void writes_the_defaults(void **state)
{
	(void)state;
	write_conf(WR_CONF_RUN);
	expect_text("load_module \"/lib/module.so\";\n");
	expect_no_text("user \"");
	expect_text("worker_processes auto;\n");
	expect_text("daemon off;\n");
	expect_text("    worker_connections 896;\n");
	expect_text("    weir_rules \"/etc/weir/rules\";\n");
	expect_text("    weir_table \"default\" 65536k;\n");
	expect_text("    weir_headers x;\n");
	expect_no_text("weir_dry_run");
	expect_no_text("weir_keys");
	expect_text("    client_body_temp_path \"/var/tmp/bodies/client_body_temp\";\n");
	expect_text("    client_max_body_size 16777216;\n");
	expect_text("        server 127.0.0.1:3000 max_fails=3 fail_timeout=5s;\n");
	expect_text("        server unix:/run/api.sock max_fails=3 fail_timeout=5s;\n");
	expect_text("        listen *:8080 backlog=4096;\n");
	expect_no_text("listen [::]:8080");
	expect_text("        weir \"api\";\n");
	expect_text("            proxy_pass http://weir_api;\n");
	expect_text("            proxy_request_buffering on;\n");
	expect_text("            proxy_read_timeout 1500ms;\n");
	expect_text("\n    keepalive_requests 10000;\n");
	expect_text("    access_log off;\n");
	expect_no_text("weir_auth");
	expect_no_text("ssl");
	expect_no_text("realip");
}

/* nginx's timeout is 25 % longer than the service's timeout for Redis. */
static void asks_the_service_for_central_limits(void **state)
{
	(void)state;
	write_conf(WR_CONF_RUN);
	expect_no_text("weir_central");
	expect_no_text("weir_link_key");
	settings.central = true;
	plan.link_key = "/run/gateway/link.key";
	settings.central_timeout_ns = 20000000;
	settings.fleet_size = 3;
	plan.socket = "/var/tmp/bodies/weir.sock";
	write_conf(WR_CONF_RUN);
	expect_text("    weir_central \"unix:/var/tmp/bodies/weir.sock\" timeout=25ms fleet=3;\n");
	expect_text("    weir_link_key \"/run/gateway/link.key\";\n");
	expect_no_text("weir serve");
	settings.central_timeout_ns = 1000001;
	write_conf(WR_CONF_SHOW);
	expect_text("    # The Unix socket of weir serve --resp unix:/var/tmp/bodies/weir.sock "
		    "--redis");
	expect_text(" timeout=2ms fleet=3;\n");
}

static void writes_the_options(void **state)
{
	(void)state;
	plan.user = "www-data";
	plan.group = "www-data";
	plan.has_v6 = true;
	plan.access_log = "/var/log/weir.log";
	settings.workers = 4;
	settings.dry_run = true;
	settings.keys = "hidden";
	settings.stream_uploads = true;
	settings.h2c.count = 1;
	assert_int_equal(wr_endpoint_parse(wr_str("[::1]:8081"), &settings.h2c.items[0], NULL), 0);
	write_conf(WR_CONF_RUN);
	expect_text("user \"www-data\" \"www-data\";\n");
	expect_text("worker_processes 4;\n");
	expect_text("    weir_dry_run on;\n");
	expect_text("    weir_keys hidden;\n");
	expect_text("        listen [::]:8080 backlog=4096;\n");
	expect_text("        listen [::1]:8081 http2 backlog=4096;\n");
	expect_text("\n    keepalive_requests 1000;\n");
	expect_text("            proxy_request_buffering off;\n");
	expect_text("    access_log \"/var/log/weir.log\" weir;\n");
}

static void writes_tls_on_both_sides(void **state)
{
	(void)state;
	plan.tls_cert = "/c.pem";
	plan.tls_key = "/k.pem";
	plan.upstream_name = "api.example.com";
	plan.upstream_ca = "/ca.pem";
	write_conf(WR_CONF_RUN);
	expect_text("        listen *:8080 ssl http2 backlog=4096;\n");
	expect_text("\n    keepalive_requests 1000;\n");
	expect_text("        ssl_certificate \"/c.pem\";\n");
	expect_text("        ssl_certificate_key \"/k.pem\";\n");
	expect_text("        ssl_protocols TLSv1.2 TLSv1.3;\n");
	expect_text("            proxy_pass https://weir_api;\n");
	expect_text("            proxy_ssl_verify on;\n");
	expect_text("            proxy_ssl_name \"api.example.com\";\n");
	expect_text("            proxy_ssl_trusted_certificate \"/ca.pem\";\n");
}

/* The fields X-Forwarded-… of clients are replaced. With --trust, the fields of trusted proxies are
 * passed on. */
static void replaces_forwarded_fields(void **state)
{
	(void)state;
	write_conf(WR_CONF_RUN);
	expect_text("            proxy_set_header X-Forwarded-For $remote_addr;\n");
	expect_text("            proxy_set_header Forwarded \"\";\n");
	expect_text("            proxy_set_header X-Original-URL \"\";\n");
	expect_text("            proxy_set_header X-Forwarded-Ssl \"\";\n");
	expect_text("            proxy_set_header X-Forwarded-Scheme \"\";\n");
	expect_text("            proxy_set_header X-Original-URI \"\";\n");
	expect_text("            proxy_set_header X-Forwarded-Uri \"\";\n");
	expect_text("            proxy_set_header X-Original-Method \"\";\n");
	expect_text("            proxy_set_header X-Forwarded-Method \"\";\n");
	expect_text("            proxy_set_header True-Client-IP \"\";\n");
	expect_text("            proxy_set_header X-Client-IP \"\";\n");
	expect_text("            proxy_set_header Client-IP \"\";\n");
	expect_text("            proxy_set_header X-Original-Host \"\";\n");
	settings.trust = (struct wr_text_list){.count = 2, .items = {"10.0.0.0/8", "unix:"}};
	write_conf(WR_CONF_RUN);
	expect_text("    set_real_ip_from 10.0.0.0/8;\n    set_real_ip_from unix:;\n");
	expect_text("        10.0.0.0/8 1;\n    }\n");
	expect_text("        \"unix:\" 1;\n");
	expect_text("    real_ip_recursive on;\n");
	expect_text("            proxy_set_header X-Forwarded-For $weir_forwarded_for;\n");
	expect_text("            proxy_set_header Forwarded \"\";\n");
	settings.trust = (struct wr_text_list){.count = 1, .items = {"10.0.0.0/8"}};
	write_conf(WR_CONF_RUN);
	expect_text("        \"unix:\" 0;\n");
}

static void writes_the_authentication_location(void **state)
{
	struct weir_error error = {0};

	(void)state;
	settings.auth = "http://auth:4180/verify;v=1";
	assert_int_equal(wr_plan_auth(&plan, &error), 0);
	write_conf(WR_CONF_RUN);
	expect_text("    weir_auth_headers Remote-User X-Auth;\n");
	expect_text("        weir_auth /.weir/auth;\n");
	expect_text("            internal;\n");
	expect_text("            proxy_pass \"http://weir_auth/verify;v=1\";\n");
	expect_text("        server auth:4180 max_fails=0;\n");
	expect_text("            proxy_set_header Host auth:4180;\n");
	/* The API gets these fields as the authentication service returned them. The service itself
	 * gets no such field of the client. */
	expect_text("            proxy_set_header Remote-User $weir_auth_http_remote_user;\n");
	expect_text("            proxy_set_header X-Auth $weir_auth_http_x_auth;\n");
	expect_text("            proxy_set_header Remote-User \"\";\n");
	expect_text("            proxy_pass_request_body off;\n");
	expect_text("            proxy_set_header X-Original-URI $request_uri;\n");
	expect_text("            proxy_set_header X-Original-URI \"\";\n");
	/* A response 304 or 206 of the service would not count as success. */
	expect_text("            proxy_set_header If-None-Match \"\";\n");
	expect_text("            proxy_set_header Range \"\";\n");
}

static void prints_a_configuration_to_save(void **state)
{
	(void)state;
	write_conf(WR_CONF_SHOW);
	expect_no_text("daemon off");
	expect_text("    client_body_temp_path \"client_body_temp\";\n");
	expect_no_text("/var/tmp/bodies");
}

static void escapes_quoted_text(void **state)
{
	(void)state;
	plan.rules = "/a\"; weir off; #\\";
	plan.domain = "d\\\" }";
	write_conf(WR_CONF_RUN);
	expect_text("    weir_rules \"/a\\\"; weir off; #\\\\\";\n");
	expect_text("        weir \"d\\\\\\\" }\";\n");
}

/* With a queue, the configuration has its socket, the stored fields, tickets, and the server for
 * deliveries. */
static void writes_the_queue(void **state)
{
	(void)state;
	write_conf(WR_CONF_RUN);
	expect_no_text("weir_queue");
	expect_no_text("weir_tickets");
	expect_no_text("deliver");
	plan.queue = "file:/var/lib/weir/queue";
	plan.socket = "/run/weir/weir.sock";
	plan.deliver = "/run/weir/deliver/api.sock";
	plan.link_key = "/run/weir/link.key";
	plan.has_auth = true;
	write_conf(WR_CONF_RUN);
	expect_text("    weir_link_key \"/run/weir/link.key\";\n");
	expect_text("    weir_queue \"unix:/run/weir/weir.sock\";\n");
	expect_text("        weir_queue_field Host $weir_host;\n");
	expect_text("        weir_queue_field X-Forwarded-For $remote_addr;\n");
	expect_text("        weir_queue_field X-Original-URL \"\";\n");
	expect_text("        weir_queue_field Remote-User $weir_auth_http_remote_user;\n");
	expect_text("        location /.weir/tickets/ {\n"
		    "            weir off;\n"
		    "            weir_auth off;\n"
		    "            weir_tickets;\n");
	expect_text("    server {\n"
		    "        listen \"unix:/run/weir/deliver/api.sock\";\n"
		    "        server_name \"\";\n"
		    "        weir off;\n"
		    "        client_max_body_size 0;\n");
	expect_text("            proxy_set_header Host $http_host;\n");
	expect_no_text("file:/var/lib/weir/queue"); /* the queue's URL may contain a password */
	settings.queue_target = "http://10.0.0.5:3000";
	write_conf(WR_CONF_RUN);
	expect_text("weir_queue_field Host");
	expect_no_text("deliver");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(writes_the_log_share_of_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(writes_the_defaults, setup, teardown),
		cmocka_unit_test_setup_teardown(asks_the_service_for_central_limits, setup,
						teardown),
		cmocka_unit_test_setup_teardown(writes_the_options, setup, teardown),
		cmocka_unit_test_setup_teardown(writes_tls_on_both_sides, setup, teardown),
		cmocka_unit_test_setup_teardown(replaces_forwarded_fields, setup, teardown),
		cmocka_unit_test_setup_teardown(writes_the_authentication_location, setup,
						teardown),
		cmocka_unit_test_setup_teardown(prints_a_configuration_to_save, setup, teardown),
		cmocka_unit_test_setup_teardown(writes_the_queue, setup, teardown),
		cmocka_unit_test_setup_teardown(escapes_quoted_text, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
