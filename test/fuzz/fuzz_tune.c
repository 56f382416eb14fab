/* Tunes a log whose lines are "METHOD TARGET USER", and loads the rules that tune proposes. Each line is
 * a request of each of 25 clients, so that every line can become a route. The first byte of the input
 * selects the options. Whatever the texts are, the rules must load. */
#include "fuzz.h"

#include "base/str.h"
#include "lab/tune/tune.h"

#define LINES_MAX 40u
#define CLIENTS 25u
#define SECOND_NS 1000000000ull

static const char *const keys[] = {"address", "user", "user,address", "header.x-key,address",
				   "all"};

static struct weir_str take_word(struct weir_str *line)
{
	struct weir_str word = wr_str_first(*line, wr_str_find(*line, ' '));

	*line = wr_str_from(*line, word.len + (word.len < line->len));
	return word;
}

static void feed_line(struct wr_lab_tune *tune, struct weir_str line, uint64_t *time_ns)
{
	struct wr_lab_record record = {.has_address = true, .status = 200, .cost = 1};
	struct weir_header header;
	struct weir_error error;

	record.method = take_word(&line);
	record.target = take_word(&line);
	record.user = line;
	header = (struct weir_header){WR_STR("x-key"), line};
	record.headers = &header;
	record.header_count = 1;
	for (uint8_t client = 0; client < CLIENTS; client++) {
		char name[16];

		snprintf(name, sizeof name, "10.0.0.%u", client);
		record.client = wr_str(name);
		record.address.bytes[15] = client;
		record.time_ns = *time_ns += SECOND_NS / 7;
		require(wr_lab_tune_feed(tune, &record, &error) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_str rest = {(const char *)data + 1, size ? size - 1 : 0};
	struct wr_lab_tune_opts opts = {.untouched_ppm = 999000, .unit = WR_LAB_UNIT_COUNT};
	uint64_t time_ns = 1772366400 * SECOND_NS;
	struct wr_lab_tune *tune;
	struct weir_error error;
	struct wr_buf yaml;

	if (size == 0)
		return 0;
	opts.key = keys[data[0] % (sizeof keys / sizeof *keys)];
	opts.without_outliers = data[0] & 64;
	require(wr_lab_tune_open(&opts, &tune, &error) == 0);
	for (unsigned i = 0; i < LINES_MAX && rest.len; i++) {
		struct weir_str line = wr_str_first(rest, wr_str_find(rest, '\n'));

		rest = wr_str_from(rest, line.len + (line.len < rest.len));
		feed_line(tune, line, &time_ns);
	}
	require(wr_lab_tune_end(tune, &error) == 0);
	wr_buf_init(&yaml, 1 << 22);
	wr_lab_tune_yaml(tune, data[0] & 128, &yaml);
	require(!wr_buf_failed(&yaml));
	if (wr_lab_tune_report(tune)->routes[0].reason == WR_LAB_PROPOSED)
		weir_rules_free(load_rules(wr_buf_str(&yaml).ptr));
	wr_buf_free(&yaml);
	wr_lab_tune_close(tune);
	return 0;
}
