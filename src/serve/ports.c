/* The list of the ports that a service can open. Used by service.c. */
#include "serve/ports.h"

#include "serve/admin/admin.h"
#include "serve/grpc/grpc.h"
#include "serve/http/http.h"
#include "serve/resp/resp.h"

#define AT(field) .addresses = offsetof(struct wr_settings, field)

const struct wr_port wr_ports[] = {
	{"grpc", "--grpc", AT(grpc), .protocol = &wr_grpc_protocol, .tls = true},
	{"http", "--http", AT(http), .protocol = &wr_http_protocol},
	{"admin", "--admin", AT(admin), .protocol = &wr_admin_protocol, .admin = true},
	{"resp", "--resp", AT(resp), .protocol = &wr_resp_protocol, .tls = true},
};

const size_t wr_port_count = sizeof wr_ports / sizeof *wr_ports;
