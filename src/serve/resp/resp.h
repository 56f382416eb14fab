/* The RESP listener: wire/resp/session.h on streams. */
#ifndef WR_SERVE_RESP_RESP_H
#define WR_SERVE_RESP_RESP_H

#include <weir/error.h>

#include "serve/settings.h"
#include "net/stream.h"

extern const struct wr_protocol wr_resp_protocol;

/* Reads the password file, if there is one. Before the loops start, and before rights are given up
 * that may be needed for it. WEIR_EINVAL, WEIR_ESYS */
int wr_resp_setup(const struct wr_settings *settings, struct weir_error *error);

/* Before the loop sleeps: what the central store has answered is said, and commands that had to
 * wait for that are run. */
void wr_resp_go_on(struct wr_loop *loop);

/* Frees what loops shared. After they have ended. */
void wr_resp_release(void);

#endif
