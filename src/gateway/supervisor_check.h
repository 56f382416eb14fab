/* Runs `nginx -t` as a child process on the loop and collects its output. */
#ifndef WR_GATEWAY_SUPERVISOR_CHECK_H
#define WR_GATEWAY_SUPERVISOR_CHECK_H

#include <stdbool.h>

#include <uv.h>

struct wr_conf_check {
	uv_process_t process;
	uv_pipe_t output;
	unsigned handles; /* number of open libuv handles; above 0 while the check runs */
	bool good;
	size_t len;
	char report[8192]; /* output of nginx; a longer output is cut */
	void (*done)(struct wr_conf_check *check);
	void *data; /* free for use by the caller */
};

/* Starts nginx -t on the file. The caller sets check->done and check->data before. check->done is
 * called once, on the loop, even if nginx could not be started. *check must live until then. */
void wr_conf_check_start(struct wr_conf_check *check, uv_loop_t *loop, const char *nginx,
			 const char *folder, const char *path);

#endif
