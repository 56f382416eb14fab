/* Writes the parts of nginx's configuration for deferred requests. Called by conf.c and
 * conf_server.c if the plan has a queue. */
#include "gateway/conf.h"

/* Writes the fields that are stored with a deferred request. These are the fields that nginx would
 * send to the API now, such as the client address and the user. At delivery nginx would not know
 * their values. Also writes the location for tickets. A client needs only the ticket to ask for the
 * state of a request. */
void wr_conf_queued(const struct wr_gateway_plan *plan, FILE *out)
{
	wr_conf_fields(plan, "weir_queue_field", 2, false, out);
	fputs("        location /.weir/tickets/ {\n"
	      "            weir off;\n"
	      "            weir_auth off;\n"
	      "            weir_tickets;\n"
	      "        }\n",
	      out);
}

/* Writes the server for deliveries. This server applies no limits, because the deliverer has
 * already asked the limiter. The server sends header fields as they were stored. The field
 * X-Weir-Unreachable reports that no API server accepted a connection; the deliverer does not count
 * such an attempt as a try. */
void wr_conf_deliver(const struct wr_gateway_plan *plan, FILE *out)
{
	char address[WR_UNIX_PATH_MAX + sizeof "unix:"];

	snprintf(address, sizeof address, "unix:%s", plan->deliver);
	fputs("    map $upstream_connect_time $weir_unreachable {\n"
	      "        default \"\";\n"
	      "        \"~^[-, :]+$\" 1;\n"
	      "    }\n"
	      "    server {\n",
	      out);
	wr_conf_line(out, 2, "listen", address);
	fputs("        server_name \"\";\n"
	      "        weir off;\n"
	      "        client_max_body_size 0;\n"
	      "        location / {\n",
	      out);
	wr_conf_pass(plan, out);
	fputs("            proxy_set_header Host $http_host;\n"
	      "            proxy_set_header Connection \"\";\n"
	      "            proxy_request_buffering off;\n"
	      "            proxy_hide_header X-Weir-Unreachable;\n"
	      "            add_header X-Weir-Unreachable $weir_unreachable always;\n"
	      "        }\n"
	      "    }\n",
	      out);
}
