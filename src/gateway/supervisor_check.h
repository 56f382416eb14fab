/* Runs `nginx -t` as a child process on the loop and collects its output. */
#ifndef WR_GATEWAY_SUPERVISOR_CHECK_H
#define WR_GATEWAY_SUPERVISOR_CHECK_H

#include <stdbool.h>

#include <uv.h>

struct wr_conf_check {
	uv_process_t process;
	uv_pipe_t output;
	unsigned handles; /* open libuv handles; the check runs while there are any */
	bool good;
	size_t len;
	char report[8192]; /* nginx's output, cut if it is longer */
	void (*done)(struct wr_conf_check *check);
	void *data; /* for the caller */
};

/* Starts nginx -t on the file. check->done is called once, from the loop, also if nginx could not
 * be started. check->done and check->data are set by the caller; *check must live until `done`. */
void wr_conf_check_start(struct wr_conf_check *check, uv_loop_t *loop, const char *nginx,
			 const char *folder, const char *path);

#endif
