/* Checks nginx's configuration with `nginx -t`. Called by supervisor.c. */
#include "gateway/supervisor_check.h"

#include <stdio.h>
#include <string.h>

static void on_closed(uv_handle_t *handle)
{
	struct wr_conf_check *check = handle->data;

	if (--check->handles == 0)
		check->done(check);
}

static void on_exit(uv_process_t *process, int64_t status, int signal)
{
	struct wr_conf_check *check = process->data;

	check->good = status == 0 && signal == 0;
	uv_close((uv_handle_t *)process, on_closed);
}

/* Gives libuv the free part of check->report. When check->report is full, further output is read
 * and discarded, so that nginx does not block on the pipe. */
static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
	static char sink[1024];
	struct wr_conf_check *check = handle->data;
	size_t room = sizeof check->report - 1 - check->len;

	(void)size;
	*buffer = room ? uv_buf_init(check->report + check->len, (unsigned)room)
		       : uv_buf_init(sink, sizeof sink);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
	struct wr_conf_check *check = stream->data;

	if (count < 0)
		uv_close((uv_handle_t *)stream, on_closed);
	else if (buffer->base == check->report + check->len)
		check->len += (size_t)count;
	check->report[check->len] = 0;
}

void wr_conf_check_start(struct wr_conf_check *check, uv_loop_t *loop, const char *nginx,
			 const char *folder, const char *path)
{
	const char *args[] = {nginx, "-t", "-q", "-p", folder, "-c", path, "-e", "stderr", NULL};
	uv_stdio_container_t io[3] = {{.flags = UV_IGNORE},
				      {.flags = UV_IGNORE},
				      {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
				       .data.stream = (uv_stream_t *)&check->output}};
	uv_process_options_t options = {.exit_cb = on_exit,
					.file = nginx,
					.args = (char **)args,
					.cwd = folder,
					.stdio = io,
					.stdio_count = 3};
	int rc;

	check->good = false;
	check->len = 0;
	check->report[0] = 0;
	check->handles = 2;
	uv_pipe_init(loop, &check->output, 0);
	check->output.data = check;
	rc = uv_spawn(loop, &check->process, &options);
	check->process.data = check;
	if (rc != 0) {
		snprintf(check->report, sizeof check->report, "%s: %s\n", nginx, uv_strerror(rc));
		uv_close((uv_handle_t *)&check->process, on_closed);
		uv_close((uv_handle_t *)&check->output, on_closed);
		return;
	}
	uv_read_start((uv_stream_t *)&check->output, on_alloc, on_read);
}
