/* A minimal HTTP/1.1 server on libmicrohttpd, with one thread and epoll. It sends the same short
 * response to every request, and creates the response anew each time, as in libmicrohttpd's
 * tutorial. The benchmark of /v1/check compares `weir serve` with this server.
 *
 *   bare-mhd PORT */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_len, void **state)
{
	static char hello[] = "hello, world\n";
	static int begun;
	struct MHD_Response *response;
	enum MHD_Result result;

	(void)cls, (void)url, (void)method, (void)version, (void)upload;
	if (!*state) { /* libmicrohttpd's first call for a request: the body has not arrived */
		*state = &begun;
		return MHD_YES;
	}
	if (*upload_len) {
		*upload_len = 0;
		return MHD_YES;
	}
	response = MHD_create_response_from_buffer(sizeof hello - 1, hello, MHD_RESPMEM_PERSISTENT);
	result = MHD_queue_response(connection, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	struct MHD_Daemon *daemon;

	if (argc != 2 || inet_pton(AF_INET, "127.0.0.1", &at.sin_addr) != 1) {
		fputs("bare-mhd PORT\n", stderr);
		return 2;
	}
	at.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
	daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, NULL,
				  MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_END);
	if (!daemon) {
		fprintf(stderr, "bare-mhd: cannot listen at port %s\n", argv[1]);
		return 1;
	}
	for (;;)
		pause();
}
