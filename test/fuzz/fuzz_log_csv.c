/* Fuzzes the reader of CSV. The input is the start of a file: the columns are found in it, and then
 * its lines are read. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wr_lab_fields *known;
	struct wr_lab_parser parser = {.format = WR_LAB_CSV};
	char *copy = malloc(size + WR_LAB_PADDING);
	struct weir_str text = {(const char *)data, size};

	require(copy != NULL);
	if (!known)
		known = make_fields(NULL);
	parser.fields = known;
	wr_lab_csv_start(&parser, text, copy);
	fuzz_lines(&parser, text);
	free(copy);
	return 0;
}
