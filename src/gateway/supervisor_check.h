/* nginx -t beside the loop: what it says is kept, to be shown if it says no. */
#ifndef WR_GATEWAY_SUPERVISOR_CHECK_H
#define WR_GATEWAY_SUPERVISOR_CHECK_H

#include <stdbool.h>

#include <uv.h>

struct wr_conf_check {
	uv_process_t process;
	uv_pipe_t output;
	unsigned handles; /* open ones; the check runs while there are any */
	bool good;
	size_t len;
	char report[8192]; /* cut to fit */
	void (*done)(struct wr_conf_check *check);
	void *data; /* the owner's */
};

/* Runs nginx -t on the file; `done` comes later, also if nginx could not be run. */
void wr_conf_check_start(struct wr_conf_check *check, uv_loop_t *loop, const char *nginx,
			 const char *folder, const char *path);

#endif
