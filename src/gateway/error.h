/* What keeps the gateway from working: a text that names the subject and the remedy. */
#ifndef WR_GATEWAY_ERROR_H
#define WR_GATEWAY_ERROR_H

struct wr_gateway_error {
	char text[2048];
};

/* Returns -1, so that a failure is one statement. */
int wr_gateway_fail(struct wr_gateway_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
