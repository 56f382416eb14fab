/* Fuzzes the times of logs and the names of fields that a user gives. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A cached day gives the same time as an empty cache. */
static void fuzz_time(struct weir_str text)
{
	static struct wr_lab_day cached;
	struct wr_lab_day empty = {.start_s = 0};
	struct wr_lab_time time, again;
	bool good = wr_lab_time_read(text, &cached, &time);

	require(wr_lab_time_read(text, &empty, &again) == good);
	if (!good)
		return;
	require(time.ns == again.ns && time.whole == again.whole);
	require(time.ns < WR_LAB_END_S * WR_LAB_SECOND_NS);
	require(!time.whole || time.ns % WR_LAB_SECOND_NS == 0);
}

static void fuzz_numbers(const uint8_t *data, size_t size)
{
	struct wr_lab_time time;
	int64_t integer;
	double real;

	if (size < sizeof integer)
		return;
	memcpy(&integer, data, sizeof integer);
	memcpy(&real, data, sizeof real);
	if (wr_lab_time_integer(integer, &time))
		require(time.ns < WR_LAB_END_S * WR_LAB_SECOND_NS);
	if (wr_lab_time_real(real, &time))
		require(time.ns <= WR_LAB_END_S * WR_LAB_SECOND_NS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_error error = {.text = ""};
	struct wr_lab_fields *fields;
	/* the times are at the ends of their memory */
	char *text = malloc(size + 1);

	require(text != NULL);
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	fuzz_time((struct weir_str){text, size});
	fuzz_numbers(data, size);
	if (wr_lab_fields_new(&fields, text, &error) == 0)
		wr_lab_fields_free(fields);
	else
		require(error.text[0] != '\0');
	free(text);
	return 0;
}
