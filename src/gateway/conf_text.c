/* Quotes text for nginx's configuration. Called by the other conf_*.c files. */
#include "base/assert.h"
#include "gateway/conf.h"

void wr_conf_quote(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		wr_assert(*text != '$' && (unsigned char)*text >= 0x20 && *text != 0x7f);
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void wr_conf_line(FILE *out, int depth, const char *directive, const char *text)
{
	fprintf(out, "%*s%s ", depth * 4, "", directive);
	wr_conf_quote(out, text);
	fputs(";\n", out);
}
