/* Fuzzes the reader of JSON lines, with the known names of fields and with names of a user. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct wr_lab_fields *known, *given;
	struct wr_lab_parser parser = {.format = WR_LAB_JSON};
	struct weir_str text = {(const char *)data, size};

	if (!known) {
		known = make_fields(NULL);
		given = make_fields("time=a,client=b,target=c,query=d,cost=e+f,header.x=g");
	}
	parser.fields = known;
	fuzz_lines(&parser, text);
	parser.fields = given;
	fuzz_lines(&parser, text);
	return 0;
}
