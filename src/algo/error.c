/* weir_strerror(): returns the sentence that <weir/error.h> has for an error code. */
#include <stddef.h>

#include <weir/error.h>

static const struct {
	int code;
	const char *sentence;
} errors[] = {{WEIR_OK, "no error"},
#define SENTENCE(name, number, sentence) {number, sentence},
	      WEIR_ERRORS(SENTENCE)
#undef SENTENCE
};

const char *weir_strerror(int code)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].code == code)
			return errors[i].sentence;
	return "an error code that weir does not know";
}
