/* Finds nginx's processes in /proc.
 *
 * The gateway starts nginx in a process session of its own (setsid). A Ctrl-C at the terminal
 * therefore reaches only the gateway, which then drains. The gateway finds nginx's workers by their
 * process session, even after their master has died; a gateway that is started later can do this
 * too. */
#ifndef WR_GATEWAY_PROCESS_H
#define WR_GATEWAY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct wr_process {
	pid_t pid, parent, session;
	char state;    /* state in /proc/PID/stat: R, S, Z, … */
	char name[32]; /* name that the kernel shows, up to 15 characters */
};

/* Fills in *process. Returns false if there is no such process. */
bool wr_process_read(pid_t pid, struct wr_process *process);

/* Finds the nginx master of a runtime folder. This is the process whose id is in the folder's
 * nginx.pid, if that process is alive and is an nginx that was started with this folder as prefix.
 * Returns false if there is no such master. If the master has died and its workers possibly still
 * run, *left is the number of their process session. Otherwise *left is 0. */
bool wr_process_master(const char *folder, struct wr_process *master, pid_t *left);

/* Sends a signal to every nginx process of a process session except the process `except`. Returns
 * the number of these processes. If `signal` is 0, only counts them. */
size_t wr_process_signal_session(pid_t session, pid_t except, int signal);

/* Finds the process that listens on a TCP port. Returns false if no process listens, or if /proc
 * hides the process from this user. */
bool wr_process_listening(unsigned port, struct wr_process *process);

#endif
