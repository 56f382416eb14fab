/* A RESP session for tests, with a table, rules and a clock of its own. */
#ifndef TEST_WIRE_RESP_TALK_H
#define TEST_WIRE_RESP_TALK_H

#include "limiter/helper.h"

#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

#define REPLIES_BYTES (1u << 20)

struct talk {
	struct rig rig;
	struct wr_resp_host *host;
	struct wr_resp_session session;
	size_t budget; /* maximum length of the replies to one input */
	size_t room;   /* number of bytes that `more` provides at a time */
	size_t len;    /* length of the replies since the last say() */
	char replies[REPLIES_BYTES + 1];
	uint8_t slab[REPLIES_BYTES];
};

/* Opens a session. `users` is the content of a password file, or NULL. */
struct talk *talk_open(const char *users);
void talk_close(struct talk *talk);

/* Makes `central` decide the rules from now on. */
void talk_with_central(struct talk *talk, const struct wr_resp_central *central);

/* Replaces the session by another connection to the same host. */
void talk_again(struct talk *talk);

/* Sends bytes and returns the replies to them. Drops earlier replies. */
const char *say(struct talk *talk, const char *bytes);
const char *say_bytes(struct talk *talk, const void *bytes, size_t len);

/* Sends bytes and appends the replies to earlier replies. */
void add_bytes(struct talk *talk, const void *bytes, size_t len);

/* Sends the words "A B C" as an array of bulk strings, and returns the replies. */
const char *say_array(struct talk *talk, const char *words);

/* Appends `more` to a text, `times` times. */
void append(char *text, size_t size, const char *more, int times);

/* Checks that the replies to `bytes` are exactly `expected`. */
#define expect(talk, bytes, expected) assert_string_equal(say(talk, bytes), expected)
#define expect_array(talk, words, expected) assert_string_equal(say_array(talk, words), expected)

#endif
