/* What can go wrong between here and Redis, each kind with a defined outcome and a counter.
 *
 * An error reply is known by its first word. Servers before 7 wrap what a command inside a script
 * said ("ERR Error running script …: -READONLY …"): the word within counts. */
#ifndef WR_REDIS_ERROR_H
#define WR_REDIS_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* What is done about it beyond answering this one question. */
enum wr_fault_act {
	WR_ACT_NONE,     /* it is this call's own trouble */
	WR_ACT_COUNT,    /* one more failure; several in a row open the breaker */
	WR_ACT_OPEN,     /* the breaker opens at once */
	WR_ACT_RELOCATE, /* this is not the master (any more): find out who is, connect again */
	WR_ACT_RELOGIN,  /* connect again, to show the password again */
	WR_ACT_AGAIN,    /* nothing was done there: the call may be repeated */
};

/* X(enum, first word of the error reply or NULL, name of the counter, act, what it means) */
#define WR_FAULTS(X)                                                                               \
	X(WR_FAULT_TIMEOUT, NULL, "timeout", WR_ACT_COUNT, "no answer in time")                    \
	X(WR_FAULT_LOST, NULL, "lost", WR_ACT_COUNT, "the connection was lost meanwhile")          \
	X(WR_FAULT_CONNECT, NULL, "connect", WR_ACT_OPEN, "no connection could be made")           \
	X(WR_FAULT_OPEN, NULL, "open", WR_ACT_NONE, "not asked: the breaker is open")              \
	X(WR_FAULT_FULL, NULL, "full", WR_ACT_NONE, "not asked: too much is under way")            \
	X(WR_FAULT_PROTOCOL, NULL, "protocol", WR_ACT_COUNT, "a reply that makes no sense")        \
	X(WR_FAULT_NO_OWNER, NULL, "nowhere", WR_ACT_NONE, "nobody serves the slot")               \
	X(WR_FAULT_WINDOW, NULL, "astray", WR_ACT_NONE,                                            \
	  "clocks differ by more than a calendar window")                                          \
	X(WR_FAULT_NOSCRIPT, "NOSCRIPT", "noscript", WR_ACT_AGAIN, "the script has to be sent")    \
	X(WR_FAULT_MOVED, "MOVED", "moved", WR_ACT_AGAIN, "the slot lives elsewhere")              \
	X(WR_FAULT_ASK, "ASK", "ask", WR_ACT_AGAIN, "the slot is moving: ask there once")          \
	X(WR_FAULT_TRYAGAIN, "TRYAGAIN", "tryagain", WR_ACT_AGAIN, "keys are being moved")         \
	X(WR_FAULT_CLUSTERDOWN, "CLUSTERDOWN", "clusterdown", WR_ACT_RELOCATE,                     \
	  "the cluster lacks slots or a majority")                                                 \
	X(WR_FAULT_READONLY, "READONLY", "readonly", WR_ACT_RELOCATE, "it is a replica")           \
	X(WR_FAULT_MASTERDOWN, "MASTERDOWN", "masterdown", WR_ACT_RELOCATE,                        \
	  "a replica whose master is away")                                                        \
	X(WR_FAULT_LOADING, "LOADING", "loading", WR_ACT_OPEN, "it is reading its data")           \
	X(WR_FAULT_BUSY, "BUSY", "busy", WR_ACT_OPEN, "another's script runs too long")            \
	X(WR_FAULT_OOM, "OOM", "oom", WR_ACT_COUNT, "its memory is full (maxmemory)")              \
	X(WR_FAULT_MISCONF, "MISCONF", "misconf", WR_ACT_COUNT,                                    \
	  "it cannot save, so takes no writes")                                                    \
	X(WR_FAULT_NOREPLICAS, "NOREPLICAS", "noreplicas", WR_ACT_COUNT,                           \
	  "fewer replicas than min-replicas-to-write")                                             \
	X(WR_FAULT_NOAUTH, "NOAUTH", "noauth", WR_ACT_RELOGIN, "it asks for a password")           \
	X(WR_FAULT_WRONGPASS, "WRONGPASS", "wrongpass", WR_ACT_RELOGIN,                            \
	  "password or user is wrong")                                                             \
	X(WR_FAULT_NOPERM, "NOPERM", "noperm", WR_ACT_COUNT, "the user may not do this")           \
	X(WR_FAULT_DENIED, "DENIED", "denied", WR_ACT_OPEN,                                        \
	  "protected mode: it serves only loopback")                                               \
	X(WR_FAULT_MAXCLIENTS, NULL, "maxclients", WR_ACT_OPEN, "it has too many clients")         \
	X(WR_FAULT_WRONGTYPE, "WRONGTYPE", "wrongtype", WR_ACT_NONE,                               \
	  "a key of this prefix is somebody else's")                                               \
	X(WR_FAULT_OTHER, "ERR", "error", WR_ACT_NONE, "any other error reply")

enum wr_fault {
#define WR_FAULT_ENUM(name, word, text, act, what) name,
	WR_FAULTS(WR_FAULT_ENUM)
#undef WR_FAULT_ENUM
		WR_FAULT_COUNT
};

/* The kind of an error reply, text without its '-'. Never one that is not a reply. */
enum wr_fault wr_fault_of(const char *text, size_t len);

const char *wr_fault_name(enum wr_fault fault); /* of the counter */
const char *wr_fault_text(enum wr_fault fault); /* for people */
enum wr_fault_act wr_fault_act(enum wr_fault fault);

#endif
