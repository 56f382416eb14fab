/* Requests that are kept for later, in nginx's configuration. */
#include "gateway/conf.h"

/* What the API would have been told of the request goes with it: by the time of its delivery nobody
 * knows. Who has a ticket may ask what became of it, whoever he is. */
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

/* Past the limits, which whoever delivers has asked already; fields are as they were kept. If no
 * connection to any server could be made he is told: that is not held against the request. */
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
