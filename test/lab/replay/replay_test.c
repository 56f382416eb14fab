#include "lab/replay/replay_test.h"

#include <string.h>

#include "base/str.h"
#include "rules/helper.h"

struct wr_lab_replay *replay_open(const char *yaml, const struct wr_lab_replay_opts *opts)
{
	static const struct wr_lab_replay_opts none;
	struct wr_lab_replay *replay = NULL;
	struct weir_error error = {0};

	if (wr_lab_replay_open(test_rules(yaml), opts ? opts : &none, &replay, &error) != 0)
		fail_msg("%s", error.text);
	return replay;
}

struct wr_lab_record replay_record(const char *client, uint64_t after_ns)
{
	struct wr_lab_record record = {.time_ns = NOON_NS + after_ns,
				       .client = wr_str(client),
				       .has_address = true,
				       .method = WR_STR("GET"),
				       .target = WR_STR("/"),
				       .status = 200,
				       .cost = 1};

	assert_int_equal(wr_address_parse(record.client, &record.address), 0);
	return record;
}

bool replay_get(struct wr_lab_replay *replay, const char *client, uint64_t after_ns)
{
	struct wr_lab_record record = replay_record(client, after_ns);

	return wr_lab_replay_feed(replay, &record, NULL) == WR_LAB_ADMITTED;
}

const struct wr_lab_replay_report *replay_end(struct wr_lab_replay *replay)
{
	wr_lab_replay_end(replay);
	return wr_lab_replay_report(replay);
}

void replay_assert_key(const struct wr_lab_top_key *key, const char *text, uint64_t count)
{
	char copy[WR_LAB_TOP_TEXT + 1] = "";

	memcpy(copy, key->text, key->text_len);
	assert_string_equal(copy, text);
	assert_int_equal(key->count, count);
}
