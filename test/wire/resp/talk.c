/* Implements the session of talk.h. Also has the rules of its engine. */
#include "wire/resp/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "wire/resp/decider.h"

static const char rules[] = "domain: api\n"
			    "descriptors:\n"
			    "  - key: user\n"
			    "    rate_limit: {unit: minute, requests_per_unit: 3}\n"
			    "    descriptors:\n"
			    "      - key: path\n"
			    "        value: /slow\n"
			    "        rate_limit: {unit: second, requests_per_unit: 1}\n"
			    "  - key: shut\n"
			    "    rate_limit: {unit: day, requests_per_unit: 0}\n"
			    "  - key: queue\n"
			    "    rate_limit: {unit: second, requests_per_unit: 2, algorithm: "
			    "leaky_bucket, queue_size: 4}\n"
			    "  - key: hits\n"
			    "    rate_limit: {unit: hour, requests_per_unit: 7}\n";

struct talk *talk_open(const char *users)
{
	struct talk *talk = calloc(1, sizeof *talk);
	static struct wr_resp_users kept;
	struct weir_error error;

	rig_open(&talk->rig, rules, "api");
	talk->host = calloc(1, sizeof *talk->host);
	talk->host->decider = &standin_decider;
	talk->host->settler = &standin_settler;
	talk->host->multi_room.max = WR_RESP_MULTI_ALL_MAX;
	talk->host->engine = talk->rig.engine;
	talk->host->table = talk->rig.table;
	talk->host->started_ns = NOW_NS - 5 * SECOND_NS;
	if (users) {
		if (wr_resp_users_read(&kept, users, strlen(users), &error) != 0)
			fail_msg("%s", error.text);
		talk->host->users = &kept;
	}
	talk->budget = REPLIES_BYTES;
	talk->room = 256;
	talk_again(talk);
	return talk;
}

void talk_with_central(struct talk *talk, const struct wr_resp_central *central)
{
	static const uint8_t secret[WEIR_SECRET_BYTES] = "the fleet's";
	struct weir_engine_opts opts = {.size = sizeof opts,
					.flags = WEIR_ENGINE_CENTRAL,
					.fleet_secret = secret,
					.now_ns = NOW_NS};

	weir_engine_free(talk->rig.engine);
	assert_int_equal(
		weir_engine_new(talk->rig.table, rig_rules(rules), &opts, &talk->rig.engine), 0);
	talk->host->engine = talk->rig.engine;
	talk->host->central = central;
	talk->host->waits_max = 1000;
}

void talk_again(struct talk *talk)
{
	static uint64_t id;

	if (talk->session.host)
		wr_resp_session_end(&talk->session);
	memset(&talk->session, 0, sizeof talk->session);
	talk->session.id = ++id;
	snprintf(talk->session.address, sizeof talk->session.address, "192.0.2.1");
	snprintf(talk->session.peer, sizeof talk->session.peer, "192.0.2.1:4711");
	wr_resp_session_begin(&talk->session, talk->host, talk->rig.now_ns);
}

void talk_close(struct talk *talk)
{
	wr_resp_session_end(&talk->session);
	assert_int_equal(talk->host->tally.connected, 0);
	assert_int_equal(decider_open, 0);
	rig_close(&talk->rig);
	free(talk->host);
	free(talk);
}

static void keep(struct talk *talk, const struct wr_resp_out *out)
{
	size_t len = (size_t)(out->at - out->begin);

	assert_true(talk->len + len <= REPLIES_BYTES);
	memcpy(talk->replies + talk->len, out->begin, len);
	talk->len += len;
	talk->replies[talk->len] = '\0';
}

static bool more(struct wr_resp_out *out, size_t need)
{
	struct talk *talk = out->context;
	size_t room = need > talk->room ? need : talk->room;

	if (out->begin)
		keep(talk, out);
	out->taken += (size_t)(out->at - out->begin);
	assert_true(room <= REPLIES_BYTES);
	out->begin = out->at = talk->slab;
	out->end = talk->slab + room;
	return true;
}

void add_bytes(struct talk *talk, const void *bytes, size_t len)
{
	struct wr_resp_out out = {.more = more, .context = talk};

	wr_resp_session_input(&talk->session, bytes, len, talk->rig.now_ns, talk->budget, &out);
	if (out.begin)
		keep(talk, &out);
}

const char *say_bytes(struct talk *talk, const void *bytes, size_t len)
{
	talk->len = 0;
	talk->replies[0] = '\0';
	add_bytes(talk, bytes, len);
	return talk->replies;
}

const char *say(struct talk *talk, const char *bytes)
{
	return say_bytes(talk, bytes, strlen(bytes));
}

void append(char *text, size_t size, const char *more, int times)
{
	size_t len = strlen(text);

	for (int i = 0; i < times; i++)
		len += (size_t)snprintf(text + len, size - len, "%s", more);
	assert_true(len < size);
}

const char *say_array(struct talk *talk, const char *words)
{
	struct weir_str rest = wr_str(words);
	char bytes[4096], args[3072];
	size_t len = 0, count = 0;

	while (rest.len) {
		struct weir_str word = wr_str_first(rest, wr_str_find(rest, ' '));

		rest = wr_str_from(rest, word.len < rest.len ? word.len + 1 : word.len);
		len += (size_t)snprintf(args + len, sizeof args - len, "$%zu\r\n%.*s\r\n", word.len,
					(int)word.len, word.ptr);
		count++;
	}
	snprintf(bytes, sizeof bytes, "*%zu\r\n%s", count, args);
	return say(talk, bytes);
}
