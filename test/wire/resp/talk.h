/* A RESP session for tests, with a table, rules and a clock of its own. */
#ifndef TEST_WIRE_RESP_TALK_H
#define TEST_WIRE_RESP_TALK_H

#include "limiter/helper.h"

#include "wire/resp/commands.h"
#include "wire/resp/wait.h"

#define SAID_BYTES (1u << 20)

struct talk {
	struct rig rig;
	struct wr_resp_host *host;
	struct wr_resp_session session;
	size_t budget; /* of replies to one input */
	size_t room;   /* bytes of room at a time; a small number makes `more` work */
	size_t len;    /* of the replies since the last say() */
	char said[SAID_BYTES + 1];
	uint8_t slab[SAID_BYTES];
};

/* `users` as a password file, or NULL. */
struct talk *talk_open(const char *users);
void talk_close(struct talk *talk);

/* From here on rules are decided by a central store. */
void talk_with_central(struct talk *talk, const struct wr_resp_central *central);

/* Another connection to the same host. */
void talk_again(struct talk *talk);

/* Sends bytes and returns the replies. Earlier replies are dropped. */
const char *say(struct talk *talk, const char *bytes);
const char *say_bytes(struct talk *talk, const void *bytes, size_t len);

/* The same; replies are appended. */
void add_bytes(struct talk *talk, const void *bytes, size_t len);

/* "A B C" as an array of bulk strings. */
const char *say_array(struct talk *talk, const char *words);

/* Appends `more` to a text, `times` times. */
void append(char *text, size_t size, const char *more, int times);

/* Replies to `bytes` are exactly `expected`. */
#define expect(talk, bytes, expected) assert_string_equal(say(talk, bytes), expected)
#define expect_array(talk, words, expected) assert_string_equal(say_array(talk, words), expected)

#endif
