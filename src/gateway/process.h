/* Processes of nginx, as /proc shows them.
 *
 * nginx is started as the leader of a session of its own, so a Ctrl-C at the terminal reaches the
 * gateway alone, which then drains; and so its workers are found by the session when the master is
 * gone, whoever started it. */
#ifndef WR_GATEWAY_PROCESS_H
#define WR_GATEWAY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct wr_process {
	pid_t pid, parent, session;
	char state;    /* R, S, Z, … */
	char name[32]; /* as the kernel has it, up to 15 characters */
};

/* False: there is no such process. */
bool wr_process_read(pid_t pid, struct wr_process *process);

/* The master whose folder this is: named in its nginx.pid, alive, an nginx started with this
 * prefix. False: there is none. *left is then the session in which workers may be left, or 0. */
bool wr_process_master(const char *folder, struct wr_process *master, pid_t *left);

/* Sends a signal (0: none) to every nginx of a session but `except`. Returns how many there are. */
size_t wr_process_signal_session(pid_t session, pid_t except, int signal);

/* The process that listens on a TCP port, by its socket. False: none that we may see. */
bool wr_process_listening(unsigned port, struct wr_process *process);

#endif
