/* The list of the ports that a service can open. ports.c defines the list. */
#ifndef WR_SERVE_PORTS_H
#define WR_SERVE_PORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/listen.h"
#include "serve/settings.h"
#include "net/stream.h"

struct wr_port {
	const char *name; /* for example "grpc" */
	const char *flag; /* for example "--grpc" */
	size_t addresses; /* offset of the port's struct wr_text_list in struct wr_settings */
	const struct wr_protocol *protocol;
	bool tls;   /* the port uses TLS if certificates are set */
	bool admin; /* the port has its own limit of connections, and is local or needs a token */
};

extern const struct wr_port wr_ports[];
extern const size_t wr_port_count;

#endif
