/* Fuzzes the reader of Envoy's text format. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wr_lab_parser parser = {.format = WR_LAB_ENVOY};

	fuzz_lines(&parser, (struct weir_str){(const char *)data, size});
	return 0;
}
