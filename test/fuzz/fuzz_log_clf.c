/* Fuzzes the readers of common, combined and vhost. The first byte selects the format. */
#include "fuzz_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum wr_lab_format formats[] = {WR_LAB_COMMON, WR_LAB_COMBINED, WR_LAB_VHOST};
	struct wr_lab_parser parser = {.format = WR_LAB_COMMON};

	if (size == 0)
		return 0;
	parser.format = formats[data[0] % 3];
	fuzz_lines(&parser, (struct weir_str){(const char *)data + 1, size - 1});
	return 0;
}
