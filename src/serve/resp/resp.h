/* The RESP listener, which runs the sessions of wire/resp/session.h on streams. */
#ifndef WR_SERVE_RESP_RESP_H
#define WR_SERVE_RESP_RESP_H

#include <weir/error.h>

#include "serve/settings.h"
#include "net/stream.h"

extern const struct wr_protocol wr_serve_resp_protocol;

/* Reads the files with the passwords of clients and the link key of nginx workers, if the settings
 * name these files. Called before the loops start and before the process drops its privileges.
 * Returns 0, WEIR_EINVAL or WEIR_ESYS. */
int wr_serve_resp_setup(const struct wr_settings *settings, struct weir_error *error);

/* Writes the replies to commands that no longer wait, and runs commands that can run now. Called
 * before the loop sleeps. */
void wr_serve_resp_go_on(struct wr_loop *loop);

/* Frees the RESP state of all loops. Called after the loops have ended. */
void wr_serve_resp_release(void);

#endif
