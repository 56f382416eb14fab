/* The signals that end a program or make it read its files again, as a descriptor to wait for. */
#ifndef WR_BASE_SIGNALS_H
#define WR_BASE_SIGNALS_H

/* Blocks SIGTERM, SIGINT and SIGHUP in the calling thread. Returns a signalfd that receives them,
 * which the caller closes, or -1 with errno. */
int wr_signals_open(void);

#endif
