/* Error codes of libweir. A refusal is a decision, not an error: see struct weir_decision. */
#ifndef WEIR_ERROR_H
#define WEIR_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/* X(name, number, sentence). Calls that can fail return 0 or one of these negative error codes. */
#define WEIR_ERRORS(X)                                                                             \
	X(WEIR_EINVAL, -1, "an argument is missing or out of range")                               \
	X(WEIR_ELIMIT, -2, "the limit is invalid; weir_limit_check reports the reason")            \
	X(WEIR_ETIME, -3, "now_ns is outside 0 … 2^63-1")                                          \
	X(WEIR_ENAME, -4,                                                                          \
	  "a table name is 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with .")                \
	X(WEIR_ESYS, -5, "a system call failed")                                                   \
	X(WEIR_ENOSPACE, -6, "no room for the table")                                              \
	X(WEIR_ENOENT, -7, "there is no such table")                                               \
	X(WEIR_EACCESS, -8,                                                                        \
	  "the table file belongs to another user, or other users have access to it")              \
	X(WEIR_EFORMAT, -9, "the file is not a weir table, or it is damaged")                      \
	X(WEIR_ELAYOUT, -10, "the table has the layout of another version of weir")                \
	X(WEIR_EMANY, -11, "too many limits in one request")                                       \
	X(WEIR_EMEMORY, -12, "out of memory")                                                      \
	X(WEIR_EMOVED, -13, "the table was replaced by a resized one; open it again")              \
	X(WEIR_ERULES, -40, "the rules have errors: struct weir_errors lists them")                \
	X(WEIR_EROOM, -41, "the caller's memory is too small for this request")                    \
	X(WEIR_EURL, -60, "the URL is malformed, or its scheme is not http or https")              \
	X(WEIR_ERESOLVE, -61, "the name of the host cannot be resolved")                           \
	X(WEIR_ECONNECT, -62, "the host accepts no connection")                                    \
	X(WEIR_ETLS, -63, "the TLS connection failed")                                             \
	X(WEIR_ETIMEOUT, -64, "the attempt took too long")                                         \
	X(WEIR_ETRANSFER, -65, "the connection broke, or the response is not valid HTTP")          \
	X(WEIR_EDEADLINE, -66,                                                                     \
	  "the deadline of the request ended, or its next wait would pass it")                     \
	X(WEIR_EBREAKER, -67, "the circuit breaker of the host is open")                           \
	X(WEIR_ETOOLARGE, -68, "the response is too large")                                        \
	X(WEIR_EREDIRECT, -69, "a redirect cannot be followed, or there are too many")             \
	X(WEIR_ECALLBACK, -70, "the caller's function ended the request")                          \
	X(WEIR_ECANCELED, -71, "the request was cancelled")                                        \
	X(WEIR_ECERTIFICATE, -72, "the certificate of the host is not trusted")

enum weir_error_code {
	WEIR_OK = 0,
#define WEIR_ERROR_ENUM(name, number, sentence) name = (number),
	WEIR_ERRORS(WEIR_ERROR_ENUM)
#undef WEIR_ERROR_ENUM
};

/* The cause of an error, as a sentence: what is wrong, with its value, and how to correct it. */
struct weir_error {
	int code;
	char text[508];
};

/* Returns a sentence that describes an error code. Never returns NULL. */
WEIR_API const char *weir_strerror(int code);

#ifdef __cplusplus
}
#endif
#endif
