/* The faults that can occur between weir and Redis. Each fault has a reaction and a counter.
 *
 * An error reply is identified by its first word. Servers before version 7 wrap the error of a
 * command inside a script ("ERR Error running script …: -READONLY …"); then the first word of the
 * inner error counts. */
#ifndef WR_REDIS_ERROR_H
#define WR_REDIS_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* The reaction to a fault, in addition to failing or repeating the call. */
enum wr_fault_act {
	WR_ACT_NONE, /* no reaction, because only this call is affected */
	/* the fault counts as a failure; five failures in a row open the circuit breaker */
	WR_ACT_COUNT,
	WR_ACT_OPEN, /* the circuit breaker opens at once */
	/* The server is not the master: weir looks for the master and connects to it. */
	WR_ACT_RELOCATE,
	WR_ACT_RELOGIN, /* weir connects and logs in again */
	WR_ACT_AGAIN,   /* the call can be repeated, because Redis has not executed it */
};

/* X(enum value, first word of the error reply or NULL, name of the counter, reaction, text for the
 * log) */
#define WR_FAULTS(X)                                                                               \
	X(WR_FAULT_TIMEOUT, NULL, "timeout", WR_ACT_COUNT, "no reply within the timeout")          \
	X(WR_FAULT_LOST, NULL, "lost", WR_ACT_COUNT, "the connection was lost")                    \
	X(WR_FAULT_CONNECT, NULL, "connect", WR_ACT_OPEN, "the connection could not be opened")    \
	X(WR_FAULT_OPEN, NULL, "open", WR_ACT_NONE, "not sent: the circuit breaker is open")       \
	X(WR_FAULT_FULL, NULL, "full", WR_ACT_NONE, "not sent: too many calls are in flight")      \
	X(WR_FAULT_PROTOCOL, NULL, "protocol", WR_ACT_COUNT, "the reply is malformed")             \
	X(WR_FAULT_NO_OWNER, NULL, "nowhere", WR_ACT_NONE, "no server owns the slot")              \
	X(WR_FAULT_WINDOW, NULL, "astray", WR_ACT_NONE,                                            \
	  "the clocks of weir and Redis differ by more than a calendar window")                    \
	X(WR_FAULT_NOSCRIPT, "NOSCRIPT", "noscript", WR_ACT_AGAIN,                                 \
	  "the server does not have the script")                                                   \
	X(WR_FAULT_MOVED, "MOVED", "moved", WR_ACT_AGAIN, "another server owns the slot")          \
	X(WR_FAULT_ASK, "ASK", "ask", WR_ACT_AGAIN, "the slot is being moved to another server")   \
	X(WR_FAULT_TRYAGAIN, "TRYAGAIN", "tryagain", WR_ACT_AGAIN,                                 \
	  "the keys of the slot are being moved")                                                  \
	X(WR_FAULT_CLUSTERDOWN, "CLUSTERDOWN", "clusterdown", WR_ACT_RELOCATE,                     \
	  "the cluster lacks slots or a majority")                                                 \
	X(WR_FAULT_READONLY, "READONLY", "readonly", WR_ACT_RELOCATE, "the server is a replica")   \
	X(WR_FAULT_MASTERDOWN, "MASTERDOWN", "masterdown", WR_ACT_RELOCATE,                        \
	  "the server is a replica that has lost its master")                                      \
	X(WR_FAULT_LOADING, "LOADING", "loading", WR_ACT_OPEN, "the server is loading its data")   \
	X(WR_FAULT_BUSY, "BUSY", "busy", WR_ACT_OPEN, "another script is blocking the server")     \
	X(WR_FAULT_OOM, "OOM", "oom", WR_ACT_COUNT, "the server's memory is full (maxmemory)")     \
	X(WR_FAULT_MISCONF, "MISCONF", "misconf", WR_ACT_COUNT,                                    \
	  "the server cannot save its data and accepts no writes")                                 \
	X(WR_FAULT_NOREPLICAS, "NOREPLICAS", "noreplicas", WR_ACT_COUNT,                           \
	  "fewer replicas than min-replicas-to-write")                                             \
	X(WR_FAULT_NOAUTH, "NOAUTH", "noauth", WR_ACT_RELOGIN, "the server requires a password")   \
	X(WR_FAULT_WRONGPASS, "WRONGPASS", "wrongpass", WR_ACT_RELOGIN,                            \
	  "the user or the password is wrong")                                                     \
	X(WR_FAULT_NOPERM, "NOPERM", "noperm", WR_ACT_COUNT, "the user lacks a permission")        \
	X(WR_FAULT_DENIED, "DENIED", "denied", WR_ACT_OPEN,                                        \
	  "protected mode: the server accepts only loopback connections")                          \
	X(WR_FAULT_MAXCLIENTS, NULL, "maxclients", WR_ACT_OPEN, "the server has too many clients") \
	X(WR_FAULT_WRONGTYPE, "WRONGTYPE", "wrongtype", WR_ACT_NONE,                               \
	  "another application uses a key with this prefix")                                       \
	X(WR_FAULT_OTHER, "ERR", "error", WR_ACT_NONE, "another error reply")

enum wr_fault {
#define WR_FAULT_ENUM(name, word, text, act, what) name,
	WR_FAULTS(WR_FAULT_ENUM)
#undef WR_FAULT_ENUM
		WR_FAULT_COUNT
};

/* Returns the fault that an error reply means. `text` is the reply without its '-'. Faults without
 * a reply, such as a timeout, are never returned. */
enum wr_fault wr_fault_of(const char *text, size_t len);

const char *wr_fault_name(enum wr_fault fault); /* name of the fault's counter */
const char *wr_fault_text(enum wr_fault fault); /* text of the fault for the log */
enum wr_fault_act wr_fault_act(enum wr_fault fault);

#endif
