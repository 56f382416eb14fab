/* What can be listened for: one row each, in ports.c. */
#ifndef WR_SERVE_PORTS_H
#define WR_SERVE_PORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "net/listen.h"
#include "serve/settings.h"
#include "net/stream.h"

struct wr_port {
	const char *name; /* "grpc" */
	const char *flag; /* "--grpc" */
	size_t addresses; /* of its struct wr_text_list in struct wr_settings */
	const struct wr_protocol *protocol;
	bool tls;   /* if there are certificates */
	bool admin; /* has places of its own, and has to be local or have a token */
};

extern const struct wr_port wr_ports[];
extern const size_t wr_port_count;

#endif
